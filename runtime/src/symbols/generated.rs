//! Names of the code that processes generate, from the files that runtimes write about it.
//!
//! In: a process, its mappings, an address. Out: the function, from the process's jitdump or its
//! perf map.
//! Guarantee: only regular files owned by the user of the process or by root are read, within
//! limits. Each file is opened once per question, and read as far as it has grown since. What is
//! kept is bounded.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::image::NamedAddress;
use super::jitdump::JitDump;
use super::naming::{Ended, open_mapped};
use super::perf_map::{self, Opened, PerfMap, Version};
use super::regions::{Region, Regions};
use crate::host::bounded::{InSteps, open_regular_no_link};
use crate::sys::account::effective_uid;

/// Limit in bytes of what is kept of all files; above it everything is dropped.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// A process, as it sees itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writer {
    /// Its PID in its own namespace.
    pub own_pid: u32,
    /// Its effective user, which owns the files that it creates.
    pub user: u32,
}

/// The files of all processes that were asked about.
#[derive(Debug)]
pub(super) struct Generated {
    processes: HashMap<u32, Files>,
    kept_bytes: usize,
    /// The process whose files have been read for the current question.
    fresh: Option<u32>,
    /// Files that are not trusted, since they were last taken.
    refused: u64,
    /// Files that exceed a limit, since they were last taken.
    large: u64,
}

/// The files of a process.
#[derive(Debug, Default)]
struct Files {
    perf_map: Option<(Version, PerfMap)>,
    perf_map_path: String,
    dump: Option<(DumpId, JitDump)>,
    dump_path: String,
}

/// Device and inode number.
type DumpId = (u64, u64);

/// A function of generated code.
#[derive(Debug)]
pub(super) struct GeneratedCode<'a> {
    pub name: NamedAddress<'a>,
    /// The file that names it, as its process sees it.
    pub path: &'a str,
}

impl Generated {
    /// Nothing is read yet.
    pub(super) fn new() -> Generated {
        Generated { processes: HashMap::new(), kept_bytes: 0, fresh: None, refused: 0, large: 0 }
    }

    /// Begins another question: files may have changed.
    pub(super) fn begin(&mut self) {
        self.fresh = None;
    }

    /// The number of files that were not trusted, and of files that exceed a limit.
    pub(super) fn take_counts(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.refused), std::mem::take(&mut self.large))
    }

    /// The function of a live process that contains an address. A jitdump is preferred: it says
    /// which code was replaced.
    pub(super) fn find(&mut self, pid: u32, regions: &Regions<'_>, address: u64) -> Option<GeneratedCode<'_>> {
        if self.fresh != Some(pid) {
            self.fresh = Some(pid);
            self.read(pid, regions);
        }
        self.named(pid, address)
    }

    /// The function of a process that has ended. Its jitdump is known by its recorded mapping,
    /// which was in our mount namespace. Its perf map counts if it was written while mappings were
    /// recorded, because another process may have had its PID before.
    pub(super) fn find_ended(&mut self, pid: u32, ended: &Ended, address: u64) -> Option<GeneratedCode<'_>> {
        if self.fresh != Some(pid) {
            self.fresh = Some(pid);
            let files = self.files_of_ended(pid, ended);
            self.keep(pid, files);
        }
        self.named(pid, address)
    }

    fn named(&self, pid: u32, address: u64) -> Option<GeneratedCode<'_>> {
        let files = self.processes.get(&pid)?;
        if let Some(name) = files.dump.as_ref().and_then(|(_, dump)| dump.find(address)) {
            return Some(GeneratedCode { name, path: &files.dump_path });
        }
        let name = files.perf_map.as_ref()?.1.find(address)?;
        Some(GeneratedCode { name, path: &files.perf_map_path })
    }

    fn read(&mut self, pid: u32, regions: &Regions<'_>) {
        let status = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        let own_pid = number(&status, "NStgid:", usize::MAX).unwrap_or(pid);
        // The second number is the effective user id.
        let Some(user) = number(&status, "Uid:", 1) else { return };
        let mut files = self.taken(pid);
        let writer = Writer { own_pid, user };
        self.read_perf_map(pid, writer, &mut files);
        self.read_dump(pid, writer, regions, &mut files);
        self.keep(pid, files);
    }

    fn taken(&mut self, pid: u32) -> Files {
        let files = self.processes.remove(&pid).unwrap_or_default();
        self.kept_bytes = self.kept_bytes.saturating_sub(files.size_bytes());
        files
    }

    fn keep(&mut self, pid: u32, files: Files) {
        self.kept_bytes += files.size_bytes();
        if self.kept_bytes > MAX_KEPT_BYTES {
            self.processes.clear();
            self.kept_bytes = files.size_bytes();
        }
        if files.perf_map.is_some() || files.dump.is_some() {
            self.processes.insert(pid, files);
        }
    }

    fn read_perf_map(&mut self, pid: u32, writer: Writer, files: &mut Files) {
        let known = files.perf_map.as_ref().map(|(version, _)| *version);
        let (path, opened) = perf_map::open(pid, writer, known);
        files.perf_map_path = path;
        match opened {
            Opened::None => files.perf_map = None,
            Opened::Refused => {
                self.refused += 1;
                files.perf_map = None;
            }
            Opened::Same => {}
            Opened::Read(version, map) => {
                self.large += u64::from(map.is_cut);
                files.perf_map = Some((version, map));
            }
        }
    }

    fn read_dump(&mut self, pid: u32, writer: Writer, regions: &Regions<'_>, files: &mut Files) {
        let Some(region) = regions.iter().find(|region| is_dump(region)) else {
            files.dump = None;
            return;
        };
        region.shown_path().clone_into(&mut files.dump_path);
        let known = files.dump.take();
        // A child inherits the mapping of its parent, which writes about its own code.
        let is_own = |(_, dump): &(DumpId, JitDump)| [writer.own_pid, pid].contains(&dump.pid());
        files.dump = self.opened_dump(open_mapped(pid, *region), &[writer.user], known).filter(is_own);
    }

    fn files_of_ended(&mut self, pid: u32, ended: &Ended) -> Files {
        let mut files = self.taken(pid);
        let users = &ended.users;
        if let Some((path, id)) = &ended.dump {
            let file = open_regular_no_link(Path::new(&**path)).ok();
            let file = file.filter(|file| file.metadata().is_ok_and(|meta| meta.ino() == id.inode));
            let dump = file.and_then(|file| self.opened_dump(Some(file), users, None));
            files.dump = dump.filter(|(_, dump)| dump.pid() == pid);
            files.dump_path = path.to_string();
        }
        let (path, opened) = perf_map::open_of_ended(pid, users, ended.began);
        if let Opened::Read(version, map) = opened {
            (files.perf_map, files.perf_map_path) = (Some((version, map)), path);
        }
        files
    }

    /// Reads a jitdump that belongs to root or to one of `users`, from where it was read before.
    fn opened_dump(
        &mut self,
        file: Option<File>,
        users: &[u32],
        known: Option<(DumpId, JitDump)>,
    ) -> Option<(DumpId, JitDump)> {
        let opened = file.and_then(|file| file.metadata().ok().map(|meta| (file, meta)));
        let is_trusted = |meta: &Metadata| meta.uid() == 0 || users.contains(&meta.uid());
        let Some((file, meta)) = opened.filter(|(_, meta)| is_trusted(meta)) else {
            self.refused += 1;
            return None;
        };
        let id = (meta.dev(), meta.ino());
        let is_same = |(known, dump): &(DumpId, JitDump)| *known == id && dump.read_bytes() <= meta.len();
        let (_, mut dump) = known.filter(is_same).unwrap_or_default();
        let was_cut = dump.is_cut;
        dump.read_on(InSteps(file), meta.len());
        self.large += u64::from(dump.is_cut && !was_cut);
        Some((id, dump))
    }
}

/// Who may own the files of a process that has ended, besides root: its user is not known any more.
/// Those whose processes we start are ours, and, under `sudo`, its caller.
pub(super) fn users_of_ended() -> Vec<u32> {
    let caller = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    caller.into_iter().chain([effective_uid()]).collect()
}

impl Files {
    fn size_bytes(&self) -> usize {
        self.perf_map.as_ref().map_or(0, |(_, map)| map.size_bytes())
            + self.dump.as_ref().map_or(0, |(_, dump)| dump.size_bytes())
    }
}

/// Whether a mapping is that of a jitdump. Runtimes map a page of it as code, so that tracers find
/// it.
fn is_dump(region: &Region<'_>) -> bool {
    region.is_code && region.is_file() && is_dump_path(region.shown_path())
}

/// Whether a file has the name of a jitdump.
pub(super) fn is_dump_path(path: &str) -> bool {
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let number = name.strip_prefix("jit-").and_then(|rest| rest.strip_suffix(".dump"));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// A number in a line of `/proc/PID/status`: the one at index `place`, or the last.
fn number(status: &str, label: &str, place: usize) -> Option<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix(label))?;
    let mut numbers = numbers.split_ascii_whitespace();
    match place {
        usize::MAX => numbers.next_back(),
        place => numbers.nth(place),
    }?
    .parse()
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_mappings_with_the_name_of_a_jitdump_count() {
        let maps = "1000-2000 r--p 0 08:01 12 /x/jit-7.dump\n2000-3000 r-xp 0 08:01 12 /x/jit-7.dump (deleted)\n\
                    3000-4000 r-xp 0 08:01 12 /x/jit-seven.dump\n4000-5000 r-xp 0 08:01 12 /x/jit-7.dump/y\n\
                    5000-6000 r-xp 0 00:00 0 jit-7.dump\n";
        let regions = Regions::parse(maps);
        let found: Vec<u64> = regions.iter().filter(|region| is_dump(region)).map(|region| region.start).collect();
        assert_eq!(found, [0x2000]);
    }
}
