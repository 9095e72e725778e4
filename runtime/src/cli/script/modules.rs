//! The modules that a script uses.
//!
//! In: a script's source and its folder. Out: the same source with all modules behind it, and the standard library for those who ask.
//! Guarantee: the standard library comes first, so that no file beside the script takes the place of one of its modules; each module is
//! read once; a module that cannot be had is a diagnostic at the `use`.

use std::collections::BTreeSet;
use std::path::Path;

use profiler_compiler::ast::Use;
use profiler_compiler::diagnostic::{Code, Diagnostic};
use profiler_compiler::parse;
use profiler_compiler::similar;
use profiler_compiler::source::{Source, Span};

use super::imports::may_be_changed_by_others;
use super::{LIMIT_BYTES, decode, read_file};
use crate::cli::exit::Failure;

/// The modules of the standard library with their texts, sorted by path.
const STANDARD: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/stdlib.rs"));

/// The modules of the standard library with their texts, sorted by path.
pub fn standard() -> &'static [(&'static str, &'static str)] {
    STANDARD
}

/// The text of a module of the standard library.
pub fn text(path: &str) -> Option<&'static str> {
    STANDARD.iter().find(|(known, _)| *known == path).map(|(_, text)| *text)
}

/// What the comment at the start of a script says of it: its first paragraph.
pub fn description(text: &str) -> String {
    let comment = |line: &str| {
        let line = line.trim();
        line.strip_prefix("//").map(|words| words.trim().to_owned())
    };
    let lines = text.lines().skip_while(|line| line.trim().is_empty() || line.starts_with("#!"));
    let words: Vec<String> = lines.map_while(comment).take_while(|words| !words.is_empty()).collect();
    words.join(" ")
}

/// Appends the modules that `source` uses, and those that they use.
pub fn resolve(source: &mut Source, folder: &Path) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    let mut open = moved(parse::uses(&source.text), 0);
    while let Some((path, span)) = open.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let (name, text) = match text(&path) {
            Some(text) => (format!("stdlib/{path}.prof"), text.to_owned()),
            None => beside(source, folder, &path, span)?,
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

/// Paths with their places, the last first.
fn moved(uses: Vec<Use>, start: usize) -> Vec<(String, Span)> {
    let moved = |span: Span| Span { start: span.start + start as u32, end: span.end + start as u32 };
    uses.into_iter().rev().map(|of| (of.module.text, moved(of.module.span))).collect()
}

fn refused(source: &Source, span: Span, words: impl Into<String>, help: impl Into<String>) -> Failure {
    Failure::Script { source: source.clone(), diagnostics: vec![Diagnostic::error(Code(226), span, words).help(help)] }
}

/// Name and text of a module in the script's folder.
fn beside(source: &Source, folder: &Path, path: &str, span: Span) -> Result<(String, String), Failure> {
    let file = folder.join(format!("{path}.prof"));
    let name = file.display().to_string();
    if !file.is_file() {
        let help = match similar::nearest(path, STANDARD.iter().map(|(path, _)| *path), 1).first() {
            Some(near) => format!("did you mean `{near}`? It is neither in the standard library nor in `{name}`"),
            None => format!("it is neither in the standard library (`profiler list modules`) nor in `{name}`"),
        };
        return Err(refused(source, span, format!("there is no module `{path}`"), help));
    }
    if may_be_changed_by_others(&file) {
        let words = format!("the module `{path}` cannot be used: everybody may write to `{name}` or to its folder");
        return Err(refused(source, span, words, "take away the right to write: `chmod o-w`"));
    }
    let text = read_file(&name).and_then(|bytes| decode(&name, bytes))?.text;
    Ok((name, text))
}

#[cfg(test)]
mod tests {
    use super::{description, resolve, standard};
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
    fn the_first_paragraph_describes_a_script() {
        let text = "#!/usr/bin/env profiler\n\n// One thing.\n// And more.\n//\n// Example\n";
        assert_eq!(description(text), "One thing. And more.");
        assert_eq!(description("// One\nBEGIN { }"), "One");
        assert_eq!(description("BEGIN { }"), "");
    }

    #[test]
    fn the_standard_library_comes_first_then_the_folder_of_the_script() {
        let folder = std::env::temp_dir().join(format!("profiler-modules-{}", std::process::id()));
        fs::create_dir_all(folder.join("proc")).expect("a folder");
        fs::write(folder.join("proc/exits.prof"), "BEGIN { @other = 1; }").expect("a file");
        fs::write(folder.join("mine.prof"), "use proc/exits\nuse more\nBEGIN { }").expect("a file");
        fs::write(folder.join("more.prof"), "use mine\nBEGIN { }").expect("a file");
        let mut source = Source::new("s", "use mine\nuse proc/exits\nBEGIN { }");
        let resolved = resolve(&mut source, &folder);
        let missing = resolve(&mut Source::new("s", "BEGIN { }\nuse proc/exit"), Path::new("none"));
        fs::remove_dir_all(&folder).expect("our own");
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
