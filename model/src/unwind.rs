//! How unwind tables of user code are laid out in BPF maps.
//!
//! In: nothing. Out: the layouts and encodings that the compiler's code reads and the runtime
//! writes.
//! Guarantee: plain constants and pure functions; both sides take every number from here.
//!
//! A row says how to find the caller from an address on, up to the next row. It is one word: the
//! address in the file, in the upper 40 bits, and a [`Rule`] in the lower [`RULE_BITS`]. Rows are
//! sorted, so the row for an address is the last word that is not above its own with all bits of
//! the rule set.
//!
//! Rows lie in segments, which are entries of a hash map. A table of up to [`SEGMENT_WORDS`] rows
//! is part of one segment. A longer table fills consecutive segments, and its mapping refers to an
//! index instead: words with the first address of each segment and, in place of the rule, the
//! segment's distance from the first one. Unused words of a segment are [`UNUSED`].

use serde::{Deserialize, Serialize};

/// An address or a row after all others. Not `u64::MAX`: programs find the greater of two numbers
/// by the sign of their difference.
pub const UNUSED: u64 = i64::MAX as u64;

/// Words in a segment. The value of an entry of [`Unwinding::rows`] is that many `u64`; its key is
/// the number of the segment, a `u32`.
pub const SEGMENT_WORDS: usize = 1024;
/// Limit of segments: 48 MiB of rows.
pub const MAX_SEGMENTS: u32 = 6 << 10;

/// Mappings of code in a process; further ones are left out.
pub const MAX_MAPPINGS: usize = 256;
/// Limit of processes with mappings.
pub const MAX_PROCESSES: u32 = 2048;
/// Size of a [`Mapping`] as stored.
pub const MAPPING_BYTES: usize = 32;
/// Offset of the version of a value of [`Unwinding::processes`], a `u64`: a number, not 0, that no
/// other value has had. What programs remember about a version stays true.
pub const VERSION_OFFSET: usize = 8;
/// Offset of the address at which the first thread's stack starts, a `u64`: an unclaimed value
/// counts for memory with this start only.
pub const START_STACK_OFFSET: usize = 16;
/// Offset of the mappings in the value of an entry of [`Unwinding::processes`]. The value begins
/// with the memory's identity from the request that it answers, a `u64`. Mappings are sorted by
/// address; unused ones start at [`UNUSED`].
pub const MAPPINGS_OFFSET: usize = 32;
/// Size of a value of [`Unwinding::processes`]. The key is the process id, a `u32`.
pub const PROCESS_BYTES: usize = MAPPINGS_OFFSET + MAX_MAPPINGS * MAPPING_BYTES;

/// The identity of memory before the first stack is taken: the value counts for the process's next
/// stack, if the memory has the same start of the stack. Then the program writes the identity. In
/// any case it makes a request.
pub const UNCLAIMED: u64 = 0;

/// Size of a request, a record of [`Unwinding::requests`]: the process id as a `u64`, then the
/// identity of its memory, a `u64` that changes with every `exec`.
pub const REQUEST_BYTES: u32 = 16;

/// Size of a key of [`Unwinding::files`]: a [`FileVersion`].
pub const FILE_KEY_BYTES: usize = 32;
/// Mappings of code in a file; a file with more is left out.
pub const FILE_MAPPINGS: usize = 16;
/// Size of a value of [`Unwinding::files`].
pub const FILE_BYTES: usize = FILE_MAPPINGS * MAPPING_BYTES;
/// Limit of such files.
pub const MAX_FILES: u32 = 16 << 10;

/// Size of a value of [`Unwinding::pauses`].
pub const PAUSE_BYTES: usize = 16;

/// The maps of the unwinder, by their names in the object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unwinding {
    /// Hash of process ids to mappings.
    pub processes: String,
    /// Hash of versions of files to their mappings, for processes that have none of their own. The
    /// value is [`FILE_MAPPINGS`] mappings, with offsets in the file in place of addresses of the
    /// process. It is never replaced by another one.
    pub files: String,
    /// Hash of segment numbers to rows.
    pub rows: String,
    /// Ring buffer of requests: a process whose mappings are missing or incomplete.
    pub requests: String,
    /// Hash of process ids (`u32`) to a pause: the monotonic time in ns (`u64`) before which a
    /// process is not requested again, and the identity of its memory (`u64`) for which that holds.
    pub pauses: String,
}

/// A mapping of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last one.
    pub end: u64,
    /// What to subtract from an address of the process to get one of the table.
    pub bias: u64,
    /// The rows for this mapping.
    pub table: Table,
}

/// The contents of a file, as the kernel distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileVersion {
    /// Major and minor number of the device of its inode, as `/proc/PID/maps` shows them.
    pub device: (u32, u32),
    /// The number of the inode.
    pub inode: u64,
    /// Time of the last change of the inode: seconds, and nanoseconds of these.
    pub changed: (i64, i64),
}

/// Bits of a minor number in the kernel's `dev_t` (`include/linux/kdev_t.h`).
const MINOR_BITS: u32 = 20;

impl FileVersion {
    /// The vDSO of 64-bit processes, which is in no file. No device has the number 0.
    pub const VDSO: FileVersion = FileVersion { device: (0, 0), inode: 1, changed: (0, 0) };

    /// The version as stored: four `u64`, which are inode, device (the kernel's `dev_t`), seconds
    /// and nanoseconds.
    pub fn bytes(&self) -> [u8; FILE_KEY_BYTES] {
        let device = u64::from(self.device.0) << MINOR_BITS | u64::from(self.device.1);
        let mut bytes = [0; FILE_KEY_BYTES];
        let words = [self.inode, device, self.changed.0 as u64, self.changed.1 as u64];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// Where the rows of a mapping are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// The segment that contains the words to search first.
    pub segment: u32,
    /// Index of the first of these words.
    pub first: u16,
    /// Number of these words; 0 for code without unwind information.
    pub words: u16,
    /// Number of the segment to which the first word of an index refers; `None` if the words are
    /// rows.
    pub indexed: Option<u32>,
}

/// Bit 15 of the third 16 bits of a stored table: the words are an index.
pub const INDEX_FLAG: u64 = 1 << 15;

impl Table {
    /// For code that has no unwind information: frame pointers are used.
    pub const NONE: Table = Table { segment: 0, first: 0, words: 0, indexed: None };

    /// The word as stored: first word (bits 0–14) with [`INDEX_FLAG`], number of words (bits
    /// 16–31), segment (bits 32–47), first indexed segment (bits 48–63). A table that is larger
    /// than the layout allows is stored as [`Table::NONE`].
    pub fn word(self) -> u64 {
        let narrow = |number: u32| u16::try_from(number).ok().map(u64::from);
        let flag = if self.indexed.is_some() { INDEX_FLAG } else { 0 };
        let (Some(segment), Some(indexed)) = (narrow(self.segment), narrow(self.indexed.unwrap_or(0))) else {
            return 0;
        };
        u64::from(self.first) | flag | u64::from(self.words) << 16 | segment << 32 | indexed << 48
    }
}

impl Mapping {
    /// The mapping as stored: four `u64`.
    pub fn bytes(&self) -> [u8; MAPPING_BYTES] {
        let mut bytes = [0; MAPPING_BYTES];
        let words = [self.start, self.end, self.bias, self.table.word()];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// Bits of a rule in a row.
pub const RULE_BITS: u32 = 24;
/// The mask of these bits.
pub const RULE_MASK: u64 = (1 << RULE_BITS) - 1;
/// End of the addresses that a row can have.
pub const END_OF_ADDRESSES: u64 = 1 << (u64::BITS - RULE_BITS);

/// A row from an address in the file on, which is below [`END_OF_ADDRESSES`].
pub fn row(address: u64, rule: u32) -> u64 {
    address << RULE_BITS | u64::from(rule)
}

/// The address of a row.
pub fn address_of(row: u64) -> u64 {
    row >> RULE_BITS
}

/// The code of a row's rule.
pub fn rule_of(row: u64) -> u32 {
    (row & RULE_MASK) as u32
}

/// How to find the caller: where the canonical frame address (CFA) is, and where the function saved
/// RBP. The return address is always directly below the CFA, except for the special rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The CFA is this many words above RSP.
    FromRsp { words: u32, rbp: SavedRbp },
    /// The CFA is this many words above RBP.
    FromRbp { words: u32, rbp: SavedRbp },
    /// The CFA is stored this many words below RBP, and RBP's old value where RBP points: a
    /// function that realigns its stack.
    Realigned { words: u32 },
    /// The word this many words above RSP is one word below the CFA's: assembly that keeps its
    /// caller's stack pointer in memory.
    Stored { words: u32, rbp: SavedRbp },
    /// The CFA is this many words above RBX. Where RBX is not known, the function that this one
    /// calls has saved it `saved` words below its own CFA; with 0, nothing says where.
    FromRbx { words: u32, saved: u32 },
    /// Anything else.
    Special(Special),
}

/// Words between the CFA and the saved RBP (1 is the return address itself, so it is at least 2);
/// 0 if RBP still has the caller's value.
pub type SavedRbp = u32;

/// Bits of a `Rule::FromRsp`: words (0–19), saved RBP minus 1 (20–22). Frames can be large: the
/// Rust compiler has some of 600 KB.
pub const RSP_WORDS_BITS: u32 = 20;
/// Bits of a `Rule::FromRbp`: words (0–15), saved RBP minus 1 (16–18), marked by [`RBP_FLAG`].
pub const RBP_WORDS_BITS: u32 = 16;
/// Bits of the saved RBP.
pub const SAVED_BITS: u32 = 3;
/// Set for every rule but `Rule::FromRsp`.
pub const RBP_FLAG: u32 = 0x80_0000;
/// With [`RBP_FLAG`]: a `Rule::Realigned`, words in the lower bits.
pub const REALIGNED_FLAG: u32 = 0x40_0000;
/// Bits of the words of a `Rule::Realigned`.
pub const REALIGNED_WORDS_BITS: u32 = 16;
/// Rules from this value on are a `Rule::Stored`: words (0–7), saved RBP minus 1 (8–10).
pub const STORED: u32 = 0xd0_0000;
/// Bits of the words of a `Rule::Stored`.
pub const STORED_WORDS_BITS: u32 = 8;
/// Rules from this value on are a `Rule::FromRbx`: words (0–5), where RBX is saved (6–9).
pub const FROM_RBX: u32 = 0xe0_0000;
/// Bits of the words of a `Rule::FromRbx`.
pub const RBX_WORDS_BITS: u32 = 6;
/// Bits of the place of RBX.
pub const SAVED_RBX_BITS: u32 = 4;
/// Rules from this value on are special: [`SPECIAL`] plus the [`Special`].
pub const SPECIAL: u32 = 0xf0_0000;

/// Rules without numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Special {
    /// No function has this address.
    None = 0,
    /// The function has no caller: where a thread begins.
    Outermost = 1,
    /// The return of a signal handler: RSP points to the `ucontext` that the kernel saved.
    Signal = 2,
    /// A rule that this encoding does not have.
    Unsupported = 3,
    /// A procedure linkage table: CFA = RSP + 8, and 8 more where the address modulo 16 is 9 or
    /// more. The other two follow in order.
    Plt9 = 4,
    /// The same, from 10 on.
    Plt10 = 5,
    /// The same, from 11 on.
    Plt11 = 6,
    /// The return address is in RDI, and the CFA is RSP: the system call of glibc's `vfork`, whose
    /// child uses the same stack.
    InRdi = 7,
    /// The byte before a function to which no call returns: a stack that was made by hand ends with
    /// its address, and the function before is the outermost one.
    Begun = 8,
}

impl Rule {
    /// The encoded rule; `Special::Unsupported` if its numbers are too large.
    pub fn code(self) -> u32 {
        let unsupported = SPECIAL + Special::Unsupported as u32;
        let saved = |rbp: SavedRbp| match rbp {
            0 => Some(0),
            1 => None,
            more => Some(more - 1).filter(|slot| *slot < 1 << SAVED_BITS),
        };
        match self {
            Rule::FromRsp { words, rbp } => match saved(rbp) {
                Some(slot) if words < 1 << RSP_WORDS_BITS => slot << RSP_WORDS_BITS | words,
                _ => unsupported,
            },
            Rule::FromRbp { words, rbp } => match saved(rbp) {
                Some(slot) if words < 1 << RBP_WORDS_BITS => RBP_FLAG | slot << RBP_WORDS_BITS | words,
                _ => unsupported,
            },
            Rule::Realigned { words } if words < 1 << REALIGNED_WORDS_BITS => RBP_FLAG | REALIGNED_FLAG | words,
            Rule::Realigned { .. } => unsupported,
            Rule::Stored { words, rbp } => match saved(rbp) {
                Some(slot) if words < 1 << STORED_WORDS_BITS => STORED | slot << STORED_WORDS_BITS | words,
                _ => unsupported,
            },
            Rule::FromRbx { words, saved } if words < 1 << RBX_WORDS_BITS && saved < 1 << SAVED_RBX_BITS => {
                FROM_RBX | saved << RBX_WORDS_BITS | words
            }
            Rule::FromRbx { .. } => unsupported,
            Rule::Special(special) => SPECIAL + special as u32,
        }
    }
}

/// Why a stack ends before the function with which its thread began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum End {
    /// More frames than were asked for.
    Depth = 1,
    /// The mappings or the unwind table were not known yet.
    NoTable = 2,
    /// The code has no unwind information, and its frame pointer leads nowhere.
    NoInformation = 3,
    /// The stack's memory could not be read: it is not in memory.
    Unreadable = 4,
    /// The rule is not supported, or the process is not a 64-bit one.
    Unsupported = 5,
}

/// All of them, as they are printed.
pub const ENDS: [End; 5] = [End::Depth, End::NoTable, End::NoInformation, End::Unreadable, End::Unsupported];

/// The last entry of a stored stack that ends early is this, plus the [`End`]: an address that user
/// code cannot have.
pub const END_MARK: u64 = 0xffff_ffff_ffff_ff00;

/// Bit of an entry whose code a signal interrupted: its address is that of an instruction that has
/// not run, and that of the entry before is where the signal's handler returns to. No address of
/// user code has it, except for those of the kernel's `vsyscall` page, which have the next one too.
pub const INTERRUPTED: u64 = 1 << 63;
const NEXT_BIT: u64 = 1 << 62;

/// The address of an entry whose code a signal interrupted.
pub fn interrupted(entry: u64) -> Option<u64> {
    (entry & (INTERRUPTED | NEXT_BIT) == INTERRUPTED).then_some(entry & !INTERRUPTED)
}

impl End {
    /// The entry that marks this end.
    pub fn mark(self) -> u64 {
        END_MARK + self as u64
    }

    /// The end that an entry marks, if it is a mark.
    pub fn of(entry: u64) -> Option<End> {
        ENDS.into_iter().find(|end| end.mark() == entry)
    }

    /// The reason in words, for a sentence like "callers are missing: …".
    pub fn reason(self) -> &'static str {
        match self {
            End::Depth => "more frames than the limit",
            End::NoTable => "no unwind table yet",
            End::NoInformation => "no unwind information",
            End::Unreadable => "stack memory not readable",
            End::Unsupported => "unsupported unwind rule",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_distinct_codes() {
        let rsp = |words, rbp| Rule::FromRsp { words, rbp }.code();
        let rbp = |words, rbp| Rule::FromRbp { words, rbp }.code();
        assert_eq!((rsp(1, 0), rsp(2, 2), rsp(0xf_ffff, 8)), (1, 0x10_0002, 0x7f_ffff));
        assert_eq!((rbp(2, 2), rbp(0xffff, 8)), (0x81_0002, 0x87_ffff));
        let realigned = |words| Rule::Realigned { words }.code();
        assert_eq!((realigned(1), realigned(0xffff)), (0xc0_0001, 0xc0_ffff));
        let stored = |words, rbp| Rule::Stored { words, rbp }.code();
        let rbx = |words, saved| Rule::FromRbx { words, saved }.code();
        assert_eq!(
            (stored(0, 0), stored(255, 8), rbx(7, 0), rbx(63, 15)),
            (0xd0_0000, 0xd0_07ff, 0xe0_0007, 0xe0_03ff)
        );
        let unsupported = Rule::Special(Special::Unsupported).code();
        assert_eq!(unsupported, 0xf0_0003);
        assert_eq!([rsp(1 << 20, 0), rsp(1, 1), rsp(9, 9), rbp(1 << 16, 0), realigned(1 << 16)], [unsupported; 5]);
        assert_eq!([stored(256, 0), stored(1, 9), rbx(64, 0), rbx(1, 16)], [unsupported; 4]);
    }

    #[test]
    fn a_version_of_a_file_is_four_words() {
        let version = FileVersion { device: (0x103, 5), inode: 7, changed: (9, 11) };
        let expected: Vec<u8> = [7_u64, 0x1030_0005, 9, 11].into_iter().flat_map(u64::to_ne_bytes).collect();
        assert_eq!(version.bytes(), *expected);
    }

    #[test]
    fn an_end_is_recognised_by_its_mark() {
        assert!(ENDS.into_iter().all(|end| End::of(end.mark()) == Some(end)));
        assert!(End::of(END_MARK).is_none() && End::of(0x7fff_ffff_f000).is_none());
    }

    #[test]
    fn a_table_is_one_word() {
        assert_eq!(Table { segment: 3, first: 5, words: 1024, indexed: None }.word(), 0x0000_0003_0400_0005);
        assert_eq!(Table { segment: 3, first: 0, words: 9, indexed: Some(4) }.word(), 0x0004_0003_0009_8000);
        assert_eq!(Table { segment: 70_000, ..Table::NONE }.word(), 0);
    }
}
