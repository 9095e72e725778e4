//! The files that a script imports.
//!
//! In: a script's source and its folder. Out: the same source with all imported files behind it.
//! Guarantee: each file is read once, so that files may import each other; a file that others could have changed behind the
//! user's back is refused; a file that cannot be had is a diagnostic at the import.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use profiler_compiler::diagnostic::{Code, Diagnostic};
use profiler_compiler::parse;
use profiler_compiler::source::{Source, Span};

use super::{LIMIT_BYTES, decode, read_file};
use crate::cli::exit::{Failure, words_of};

/// Files that may be imported.
const SUFFIXES: [&str; 3] = ["bt", "prof", "h"];

/// The bit of a mode with which anybody may write.
const WRITABLE_BY_ALL: u32 = 0o002;
/// The bit of a folder's mode with which only an entry's owner may replace it.
const STICKY: u32 = 0o1000;

/// Appends what `source` imports, and what that imports.
pub fn resolve(source: &mut Source, folder: &Path) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<(PathBuf, String, Span)> = wanted(&source.text, 0, folder);
    while let Some((folder, path, span)) = open.pop() {
        let refused = |source: &Source, words: String, help: &str| Failure::Script {
            source: source.clone(),
            diagnostics: vec![Diagnostic::error(Code(211), span, words).help(help)],
        };
        let files = files(&folder.join(&path)).map_err(|words| {
            let help =
                "paths are looked for beside the script; .bt, .prof and .h files can be imported, and folders of them";
            refused(source, format!("`{path}` cannot be imported: {words}"), help)
        })?;
        for file in files {
            let known = file.canonicalize().unwrap_or_else(|_| file.clone());
            if !seen.insert(known) {
                continue;
            }
            if may_be_changed_by_others(&file) {
                let words = format!("`{path}` cannot be imported: everybody may write to it or to its folder");
                return Err(refused(source, words, "take away the right to write: `chmod o-w`"));
            }
            let name = file.display().to_string();
            let text = read_file(&name).and_then(|bytes| decode(&name, bytes))?.text;
            if (source.text.len() + text.len()) as u64 > LIMIT_BYTES {
                return Err(refused(source, "the script and its imports are larger than 4 MiB".into(), "import less"));
            }
            source.append(&name, &text);
            let start = source.text.len() - text.len();
            let beside = file.parent().unwrap_or(Path::new(""));
            open.extend(wanted(&text, start, beside));
        }
    }
    Ok(())
}

/// The imports in a text that starts at `start` of the source.
fn wanted(text: &str, start: usize, folder: &Path) -> Vec<(PathBuf, String, Span)> {
    let moved = |span: Span| Span { start: span.start + start as u32, end: span.end + start as u32 };
    let imports = parse::imports(text).into_iter();
    let mut wanted: Vec<_> = imports.map(|(path, span)| (folder.to_owned(), path, moved(span))).collect();
    wanted.reverse();
    wanted
}

/// The file, or those of a folder, sorted.
fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    let metadata = path.metadata().map_err(|error| words_of(&error))?;
    if !metadata.is_dir() {
        return if has_suffix(path) { Ok(vec![path.to_owned()]) } else { Err("it is not a script".into()) };
    }
    let entries = path.read_dir().map_err(|error| words_of(&error))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| has_suffix(path)).collect();
    found.sort_unstable();
    if found.is_empty() { Err("there is no script in this folder".into()) } else { Ok(found) }
}

fn has_suffix(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| SUFFIXES.iter().any(|known| suffix == *known))
}

/// Whether others than its owner may change a file.
pub(super) fn may_be_changed_by_others(file: &Path) -> bool {
    let mode = |path: &Path| path.metadata().map_or(0, |metadata| metadata.mode());
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = mode(folder);
    mode(file) & WRITABLE_BY_ALL != 0 || (folder & WRITABLE_BY_ALL != 0 && folder & STICKY == 0)
}

#[cfg(test)]
mod tests {
    use super::resolve;
    use profiler_compiler::source::Source;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &str)]) -> Folder {
            let path = std::env::temp_dir().join(format!("profiler-imports-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("more")).expect("a folder");
            for (name, text) in files {
                fs::write(path.join(name), text).expect("a file");
            }
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_are_read_once_whoever_imports_them() {
        let folder = Folder::new(
            "once",
            &[
                ("a.bt", "import \"b.bt\"; macro a() { 1 }\n"),
                ("b.bt", "import \"a.bt\"; import \"more\"; macro b() { 2 }\n"),
                ("more/c.bt", "macro c() { 3 }"),
            ],
        );
        let mut source = Source::new("s", "import \"a.bt\"; import \"a.bt\"; BEGIN { print(c()); }");
        resolve(&mut source, &folder.0).expect("it resolves");
        let names: Vec<_> = source.files().map(|(name, _)| name.rsplit('/').next().unwrap_or("").to_owned()).collect();
        assert_eq!(names, ["s", "a.bt", "b.bt", "c.bt"]);
    }

    #[test]
    fn what_cannot_be_had_is_shown_at_the_import() {
        let folder = Folder::new("refused", &[("x.c", "int main"), ("open.bt", "BEGIN { }")]);
        fs::set_permissions(folder.0.join("open.bt"), fs::Permissions::from_mode(0o666)).expect("a mode");
        for (path, words) in [
            ("none.bt", "`none.bt` cannot be imported: there is no such file or directory"),
            ("x.c", "`x.c` cannot be imported: it is not a script"),
            ("more", "`more` cannot be imported: there is no script in this folder"),
            ("open.bt", "`open.bt` cannot be imported: everybody may write to it or to its folder"),
        ] {
            let mut source = Source::new("s", format!("import \"{path}\";\nBEGIN {{ }}\n"));
            let text = resolve(&mut source, &folder.0).expect_err("a refusal").render(false);
            assert!(text.starts_with(&format!("error[E0211]: {words}\n --> s:1:8\n")), "{text}");
        }
    }
}
