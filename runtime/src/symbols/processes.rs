//! Where processes had which files mapped, for addresses that are named after they have ended.
//!
//! In: the kernel's records of processes (`perf_event_open(2)`: MMAP2, COMM, FORK and EXIT, with a time at the end), and lines
//! of `/proc/PID/maps` for processes that were there before. Out: the file and the place in it of an address.
//! Guarantee: records may come in any order; what is remembered is bounded, and of processes that have ended the earliest goes first.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Most processes that are remembered.
const MAX_PROCESSES: usize = 1 << 12;

/// Numbers of `enum perf_event_type`.
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
/// `PERF_RECORD_MISC_COMM_EXEC`: the name changed because another program runs.
const BY_EXEC: u16 = 1 << 13;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePlace {
    /// The file, as the process saw it.
    pub path: Arc<str>,
    /// Its number, which tells it from another one at the same path.
    pub inode: u64,
    /// Bytes from its beginning.
    pub offset: u64,
}

#[derive(Debug, Clone)]
struct Mapping {
    start: u64,
    end: u64,
    time: u64,
    file: FilePlace,
}

#[derive(Debug, Clone, Default)]
struct Process {
    /// When its program began; what was mapped before belonged to another one.
    began: u64,
    /// Nothing was mapped before we looked or listened.
    is_whole: bool,
    has_ended: bool,
    mappings: Vec<Mapping>,
}

/// The processes seen so far.
#[derive(Debug, Default)]
pub(super) struct Processes {
    known: HashMap<u32, Process>,
    ended: VecDeque<u32>,
    paths: HashSet<Arc<str>>,
}

impl Processes {
    /// Whether all that a process has mapped is known.
    pub fn knows(&self, pid: u32) -> bool {
        self.known.get(&pid).is_some_and(|process| process.is_whole)
    }

    /// Where an address of a process is, or was when it ended.
    pub fn find(&self, pid: u32, address: u64) -> Option<FilePlace> {
        let process = self.known.get(&pid)?;
        let holds =
            |mapping: &&Mapping| mapping.time >= process.began && (mapping.start..mapping.end).contains(&address);
        // The latest hides what was there before.
        let mapping = process.mappings.iter().filter(holds).max_by_key(|mapping| mapping.time)?;
        let offset = address - mapping.start + mapping.file.offset;
        Some(FilePlace { offset, ..mapping.file.clone() })
    }

    /// Takes what `/proc/PID/maps` has.
    pub fn add_maps(&mut self, pid: u32, maps: &str) {
        for mapped in maps.lines().filter_map(executable) {
            self.map(pid, 0, mapped);
        }
        self.make_room(pid);
        self.known.entry(pid).or_default().is_whole = true;
    }

    /// Takes a record; `parent` is asked for the mappings of a process that had a child and is not known.
    pub fn add(&mut self, record: &[u8], parent: &mut dyn FnMut(u32) -> Option<String>) {
        let Some(Header { kind, misc, time }) = Header::of(record) else { return };
        let (Some(pid), Some(second)) = (word(record, 8), word(record, 12)) else { return };
        match kind {
            MMAP2 => self.mapped(pid, time, record),
            COMM if misc & BY_EXEC != 0 => {
                let process = self.known.entry(pid).or_default();
                process.is_whole = true;
                process.began = process.began.max(time);
                process.mappings.retain(|mapping| mapping.time >= process.began);
            }
            // A thread has its process's memory.
            FORK if pid != second => self.forked(pid, second, parent),
            EXIT if word(record, 16) == Some(pid) => self.ended(pid),
            _ => {}
        }
    }

    /// ```text
    /// header 8 | pid, tid 4 | address, length, offset 8 | device 4 + 4 | inode, its generation 8 | protection, flags 4 | path
    /// ```
    fn mapped(&mut self, pid: u32, time: u64, record: &[u8]) {
        let numbers = (long(record, 16), long(record, 24), long(record, 32), long(record, 48));
        let (Some(start), Some(length), Some(offset), Some(inode)) = numbers else { return };
        let name = record.get(72..record.len() - 8).and_then(|name| name.split(|byte| *byte == 0).next());
        let Some(path) = name.and_then(|name| std::str::from_utf8(name).ok()).filter(|path| is_file(path)) else {
            return;
        };
        self.map(pid, time, Mapped { start, end: start.saturating_add(length), offset, inode, path });
    }

    fn map(&mut self, pid: u32, time: u64, mapped: Mapped<'_>) {
        let Mapped { start, end, offset, inode, path } = mapped;
        let path = match self.paths.get(path) {
            Some(path) => Arc::clone(path),
            None => {
                let path: Arc<str> = path.into();
                self.paths.insert(Arc::clone(&path));
                path
            }
        };
        self.make_room(pid);
        let process = self.known.entry(pid).or_default();
        process.mappings.retain(|mapping| (mapping.start, mapping.end) != (start, end) || mapping.time > time);
        process.mappings.push(Mapping { start, end, time, file: FilePlace { path, inode, offset } });
    }

    fn forked(&mut self, pid: u32, parent: u32, maps: &mut dyn FnMut(u32) -> Option<String>) {
        if !self.knows(parent)
            && let Some(text) = maps(parent)
        {
            self.add_maps(parent, &text);
        }
        self.make_room(pid);
        // What the child did already may have come first.
        let own = self.known.remove(&pid).filter(|process| !process.has_ended).unwrap_or_default();
        let mut child = self.known.get(&parent).cloned().unwrap_or_default();
        child.has_ended = false;
        child.is_whole |= own.is_whole;
        child.began = child.began.max(own.began);
        child.mappings.extend(own.mappings);
        child.mappings.retain(|mapping| mapping.time >= child.began);
        self.known.insert(pid, child);
    }

    fn ended(&mut self, pid: u32) {
        if let Some(process) = self.known.get_mut(&pid).filter(|process| !process.has_ended) {
            process.has_ended = true;
            self.ended.push_back(pid);
        }
    }

    /// Forgets whoever ended first when there are too many.
    fn make_room(&mut self, pid: u32) {
        while self.known.len() >= MAX_PROCESSES && !self.known.contains_key(&pid) {
            let Some(first) = self.ended.pop_front() else { return };
            // Another process may have its number by now.
            if self.known.get(&first).is_some_and(|process| process.has_ended) {
                self.known.remove(&first);
            }
        }
        if self.paths.len() > 8 * MAX_PROCESSES {
            self.paths.clear();
        }
    }
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

/// Code of a file in memory.
#[derive(Clone, Copy)]
struct Mapped<'a> {
    start: u64,
    end: u64,
    offset: u64,
    inode: u64,
    path: &'a str,
}

/// `start-end r-xp offset device inode path`: what runs code of a file.
fn executable(line: &str) -> Option<Mapped<'_>> {
    let mut fields = line.splitn(6, ' ');
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = fields.next()?.split_once('-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    fields.next().filter(|rights| rights.contains('x'))?;
    let offset = hex(fields.next()?)?;
    let inode = fields.nth(1)?.parse().ok()?;
    let path = fields.next()?.trim_start();
    is_file(path).then_some(Mapped { start, end, offset, inode, path })
}

/// Not `[vdso]`, not `//anon`.
fn is_file(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("//")
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
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
        let found = seen(&[exec(7, 1), mmap(7, 0x40_0000, "/bin/ls", 2), mmap(7, 0x50_0000, "//anon", 3), exit(7, 4)]);
        assert_eq!(path(&found, 7, 0x40_0010).as_deref(), Some("/bin/ls+210"));
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
        assert_eq!((path(&found, 8, 0x2001), path(&found, 8, 0x7001)), (None, None));
        found.add(&exec(8, 2), &mut |_| None);
        assert_eq!((path(&found, 8, 0x1001), path(&found, 5, 0x1001).is_some()), (None, true));
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
    fn records_that_are_cut_off_are_passed_over() {
        for whole in [mmap(7, 0x1000, "/bin/ls", 2), exec(7, 1), fork(7, 1, 1), exit(7, 3)] {
            for length in 0..whole.len() {
                seen(&[whole[..length].to_vec()]);
            }
        }
    }
}
