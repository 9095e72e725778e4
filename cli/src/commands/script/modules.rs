//! Reads the modules that a script uses.
//!
//! In: a script's source and its directory. Out: the same source with all modules appended, and
//! access to the standard library.
//! Guarantee: the standard library takes precedence, so no file next to the script can replace one
//! of its modules; each module is read once; a missing module is a diagnostic at the `use`.

use std::collections::BTreeSet;
use std::path::Path;

use profiler_compiler::ast::Use;
use profiler_compiler::diagnostic::{Code, Diagnostic};
use profiler_compiler::glob;
use profiler_compiler::parse;
use profiler_compiler::similar;
use profiler_compiler::source::{Source, Span};

use super::{LIMIT_BYTES, decode, read_file, trust};
use crate::commands::exit::Failure;

/// The standard library modules with their texts, sorted by path.
const STANDARD: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/stdlib.rs"));

/// The standard library modules with their texts, sorted by path.
pub(crate) fn standard() -> &'static [(&'static str, &'static str)] {
    STANDARD
}

/// The text of a standard library module.
pub(crate) fn text(path: &str) -> Option<&'static str> {
    STANDARD.iter().find(|(known, _)| *known == path).map(|(_, text)| *text)
}

/// Finds a standard library module by its path, or by its last path component if that is unique.
pub(crate) fn named(name: &str) -> Option<(&'static str, &'static str)> {
    if let Some(found) = STANDARD.iter().find(|(path, _)| *path == name) {
        return Some(*found);
    }
    let mut found = STANDARD.iter().filter(|(path, _)| last_part(path) == name);
    found.next().filter(|_| found.next().is_none()).copied()
}

/// The modules whose path or last path component matches a pattern.
pub(crate) fn matching(pattern: &str) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    STANDARD.iter().filter(move |(path, _)| glob::matches(pattern, path) || glob::matches(pattern, last_part(path)))
}

/// The path most similar to a name.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let names = STANDARD.iter().flat_map(|(path, _)| [*path, last_part(path)]);
    similar::nearest(name, names, 1).first().and_then(|near| named(near)).map(|(path, _)| path)
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The description of a script: the first paragraph of the comment at its start.
pub(crate) fn description(text: &str) -> String {
    let comment = |line: &str| {
        let line = line.trim();
        line.strip_prefix("//").map(|words| words.trim().to_owned())
    };
    let lines = text.lines().skip_while(|line| line.trim().is_empty() || line.starts_with("#!"));
    let words: Vec<String> = lines.map_while(comment).take_while(|words| !words.is_empty()).collect();
    words.join(" ")
}

/// Appends the modules that `source` uses, transitively.
pub(crate) fn resolve(source: &mut Source, directory: &Path) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    let mut open = moved(parse::uses(&source.text), 0);
    while let Some((path, span)) = open.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let (name, text) = match text(&path) {
            Some(text) => (format!("stdlib/{path}.prof"), text.to_owned()),
            None => module_of_directory(source, directory, &path, span)?,
        };
        if (source.text.len() + text.len()) as u64 > LIMIT_BYTES {
            let words = "the script and its modules are larger than 4 MiB";
            return Err(refused(source, span, words, "use less"));
        }
        source.append_module(name, &text, path);
        let start = source.text.len() - text.len();
        open.extend(moved(parse::uses(&text), start));
    }
    Ok(())
}

/// Paths with their spans in the source, in reverse order.
fn moved(uses: Vec<Use>, start: usize) -> Vec<(String, Span)> {
    let moved = |span: Span| Span { start: span.start + start as u32, end: span.end + start as u32 };
    uses.into_iter().rev().map(|of| (of.module.text, moved(of.module.span))).collect()
}

fn refused(source: &Source, span: Span, words: impl Into<String>, help: impl Into<String>) -> Failure {
    Failure::Script { source: source.clone(), diagnostics: vec![Diagnostic::error(Code(226), span, words).help(help)] }
}

/// Name and text of a module in the script's directory.
fn module_of_directory(source: &Source, directory: &Path, path: &str, span: Span) -> Result<(String, String), Failure> {
    let file = directory.join(format!("{path}.prof"));
    let name = file.display().to_string();
    if !file.is_file() {
        let help = match similar::nearest(path, STANDARD.iter().map(|(path, _)| *path), 1).first() {
            Some(near) => format!("did you mean `{near}`? It is neither in the standard library nor in `{name}`"),
            None => format!("it is neither in the standard library (`profiler list modules`) nor in `{name}`"),
        };
        return Err(refused(source, span, format!("there is no module `{path}`"), help));
    }
    if let Some(untrusted) = trust::untrusted(&file) {
        let words = format!("the module `{path}` cannot be used: {}", untrusted.words());
        return Err(refused(source, span, words, untrusted.help()));
    }
    let text = read_file(&name).and_then(|bytes| decode(&name, bytes))?.text;
    Ok((name, text))
}

#[cfg(test)]
mod tests {
    use super::{description, matching, named, nearest, resolve, standard};
    use profiler_compiler::source::Source;
    use std::fs;
    use std::path::Path;

    #[test]
    fn modules_are_sorted_and_say_what_they_are() {
        let paths: Vec<&str> = standard().iter().map(|(path, _)| *path).collect();
        assert!(paths.is_sorted() && paths.contains(&"proc/exits"), "{paths:?}");
        for (path, text) in standard() {
            let words = description(text);
            assert!(words.ends_with('.') && words.len() > 20, "{path}: {words:?}");
        }
    }

    #[test]
    fn modules_are_found_by_the_last_part_of_their_path() {
        let path = |name| named(name).map(|(path, _)| path);
        assert_eq!(
            (path("lock/futex"), path("futex"), path("exits")),
            (Some("lock/futex"), Some("lock/futex"), Some("proc/exits"))
        );
        assert_eq!((path("lock"), path("fute"), path("")), (None, None, None));
        let found: Vec<&str> = matching("lock*").map(|(path, _)| *path).collect();
        assert_eq!(found, ["lock/futex", "lock/latency"]);
        assert_eq!((nearest("futx"), nearest("lock/latncy")), (Some("lock/futex"), Some("lock/latency")));
    }

    #[test]
    fn the_first_paragraph_describes_a_script() {
        let text = "#!/usr/bin/env profiler\n\n// One thing.\n// And more.\n//\n// Example\n";
        assert_eq!(description(text), "One thing. And more.");
        assert_eq!(description("// One\nBEGIN { }"), "One");
        assert_eq!(description("BEGIN { }"), "");
    }

    #[test]
    fn the_standard_library_comes_first_then_the_directory_of_the_script() {
        let directory = std::env::temp_dir().join(format!("profiler-modules-{}", std::process::id()));
        fs::create_dir_all(directory.join("proc")).expect("a directory");
        fs::write(directory.join("proc/exits.prof"), "BEGIN { @other = 1; }").expect("a file");
        fs::write(directory.join("mine.prof"), "use proc/exits\nuse more\nBEGIN { }").expect("a file");
        fs::write(directory.join("more.prof"), "use mine\nBEGIN { }").expect("a file");
        let mut source = Source::new("s", "use mine\nuse proc/exits\nBEGIN { }");
        let resolved = resolve(&mut source, &directory);
        let missing = resolve(&mut Source::new("s", "BEGIN { }\nuse proc/exit"), Path::new("none"));
        fs::remove_dir_all(&directory).expect("our own");
        resolved.expect("it resolves");
        let names: Vec<_> =
            source.files().map(|(name, _)| name.rsplit("modules-").next().unwrap_or("").to_owned()).collect();
        let id = std::process::id();
        assert_eq!(
            names,
            ["s".into(), format!("{id}/mine.prof"), "stdlib/proc/exits.prof".into(), format!("{id}/more.prof")]
        );
        let text = missing.expect_err("a refusal").render(false);
        assert!(text.starts_with("error[E0226]: there is no module `proc/exit`\n --> s:2:5\n"), "{text}");
        assert!(text.contains("did you mean `proc/exits`?"), "{text}");
    }
}
