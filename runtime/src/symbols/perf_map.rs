//! Names of JIT-generated code, which runtimes write to `/tmp/perf-PID.map`.
//!
//! In: a process. Out: names of addresses.
//! Guarantee: only a regular file owned by the user of the process or by root is read, a symbolic
//! link as its last path component is not followed, and its size is limited: anyone may write to
//! `/tmp`.

use std::collections::HashMap;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::host::bounded::open_regular_no_link;
use crate::host::budget::Reserved;
use crate::host::demangle::MAX_NAME_BYTES;

use super::generated::Writer;
use super::image::NamedAddress;

/// Limit in bytes per file. The file of a large Java server has about 20 million bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Limit of functions per file.
const MAX_FUNCTIONS: usize = 1 << 20;
/// What a function takes in the table, and while that is made.
const FUNCTION_BYTES: usize = 4 * size_of::<Function>();

/// The functions of a file.
#[derive(Debug, Default)]
pub struct PerfMap {
    text: Vec<u8>,
    /// Sorted by address; of several at one address only the last in the file.
    functions: Vec<Function>,
    /// Whether the file exceeds a limit.
    pub is_cut: bool,
    _reserved: Reserved,
}

#[derive(Debug, Clone, Copy)]
struct Function {
    start: u64,
    size_bytes: u64,
    name: (u32, u32),
}

/// Identity of the file, and how far it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    inode: u64,
    size_bytes: u64,
    changed: (i64, i64),
}

/// Result of opening a process's perf map.
#[derive(Debug)]
pub(super) enum Opened {
    /// There is no file.
    None,
    /// There is a file, but it cannot be trusted.
    Refused,
    /// The file is unchanged since it was last read.
    Same,
    /// The parsed file.
    Read(Version, PerfMap),
}

/// Reads the perf map of a process unless it is still the `known` version. The path is resolved in
/// the mount namespace of the process, with the PID as the process sees it.
pub(super) fn open(pid: u32, writer: Writer, known: Option<Version>) -> (String, Opened) {
    let name = format!("/tmp/perf-{}.map", writer.own_pid);
    let opened = read(Path::new(&format!("/proc/{pid}/root{name}")), &[writer.user], known, None);
    (name, opened)
}

/// Reads the perf map of a process that has ended, if it was written since a moment, in seconds
/// since 1970, and belongs to root or to one of `users`.
pub(super) fn open_of_ended(pid: u32, users: &[u32], since: i64) -> (String, Opened) {
    let name = format!("/tmp/perf-{pid}.map");
    let opened = read(Path::new(&name), users, None, Some(since));
    (name, opened)
}

fn read(path: &Path, users: &[u32], known: Option<Version>, since: Option<i64>) -> Opened {
    let file = match open_regular_no_link(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Opened::None,
        Err(_) => return Opened::Refused,
    };
    let Ok(meta) = file.metadata() else { return Opened::Refused };
    if meta.uid() != 0 && !users.contains(&meta.uid()) {
        return Opened::Refused;
    }
    if since.is_some_and(|since| meta.mtime() < since) {
        return Opened::None;
    }
    let changed = (meta.mtime(), meta.mtime_nsec());
    let version = Version { inode: meta.ino(), size_bytes: meta.len(), changed };
    if known == Some(version) {
        return Opened::Same;
    }
    let size_bytes = meta.len().min(MAX_FILE_BYTES) as usize;
    let Some(reserved) = Reserved::new(size_bytes) else {
        return Opened::Read(version, PerfMap { is_cut: true, ..PerfMap::default() });
    };
    let mut text = Vec::with_capacity(size_bytes);
    match file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text) {
        Ok(_) => Opened::Read(version, PerfMap::parse_within(text, reserved)),
        Err(_) => Opened::Refused,
    }
}

impl PerfMap {
    /// Parses lines of `START SIZE NAME` with hexadecimal numbers. Other lines are skipped.
    pub fn parse(text: Vec<u8>) -> PerfMap {
        PerfMap::parse_within(text, Reserved::default())
    }

    /// `reserved` is the memory of the text; that of functions is added.
    fn parse_within(mut text: Vec<u8>, mut reserved: Reserved) -> PerfMap {
        let mut is_cut = text.len() as u64 > MAX_FILE_BYTES;
        text.truncate(MAX_FILE_BYTES as usize);
        let mut latest: HashMap<u64, Function> = HashMap::new();
        let mut at = 0;
        for line in text.split(|byte| *byte == b'\n') {
            let start = at;
            at += line.len() + 1;
            let Some((function, name)) = function(line) else { continue };
            let is_new = !latest.contains_key(&function.start);
            if is_new && (latest.len() == MAX_FUNCTIONS || !reserved.grow(FUNCTION_BYTES)) {
                is_cut = true;
                continue;
            }
            let length = name.len().min(MAX_NAME_BYTES + 1);
            let from = start + (name.as_ptr() as usize - line.as_ptr() as usize);
            let function = Function { name: (from as u32, length as u32), ..function };
            latest.insert(function.start, function);
        }
        let mut functions: Vec<Function> = latest.into_values().collect();
        functions.sort_unstable_by_key(|function| function.start);
        PerfMap { text, functions, is_cut, _reserved: reserved }
    }

    /// The function that contains an address.
    pub fn find(&self, address: u64) -> Option<NamedAddress<'_>> {
        let end = self.functions.partition_point(|function| function.start <= address);
        let function = self.functions.get(end.checked_sub(1)?)?;
        let offset = address - function.start;
        let (from, length) = (function.name.0 as usize, function.name.1 as usize);
        let name = self.text.get(from..from + length)?;
        (offset < function.size_bytes || offset == 0).then_some(NamedAddress { name: name.into(), offset })
    }

    /// Approximate memory use in bytes.
    pub fn size_bytes(&self) -> usize {
        self.text.len() + self.functions.len() * size_of::<Function>()
    }
}

fn function(line: &[u8]) -> Option<(Function, &[u8])> {
    let mut fields = line.splitn(3, u8::is_ascii_whitespace);
    let mut hex = || u64::from_str_radix(std::str::from_utf8(fields.next()?).ok()?.trim_start_matches("0x"), 16).ok();
    let (start, size_bytes) = (hex()?, hex()?);
    let name = fields.next()?.trim_ascii();
    (!name.is_empty()).then_some((Function { start, size_bytes, name: (0, 0) }, name))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{OpenOptionsExt as _, chown, symlink};
    use std::process::Command;

    use super::*;

    #[test]
    fn the_last_line_of_an_address_counts() {
        let text = b"10 8 first\n20 8 a name\r\n10 10 second\nno line\n30 zz bad\n40 0 bare\n50 8 \n".to_vec();
        let map = PerfMap::parse(text);
        let name = |address| {
            map.find(address).map(|found| format!("{}+{}", String::from_utf8_lossy(&found.name), found.offset))
        };
        for (address, expected) in [
            (0x0f, None),
            (0x1f, Some("second+15")),
            (0x27, Some("a name+7")),
            (0x28, None),
            (0x40, Some("bare+0")),
            (0x41, None),
            (0x50, None),
        ] {
            assert_eq!(name(address).as_deref(), expected, "{address:#x}");
        }
    }

    #[test]
    fn only_files_of_the_user_or_root_are_read() {
        let directory = std::env::temp_dir().join(format!("profiler-maps-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let path = |name: &str| directory.join(name);
        let write = |name: &str| {
            fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(path(name))
                .expect("a file");
            fs::write(path(name), "10 8 f\n").expect("written");
        };
        write("own");
        symlink(path("own"), path("link")).expect("a link");
        let made = Command::new("mkfifo").arg(path("fifo")).status().is_ok_and(|status| status.success());
        let own = fs::metadata(path("own")).expect("it is there").uid();
        let Opened::Read(version, map) = read(&path("own"), &[own], None, None) else { panic!("not read") };
        assert!(map.find(0x10).is_some());
        assert!(matches!(read(&path("own"), &[own], Some(version), None), Opened::Same));
        assert!(matches!(read(&path("own"), &[own], None, Some(i64::MAX)), Opened::None), "of another time");
        assert!(matches!(read(&path("own"), &[own], None, Some(0)), Opened::Read(..)));
        assert!(matches!(read(&path("link"), &[own], None, None), Opened::Refused));
        assert!(!made || matches!(read(&path("fifo"), &[own], None, None), Opened::Refused));
        assert!(matches!(read(&path("none"), &[own], None, None), Opened::None));
        assert!(matches!(read(&directory, &[own], None, None), Opened::Refused));
        write("other");
        match chown(path("other"), Some(65534), None) {
            Ok(()) => assert!(matches!(read(&path("other"), &[own], None, None), Opened::Refused)),
            Err(error) => println!("SKIPPED: chown: {error}"),
        }
        fs::remove_dir_all(directory).expect("our own directory");
    }
}
