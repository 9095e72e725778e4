//! No room imports what it must not: between crates, and between the modules of a crate.
//!
//! In: the sources, `Cargo.toml` of each crate, the table of ARCHITECTURE.md. Out: violations.
//! Guarantee: exceptions are counted exactly, so that they can only shrink: one more fails, and so
//! does a count that is higher than necessary.

use std::collections::{BTreeMap, BTreeSet};

use crate::expect_none;
use crate::imports::{Import, imports};
use crate::tree::{files, rust_files};

/// The stages of the compiler; all other modules are nouns.
const STAGES: [&str; 6] = ["parse", "expand", "fmt", "check", "lower", "emit"];
/// Modules that are neither stage nor noun: the language, and the whole pipeline.
const ABOVE: [&str; 3] = ["words", "compile", "lib"];

/// What the compiler's modules may import of each other.
fn compiler_allows(from: &str, to: &str) -> bool {
    let is_noun = |module: &str| !STAGES.contains(&module) && !ABOVE.contains(&module);
    match from {
        "compile" | "lib" => true,
        // A word uses the `Body` of the stages that it takes part in, and its traits name them.
        "words" | "catalogue" => is_noun(to) || to == "check" || to == "lower",
        _ => is_noun(to),
    }
}

/// What the runtime's modules may import of each other: system calls know nothing of their callers.
fn runtime_allows(from: &str, to: &str) -> bool {
    match from {
        "sys" => false,
        "session" | "lib" => true,
        _ => to != "session",
    }
}

/// The command's modules: the prompt, completion, listings and `doctor` know no command line.
fn cli_allows(from: &str, to: &str) -> bool {
    from == "commands" || from == "lib" || to != "commands"
}

/// Imports that the rules forbid and that still exist: from, to, how many lines.
type Exceptions = &'static [(&'static str, &'static str, usize)];

/// The exceptions in the compiler.
const IN_COMPILER: Exceptions = &[
    ("expand", "words", 1),
    // The formatter works on the parser's tokens.
    ("fmt", "parse", 2),
    // The scanner asks the catalogue whether a line begins with a probe kind.
    ("parse", "words", 1),
    ("words", "expand", 1),
];
/// The exceptions in the runtime.
const IN_RUNTIME: Exceptions = &[("sys", "ring", 1)];
/// The exceptions in the command.
const IN_CLI: Exceptions = &[];

/// The forbidden imports of a crate, apart from its exceptions.
fn violations(found: &[(String, Import)], allows: fn(&str, &str) -> bool, exceptions: Exceptions) -> Vec<String> {
    let mut forbidden: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for (path, import) in found {
        let (from, to) = (import.from.as_str(), import.to[0].as_str());
        if !allows(from, to) {
            let line = format!("{path}:{}: {}", import.line, import.to.join("::"));
            forbidden.entry((from, to)).or_default().push(line);
        }
    }
    let mut report = Vec::new();
    for (from, to, count) in exceptions {
        let lines = forbidden.remove(&(*from, *to)).unwrap_or_default();
        if lines.len() > *count {
            report.push(format!("{from} imports {to} {} times; the exception is for {count}:", lines.len()));
            report.extend(lines);
        } else if lines.len() < *count {
            report
                .push(format!("{from} imports {to} only {} times now: lower the exception from {count}", lines.len()));
        }
    }
    for ((from, to), lines) in forbidden {
        report.push(format!("{from} must not import {to} ({}):", lines.len()));
        report.extend(lines);
    }
    report
}

/// The imports between the modules of a crate, tests apart: these compare what no stage may.
fn imports_of(crate_name: &str) -> Vec<(String, Import)> {
    let root = format!("{crate_name}/src");
    let all = rust_files(&root);
    let modules: BTreeSet<String> = all
        .iter()
        .map(|file| &file.path[root.len() + 1..])
        .map(|path| path.split('/').next().unwrap_or(path).trim_end_matches(".rs").to_owned())
        .collect();
    let mut found = Vec::new();
    for file in &all {
        if file.path.ends_with("tests.rs") {
            continue;
        }
        let text = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let path = &file.path[root.len() + 1..];
        let known = imports(path, text).into_iter().filter(|import| modules.contains(&import.to[0]));
        found.extend(known.map(|import| (file.path.clone(), import)));
    }
    found
}

#[test]
fn modules_import_only_what_they_may() {
    let mut report = violations(&imports_of("compiler"), compiler_allows, IN_COMPILER);
    report.extend(violations(&imports_of("runtime"), runtime_allows, IN_RUNTIME));
    report.extend(violations(&imports_of("cli"), cli_allows, IN_CLI));
    expect_none(&report, "imports between modules");
}

/// Paths from a file in a crate to the implementation of a single word, which no stage names.
fn named_words(path: &str, text: &str, kinds: &BTreeSet<String>) -> Vec<String> {
    let names_a_word = |import: &Import| {
        import.to[0] == "words" && import.to.len() > 2 && kinds.contains(&format!("{}/{}", import.to[1], import.to[2]))
    };
    let found = imports(path, text).into_iter().filter(|import| import.from != "words" && names_a_word(import));
    found.map(|import| format!("{path}:{}: {}", import.line, import.to.join("::"))).collect()
}

/// The words of the catalogue that have a file and a page of the same name: `functions/print`.
fn words() -> BTreeSet<String> {
    let pages = files("spec/words").into_iter().map(|file| file.path);
    let pages: BTreeSet<String> =
        pages.filter_map(|path| Some(path.strip_prefix("spec/words/")?.strip_suffix(".md")?.to_owned())).collect();
    let sources = rust_files("compiler/src/words").into_iter().map(|file| file.path);
    let name = |path: String| Some(path.strip_prefix("compiler/src/words/")?.trim_end_matches(".rs").to_owned());
    sources.filter_map(name).filter(|name| pages.contains(name)).collect()
}

#[test]
fn no_stage_names_a_word() {
    let words = words();
    assert!(words.len() > 100, "only {} words found", words.len());
    let mut report = Vec::new();
    for file in rust_files("compiler/src") {
        let text = file.text.split("#[cfg(test)]").next().unwrap_or_default();
        report.extend(named_words(file.path.trim_start_matches("compiler/src/"), text, &words));
    }
    expect_none(&report, "the implementation of a word, named outside the catalogue");
}

/// The crates of the workspace, and which of each other they may use.
const CRATES: [(&str, &[&str]); 8] = [
    ("model", &[]),
    ("compiler", &["model"]),
    ("runtime", &["model", "compiler"]),
    // Output formats see values, and nothing of a run.
    ("output", &["model"]),
    ("cli", &["model", "compiler", "runtime", "output"]),
    ("oracle", &["model", "compiler"]),
    ("fuzz", &["model", "compiler", "runtime", "output", "cli"]),
    ("examples/workloads", &[]),
];

/// The crates of ours that a text refers to.
fn crates_in(text: &str) -> BTreeSet<String> {
    let code = crate::lexer::split(text).code;
    let mut found = BTreeSet::new();
    for (at, prefix) in code.match_indices("profiler_") {
        let rest = &code[at + prefix.len()..];
        let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
        if rest[name.len()..].starts_with("::")
            && !code[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        {
            found.insert(name);
        }
    }
    found
}

/// The names in a section of a manifest.
fn dependencies(manifest: &str, section: &str) -> BTreeSet<String> {
    let lines = manifest.lines().skip_while(|line| *line != section).skip(1).take_while(|line| !line.starts_with('['));
    let name = |line: &str| line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(name).collect()
}

#[test]
fn crates_use_only_what_they_may() {
    let mut report = Vec::new();
    for (room, allowed) in CRATES {
        for file in rust_files(&format!("{room}/src")) {
            for used in crates_in(&file.text) {
                if !allowed.contains(&used.as_str()) && used != room {
                    report.push(format!("{}: {room} must not use profiler-{used}", file.path));
                }
            }
        }
        let manifest = files(room).into_iter().find(|file| file.path == format!("{room}/Cargo.toml"));
        let manifest = manifest.unwrap_or_else(|| panic!("{room} has a manifest")).text;
        for used in dependencies(&manifest, "[dependencies]") {
            if let Some(used) = used.strip_prefix("profiler-")
                && !allowed.contains(&used)
            {
                report.push(format!("{room}/Cargo.toml: must not depend on profiler-{used}"));
            }
        }
    }
    expect_none(&report, "dependencies between crates");
}

/// The third column of the table in ARCHITECTURE.md for a room.
fn documented(architecture: &str, room: &str) -> Option<BTreeSet<String>> {
    let row = architecture.lines().find(|line| line.starts_with(&format!("| `{room}/` |")))?;
    let column = row.trim_end_matches('|').rsplit('|').next()?.trim();
    let product = column.split(';').next()?;
    Some(product.split(',').map(|name| name.trim().to_owned()).collect())
}

#[test]
fn the_architecture_lists_the_dependencies_of_each_room() {
    let architecture = files("").into_iter().find(|file| file.path == "ARCHITECTURE.md").expect("it exists").text;
    let mut report = Vec::new();
    for room in ["model", "compiler", "runtime", "output", "cli", "oracle", "fuzz"] {
        let manifest = files(room).into_iter().find(|file| file.path == format!("{room}/Cargo.toml"));
        let manifest = manifest.unwrap_or_else(|| panic!("{room} has a manifest")).text;
        let short = |name: &String| name.strip_prefix("profiler-").unwrap_or(name).to_owned();
        let used: BTreeSet<String> = dependencies(&manifest, "[dependencies]").iter().map(short).collect();
        let documented = documented(&architecture, room).unwrap_or_default();
        if used != documented {
            report.push(format!("{room}: Cargo.toml has {used:?}, ARCHITECTURE.md {documented:?}"));
        }
    }
    expect_none(&report, "dependencies of rooms");
}

#[test]
fn a_forbidden_import_is_reported_and_an_exception_is_exact() {
    let text = "use crate::parse::parse;\nuse crate::ast::Script;\nuse crate::words::functions::print;\n";
    let found: Vec<(String, Import)> =
        imports("emit/select.rs", text).into_iter().map(|import| ("emit/select.rs".to_owned(), import)).collect();
    let report = violations(&found, compiler_allows, &[]);
    assert_eq!(report.len(), 4, "{report:?}");
    assert_eq!(report[0], "emit must not import parse (1):");
    assert!(violations(&found, compiler_allows, &[("emit", "parse", 1), ("emit", "words", 1)]).is_empty());
    let too_high = violations(&found, compiler_allows, &[("emit", "parse", 2), ("emit", "words", 1)]);
    assert_eq!(too_high, ["emit imports parse only 1 times now: lower the exception from 2"]);
    let words = BTreeSet::from(["functions/print".to_owned()]);
    assert_eq!(named_words("emit/select.rs", text, &words), ["emit/select.rs:3: words::functions::print"]);
    assert_eq!(crates_in("use profiler_runtime::maps; // profiler_cli::x"), BTreeSet::from(["runtime".to_owned()]));
}
