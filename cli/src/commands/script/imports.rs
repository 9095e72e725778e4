//! Reads the files that a script imports or includes.
//!
//! In: a script's source and its directory. Out: the same source with all these files appended.
//! Guarantee: each file is read once, so files may import each other; a file that other users could
//! have changed is rejected; an unreadable file is a diagnostic at the import. A header in angle
//! brackets that is in no given directory has no effect: kernel types come from BTF.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use profiler_compiler::diagnostic::{Code, Diagnostic};
use profiler_compiler::parse;
use profiler_compiler::source::{Source, Span};

use super::headers::Headers;
use super::{LIMIT_BYTES, decode, read_file, trust};
use crate::commands::exit::{Failure, words_of};

/// File name extensions that may be imported.
const SUFFIXES: [&str; 3] = ["bt", "prof", "h"];

/// A file that a text asks for.
struct Wanted {
    /// Its path, relative to the directory.
    path: String,
    directory: PathBuf,
    /// Where the text asks for it.
    span: Span,
    /// For an `#include`: whether the name is in quotes.
    quoted: Option<bool>,
}

/// Appends what `source` imports and includes, transitively.
pub(super) fn resolve(source: &mut Source, directory: &Path, headers: &Headers) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    let mut open = wanted(&source.text, 0, directory);
    // As if these lines were the first of the script.
    open.extend(headers.files.iter().rev().map(|path| Wanted {
        path: path.clone(),
        directory: PathBuf::new(),
        span: Span::default(),
        quoted: Some(true),
    }));
    while let Some(Wanted { path, directory, span, quoted }) = open.pop() {
        let refused = |source: &Source, words: String, help: &str| Failure::Script {
            source: source.clone(),
            diagnostics: vec![Diagnostic::error(Code(211), span, words).help(help)],
        };
        let files = match quoted {
            None => files(&directory.join(&path)).map_err(|words| {
                let help =
                    "paths are looked for next to the script; .bt, .prof and .h files can be imported, and directories of them";
                refused(source, format!("`{path}` cannot be imported: {words}"), help)
            })?,
            Some(is_quoted) => match headers.find(&directory, &path, is_quoted) {
                Some(file) => vec![file],
                None if !is_quoted || Headers::is_of_the_system(&path) => continue,
                None => return Err(not_found(source, &path, span)),
            },
        };
        for file in files {
            let known = file.canonicalize().unwrap_or_else(|_| file.clone());
            if !seen.insert(known) {
                continue;
            }
            if let Some(untrusted) = trust::untrusted(&file) {
                let words = format!("`{path}` cannot be imported: {}", untrusted.words());
                return Err(refused(source, words, &untrusted.help()));
            }
            let name = file.display().to_string();
            let text = read_file(&name).and_then(|bytes| decode(&name, bytes))?.text;
            if (source.text.len() + text.len()) as u64 > LIMIT_BYTES {
                return Err(refused(source, "the script and its imports are larger than 4 MiB".into(), "import less"));
            }
            source.append(&name, &text);
            let start = source.text.len() - text.len();
            let directory = file.parent().unwrap_or(Path::new(""));
            open.extend(wanted(&text, start, directory));
        }
    }
    Ok(())
}

fn not_found(source: &Source, path: &str, span: Span) -> Failure {
    let diagnostic = Diagnostic::error(Code(154), span, format!("there is no header `{path}`"))
        .help("headers are looked for next to the file that includes them, then in the directories of `-I`");
    Failure::Script { source: source.clone(), diagnostics: vec![diagnostic] }
}

/// The imports and includes in a text that starts at `start` of the source, the last one first.
fn wanted(text: &str, start: usize, directory: &Path) -> Vec<Wanted> {
    let moved = |span: Span| Span { start: span.start + start as u32, end: span.end + start as u32 };
    let make =
        |path: String, span: Span, quoted| Wanted { path, directory: directory.to_owned(), span: moved(span), quoted };
    let includes = parse::includes(text).into_iter().map(|it| make(it.name, it.span, Some(it.is_quoted)));
    let imports = parse::imports(text).into_iter().map(|(path, span)| make(path, span, None));
    let mut wanted: Vec<_> = includes.chain(imports).collect();
    wanted.reverse();
    wanted
}

/// The file itself, or the sorted files of a directory.
fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    let metadata = path.metadata().map_err(|error| words_of(&error))?;
    if !metadata.is_dir() {
        return if has_suffix(path) { Ok(vec![path.to_owned()]) } else { Err("it is not a script".into()) };
    }
    let entries = path.read_dir().map_err(|error| words_of(&error))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| has_suffix(path)).collect();
    found.sort_unstable();
    if found.is_empty() { Err("there is no script in this directory".into()) } else { Ok(found) }
}

fn has_suffix(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| SUFFIXES.iter().any(|known| suffix == *known))
}

#[cfg(test)]
mod tests {
    use super::{Headers, resolve};
    use profiler_compiler::source::Source;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str, files: &[(&str, &str)]) -> Directory {
            let path = std::env::temp_dir().join(format!("profiler-imports-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("more")).expect("a directory");
            for (name, text) in files {
                fs::write(path.join(name), text).expect("a file");
            }
            Directory(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_are_read_once_whoever_imports_them() {
        let directory = Directory::new(
            "once",
            &[
                ("a.bt", "import \"b.bt\"; macro a() { 1 }\n"),
                ("b.bt", "import \"a.bt\"; import \"more\"; macro b() { 2 }\n"),
                ("more/c.bt", "macro c() { 3 }"),
            ],
        );
        let mut source = Source::new("s", "import \"a.bt\"; import \"a.bt\"; BEGIN { print(c()); }");
        resolve(&mut source, &directory.0, &Headers::default()).expect("it resolves");
        let names: Vec<_> = source.files().map(|(name, _)| name.rsplit('/').next().unwrap_or("").to_owned()).collect();
        assert_eq!(names, ["s", "a.bt", "b.bt", "c.bt"]);
    }

    #[test]
    fn what_cannot_be_had_is_shown_at_the_import() {
        let directory = Directory::new("refused", &[("x.c", "int main"), ("open.bt", "BEGIN { }")]);
        fs::set_permissions(directory.0.join("open.bt"), fs::Permissions::from_mode(0o666)).expect("a mode");
        let open = directory.0.canonicalize().expect("it exists").join("open.bt").display().to_string();
        for (path, words) in [
            ("none.bt", "`none.bt` cannot be imported: there is no such file or directory"),
            ("x.c", "`x.c` cannot be imported: it is not a script"),
            ("more", "`more` cannot be imported: there is no script in this directory"),
            ("open.bt", &format!("`open.bt` cannot be imported: everybody may write to `{open}`")),
        ] {
            let mut source = Source::new("s", format!("import \"{path}\";\nBEGIN {{ }}\n"));
            let text = resolve(&mut source, &directory.0, &Headers::default()).expect_err("a refusal").render(false);
            assert!(text.starts_with(&format!("error[E0211]: {words}\n --> s:1:8\n")), "{text}");
        }
    }
}
