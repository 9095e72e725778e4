//! Reads the modules that a script uses.
//!
//! In: a script's source and its directory. Out: the same source with all modules appended, and
//! access to the standard library: its recipes, and the modules in `std/` that are only used.
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

use super::{LIMIT_BYTES, decode, other_names, read_file, trust};
use crate::commands::exit::{Failure, Message, USAGE};

/// There is no recipe of this name.
const NO_RECIPE: Code = Code(5);

/// The standard library modules with their texts, sorted by path.
const STANDARD: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/stdlib.rs"));

/// The standard library modules with their texts, sorted by path.
pub(crate) fn standard() -> &'static [(&'static str, &'static str)] {
    STANDARD
}

/// The standard library modules that answer a question by themselves.
pub(crate) fn recipes() -> impl Iterator<Item = &'static (&'static str, &'static str)> + Clone {
    STANDARD.iter().filter(|(path, _)| is_recipe(path))
}

/// Whether a module of this path is a recipe.
pub(crate) fn is_recipe(path: &str) -> bool {
    !path.starts_with("std/")
}

/// The text of a standard library module.
pub(crate) fn text(path: &str) -> Option<&'static str> {
    STANDARD.iter().find(|(known, _)| *known == path).map(|(_, text)| *text)
}

/// Finds a standard library module by its path, or a recipe by its last path component if that is
/// unique, or by the name of another tool.
pub(crate) fn named(name: &str) -> Option<(&'static str, &'static str)> {
    let path = other_names::recipe(name).unwrap_or(name);
    if let Some(found) = STANDARD.iter().find(|(known, _)| *known == path) {
        return Some(*found);
    }
    let mut found = recipes().filter(|(path, _)| last_part(path) == name);
    found.next().filter(|_| found.next().is_none()).copied()
}

/// The modules of which a name matches a pattern: the path, its last component, or the name of
/// another tool.
pub(crate) fn matching(pattern: &str) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let names = |path| [path, last_part(path)].into_iter().chain(other_names::of(path));
    STANDARD.iter().filter(move |(path, _)| names(path).any(|name| glob::matches(pattern, name)))
}

/// The names of other tools that do what a recipe does.
pub(crate) fn other_names(path: &str) -> Vec<&'static str> {
    other_names::of(path).collect()
}

/// The recipe whose path, or last path component, is most similar to a name.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let found = |names: &mut dyn Iterator<Item = &'static str>| similar::nearest(name, names, 1).pop();
    let near = found(&mut recipes().map(|(path, _)| *path))
        .or_else(|| found(&mut recipes().map(|(path, _)| last_part(path))))?;
    recipes().find(|(path, _)| *path == near || last_part(path) == near).map(|(path, _)| *path)
}

/// The error for a name that no recipe has; `named` says what was looked for.
pub(crate) fn missing(what: &str, name: &str) -> Failure {
    let alike: Vec<String> =
        recipes().filter(|(path, _)| last_part(path) == name).map(|(path, _)| format!("`{path}`")).collect();
    let help = match nearest(name) {
        _ if alike.len() > 1 => format!("write {}", alike.join(" or ")),
        Some(near) => format!("did you mean `{near}`?"),
        None => "`profiler list recipes` lists them".into(),
    };
    Failure::Message(Message {
        exit: USAGE,
        code: Some(NO_RECIPE),
        words: format!("there is no {what} `{name}`"),
        help: Some(help),
    })
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The comment at the start of a script, line by line.
pub(crate) fn header(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().skip_while(|line| line.trim().is_empty() || line.starts_with("#!"));
    let words = lines.map_while(|line| line.trim().strip_prefix("//").map(str::trim_end));
    words.map(|words| words.strip_prefix(' ').unwrap_or(words))
}

/// What a script is for: the first sentence of the comment at its start.
pub(crate) fn summary(text: &str) -> String {
    let paragraph: Vec<&str> = header(text).take_while(|words| !words.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    let end = [". ", "? "].iter().filter_map(|end| paragraph.find(end)).min();
    end.map_or(paragraph.clone(), |end| paragraph[..=end].to_owned())
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
    use super::{header, matching, named, nearest, recipes, resolve, standard, summary};
    use profiler_compiler::source::Source;
    use std::fs;
    use std::path::Path;

    #[test]
    fn modules_are_sorted_and_say_what_they_are() {
        let paths: Vec<&str> = standard().iter().map(|(path, _)| *path).collect();
        assert!(paths.is_sorted() && paths.contains(&"proc/exits"), "{paths:?}");
        for (path, text) in standard() {
            let words = summary(text);
            assert!(words.ends_with(['.', '?']) && words.len() > 20, "{path}: {words:?}");
        }
        assert!(paths.contains(&"std/target") && recipes().all(|(path, _)| *path != "std/target"));
    }

    #[test]
    fn modules_are_found_by_the_last_part_of_their_path() {
        let path = |name| named(name).map(|(path, _)| path);
        assert_eq!(
            (path("lock/futex"), path("futex"), path("exits")),
            (Some("lock/futex"), Some("lock/futex"), Some("proc/exits"))
        );
        assert_eq!((path("lock"), path("fute"), path("")), (None, None, None));
        assert_eq!((path("target"), path("std/target"), nearest("std/targt")), (None, Some("std/target"), None));
        let found: Vec<&str> = matching("lock/*t*").map(|(path, _)| *path).collect();
        assert_eq!(found, ["lock/futex", "lock/latency"]);
        assert_eq!((nearest("futx"), nearest("lock/latncy")), (Some("lock/futex"), Some("lock/latency")));
    }

    #[test]
    fn the_comment_at_its_start_describes_a_script() {
        let text = "#!/usr/bin/env profiler\n\n// One\n// thing. And more.\n//\n//   Example\n\n// Apart.\n";
        assert_eq!(summary(text), "One thing.");
        assert_eq!(header(text).collect::<Vec<_>>(), ["One", "thing. And more.", "", "  Example"]);
        assert_eq!(summary("// Who calls? The callers.\nBEGIN { }"), "Who calls?");
        assert_eq!((summary("// One\nBEGIN { }"), summary("BEGIN { }")), ("One".into(), String::new()));
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
            [
                "s".into(),
                format!("{id}/mine.prof"),
                "stdlib/proc/exits.prof".into(),
                // What that one uses.
                "stdlib/std/ends.prof".into(),
                "stdlib/std/windows.prof".into(),
                format!("{id}/more.prof"),
            ]
        );
        let text = missing.expect_err("a refusal").render(false);
        assert!(text.starts_with("error[E0226]: there is no module `proc/exit`\n --> s:2:5\n"), "{text}");
        assert!(text.contains("did you mean `proc/exits`?"), "{text}");
    }
}
