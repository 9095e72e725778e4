//! The files of the repository.
//!
//! In: the working tree. Out: paths relative to its root, with their text.
//! Guarantee: sorted by path; no build outputs, fuzzing inputs, licences of others or hidden files.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository's root.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Names of directories and files that are not ours to word, or that are generated.
const EXCLUDED: [&str; 7] = ["target", "corpus", "licenses", "shared", "LICENSE", "NOTICE", "Cargo.lock"];

/// A text file.
#[derive(Debug)]
pub struct File {
    /// The path relative to the root.
    pub path: String,
    /// The contents.
    pub text: String,
}

impl File {
    /// Whether the file's name ends with `.EXTENSION`.
    pub fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }
}

/// All text files below a directory of the repository (`""` for the root).
pub fn files(directory: &str) -> Vec<File> {
    let root = Path::new(ROOT);
    let mut waiting = vec![root.join(directory)];
    let mut paths = Vec::new();
    while let Some(directory) = waiting.pop() {
        let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        for entry in entries.map(|entry| entry.expect("an entry")) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') || EXCLUDED.contains(&name.as_str()) {
                continue;
            }
            let kind = entry.file_type().expect("a file type");
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_file() {
                paths.push(entry.path());
            }
        }
    }
    paths.sort();
    paths.iter().filter_map(|path| read(root, path)).collect()
}

/// The Rust sources below a directory.
pub fn rust_files(directory: &str) -> Vec<File> {
    files(directory).into_iter().filter(|file| file.has_extension("rs")).collect()
}

fn read(root: &Path, path: &PathBuf) -> Option<File> {
    let text = String::from_utf8(fs::read(path).ok()?).ok()?;
    let path = path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
    Some(File { path, text })
}
