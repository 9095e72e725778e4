//! What a script's results are, once read back from the kernel.
//!
//! In: decoded from bytes by [`crate::decode`] and by the aggregations. Out: text and JSON renderers see nothing else.
//! Guarantee: independent of kernel, maps and file descriptors; addresses still need a [`Symbols`] to become names.

use std::cmp::Ordering;
use std::net::IpAddr;

use crate::distribution::Distribution;
use crate::series::Series;
use crate::strftime::Zone;
use crate::types::{Space, StackMode};

/// A result.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing there (`null`).
    Missing,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
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
    /// An enum's value and, when it has one, its name.
    Enum {
        /// The number.
        number: i64,
        /// The enumerator's name.
        name: Option<String>,
    },
    /// A stack trace.
    Stack(Stack),
    /// An address to be shown as a symbol.
    Symbol {
        /// Whose memory.
        space: Space,
        /// The address.
        address: u64,
        /// The process, for user memory.
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
    /// A user id to be shown as a name.
    Username(u32),
    /// Values over time.
    Series(Series),
    /// Buckets with counts.
    Histogram(Histogram),
    /// Count, average and total.
    Stats {
        /// How many values.
        count: u64,
        /// Total by count, truncated; 0 without values.
        average: i64,
        /// Their sum.
        total: i64,
    },
    /// Only the average of values is shown; the rest orders and merges.
    Average {
        /// Total by count, truncated.
        average: i64,
    },
    /// How often each value occurred, with percentiles.
    Distribution(Distribution),
}

/// A stack trace, innermost frame first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Whose.
    pub space: Space,
    /// How to print it.
    pub mode: StackMode,
    /// The process, for user stacks.
    pub pid: u32,
    /// Return addresses; empty when the kernel could not take the stack.
    pub frames: Vec<u64>,
}

/// A histogram: consecutive buckets from the first to the last that is not empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    /// The buckets, lowest first, including empty ones between others.
    pub buckets: Vec<Bucket>,
    /// How bounds are written in text.
    pub labels: Labels,
}

/// How the bounds of a histogram's buckets are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Labels {
    /// Bare numbers.
    #[default]
    Plain,
    /// Powers of two with `1 << sub_bits` buckets each: the bucket's width decides on K, M, G, T, P or E.
    Powers {
        /// `k` of `hist(n, k)`.
        sub_bits: u8,
    },
    /// Multiples of 1024 and 1024 * 1024 as K and M.
    Binary,
}

/// One bucket: `low <= value < high` (a missing end is open).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Lowest value, inclusive; `None` is open below.
    pub low: Option<i64>,
    /// End, exclusive; `None` is open above.
    pub high: Option<i64>,
    /// How many values fell in.
    pub count: u64,
}

/// Turns addresses and ids into names; implemented by the runtime, faked in tests.
pub trait Symbols {
    /// `symbol+0x10` of a kernel address, with its module when it has one.
    fn kernel(&self, address: u64) -> Option<SymbolName>;
    /// The same for an address of a process.
    fn user(&self, pid: u32, address: u64) -> Option<SymbolName>;
    /// The name of a user id.
    fn username(&self, uid: u32) -> Option<String>;
    /// Wall-clock nanoseconds since 1970 at which the boot clock read 0.
    fn boot_time_ns(&self) -> u64;
    /// The local time zone at a moment, in ns since 1970.
    fn zone(&self, _unix_ns: u64) -> Zone {
        Zone::default()
    }
    /// Announces addresses of a process that are about to be asked for, so that they can be resolved together.
    fn prepare_user(&self, _pid: u32, _addresses: &[u64]) {}
    /// Announces that addresses of processes will be asked for, of all of them or of one, also when they have ended.
    fn record_processes(&self, _process: Option<u32>) {}
}

/// A resolved address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolName {
    /// The function.
    pub name: String,
    /// Bytes into it.
    pub offset: u64,
    /// Kernel module or file.
    pub module: Option<String>,
}

impl Histogram {
    /// All counts together.
    pub fn total(&self) -> u64 {
        self.buckets.iter().fold(0, |total, bucket| total.saturating_add(bucket.count))
    }
}

impl Value {
    /// What orders map entries, ascending: the number itself, the average of statistics, a histogram's total count. `None`
    /// for values that do not order a map (it is then sorted by key).
    pub fn rank(&self) -> Option<i128> {
        match self {
            Value::Int(n) => Some(i128::from(*n)),
            Value::Uint(n) => Some(i128::from(*n)),
            Value::Bool(b) => Some(i128::from(*b)),
            Value::Average { average } | Value::Stats { average, .. } => Some(i128::from(*average)),
            Value::Histogram(h) => Some(i128::from(h.total())),
            Value::Distribution(d) => Some(i128::from(d.count())),
            _ => None,
        }
    }

    /// Order of keys: numbers by value, strings by bytes, tuples and structs part by part.
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
            (Value::Stack(a), Value::Stack(b)) => (a.pid, &a.frames).cmp(&(b.pid, &b.frames)),
            (Value::Symbol { address: a, pid: p, .. }, Value::Symbol { address: b, pid: q, .. }) => (p, a).cmp(&(q, b)),
            (Value::Username(a), Value::Username(b)) => a.cmp(b),
            (Value::Enum { number: a, .. }, Value::Enum { number: b, .. }) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}
