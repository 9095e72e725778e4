//! Separate debug files: debug information and symbols that were stripped from a program.
//!
//! In: what a mapped file says about its debug file. Out: the debug file.
//! Guarantee: a debug file has the build id, or the checksum, that the program states. Only regular
//! files are read. Nothing is fetched from a network.

use std::env;
use std::ffi::OsString;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};

use profiler_model::crc32::Crc32;

use super::bounded::{Bounded, InSteps, MAX_TABLE_BYTES, open_regular};
use super::debug_sections::{DebugLink, DebugSections};

/// Where distributions install debug files.
const SYSTEM: &str = "/usr/lib/debug";
/// Limit of a file whose checksum is computed, in bytes.
const MAX_CHECKED_BYTES: u64 = 1 << 30;
/// Bytes read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// A mapped file, for finding its debug file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program<'a> {
    /// Its path in the mount namespace of its process.
    pub path: &'a Path,
    /// Where that namespace is reached: `/proc/PID/root`, or `/`.
    pub root: &'a Path,
}

/// Finds debug files.
#[derive(Debug)]
pub(crate) struct Search {
    /// debuginfod's cache.
    cache: Option<PathBuf>,
}

impl Search {
    /// A search in the places of this machine.
    pub(crate) fn new() -> Search {
        Search { cache: cache(|name| env::var_os(name)) }
    }

    /// The path of the debug file of a program, and what the file contains.
    pub(crate) fn find(&self, program: Program<'_>, sections: &DebugSections) -> Option<(PathBuf, DebugSections)> {
        self.by_build_id(program, &sections.build_id).or_else(|| by_link(program, sections.link.as_ref()?))
    }

    fn by_build_id(&self, program: Program<'_>, id: &[u8]) -> Option<(PathBuf, DebugSections)> {
        let id_in_hex = hex(id);
        let (first, rest) = id_in_hex.split_at_checked(2)?;
        let installed = format!("{SYSTEM}/.build-id/{first}/{rest}.debug");
        let mut candidates = vec![PathBuf::from(&installed)];
        // The process may be in a container with debug files of its own.
        candidates.extend(in_root(program.root, Path::new(&installed)));
        candidates.extend(self.cache.as_ref().map(|cache| cache.join(&id_in_hex).join("debuginfo")));
        candidates.into_iter().find_map(|path| {
            let sections = sections_of(&path)?;
            (sections.build_id == id && is_useful(&sections)).then_some((path, sections))
        })
    }
}

fn by_link(program: Program<'_>, link: &DebugLink) -> Option<(PathBuf, DebugSections)> {
    let directory = program.path.parent()?;
    let system = Path::new(SYSTEM).join(directory.strip_prefix("/").ok()?);
    [directory.to_path_buf(), directory.join(".debug"), system].into_iter().find_map(|directory| {
        let path = directory.join(&link.name);
        // The link of a debug file is its own name.
        if path == program.path {
            return None;
        }
        let path = in_root(program.root, &path).unwrap_or(path);
        let sections = sections_of(&path).filter(is_useful)?;
        let file = InSteps(open_regular(&path).ok()?);
        (checksum(file)? == link.checksum).then_some((path, sections))
    })
}

fn sections_of(path: &Path) -> Option<DebugSections> {
    DebugSections::parse(&Bounded::new(InSteps(open_regular(path).ok()?), MAX_TABLE_BYTES))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn is_useful(sections: &DebugSections) -> bool {
    sections.has_lines() || sections.has_symbols
}

/// A path in another mount namespace; `None` for our own.
fn in_root(root: &Path, path: &Path) -> Option<PathBuf> {
    (root != Path::new("/")).then(|| root.join(path.strip_prefix("/").unwrap_or(path)))
}

/// The directory where debuginfod's clients keep what they have fetched.
fn cache(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let client = |directory: PathBuf| directory.join("debuginfod_client");
    set("DEBUGINFOD_CACHE_PATH")
        .or_else(|| set("XDG_CACHE_HOME").map(client))
        .or_else(|| set("HOME").map(|home| client(home.join(".cache"))))
}

/// The CRC-32 of a file, as in `.gnu_debuglink`; `None` if it cannot be read or is too large.
fn checksum(mut file: InSteps) -> Option<u32> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let (mut sum, mut total) = (Crc32::default(), 0);
    file.rewind().ok()?;
    loop {
        let length = file.read(&mut chunk).ok()?;
        total += length as u64;
        if length == 0 || total > MAX_CHECKED_BYTES {
            return (length == 0).then(|| sum.sum());
        }
        sum.add(chunk.get(..length)?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_debuginfod_has_it() {
        let of = |set: &[(&str, &str)]| {
            let found = |name: &str| set.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into());
            cache(found).map(|path| path.display().to_string())
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("HOME", "/home/a")]).as_deref(), Some("/home/a/.cache/debuginfod_client"));
        assert_eq!(of(&[("HOME", "/home/a"), ("XDG_CACHE_HOME", "/x")]).as_deref(), Some("/x/debuginfod_client"));
        assert_eq!(of(&[("HOME", "/a"), ("DEBUGINFOD_CACHE_PATH", "/y")]).as_deref(), Some("/y"));
    }

    #[test]
    fn paths_stay_in_the_namespace_of_the_process() {
        assert_eq!(in_root(Path::new("/"), Path::new("/usr/x")), None);
        assert_eq!(in_root(Path::new("/proc/7/root"), Path::new("/usr/x")), Some("/proc/7/root/usr/x".into()));
    }
}
