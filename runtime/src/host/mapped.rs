//! Files that processes have mapped.
//!
//! In: a process, or all processes. Out: paths that we can open.
//! Guarantee: each file appears once, however many paths lead to it. It is the one that the process
//! maps, also if it was replaced, or if the process has another root or mount namespace.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::library::{Root, identity, is_named};
use super::replaced::MARK;

/// Limit in bytes of `/proc/PID/maps`: the kernel allows 65,530 mappings, with long paths.
const MAX_MAPS_BYTES: u64 = 32 << 20;

/// A mapping of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    range: &'a str,
    /// Device and inode.
    file: (&'a str, &'a str),
    path: &'a str,
    is_code: bool,
}

/// Files by device and inode, in the order in which they were found.
#[derive(Debug, Default)]
struct Files {
    paths: Vec<PathBuf>,
    numbers: HashMap<(String, String), usize>,
}

impl Files {
    /// Adds the files that a process has mapped as code, in address order. A path through our own
    /// root replaces one through a process, which ends with that process.
    fn add(&mut self, pid: u32) {
        let (Some(maps), Ok(root)) = (read_maps(pid), Root::of_process(pid)) else { return };
        for mapping in maps.lines().filter_map(mapping).filter(|mapping| mapping.is_code) {
            let id = (mapping.file.0.to_owned(), mapping.file.1.to_owned());
            let known = self.numbers.get(&id).copied();
            let stays = |number: usize| {
                let path = &self.paths[number];
                !path.starts_with("/proc") || root.is_elsewhere && path.exists()
            };
            if known.is_some_and(stays) {
                continue;
            }
            match (located(pid, &root, &mapping), known) {
                (Some(path), Some(number)) => self.paths[number] = path,
                (Some(path), None) => {
                    self.numbers.insert(id, self.paths.len());
                    self.paths.push(path);
                }
                (None, _) => {}
            }
        }
    }
}

/// The files that a process has mapped as code, in address order.
pub(super) fn of_process(pid: u32) -> Vec<PathBuf> {
    let mut files = Files::default();
    files.add(pid);
    files.paths
}

/// The files that any process has mapped as code.
pub(super) fn of_all() -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut files = Files::default();
    pids.for_each(|pid| files.add(pid));
    files.paths
}

/// What a process runs that does not run a certain file.
#[derive(Debug)]
pub struct OtherCode {
    /// A file of a similar name, if there is one: another C library.
    pub similar: Option<PathBuf>,
}

/// What a process runs instead of a file. `None` if it runs the file, or may not be inspected.
pub fn other_code(pid: u32, path: &Path) -> Option<OtherCode> {
    let stem = |path: &Path| path.file_name()?.to_str()?.split(['.', '-']).next().map(str::to_owned);
    let wanted = identity(path).ok()?;
    let mut files = of_process(pid);
    if files.is_empty() || files.iter().any(|file| identity(file).is_ok_and(|file| file == wanted)) {
        return None;
    }
    files.retain(|file| stem(file) == stem(path));
    Some(OtherCode { similar: files.into_iter().next() })
}

/// Reads `/proc/PID/maps`.
pub(crate) fn read_maps(pid: u32) -> Option<String> {
    let mut text = Vec::new();
    fs::File::open(format!("/proc/{pid}/maps")).ok()?.take(MAX_MAPS_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The files that a process has mapped under a name, except those that were replaced.
pub(super) fn named(pid: u32, name: &str) -> Vec<PathBuf> {
    let (Some(maps), Ok(root)) = (read_maps(pid), Root::of_process(pid)) else {
        return Vec::new();
    };
    let named = mappings_named(&maps, name);
    let mut found: Vec<PathBuf> = named.iter().filter_map(|mapping| located(pid, &root, mapping)).collect();
    found.sort_unstable();
    found
}

/// The first mapping of each file of that name.
pub fn mappings_named<'a>(maps: &'a str, name: &str) -> Vec<Mapping<'a>> {
    let mut found: Vec<Mapping<'_>> = Vec::new();
    for mapping in maps.lines().filter_map(mapping).filter(|mapping| !mapping.path.ends_with(MARK)) {
        let is_wanted = mapping.path.rsplit('/').next().is_some_and(|file| is_named(file, name));
        if is_wanted && found.iter().all(|known| known.file != mapping.file) {
            found.push(mapping);
        }
    }
    found
}

/// The path of a mapped file. The kernel prints paths from our own root, or, of another mount
/// namespace, from that one's.
fn located(pid: u32, root: &Root, mapping: &Mapping<'_>) -> Option<PathBuf> {
    let itself = || PathBuf::from(format!("/proc/{pid}/map_files/{}", mapping.range));
    if mapping.path.ends_with(MARK) {
        return Some(itself());
    }
    let from = if root.is_elsewhere { root } else { &Root::own() };
    let is_it = |path: &PathBuf| identity(path).is_ok_and(|(_, inode)| inode.to_string() == mapping.file.1);
    let shown = from.canonical(mapping.path).ok();
    // Some file systems show another inode, so what has the path is better than nothing.
    let path = shown.clone().filter(is_it);
    path.or_else(|| Some(itself()).filter(|path| path.exists())).or(shown)
}

fn mapping(line: &str) -> Option<Mapping<'_>> {
    let path = &line[line.find('/')?..];
    let mut fields = line.split(' ');
    let (range, permissions, _offset) = (fields.next()?, fields.next()?, fields.next()?);
    let file = (fields.next()?, fields.next()?);
    Some(Mapping { range, file, path, is_code: permissions.contains('x') })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Files, Mapping, mapping, mappings_named, of_all, of_process};

    #[test]
    fn only_mappings_of_files_count() {
        let code = mapping("7f01-7f02 r-xp 00001000 08:01 11         /opt/my app (deleted)");
        let path = "/opt/my app (deleted)";
        assert_eq!(code, Some(Mapping { range: "7f01-7f02", file: ("08:01", "11"), path, is_code: true }));
        assert!(mapping("7f00-7f01 r--p 00000000 08:01 11 /lib/x").is_some_and(|mapping| !mapping.is_code));
        for other in ["7f07-7f08 r-xp 0 00:00 0 [vdso]", "", "/"] {
            assert_eq!(mapping(other), None, "{other}");
        }
    }

    #[test]
    fn reads_maps() {
        let maps = "7f00-7f01 r--p 00000000 08:01 11 /usr/lib/libc.so.6\n7f01-7f02 r-xp 00001000 08:01 11 /usr/lib/libc.so.6\n\
                    7f03-7f04 rw-p 00000000 00:00 0\n7ffd-7ffe r-xp 00000000 00:00 0 [vdso]\n5500-5501 r-xp 0 08:01 12 /opt/my app\n";
        let paths = |name| mappings_named(maps, name).iter().map(|mapping| mapping.path).collect::<Vec<_>>();
        assert_eq!((paths("libc"), paths("my app")), (vec!["/usr/lib/libc.so.6"], vec!["/opt/my app"]));
    }

    #[test]
    fn a_path_that_ends_with_its_process_is_replaced_by_one_that_stays() {
        let own = std::env::current_exe().and_then(std::fs::canonicalize).expect("a path");
        let mut files = Files::default();
        files.add(std::process::id());
        let at = files.paths.iter().position(|path| *path == own).expect("this program");
        let count = files.paths.len();
        files.paths[at] = PathBuf::from("/proc/4194305/root").join(own.strip_prefix("/").expect("absolute"));
        files.add(std::process::id());
        assert_eq!((&files.paths[at], files.paths.len()), (&own, count));
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
