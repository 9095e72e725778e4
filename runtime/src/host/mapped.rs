//! Files that processes have mapped as code.
//!
//! In: a process, or all processes. Out: paths that we can open.
//! Guarantee: each file appears once, however many paths lead to it; for a replaced file, it is the
//! one that the process still maps.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::library::Root;
use super::replaced::MARK;

/// A mapping of a file as code.
#[derive(Debug, PartialEq, Eq)]
struct Mapping<'a> {
    range: &'a str,
    /// Device and inode.
    file: (&'a str, &'a str),
    path: &'a str,
}

/// The files that a process has mapped as code, in address order.
pub(super) fn of_process(pid: u32) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    read(pid, &mut seen)
}

/// The files that any process has mapped as code.
pub(super) fn of_all() -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut seen = HashSet::new();
    pids.flat_map(|pid| read(pid, &mut seen)).collect()
}

/// What a process runs that does not run a certain file.
#[derive(Debug)]
pub struct OtherCode {
    /// A file of a similar name, if there is one: another C library.
    pub similar: Option<PathBuf>,
}

/// What a process runs instead of a file. `None` if it runs the file, or may not be inspected.
pub fn other_code(pid: u32, path: &Path) -> Option<OtherCode> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let stem = |path: &Path| path.file_name()?.to_str()?.split(['.', '-']).next().map(str::to_owned);
    let wanted = identity(path)?;
    let mut files = of_process(pid);
    if files.is_empty() || files.iter().any(|file| identity(file) == Some(wanted)) {
        return None;
    }
    files.retain(|file| stem(file) == stem(path));
    Some(OtherCode { similar: files.into_iter().next() })
}

fn read(pid: u32, seen: &mut HashSet<(String, String)>) -> Vec<PathBuf> {
    let (Ok(maps), Ok(root)) = (fs::read_to_string(format!("/proc/{pid}/maps")), Root::of_process(pid)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for mapping in maps.lines().filter_map(mapping) {
        if !seen.insert((mapping.file.0.to_owned(), mapping.file.1.to_owned())) {
            continue;
        }
        match mapping.path.strip_suffix(MARK) {
            Some(_) => found.push(PathBuf::from(format!("/proc/{pid}/map_files/{}", mapping.range))),
            None => found.extend(root.canonical(mapping.path)),
        }
    }
    found
}

fn mapping(line: &str) -> Option<Mapping<'_>> {
    let path = &line[line.find('/')?..];
    let mut fields = line.split(' ');
    let (range, permissions, _offset) = (fields.next()?, fields.next()?, fields.next()?);
    let file = (fields.next()?, fields.next()?);
    permissions.contains('x').then_some(Mapping { range, file, path })
}

#[cfg(test)]
mod tests {
    use super::{Mapping, mapping, of_all, of_process};

    #[test]
    fn only_mappings_of_code_count() {
        let code = mapping("7f01-7f02 r-xp 00001000 08:01 11         /opt/my app (deleted)");
        let expected = Mapping { range: "7f01-7f02", file: ("08:01", "11"), path: "/opt/my app (deleted)" };
        assert_eq!(code, Some(expected));
        for other in ["7f00-7f01 r--p 00000000 08:01 11 /lib/x", "7f07-7f08 r-xp 0 00:00 0 [vdso]", "", "/"] {
            assert_eq!(mapping(other), None, "{other}");
        }
    }

    #[test]
    fn finds_this_very_program() {
        let own = std::env::current_exe().and_then(std::fs::canonicalize).expect("a path");
        assert!(of_process(std::process::id()).contains(&own));
        assert!(of_process(u32::MAX).is_empty());
        // Another process may be the first one found to run a file, and may see it under a
        // different path.
        let name = own.file_name().expect("a name");
        assert!(of_all().iter().any(|path| path.file_name() == Some(name)));
    }
}
