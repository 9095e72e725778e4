//! The editors' syntax files against the catalogue: they contain every word of the language.
//!
//! In: `editors/`. A line that begins with the name of a list (`"functions": `, `syn keyword
//! profilerBuiltin`) is compared as a whole.
//! `PROFILER_BLESS=1` rewrites these lines.

use std::path::{Path, PathBuf};

use profiler_compiler::CATALOGUE;
use profiler_compiler::keywords::{self, Role};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../editors").join(name)
}

fn sorted<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut words: Vec<&str> = words.collect();
    // If one word is a prefix of another, the pattern must try the longer one first.
    words.sort_by(|a, b| b.cmp(a));
    words.dedup();
    words
}

/// The keywords in bold: statements and operators, and the words after a probe.
fn keywords() -> Vec<&'static str> {
    let shown = keywords::keywords().filter(|keyword| keyword.role.is_statement() || keyword.role == Role::Operator);
    let mut words: Vec<&str> = shown.map(|keyword| keyword.name).chain(["args", "unless"]).collect();
    words.sort_unstable();
    words
}

struct Words {
    builtins: Vec<&'static str>,
    functions: Vec<&'static str>,
    aggregations: Vec<&'static str>,
    probes: Vec<&'static str>,
    keywords: Vec<&'static str>,
}

fn words() -> Words {
    let kinds =
        CATALOGUE.probes.iter().flat_map(|word| std::iter::once(word.name()).chain(word.aliases().iter().copied()));
    Words {
        builtins: sorted(CATALOGUE.builtins.iter().map(|word| word.name())),
        functions: sorted(CATALOGUE.functions.iter().map(|word| word.name())),
        aggregations: sorted(CATALOGUE.aggregations.iter().map(|word| word.name())),
        keywords: keywords(),
        probes: sorted(kinds.chain(["BEGIN", "END"])),
    }
}

/// Compares or rewrites the lines of a file that begin with the given prefixes.
fn lines_are(name: &str, expected: &[(&str, String)]) {
    let path = path(name);
    let text = std::fs::read_to_string(&path).expect("the file");
    let mut found = vec![false; expected.len()];
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for line in &mut lines {
        for (at, (start, rest)) in expected.iter().enumerate() {
            if line.starts_with(start) {
                found[at] = true;
                *line = format!("{start}{rest}");
            }
        }
    }
    assert!(!found.contains(&false), "{name} lacks a line: {found:?}");
    let written = lines.join("\n") + "\n";
    if std::env::var_os("PROFILER_BLESS").is_some() {
        std::fs::write(&path, written).expect("a writable file");
    } else {
        assert_eq!(text, written, "{name} does not know the words of the catalogue; PROFILER_BLESS=1 writes them");
    }
}

#[test]
fn the_textmate_grammar_knows_every_word() {
    let Words { builtins, functions, aggregations, probes, keywords } = words();
    let list = |scope: &str, words: &[&str], after: &str| {
        format!("{{ \"name\": \"{scope}.profiler\", \"match\": \"\\\\b(?:{})\\\\b{after}\" }},", words.join("|"))
    };
    let (called, parts) = (r"(?=\\s*\\()", r"(?::(?:[/.~][^\\s,:{]*|[^\\s,:/{]*))+");
    let points = format!(
        "{{ \"name\": \"entity.name.tag.profiler\", \"match\": \"\\\\b(?:{})(?:{parts}|\\\\b(?=\\\\s*[,{{]))\" }},",
        probes.join("|")
    );
    lines_are(
        "vscode/profiler.tmLanguage.json",
        &[
            ("    \"probes\": ", points),
            ("    \"keywords\": ", list("keyword.control", &keywords, "")),
            ("    \"functions\": ", list("support.function", &functions, called)),
            ("    \"aggregations\": ", list("support.function.aggregation", &aggregations, called)),
            ("    \"builtins\": ", list("support.variable", &builtins, "")),
        ],
    );
}

#[test]
fn the_vim_syntax_knows_every_word() {
    let Words { builtins, functions, aggregations, probes, keywords } = words();
    let called = format!(" \"\\<\\%({})\\ze\\s*(\"", functions.join("\\|") + "\\");
    let points = format!(
        " \"\\<\\%({})\\%(\\%(:[^ \\t,{{]*\\)\\+\\|\\>\\ze\\s*[,{{]\\|\\>\\s*$\\)\"",
        probes.join("\\|") + "\\"
    );
    lines_are(
        "vim/syntax/profiler.vim",
        &[
            ("syn keyword profilerKeyword", format!(" {}", keywords.join(" "))),
            ("syn keyword profilerBuiltin", format!(" {}", builtins.join(" "))),
            ("syn match profilerFunction", called),
            ("syn keyword profilerAggregation", format!(" {}", aggregations.join(" "))),
            ("syn match profilerProbe", points),
        ],
    );
}
