//! File mappings of processes over time, for resolving addresses after a process has ended.
//!
//! In: the kernel's process records (`perf_event_open(2)`: MMAP2, COMM, FORK, EXIT and LOST, with a
//! time at the end), and lines of `/proc/PID/maps` for processes that started earlier. Out: the
//! file and file offset of an address.
//! Guarantee: records may arrive in any order. Memory is bounded, whatever processes map and
//! however long their paths are; the processes that ended first are forgotten first. The cost of a
//! record does not grow with the number of remembered mappings.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use profiler_model::value::FileId;

use super::generated::is_dump_path;
use super::naming::VDSO;
use super::regions::Regions;
use super::words::{long, word};

/// Limit of remembered processes.
const MAX_PROCESSES: usize = 1 << 15;
/// Limit of code mappings of one process; above it, the older half is dropped. Large programs with
/// hundreds of libraries have a few hundred.
const MAX_MAPPINGS: usize = 1 << 11;
/// Limit in bytes of all mappings and their paths.
const MAX_BYTES: usize = 64 << 20;
/// Total memory use is recomputed each time this many bytes have been added.
const COUNTED_EVERY_BYTES: usize = 8 << 20;

/// Values of `enum perf_event_type`.
pub(crate) const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
/// `PERF_RECORD_MISC_COMM_EXEC`: the name changed because of an `exec`.
const BY_EXEC: u16 = 1 << 13;

/// A position in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePlace {
    /// Path of the file, as the process saw it, or `[vdso]`.
    pub path: Arc<str>,
    /// Distinguishes it from another file at the same path.
    pub file: FileId,
    /// Offset in bytes from the start of the file.
    pub offset: u64,
}

#[derive(Debug, Clone)]
struct Mapping {
    end: u64,
    time: u64,
    file: FilePlace,
}

/// Mappings by start address; they do not overlap.
type Mappings = BTreeMap<u64, Mapping>;

#[derive(Debug, Clone, Default)]
struct Process {
    /// When its current program started.
    began: u64,
    /// Whether all its mappings are known: it was recorded since its `exec`, or `/proc/PID/maps`
    /// was read.
    is_whole: bool,
    /// When it ended.
    ended: Option<u64>,
    /// Children share the mappings of their parents until either changes them.
    mappings: Arc<Mappings>,
    /// Mappings of the program before the last `exec`: its addresses may still be in results.
    earlier: Arc<Mappings>,
}

/// All processes seen so far.
#[derive(Debug, Default)]
pub(super) struct Processes {
    known: HashMap<u32, Process>,
    ended: VecDeque<u32>,
    paths: HashSet<Arc<str>>,
    /// Bytes added since memory use was last recomputed.
    added_bytes: usize,
    /// Records dropped because the kernel's buffer was full.
    pub lost: u64,
}

impl Processes {
    /// Whether all mappings of a process are known.
    pub(super) fn knows(&self, pid: u32) -> bool {
        self.known.get(&pid).is_some_and(|process| process.is_whole)
    }

    /// The file position of an address of a process, or the position when it ended or ran another
    /// program.
    pub(super) fn find(&self, pid: u32, address: u64) -> Option<FilePlace> {
        let process = self.known.get(&pid)?;
        [&process.mappings, &process.earlier].into_iter().find_map(|mappings| {
            let (start, mapping) = mappings.range(..=address).next_back()?;
            let offset = (address - start).checked_add(mapping.file.offset)?;
            (address < mapping.end).then(|| FilePlace { offset, ..mapping.file.clone() })
        })
    }

    /// The jitdump that a process has mapped, or had when it ended or ran another program.
    pub(super) fn dump(&self, pid: u32) -> Option<FilePlace> {
        let process = self.known.get(&pid)?;
        let mappings = [&process.mappings, &process.earlier].into_iter().flat_map(|mappings| mappings.values());
        mappings.map(|mapping| &mapping.file).find(|file| is_dump_path(&file.path)).cloned()
    }

    /// Adds the mappings of `/proc/PID/maps`.
    pub(super) fn add_maps(&mut self, pid: u32, maps: &str) {
        for region in Regions::parse(maps).iter().filter(|region| region.is_code && is_recorded(region.path)) {
            let (start, end, offset) = (region.start, region.end, region.offset);
            self.map(pid, 0, Mapped { start, end, offset, file: region.file, path: region.path });
        }
        if self.has_room(pid) {
            self.known.entry(pid).or_default().is_whole = true;
        }
    }

    /// Adds a record. `parent` returns the mappings of an unknown process that forked.
    pub(super) fn add(&mut self, record: &[u8], parent: &mut dyn FnMut(u32) -> Option<String>) {
        let Some(Header { kind, misc, time }) = Header::of(record) else { return };
        let (Some(pid), Some(second)) = (word(record, 8), word(record, 12)) else { return };
        match kind {
            MMAP2 => {
                if let Some(mapped) = Mapped::of(record) {
                    self.map(pid, time, mapped);
                }
            }
            COMM if misc & BY_EXEC != 0 => self.began(pid, time),
            // A thread shares the memory of its process.
            FORK if pid != second => self.forked(pid, second, time, parent),
            EXIT if word(record, 16) == Some(pid) => self.ended(pid, time),
            // header 8 | event 8 | count 8
            LOST => self.lost += long(record, 16).unwrap_or(0),
            _ => {}
        }
    }

    fn map(&mut self, pid: u32, time: u64, mapped: Mapped<'_>) {
        let Mapped { start, end, offset, file, path } = mapped;
        if start >= end || !self.has_room(pid) {
            return;
        }
        let path = match self.paths.get(path) {
            Some(path) => Arc::clone(path),
            None => {
                let path: Arc<str> = path.into();
                self.paths.insert(Arc::clone(&path));
                path
            }
        };
        self.added_bytes += size_bytes(&path);
        let process = self.known.entry(pid).or_default();
        let is_earlier = time < process.began && process.began > 0 && time > 0;
        let mappings = Arc::make_mut(if is_earlier { &mut process.earlier } else { &mut process.mappings });
        insert(mappings, start, Mapping { end, time, file: FilePlace { path, file, offset } });
        if self.added_bytes > COUNTED_EVERY_BYTES {
            self.count_again();
        }
    }

    fn began(&mut self, pid: u32, time: u64) {
        if !self.has_room(pid) {
            return;
        }
        let process = self.known.entry(pid).or_default();
        process.is_whole = true;
        if time <= process.began {
            return;
        }
        process.began = time;
        let (new, old) = std::mem::take(&mut process.mappings).iter().fold(
            (Mappings::new(), Mappings::new()),
            |(mut new, mut old), (start, mapping)| {
                let into = if mapping.time >= time { &mut new } else { &mut old };
                into.insert(*start, mapping.clone());
                (new, old)
            },
        );
        (process.mappings, process.earlier) = (Arc::new(new), Arc::new(old));
    }

    fn forked(&mut self, pid: u32, parent: u32, time: u64, maps: &mut dyn FnMut(u32) -> Option<String>) {
        if !self.knows(parent)
            && let Some(text) = maps(parent)
        {
            self.add_maps(parent, &text);
        }
        if !self.has_room(pid) {
            return;
        }
        let mut child = self.known.get(&parent).cloned().unwrap_or_default();
        child.ended = None;
        // Records of the child may have arrived first, even that of its end. A process that ended
        // before the fork had the same PID and is another one.
        if let Some(own) = self.known.remove(&pid).filter(|own| own.ended.is_none_or(|ended| ended >= time)) {
            child.ended = own.ended;
            child.is_whole |= own.is_whole;
            if own.began > child.began {
                child.earlier = std::mem::replace(&mut child.mappings, own.mappings);
                child.began = own.began;
            } else {
                let mappings = Arc::make_mut(&mut child.mappings);
                own.mappings.iter().for_each(|(start, mapping)| insert(mappings, *start, mapping.clone()));
            }
        }
        self.known.insert(pid, child);
    }

    fn ended(&mut self, pid: u32, time: u64) {
        if let Some(process) = self.known.get_mut(&pid).filter(|process| process.ended.is_none()) {
            process.ended = Some(time);
            self.ended.push_back(pid);
        }
    }

    /// Whether a process can be remembered; when there are too many, forgets the one that ended
    /// first.
    fn has_room(&mut self, pid: u32) -> bool {
        while self.known.len() >= MAX_PROCESSES && !self.known.contains_key(&pid) {
            let Some(first) = self.ended.pop_front() else { return false };
            self.forget(first);
        }
        true
    }

    fn forget(&mut self, pid: u32) {
        // The number may have been reused by another process.
        if self.known.get(&pid).is_some_and(|process| process.ended.is_some()) {
            self.known.remove(&pid);
        }
    }

    /// Recomputes memory use and forgets what exceeds the limit.
    fn count_again(&mut self) {
        self.added_bytes = 0;
        // Paths that are referenced only from here.
        self.paths.retain(|path| Arc::strong_count(path) > 1);
        let of = |mappings: &Mappings| mappings.values().map(|mapping| size_bytes(&mapping.file.path)).sum::<usize>();
        let of_process = |process: &Process| of(&process.mappings) + of(&process.earlier);
        let mut sizes: Vec<(usize, u32)> =
            self.known.iter().map(|(pid, process)| (of_process(process), *pid)).collect();
        let mut bytes: usize = sizes.iter().map(|(size, _)| size).sum();
        let mut ended = std::mem::take(&mut self.ended);
        while let Some(first) = ended.pop_front().filter(|_| bytes > MAX_BYTES) {
            bytes -= self.known.get(&first).filter(|process| process.ended.is_some()).map_or(0, of_process);
            self.forget(first);
        }
        self.ended = ended;
        // Then the largest processes.
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        for (size, pid) in sizes {
            let Some(process) = self.known.get_mut(&pid).filter(|_| bytes > MAX_BYTES) else { continue };
            *process = Process { began: process.began, ended: process.ended, ..Process::default() };
            bytes -= size;
        }
    }
}

/// Approximate memory use of a mapping in bytes.
fn size_bytes(path: &str) -> usize {
    size_of::<Mapping>() + 2 * size_of::<u64>() + path.len()
}

/// Adds a mapping; mappings that it overlaps are removed, unless they are newer.
fn insert(mappings: &mut Mappings, start: u64, mapping: Mapping) {
    let reached = mappings.range(..=start).next_back().filter(|(_, it)| it.end > start).map(|(start, _)| *start);
    let overlapped = mappings.range(reached.unwrap_or(start)..mapping.end);
    if overlapped.clone().any(|(_, it)| it.time > mapping.time) {
        return;
    }
    let gone: Vec<u64> = overlapped.map(|(start, _)| *start).collect();
    for start in gone {
        mappings.remove(&start);
    }
    if mappings.len() >= MAX_MAPPINGS {
        let mut times: Vec<u64> = mappings.values().map(|mapping| mapping.time).collect();
        times.sort_unstable();
        let middle = times[times.len() / 2];
        // Mappings present at the start have no time: half of them are dropped by address.
        let mut left = MAX_MAPPINGS / 2;
        mappings.retain(|_, mapping| {
            let stays = mapping.time >= middle && left > 0;
            left -= usize::from(stays);
            stays
        });
    }
    mappings.insert(start, mapping);
}

struct Header {
    kind: u32,
    misc: u16,
    time: u64,
}

impl Header {
    fn of(record: &[u8]) -> Option<Header> {
        let misc = u16::from_ne_bytes(record.get(4..6)?.try_into().ok()?);
        Some(Header { kind: word(record, 0)?, misc, time: long(record, record.len().checked_sub(8)?)? })
    }
}

/// A mapping of executable code from a file.
#[derive(Clone, Copy)]
/// A record of a mapping.
#[derive(Debug)]
pub(crate) struct Mapped<'a> {
    start: u64,
    end: u64,
    offset: u64,
    pub(crate) file: FileId,
    pub(crate) path: &'a str,
}

impl<'a> Mapped<'a> {
    /// A record of this kind; `None` if names cannot be found in what is mapped.
    ///
    /// ```text
    /// header 8 | pid, tid 4 | address, length, offset 8 | device 4 + 4 | inode, its generation 8 |
    /// protection, flags 4 | path | time 8
    /// ```
    pub(crate) fn of(record: &'a [u8]) -> Option<Mapped<'a>> {
        let (start, length, offset) = (long(record, 16)?, long(record, 24)?, long(record, 32)?);
        let (major, minor, inode) = (word(record, 40)?, word(record, 44)?, long(record, 48)?);
        let file = FileId { device: u64::from(major) << 32 | u64::from(minor), inode };
        let name = record.get(72..record.len().checked_sub(8)?)?.split(|byte| *byte == 0).next()?;
        let path = std::str::from_utf8(name).ok().filter(|path| is_recorded(path))?;
        Some(Mapped { start, end: start.saturating_add(length), offset, file, path })
    }
}

/// Whether names can be found: a file or the vDSO, but not `//anon`.
fn is_recorded(path: &str) -> bool {
    path == VDSO || path.starts_with('/') && !path.starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u16, body: &[u8], time: u64) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(misc.to_ne_bytes());
        bytes.extend((16 + body.len() as u16).to_ne_bytes());
        bytes.extend(body);
        bytes.extend(time.to_ne_bytes());
        bytes
    }

    fn words(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    fn mmap(pid: u32, start: u64, path: &str, time: u64) -> Vec<u8> {
        let mut body = words(&[pid, pid]);
        for number in [start, 0x1000, 0x200, 0, 77, 0, 0] {
            body.extend(u64::to_ne_bytes(number));
        }
        body.extend(path.as_bytes());
        body.resize(body.len().next_multiple_of(8) + 8, 0);
        record(MMAP2, 0, &body, time)
    }

    fn exec(pid: u32, time: u64) -> Vec<u8> {
        record(COMM, BY_EXEC, &[words(&[pid, pid]), b"ls\0\0\0\0\0\0".to_vec()].concat(), time)
    }

    fn fork(pid: u32, parent: u32, time: u64) -> Vec<u8> {
        record(FORK, 0, &words(&[pid, parent, pid, parent, 0, 0]), time)
    }

    fn exit(pid: u32, time: u64) -> Vec<u8> {
        record(EXIT, 0, &words(&[pid, 1, pid, 1, 0, 0]), time)
    }

    fn path(processes: &Processes, pid: u32, address: u64) -> Option<String> {
        processes.find(pid, address).map(|place| format!("{}+{:x}", place.path, place.offset))
    }

    fn seen(records: &[Vec<u8>]) -> Processes {
        let mut processes = Processes::default();
        for record in records {
            processes.add(record, &mut |_| None);
        }
        processes
    }

    #[test]
    fn a_process_that_has_ended_is_remembered() {
        let vdso = mmap(7, 0x60_0000, "[vdso]", 3);
        let anonymous = mmap(7, 0x50_0000, "//anon", 3);
        let found = seen(&[exec(7, 1), mmap(7, 0x40_0000, "/bin/ls", 2), anonymous, vdso, exit(7, 4)]);
        assert_eq!(path(&found, 7, 0x40_0010).as_deref(), Some("/bin/ls+210"));
        assert_eq!(path(&found, 7, 0x60_0010).as_deref(), Some("[vdso]+210"));
        assert_eq!(
            (path(&found, 7, 0x40_1000), path(&found, 7, 0x50_0000), path(&found, 8, 0x40_0010)),
            (None, None, None)
        );
    }

    #[test]
    fn a_new_program_forgets_the_old_ones_files_in_whatever_order_records_come() {
        let records =
            [mmap(7, 0x1000, "/bin/sh", 1), exec(7, 2), mmap(7, 0x1000, "/bin/ls", 3), mmap(7, 0x9000, "/lib/c", 4)];
        for turn in 0..4 {
            let mut records = records.to_vec();
            records.rotate_left(turn);
            let found = seen(&records);
            assert_eq!(path(&found, 7, 0x1000).as_deref(), Some("/bin/ls+200"), "{turn}");
            assert_eq!(path(&found, 7, 0x9001).as_deref(), Some("/lib/c+201"), "{turn}");
        }
    }

    #[test]
    fn a_child_has_its_parents_files_until_it_runs_a_program() {
        let mut found = Processes::default();
        let maps = "1000-2000 r-xp 00000300 08:01 12 /bin/my shell\n2000-3000 rw-p 0 08:01 12 /bin/my shell\n\
                    7000-8000 r-xp 00000000 00:00 0 [vdso]\n";
        found.add(&fork(8, 5, 1), &mut |pid| (pid == 5).then(|| maps.to_string()));
        assert_eq!(path(&found, 8, 0x1001).as_deref(), Some("/bin/my shell+301"));
        assert_eq!((path(&found, 8, 0x2001), path(&found, 8, 0x7001).as_deref()), (None, Some("[vdso]+1")));
        found.add(&exec(8, 2), &mut |_| None);
        assert_eq!(path(&found, 8, 0x1001).as_deref(), Some("/bin/my shell+301"), "it may have been taken before");
        found.add(&mmap(8, 0x1000, "/bin/ls", 3), &mut |_| None);
        assert_eq!(path(&found, 8, 0x1001).as_deref(), Some("/bin/ls+201"));
        found.add(&exec(8, 4), &mut |_| None);
        assert_eq!(path(&found, 8, 0x1001).as_deref(), Some("/bin/ls+201"));
        found.add(&exec(8, 5), &mut |_| None);
        assert_eq!((path(&found, 8, 0x1001), path(&found, 5, 0x1001).is_some()), (None, true));
    }

    #[test]
    fn a_process_that_ended_before_its_start_was_read_is_remembered() {
        let records = [fork(7, 5, 1), exec(7, 2), mmap(7, 0x1000, "/bin/ls", 3), exit(7, 4)];
        for turn in 0..4 {
            let mut records = records.to_vec();
            records.rotate_left(turn);
            assert_eq!(path(&seen(&records), 7, 0x1000).as_deref(), Some("/bin/ls+200"), "{turn}");
        }
        let before = [exec(7, 1), mmap(7, 0x1000, "/bin/cat", 2), exit(7, 3), fork(7, 5, 4)];
        assert_eq!(path(&seen(&before), 7, 0x1000), None, "the PID is used again");
    }

    #[test]
    fn memory_is_bounded_and_living_processes_stay() {
        let mut records = vec![mmap(1, 0x1000, "/sbin/init", 1)];
        for pid in 2..3 * MAX_PROCESSES as u32 {
            records.extend([mmap(pid, 0x1000, "/bin/ls", 2), exit(pid, 3)]);
        }
        let found = seen(&records);
        assert_eq!(found.known.len(), MAX_PROCESSES);
        assert!(found.find(1, 0x1000).is_some() && found.find(2, 0x1000).is_none());
    }

    #[test]
    fn a_process_that_maps_and_unmaps_takes_little() {
        let long = format!("/tmp/{}", "x".repeat(4000));
        let mut found = seen(&[mmap(1, 0x1000, "/sbin/init", 1)]);
        for step in 0..200_000_u64 {
            let path = format!("{long}{}", step % 50_000);
            found.add(&mmap(2 + step as u32 % 30, 0x10_0000 + (step << 12), &path, 2 + step), &mut |_| None);
        }
        let mappings: usize = found.known.values().map(|process| process.mappings.len()).sum();
        assert!(mappings * 4000 <= MAX_BYTES + COUNTED_EVERY_BYTES, "{mappings}");
        assert!(found.paths.len() * 4000 <= MAX_BYTES + COUNTED_EVERY_BYTES, "{}", found.paths.len());
        assert!(found.known.values().all(|process| process.mappings.len() <= MAX_MAPPINGS));
        assert!(found.find(1, 0x1000).is_some());
        let last = 199_999_u64;
        assert!(found.find(2 + last as u32 % 30, 0x10_0000 + (last << 12)).is_some(), "the latest is there");
    }

    #[test]
    fn a_mapping_over_another_replaces_it() {
        let mut found = Processes::default();
        for step in 0..100_000 {
            found.add(&mmap(7, 0x1000 + (step % 3) * 0x800, "/lib/a", step), &mut |_| None);
        }
        assert!(found.known[&7].mappings.len() <= 2);
    }

    #[test]
    fn what_the_kernel_had_no_room_for_is_counted() {
        let lost = |count: u64| record(LOST, 0, &[u64::to_ne_bytes(9), count.to_ne_bytes()].concat(), 5);
        assert_eq!(seen(&[lost(3), lost(40)]).lost, 43);
    }

    #[test]
    fn records_that_are_cut_off_are_passed_over() {
        for whole in [mmap(7, 0x1000, "/bin/ls", 2), exec(7, 1), fork(7, 1, 1), exit(7, 3)] {
            for length in 0..whole.len() {
                seen(&[whole[..length].to_vec()]);
            }
        }
    }
}
