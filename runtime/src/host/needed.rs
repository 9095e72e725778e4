//! The files whose code a program will run.
//!
//! In: the path of a program. Out: the program, its interpreter, and the libraries that they are
//! linked with, directly or not.
//! Guarantee: nothing is run and nothing is an error: what cannot be found is left out, as is what
//! a program loads by itself. Libraries are those of the loader's cache, so that others are found
//! only once they are mapped.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader};

use super::bounded::{Bounded, MAX_TABLE_BYTES};
use super::library::{self, Root};

/// Most files of a program.
const MAX_FILES: usize = 256;

/// The files, the program first. A script has those of the program that interprets it.
pub(crate) fn files(program: &Path) -> Vec<PathBuf> {
    let program = interpreter_of_script(program).unwrap_or_else(|| program.to_owned());
    let (root, mut seen) = (Root::own(), BTreeSet::new());
    let mut found = vec![program];
    let mut at = 0;
    while let Some(path) = found.get(at).filter(|_| found.len() < MAX_FILES) {
        for name in links(path) {
            if !seen.insert(name.clone()) {
                continue;
            }
            let is_path = name.as_bytes().contains(&b'/');
            let named = || library::installed(&root, name.to_str()?);
            found.extend(if is_path { Some(PathBuf::from(name)) } else { named() });
        }
        at += 1;
    }
    found
}

/// The names of a file's interpreter and libraries.
fn links(path: &Path) -> Vec<std::ffi::OsString> {
    let is_regular = path.metadata().is_ok_and(|meta| meta.is_file());
    let Some(file) = is_regular.then(|| File::open(path).ok()).flatten() else { return Vec::new() };
    links_in(&Bounded::new(file, MAX_TABLE_BYTES)).unwrap_or_default()
}

fn links_in<'data, Bytes: ReadRef<'data>>(data: Bytes) -> Option<Vec<std::ffi::OsString>> {
    let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
    let segments = header.program_headers(LittleEndian, data).ok()?;
    let interpreter = segments.iter().find_map(|segment| segment.interpreter(LittleEndian, data).ok()?);
    let mut names: Vec<&[u8]> = interpreter.into_iter().collect();
    let sections = header.sections(LittleEndian, data).ok()?;
    if let Ok(Some((entries, strings))) = sections.dynamic(LittleEndian, data) {
        let strings = sections.strings(LittleEndian, data, strings).ok()?;
        let needed = entries.iter().filter(|entry| entry.d_tag(LittleEndian) == elf::DT_NEEDED);
        names.extend(needed.filter_map(|entry| entry.string(LittleEndian, strings).ok()));
    }
    Some(names.into_iter().map(|name| OsStr::from_bytes(name).to_owned()).collect())
}

/// The program in the first line of a script.
fn interpreter_of_script(path: &Path) -> Option<PathBuf> {
    let mut first = [0; 256];
    let read = path.metadata().is_ok_and(|meta| meta.is_file()).then(|| File::open(path).ok())??;
    let length = std::os::unix::fs::FileExt::read_at(&read, &mut first, 0).ok()?;
    let line = first[..length].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let interpreter = Path::new(OsStr::from_bytes(words.next()?));
    if interpreter.file_name() != Some(OsStr::new("env")) {
        return Some(interpreter.to_owned());
    }
    let name = OsStr::from_bytes(words.find(|word| !word.starts_with(b"-"))?);
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| fs::metadata(path).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_needs_its_interpreter_and_libraries() {
        let found = files(Path::new("/bin/sh"));
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        assert_eq!(names[0], "sh");
        assert!(names.contains(&"libc.so.6"), "{names:?}");
        assert!(names.iter().any(|name| name.starts_with("ld-")), "{names:?}");
        assert!(found.iter().all(|path| path.exists()), "{found:?}");
    }

    #[test]
    fn a_script_needs_what_its_interpreter_needs() {
        let script = std::env::temp_dir().join(format!("profiler-needed-{}", std::process::id()));
        for line in ["#!/bin/sh -e\n", "#! /usr/bin/env sh\n", "#!/usr/bin/env -S sh -e\n"] {
            fs::write(&script, line).expect("a script");
            let found = files(&script);
            assert!(found[0].ends_with("sh") && found.len() > 2, "{line}: {found:?}");
        }
        fs::remove_file(&script).expect("removed");
    }

    #[test]
    fn what_is_no_program_needs_nothing() {
        for path in ["/etc/passwd", "/", "/dev/null", "/no/such/file"] {
            assert_eq!(files(Path::new(path)), [PathBuf::from(path)]);
        }
    }
}
