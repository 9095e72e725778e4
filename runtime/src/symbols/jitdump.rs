//! Names of JIT-generated code, which runtimes write to a file `jit-PID.dump`.
//!
//! In: the bytes of the file, which grows while its process runs. Out: names of addresses.
//! Guarantee: what is read and kept is bounded; the machine code in the file is skipped. A damaged
//! record ends the reading, and what was read before remains. A record that is not complete yet is
//! read the next time, or now if only its machine code is missing: node writes through a buffer.
//!
//! The format is that of `tools/perf/Documentation/jitdump-specification.txt` in the kernel's
//! sources. Lines of source files (`JIT_CODE_DEBUG_INFO`) are not read: runtimes have them in
//! names.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Seek, SeekFrom};

use crate::host::budget::Reserved;
use crate::host::demangle::MAX_NAME_BYTES;

use super::image::NamedAddress;
use super::words::{long, word};

/// `JiTD`, in the byte order of the process.
const MAGIC: u32 = 0x4a69_5444;
/// Length in bytes of the head of a file: magic number, version, its own length, machine, padding,
/// PID (4 each), time and flags (8 each).
const HEAD_BYTES: u64 = 40;
/// Longest head; later versions may add fields.
const MAX_HEAD_BYTES: u64 = 4096;
/// Length in bytes of the head of a record: kind, length of the record (4 each), time (8).
const RECORD_BYTES: u64 = 16;
/// Limit of records read from one file.
const MAX_RECORDS: u32 = 1 << 20;
/// Limit in bytes of all names of a file.
const MAX_TEXT_BYTES: usize = 64 << 20;
/// What a function takes in the tree.
const FUNCTION_BYTES: usize = 2 * size_of::<Function>();
/// Bytes read at once: names are short, and the code after a name is skipped.
const CHUNK_BYTES: usize = 1 << 10;

/// Kinds of records.
const LOAD: u32 = 0;
const MOVE: u32 = 1;
const CLOSE: u32 = 3;

/// The functions of a file, as far as it has been read.
#[derive(Debug, Default)]
pub struct JitDump {
    text: Vec<u8>,
    /// By start address. They do not overlap: code replaces whatever was at its addresses.
    functions: BTreeMap<u64, Function>,
    /// The PID that its head states.
    pid: u32,
    /// Where the next record begins; 0 before the head was read.
    read_bytes: u64,
    records: u32,
    /// Where the record of a function begins that has been added before it was complete.
    added_early: Option<u64>,
    /// Nothing follows, or nothing that can be read.
    has_ended: bool,
    /// Whether the file exceeds a limit.
    pub is_cut: bool,
    reserved: Reserved,
}

#[derive(Debug, Clone, Copy)]
struct Function {
    end: u64,
    /// Number of the function in its process.
    index: u64,
    name: (u32, u32),
}

impl JitDump {
    /// Reads the records that were added since the last call. `size_bytes` is the size of the file.
    pub fn read_on(&mut self, source: impl Read + Seek, size_bytes: u64) {
        let mut source = BufReader::with_capacity(CHUNK_BYTES, source);
        if self.has_ended || source.seek(SeekFrom::Start(self.read_bytes)).is_err() {
            return;
        }
        if self.read_bytes == 0 {
            if size_bytes < HEAD_BYTES {
                return;
            }
            if self.head(&mut source).is_none() {
                self.has_ended = true;
                return;
            }
        }
        while !self.has_ended && size_bytes.saturating_sub(self.read_bytes) >= RECORD_BYTES {
            let Some(is_whole) = self.record(&mut source, size_bytes) else {
                self.has_ended = true;
                return;
            };
            if !is_whole {
                return;
            }
        }
    }

    /// The PID of the process that wrote the file, in its namespace; 0 if the file has no valid
    /// head.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How many bytes of the file have been read or skipped.
    pub(super) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// The function that contains an address.
    pub fn find(&self, address: u64) -> Option<NamedAddress<'_>> {
        let (start, function) = self.functions.range(..=address).next_back()?;
        let (from, length) = (function.name.0 as usize, function.name.1 as usize);
        let name = self.text.get(from..from + length)?;
        (address < function.end).then_some(NamedAddress { name: name.into(), offset: address - start })
    }

    /// Approximate memory use in bytes.
    pub fn size_bytes(&self) -> usize {
        self.text.capacity() + self.functions.len() * (size_of::<Function>() + 2 * size_of::<u64>())
    }

    fn head(&mut self, source: &mut impl Read) -> Option<()> {
        let head: [u8; HEAD_BYTES as usize] = bytes(source)?;
        let length = u64::from(word(&head, 8)?);
        if word(&head, 0)? != MAGIC || !(HEAD_BYTES..=MAX_HEAD_BYTES).contains(&length) {
            return None;
        }
        self.pid = word(&head, 20)?;
        skip(source, length - HEAD_BYTES)?;
        self.read_bytes = length;
        Some(())
    }

    /// Reads one record. `Some(false)` if it is not complete yet, `None` if it is damaged.
    fn record(&mut self, source: &mut (impl Read + Seek), size_bytes: u64) -> Option<bool> {
        let head: [u8; RECORD_BYTES as usize] = bytes(source)?;
        let (kind, length) = (word(&head, 0)?, u64::from(word(&head, 4)?));
        let end = self.read_bytes.checked_add(length).filter(|_| length >= RECORD_BYTES)?;
        if end > size_bytes {
            if kind == LOAD && self.added_early != Some(self.read_bytes) {
                // The function is added only if its name is complete.
                let added = self.load(source, length - RECORD_BYTES);
                self.added_early = added.map(|_| self.read_bytes).or(self.added_early);
            }
            return Some(false);
        }
        self.records += 1;
        if self.records > MAX_RECORDS {
            self.is_cut = true;
            return None;
        }
        let body = length - RECORD_BYTES;
        let left = match kind {
            LOAD if self.added_early == Some(self.read_bytes) => body,
            LOAD => self.load(source, body)?,
            MOVE => self.moved(source, body)?,
            CLOSE => {
                self.has_ended = true;
                body
            }
            _ => body,
        };
        source.seek_relative(i64::try_from(left).ok()?).ok()?;
        self.read_bytes = end;
        Some(true)
    }

    /// PID, TID (4 each), address of the code twice, its length, its number (8 each), name and NUL,
    /// code. Returns the bytes that are left of the record.
    fn load(&mut self, source: &mut impl Read, body: u64) -> Option<u64> {
        let fixed: [u8; 40] = bytes(source)?;
        let (start, code_bytes, index) = (long(&fixed, 16)?, long(&fixed, 24)?, long(&fixed, 32)?);
        let name_bytes = body.checked_sub(fixed.len() as u64)?.checked_sub(code_bytes)?;
        let mut name = vec![0; name_bytes.min(MAX_NAME_BYTES as u64 + 1) as usize];
        source.read_exact(&mut name).ok()?;
        let left = body - fixed.len() as u64 - name.len() as u64;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let added_bytes = name.len() + FUNCTION_BYTES;
        if self.text.len() + name.len() > MAX_TEXT_BYTES || !self.reserved.grow(added_bytes) {
            self.is_cut = true;
        } else {
            let from = self.text.len() as u32;
            self.text.extend(name);
            self.insert(start, code_bytes, index, (from, name.len() as u32));
        }
        Some(left)
    }

    /// PID, TID (4 each), address of the code, its old and its new address, its length, its number
    /// (8 each). Returns the bytes that are left of the record.
    fn moved(&mut self, source: &mut impl Read, body: u64) -> Option<u64> {
        let fixed: [u8; 48] = bytes(source)?;
        let (old, new, code_bytes, index) =
            (long(&fixed, 16)?, long(&fixed, 24)?, long(&fixed, 32)?, long(&fixed, 40)?);
        let left = body.checked_sub(fixed.len() as u64)?;
        // Other code may be at the old address since.
        let name = match self.functions.get(&old) {
            Some(function) if function.index == index => self.functions.remove(&old).map(|function| function.name),
            _ => None,
        };
        self.insert(new, code_bytes, index, name.unwrap_or_default());
        Some(left)
    }

    /// Adds a function, which may have no name, in place of all code at its addresses.
    fn insert(&mut self, start: u64, code_bytes: u64, index: u64, name: (u32, u32)) {
        let Some(end) = start.checked_add(code_bytes).filter(|end| *end > start) else { return };
        let first = self.functions.range(..=start).next_back().filter(|(_, it)| it.end > start).map(|(at, _)| *at);
        let replaced: Vec<u64> = self.functions.range(first.unwrap_or(start)..end).map(|(at, _)| *at).collect();
        for at in replaced {
            self.functions.remove(&at);
        }
        if name.1 > 0 {
            self.functions.insert(start, Function { end, index, name });
        }
    }
}

fn bytes<const LENGTH: usize>(source: &mut impl Read) -> Option<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    source.read_exact(&mut bytes).ok().map(|()| bytes)
}

fn skip(source: &mut impl Read, length: u64) -> Option<()> {
    let skipped = std::io::copy(&mut source.take(length), &mut std::io::sink()).ok()?;
    (skipped == length).then_some(())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn head(pid: u32) -> Vec<u8> {
        let words = [MAGIC, 1, HEAD_BYTES as u32, 62, 0, pid, 0, 0, 0, 0];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn record(kind: u32, longs: &[u64], rest: &[u8]) -> Vec<u8> {
        let length = RECORD_BYTES as usize + 8 + 8 * longs.len() + rest.len();
        let words = [kind, length as u32, 0, 0, 7, 7];
        let longs = longs.iter().flat_map(|long| long.to_ne_bytes());
        words.iter().flat_map(|word| word.to_ne_bytes()).chain(longs).chain(rest.iter().copied()).collect()
    }

    fn load(start: u64, code_bytes: u64, index: u64, name: &str) -> Vec<u8> {
        let rest = [name.as_bytes(), &[0], &vec![0x90; code_bytes as usize]].concat();
        record(LOAD, &[start, start, code_bytes, index], &rest)
    }

    fn read(file: &[u8]) -> JitDump {
        let mut dump = JitDump::default();
        dump.read_on(Cursor::new(file), file.len() as u64);
        dump
    }

    fn name(dump: &JitDump, address: u64) -> Option<String> {
        dump.find(address).map(|found| format!("{}+{}", String::from_utf8_lossy(&found.name), found.offset))
    }

    #[test]
    fn later_code_replaces_what_was_at_its_addresses() {
        let records = [load(0x100, 0x40, 1, "first"), load(0x200, 0x10, 2, "second"), load(0x120, 0x10, 3, "third")];
        let dump = read(&[head(7), records.concat()].concat());
        assert_eq!(dump.pid(), 7);
        assert_eq!(name(&dump, 0x12f).as_deref(), Some("third+15"));
        assert_eq!(name(&dump, 0x20f).as_deref(), Some("second+15"));
        assert_eq!((name(&dump, 0x100), name(&dump, 0x130), name(&dump, 0x210)), (None, None, None));
    }

    #[test]
    fn moved_code_keeps_its_name_unless_other_code_has_its_place() {
        let moved = |from: u64, to: u64, index: u64| record(MOVE, &[from, from, to, 0x10, index], &[]);
        let records = [
            load(0x100, 0x10, 1, "moves"),
            moved(0x100, 0x500, 1),
            load(0x200, 0x10, 2, "replaced"),
            load(0x200, 0x10, 3, "stays"),
            load(0x600, 0x10, 4, "overwritten"),
            moved(0x200, 0x600, 2),
            record(9, &[1, 2, 3], b"a kind of the future"),
            load(0x700, 0x10, 5, "last"),
        ];
        let dump = read(&[head(7), records.concat()].concat());
        let names = [0x101, 0x501, 0x201, 0x601, 0x701].map(|address| name(&dump, address));
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(names, [None, some("moves+1"), some("stays+1"), None, some("last+1")]);
    }

    #[test]
    fn a_growing_file_is_read_on() {
        let file = [head(7), load(0x100, 0x10, 1, "one"), load(0x200, 0x10, 2, "two")].concat();
        let mut dump = JitDump::default();
        for length in 0..=file.len() {
            dump.read_on(Cursor::new(&file[..length]), length as u64);
        }
        assert_eq!((name(&dump, 0x100), name(&dump, 0x20f)), (Some("one+0".into()), Some("two+15".into())));
        assert_eq!((dump.records, dump.text.as_slice()), (2, b"onetwo".as_slice()));
        assert_eq!(dump.read_bytes(), file.len() as u64);
    }

    #[test]
    fn a_function_is_there_before_its_code() {
        let record = load(0x100, 0x40, 1, "early");
        let whole = [head(7), record.clone(), load(0x200, 0x10, 2, "next")].concat();
        let mut dump = JitDump::default();
        let name_end = head(7).len() + record.len() - 0x40;
        for (length, expected) in [(name_end - 1, None), (name_end, Some("early+0")), (whole.len(), Some("early+0"))] {
            dump.read_on(Cursor::new(&whole[..length]), length as u64);
            assert_eq!(name(&dump, 0x100).as_deref(), expected, "{length}");
        }
        assert_eq!(name(&dump, 0x200).as_deref(), Some("next+0"));
    }

    #[test]
    fn damage_ends_the_reading_and_leaves_what_was_read() {
        let good = load(0x100, 0x10, 1, "good");
        let mut too_short = load(0x300, 0x10, 3, "bad");
        too_short[4..8].copy_from_slice(&8u32.to_ne_bytes());
        let mut too_much_code = load(0x300, 0x10, 3, "bad");
        too_much_code[40..48].copy_from_slice(&0x1000u64.to_ne_bytes());
        for bad in [too_short, too_much_code, record(CLOSE, &[], &[])] {
            let dump = read(&[head(7), good.clone(), bad, load(0x200, 0x10, 2, "after")].concat());
            assert_eq!(name(&dump, 0x100).as_deref(), Some("good+0"));
            assert_eq!((name(&dump, 0x200), name(&dump, 0x300)), (None, None));
        }
        let mut other = head(7);
        other[0] = b'J';
        let dump = read(&[other, good].concat());
        assert_eq!((dump.pid(), name(&dump, 0x100)), (0, None));
    }

    #[test]
    fn names_are_bounded_and_code_that_wraps_is_none() {
        let long = "x".repeat(3 * MAX_NAME_BYTES);
        let dump = read(&[head(7), load(0x100, 0x10, 1, &long), load(u64::MAX - 4, 0x10, 2, "wraps")].concat());
        assert_eq!(dump.find(0x100).map(|found| found.name.len()), Some(MAX_NAME_BYTES + 1));
        assert_eq!(name(&dump, u64::MAX), None);
    }
}
