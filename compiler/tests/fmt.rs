//! The formatter on every available script: those of the repository and of the pages, and
//! bpftrace's tools if they are installed.
//!
//! Cases that show the canonical form itself are in `tests/fmt/`: `NAME.in` becomes `NAME.out`.
//! `PROFILER_BLESS=1` rewrites the latter.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use profiler_compiler::ast::Script;
use profiler_compiler::source::Source;
use profiler_compiler::{ast_print, fmt, parse};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn collect(directory: &Path, suffixes: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if entry.is_dir() && !entry.ends_with("target") {
            collect(&entry, suffixes, found);
        } else if entry.extension().and_then(|suffix| suffix.to_str()).is_some_and(|suffix| suffixes.contains(&suffix))
        {
            found.push(entry);
        }
    }
}

/// Every script that is valid text, with its name.
fn scripts() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for directory in ["tests", "examples", "spec", "stdlib", "fuzz/corpus"] {
        collect(&root().join(directory), &["prof", "bt", "md"], &mut files);
    }
    collect(&root().join("target/tools"), &["bt"], &mut files);
    collect(Path::new("/usr/sbin"), &["bt"], &mut files);
    files.sort();
    let mut scripts = Vec::new();
    for path in files {
        let (Ok(text), name) = (std::fs::read_to_string(&path), path.display().to_string()) else { continue };
        if path.extension().is_some_and(|suffix| suffix == "md") {
            for (number, block) in text.split("```prof").skip(1).enumerate() {
                let block = block.split_once('\n').map_or("", |(_, rest)| rest).split("```").next().unwrap_or("");
                scripts.push((format!("{name} #{number}"), block.to_owned()));
            }
        } else {
            scripts.push((name, text));
        }
    }
    assert!(scripts.len() > 300, "too few scripts: {}", scripts.len());
    scripts
}

fn parsed(text: &str) -> Option<Script> {
    parse::parse(&Source::new("test", text)).ok()
}

fn formatted(text: &str) -> Option<String> {
    fmt::format(&Source::new("test", text)).ok()
}

/// The comments as an independent scanner finds them: outside of strings. It knows no paths, which
/// it may mistake for comments.
fn comments(text: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(['"', '/']) {
        rest = &rest[at..];
        let is_comment = rest.starts_with("//") || rest.starts_with("/*");
        let end = match rest.as_bytes() {
            [b'"', ..] => string_end(rest),
            [b'/', b'/', ..] => rest.find('\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => 1,
        };
        if is_comment {
            found.push(rest[..end].split_whitespace().collect::<Vec<_>>().join(" "));
        }
        rest = &rest[end..];
    }
    found
}

/// The offset after the closing quote of the string at the start, or after its line.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    let end = text[1..].find(|c| {
        let ends = (c == '"' && !escaped) || c == '\n';
        escaped = c == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

#[test]
fn the_form_changes_no_meaning_and_is_its_own_form() {
    let (mut wrong, mut count) = (String::new(), 0);
    for (name, text) in scripts() {
        let Some(tree) = parsed(&text) else { continue };
        count += 1;
        let form = formatted(&text).expect("it parses");
        let problem = match parsed(&form) {
            None => Some("does not parse any more"),
            Some(after) if ast_print::print(&after) != ast_print::print(&tree) => Some("means something else"),
            Some(_) if formatted(&form).as_deref() != Some(&form) => Some("has another form the second time"),
            Some(_) if comments(&form) != comments(&text) => Some("has other comments"),
            Some(_) if form.lines().any(|line| line != line.trim_end()) => Some("has blanks at the end of a line"),
            Some(_) if form.contains("\n\n\n") => Some("has several blank lines"),
            Some(_) => None,
        };
        if let Some(problem) = problem {
            let again = formatted(&form).unwrap_or_default();
            let _ = writeln!(wrong, "{name} {problem}:\n{form}\n--- again:\n{again}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 250, "too few scripts parse: {count}");
}

/// Blanks and line breaks carry no meaning: removing or adding them gives the same tree.
#[test]
fn damaged_blanks_are_mended() {
    for (name, text) in scripts() {
        if parsed(&text).is_none() {
            continue;
        }
        let squeezed = formatted(&text).expect("it parses").replace('\t', " ");
        let spread = squeezed.replace("; ", ";\n\n\n").replace(", ", " ,\n").replace(" + ", "\n+\n");
        for version in [squeezed, spread] {
            // A string may have contained one of these.
            let Some(before) = parsed(&version) else { continue };
            let form = formatted(&version).expect("it parses");
            let after = parsed(&form).unwrap_or_else(|| panic!("{name} does not parse any more:\n{form}"));
            assert_eq!(ast_print::print(&after), ast_print::print(&before), "{name}\n{form}");
            assert_eq!(formatted(&form).as_deref(), Some(form.as_str()), "{name}\n{version}");
        }
    }
}

#[test]
fn the_form_is_the_one_that_is_shown() {
    let mut files = Vec::new();
    collect(&root().join("tests/fmt"), &["in"], &mut files);
    files.sort();
    assert!(files.len() > 4, "too few cases");
    let mut wrong = String::new();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a case");
        let form = fmt::format(&Source::new("test", text.as_str()));
        let form = form.unwrap_or_else(|problems| panic!("{}: {problems:?}", path.display()));
        let expected = path.with_extension("out");
        if std::env::var_os("PROFILER_BLESS").is_some() {
            std::fs::write(&expected, &form).expect("a writable directory");
        } else if std::fs::read_to_string(&expected).ok().as_deref() != Some(&form) {
            let _ = writeln!(wrong, "{}:\n{form}", path.display());
        }
        assert_eq!(fmt::format(&Source::new("test", form.as_str())).as_ref(), Ok(&form), "{}", path.display());
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn recipes_and_examples_have_the_canonical_form() {
    let mut files = Vec::new();
    for directory in ["stdlib", "examples"] {
        collect(&root().join(directory), &["prof"], &mut files);
    }
    assert!(files.len() > 10, "too few scripts: {files:?}");
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a script");
        assert_eq!(formatted(&text).as_ref(), Some(&text), "{}: run `profiler fmt` on it", path.display());
    }
}

#[test]
fn a_script_with_a_mistake_keeps_its_text() {
    let problems = fmt::format(&Source::new("test", "BEGIN { @x = ; }\n")).expect_err("a mistake");
    assert_eq!(problems.len(), 1);
}

#[test]
fn a_large_script_takes_linear_time() {
    let line = "kprobe:f_1 /pid == 1/ { if (1) { @x[1, 2] = count(); } }\n";
    let text = line.repeat((1 << 19) / line.len());
    let form = formatted(&text).expect("it parses");
    assert_eq!(form, text);
}
