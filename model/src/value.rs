//! Decoded results of a script.
//!
//! In: decoded from bytes by [`crate::decode`] and by the aggregations. Out: the only input of the
//! text and JSON renderers.
//! Guarantee: independent of the kernel, maps and file descriptors; a [`Symbols`] resolves
//! addresses to names.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::series::Series;
use crate::strftime::Zone;
use crate::types::{Space, StackMode};
use crate::unwind::End;

/// A result.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value (`null`).
    Missing,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating-point number: the bits of an `f64`.
    Float(u64),
    /// A string up to its NUL; not necessarily UTF-8.
    Str(Vec<u8>),
    /// Raw bytes.
    Buf(Vec<u8>),
    /// An address.
    Pointer(u64),
    /// Elements of one type.
    Array(Vec<Value>),
    /// Parts of a tuple.
    Tuple(Vec<Value>),
    /// Named parts.
    Record(Vec<(String, Value)>),
    /// An enum value with its enumerator's name, if it has one.
    Enum {
        number: i64,
        /// The enumerator's name.
        name: Option<String>,
    },
    /// A stack trace.
    Stack(Stack),
    /// An address that is printed as a symbol.
    Symbol {
        /// The address space.
        space: Space,
        address: u64,
        /// The process id, for user addresses.
        pid: u32,
    },
    /// An IP address.
    Inet(IpAddr),
    /// A point in time.
    Timestamp {
        /// Nanoseconds since boot.
        since_boot_ns: u64,
        /// `strftime` format.
        format: String,
    },
    /// A user id that is printed as a name.
    Username(u32),
    /// A time series.
    Series(Series),
    /// Histogram buckets with counts.
    Histogram(Histogram),
    /// Count, average and total.
    Stats {
        /// Number of values.
        count: u64,
        /// Total divided by count, truncated; 0 without values.
        average: i128,
        /// Their sum.
        total: i128,
    },
    /// The average of the values alone, the result of `avg()`.
    Average {
        /// Total divided by count, truncated.
        average: i128,
    },
    /// A distribution with percentiles.
    Distribution(Distribution),
}

/// A stack trace, innermost frame first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Kernel or user stack.
    pub space: Space,
    /// How to print it.
    pub mode: StackMode,
    /// The process id, for user stacks.
    pub pid: u32,
    /// Where each function is; empty if the kernel could not take the stack.
    pub frames: Vec<u64>,
    /// The frames that a signal interrupted, by their index, in ascending order.
    pub interrupted: Vec<usize>,
    /// Why callers are missing, if that is known.
    pub end: Option<End>,
}

impl Stack {
    /// The addresses at which its frames are resolved.
    pub fn call_sites(&self) -> Vec<u64> {
        let frames = self.frames.iter().enumerate();
        frames.map(|(index, frame)| frame.saturating_sub(self.bytes_back(index))).collect()
    }

    /// How far before its address a frame is resolved. A return address is that of the instruction
    /// after a call, which may be the last one of its function: what counts is the byte before. No
    /// return addresses are the first frame, code that a signal interrupted, and the code that ends
    /// the handler, as none has called that.
    pub fn bytes_back(&self, index: usize) -> u64 {
        let is_interrupted = |index| self.interrupted.binary_search(&index).is_ok();
        u64::from(index > 0 && !is_interrupted(index) && !is_interrupted(index + 1))
    }
}

/// A histogram: consecutive buckets from the first to the last non-empty one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    /// The buckets in ascending order, including empty ones in between.
    pub buckets: Vec<Bucket>,
    /// How bucket bounds are printed.
    pub labels: Labels,
}

/// How the bounds of a histogram's buckets are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Labels {
    /// Bare numbers.
    #[default]
    Plain,
    /// Powers of two with `1 << sub_bits` buckets each; the bucket's width determines the suffix K,
    /// M, G, T, P or E.
    Powers {
        /// `k` of `hist(n, k)`.
        sub_bits: u8,
    },
    /// Multiples of 1024 and 1024 * 1024 with suffix K and M.
    Binary,
}

/// One bucket: `low <= value < high` (`None` is unbounded).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Lowest value, inclusive; `None` means unbounded.
    pub low: Option<i64>,
    /// End, exclusive; `None` means unbounded.
    pub high: Option<i64>,
    /// Number of values in the bucket.
    pub count: u64,
}

/// A file as the kernel identifies it in a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId {
    /// Major number of its device in the upper 32 bits, minor number in the lower ones.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

/// Resolves addresses and ids to names; implemented by the runtime, mocked in tests.
pub trait Symbols {
    /// The symbol of a kernel address, with its module if it has one.
    fn kernel(&self, address: u64) -> Option<SymbolName>;
    /// The symbol of an address of a process.
    fn user(&self, pid: u32, address: u64) -> Option<SymbolName>;
    /// The name of a user id.
    fn username(&self, uid: u32) -> Option<String>;
    /// Wall-clock nanoseconds since 1970 at which the boot clock was 0.
    fn boot_time_ns(&self) -> u64;
    /// The local time zone at a point in time, in ns since 1970.
    fn zone(&self, _unix_ns: u64) -> Zone {
        Zone::default()
    }
    /// Whether user stacks get source lines and inlined functions; called before any lookup.
    fn show_origins(&self, _is_shown: bool) {}
    /// Whether the text of a stack says why callers are missing.
    fn shows_ends(&self) -> bool {
        true
    }
    /// Resolves the frames of a stack, innermost first, at their [`Stack::call_sites`].
    fn locate_stack(&self, stack: &Stack) -> Vec<Location> {
        let addresses = stack.call_sites();
        let mut locations = match stack.space {
            Space::User => self.locate_user(stack.pid, &addresses),
            Space::Kernel => {
                let locate = |address: &u64| self.kernel(*address).map_or(Location::Unknown, Location::named);
                addresses.iter().map(locate).collect()
            }
        };
        for (index, location) in locations.iter_mut().enumerate() {
            let position = match location {
                Location::Symbol(symbol, origin) => {
                    symbol.offset += stack.bytes_back(index);
                    origin.position.as_mut()
                }
                Location::Module(_, position) => Some(position),
                Location::NoCode | Location::Unknown => None,
            };
            if let Some(position) = position {
                position.offset += stack.bytes_back(index);
            }
        }
        locations
    }
    /// Resolves several addresses of a process at once.
    fn locate_user(&self, pid: u32, addresses: &[u64]) -> Vec<Location> {
        let locate = |address: &u64| self.user(pid, *address).map_or(Location::Unknown, Location::named);
        addresses.iter().map(locate).collect()
    }
    /// Announces values that are about to be printed, so that their user addresses can be resolved
    /// together, as of now; no values when they have been printed.
    fn expect(&self, _values: &mut dyn Iterator<Item = &Value>) {}
    /// Announces that user addresses will be resolved, possibly after their processes have ended.
    /// Of the processes that already run, only `processes` are scanned, or all if it is empty.
    fn record_processes(&self, _processes: &[u32]) {}
    /// Failures to resolve names so far, by reason.
    fn shortfalls(&self) -> Shortfalls {
        Shortfalls::default()
    }
}

/// Names for nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoSymbols;

impl Symbols for NoSymbols {
    fn kernel(&self, _address: u64) -> Option<SymbolName> {
        None
    }
    fn user(&self, _pid: u32, _address: u64) -> Option<SymbolName> {
        None
    }
    fn username(&self, _uid: u32) -> Option<String> {
        None
    }
    fn boot_time_ns(&self) -> u64 {
        0
    }
}

/// The location of an address in a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Location {
    /// Code with a symbol name, and what debug information says about it.
    Symbol(SymbolName, Origin),
    /// Code of a file that has no symbol for it: its path, and the position in it.
    Module(String, FilePosition),
    /// Not in executable memory of the process.
    NoCode,
    /// Unknown.
    Unknown,
}

impl Location {
    /// The position in the mapped file, if the code is in one.
    pub fn position(&self) -> Option<&FilePosition> {
        match self {
            Location::Symbol(_, origin) => origin.position.as_ref(),
            Location::Module(_, position) => Some(position),
            Location::NoCode | Location::Unknown => None,
        }
    }
}

/// A position in a file, from which another machine can resolve the address, at another time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FilePosition {
    /// The file's build id in hexadecimal digits, if it has one.
    pub build_id: Option<Arc<str>>,
    /// The offset in bytes.
    pub offset: u64,
    /// The offset at which its function begins, if that is known although it has no symbol.
    pub function: Option<u64>,
}

/// The file of an instruction, and its source from debug information.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Origin {
    /// The position in the mapped file; `None` in code that is in no file.
    pub position: Option<FilePosition>,
    /// The line in the function that the symbol names: that of the call, if the instruction belongs
    /// to an inlined function.
    pub source: Option<Source>,
    /// The inlined functions that the instruction belongs to, innermost first.
    pub inlined: Vec<Inlined>,
}

/// A line of a source file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The file's path, as the compiler recorded it.
    pub file: String,
    /// Counted from 1.
    pub line: u32,
}

/// A function that the compiler inlined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inlined {
    pub name: String,
    /// The line in this function: that of the call, if the instruction belongs to a function that
    /// was inlined into it.
    pub source: Option<Source>,
}

impl Origin {
    /// The memory used, in bytes.
    pub fn size_bytes(&self) -> usize {
        let source = |source: &Option<Source>| source.as_ref().map_or(0, |source| source.file.len());
        let inlined = |inlined: &Inlined| size_of::<Inlined>() + inlined.name.len() + source(&inlined.source);
        source(&self.source) + self.inlined.iter().map(inlined).sum::<usize>()
    }
}

impl Location {
    /// Code with a symbol name and without debug information.
    pub fn named(symbol: SymbolName) -> Location {
        Location::Symbol(symbol, Origin::default())
    }

    /// The memory used by its text, in bytes.
    pub fn size_bytes(&self) -> usize {
        match self {
            Location::Symbol(SymbolName { name, module, .. }, origin) => {
                name.len() + module.as_ref().map_or(0, String::len) + origin.size_bytes()
            }
            Location::Module(module, _) => module.len(),
            Location::NoCode | Location::Unknown => 0,
        }
    }
}

/// Why addresses have no names or incomplete names, with a count for each reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Shortfalls {
    /// Names that were truncated.
    pub cut_names: u64,
    /// Files with more symbols than are read.
    pub large_files: u64,
    /// Files without source lines, for which there was not enough memory.
    pub refused_files: u64,
    /// Perf maps and jitdumps that were not trusted: owned by another user, or not regular files.
    pub refused_maps: u64,
    /// Addresses whose file or process could not be read.
    pub unanswered: u64,
    /// Records of process mappings that the kernel dropped because its buffer was full.
    pub lost_records: u64,
    /// User stacks that end at an address that is not code.
    pub broken_stacks: u64,
}

impl Shortfalls {
    /// Those that came after an earlier count.
    #[must_use]
    pub fn since(&self, before: &Shortfalls) -> Shortfalls {
        Shortfalls {
            cut_names: self.cut_names.saturating_sub(before.cut_names),
            large_files: self.large_files.saturating_sub(before.large_files),
            refused_maps: self.refused_maps.saturating_sub(before.refused_maps),
            unanswered: self.unanswered.saturating_sub(before.unanswered),
            refused_files: self.refused_files.saturating_sub(before.refused_files),
            lost_records: self.lost_records.saturating_sub(before.lost_records),
            broken_stacks: self.broken_stacks.saturating_sub(before.broken_stacks),
        }
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Shortfalls) {
        self.cut_names += other.cut_names;
        self.large_files += other.large_files;
        self.refused_files += other.refused_files;
        self.refused_maps += other.refused_maps;
        self.unanswered += other.unanswered;
        self.lost_records += other.lost_records;
        self.broken_stacks += other.broken_stacks;
    }
}

/// A resolved address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolName {
    /// The function.
    pub name: String,
    /// Byte offset from the start of the function.
    pub offset: u64,
    /// The kernel module or file.
    pub module: Option<String>,
}

impl Histogram {
    /// The sum of all bucket counts.
    pub fn total(&self) -> u64 {
        self.buckets.iter().fold(0, |total, bucket| total.saturating_add(bucket.count))
    }
}

impl Value {
    /// Sort key of map entries, ascending: the number itself, the average of statistics, a
    /// histogram's total count. `None` for values that do not order a map (it is then sorted by
    /// key).
    pub fn rank(&self) -> Option<i128> {
        match self {
            Value::Int(n) => Some(i128::from(*n)),
            Value::Uint(n) => Some(i128::from(*n)),
            Value::Bool(b) => Some(i128::from(*b)),
            Value::Average { average } | Value::Stats { average, .. } => Some(*average),
            Value::Histogram(h) => Some(i128::from(h.total())),
            Value::Distribution(d) => Some(i128::from(d.count())),
            _ => None,
        }
    }

    /// Orders keys: numbers by value, strings by bytes, tuples and structs part by part.
    pub fn compare(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Str(a), Value::Str(b)) | (Value::Buf(a), Value::Buf(b)) => a.cmp(b),
            (Value::Pointer(a), Value::Pointer(b)) => a.cmp(b),
            (Value::Tuple(a), Value::Tuple(b)) | (Value::Array(a), Value::Array(b)) => a
                .iter()
                .zip(b)
                .map(|(a, b)| a.compare(b))
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len())),
            (Value::Record(a), Value::Record(b)) => a
                .iter()
                .zip(b)
                .map(|((_, a), (_, b))| a.compare(b))
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len())),
            (Value::Inet(a), Value::Inet(b)) => a.cmp(b),
            (Value::Stack(a), Value::Stack(b)) => {
                (a.pid, &a.frames, a.end, &a.interrupted).cmp(&(b.pid, &b.frames, b.end, &b.interrupted))
            }
            (Value::Symbol { address: a, pid: p, .. }, Value::Symbol { address: b, pid: q, .. }) => (p, a).cmp(&(q, b)),
            (Value::Username(a), Value::Username(b)) => a.cmp(b),
            (Value::Enum { number: a, .. }, Value::Enum { number: b, .. }) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}
