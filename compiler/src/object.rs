//! What the compiler hands to a runtime: one ELF file and everything needed to attach it and to read its results.
//!
//! In: assembled by [`crate::compile`]. Out: read by the runtime; `profiler build` writes the ELF alone.
//! Guarantee: plain data, no file descriptor, no address.

mod span;

pub use span::{Span as TimeSpan, SpanCounter, WhenFull};

use std::collections::BTreeMap;

use crate::btf::BtfId;
use crate::params::Param;
use crate::source::Span;
use crate::types::Type;
use crate::units::Unit;
use crate::view::View;
use crate::words::{Aggregation, Function, Pages};

/// A compiled script.
#[derive(Debug)]
pub struct Object {
    /// The relocatable BPF ELF.
    pub elf: Vec<u8>,
    /// Its programs, in the order of the script.
    pub programs: Vec<Program>,
    /// The script's maps (`@x`), sorted by name.
    pub maps: Vec<UserMap>,
    /// Names of the values of enums that may be printed.
    pub enums: BTreeMap<BtfId, Vec<(i64, String)>>,
    /// Kinds of records in the rings; a record's first `u32` is an index in here.
    pub events: Vec<Event>,
    /// Names that values of type probe name index.
    pub probe_names: Vec<String>,
    /// Strings that values index (time formats).
    pub strings: Vec<String>,
    /// Name of the ring-buffer map with data, when any event needs it.
    pub data_ring: Option<String>,
    /// Name of the ring-buffer map with control events, when any event needs it.
    pub control_ring: Option<String>,
    /// Offset in `.bss` of a `u64`: nonzero while the reader sleeps and wants to be woken by a commit.
    pub wake_flag_offset: Option<u32>,
    /// Offset in `.bss` of a `u64`: the boot-clock time in ns at which the run started; written by the runtime before
    /// anything is attached (`elapsed`).
    pub start_time_offset: Option<u32>,
    /// Offset in `.bss` of a `u64`: the wall-clock time in ns since 1970 at which the boot clock read 0; written by the runtime before
    /// anything is attached.
    pub wall_clock_offset: Option<u32>,
    /// Offset in `.bss` of a `u64`: what a test or a benchmark returned last.
    pub result_offset: Option<u32>,
    /// Stack tables by name with the most frames of an entry (key `u32`, value that many `u64`).
    pub stack_tables: Vec<StackTable>,
    /// Counters of what was lost.
    pub ledger: Vec<Counter>,
    /// Settings from the script's config block that concern the runtime.
    pub config: Config,
    /// The script's parameters, with the values that it was made with and where other values go.
    pub params: Vec<Param>,
    /// How maps are shown.
    pub views: Vec<View>,
    /// Offset in `.bss` of a `u64`, 0 or 1: into which of their two places programs that start now put what they find of maps with an
    /// [`UserMap::alternate`].
    pub generation_offset: Option<u32>,
    /// The script's spans.
    pub spans: Vec<TimeSpan>,
}

impl Object {
    /// Whether its results have addresses of processes that are shown as symbols.
    pub fn has_user_addresses(&self) -> bool {
        let in_map = |map: &UserMap| {
            map.key.as_ref().is_some_and(Type::has_user_addresses)
                || matches!(&map.value, MapValue::Plain(ty) if ty.has_user_addresses())
        };
        let in_event = |event: &Event| event.fields.iter().any(|field| field.ty.has_user_addresses());
        self.maps.iter().any(in_map) || self.events.iter().any(in_event)
    }
}

/// What the number of a stack has added to it when it is one of the table of collisions.
pub const IN_COLLISION_TABLE: i64 = 1 << 32;

/// A table of stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackTable {
    /// The map's name in the object.
    pub map: String,
    /// The name of another one, for stacks whose place in the first was taken; their numbers are [`IN_COLLISION_TABLE`] higher.
    pub collisions: String,
    /// Most frames of an entry; also selects the table for a value of [`Type::Stack`] with this limit.
    pub limit: u8,
}

/// Runtime settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Print all maps when the run ends.
    pub print_maps_on_exit: bool,
    /// Most bytes that `cat` prints.
    pub max_cat_bytes: u64,
    /// What follows a string that was cut (`..`).
    pub str_trunc_trailer: String,
    /// The room of a string that the script gave no size, in bytes.
    pub max_strlen: u32,
}

/// One BPF program.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its name in the object.
    pub name: String,
    /// The probes it serves, as bpftrace would print them (`tracepoint:syscalls:sys_enter_openat`).
    pub probes: Vec<String>,
    /// How many attach points count for `Attached N probes`.
    pub points: u32,
    /// How it is attached.
    pub attach: Attach,
    /// The block in the script.
    pub span: Span,
}

/// How a program is attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attach {
    /// Run once, by test run, before everything else is attached.
    Begin,
    /// Run once, by test run, after everything else is detached.
    End,
    /// Run once, by test run, when tests are asked for; then nothing is attached.
    Test {
        /// The test's name.
        name: String,
    },
    /// Run again and again, by test run, when benchmarks are asked for; then nothing is attached.
    Bench {
        /// The benchmark's name.
        name: String,
    },
    /// Run by test run each time that the runtime gets SIGUSR1.
    Signal,
    /// Run by test run from a timer of the runtime.
    Timer {
        /// Period.
        period_ns: u64,
    },
    /// Run by test run again and again while this span is open anywhere, to close what is too old.
    Sweep {
        /// The span's index.
        span: usize,
        /// Period.
        period_ns: u64,
    },
    /// Each raw tracepoint named here.
    RawTracepoint {
        /// Their names (`sched_switch`).
        names: Vec<String>,
    },
    /// A tracepoint through a perf event.
    Tracepoint {
        /// Category (`sched`).
        category: String,
        /// Event (`sched_switch`).
        event: String,
    },
    /// Entries or returns of functions in a file.
    Uprobe {
        /// The file.
        path: String,
        /// At the return instead of the entry.
        at_return: bool,
        /// File offsets, each with its cookie.
        sites: Vec<Site>,
        /// One multi link (the program's section is `uprobe.multi`); else one perf event a site. Since 6.6.
        multi: bool,
        /// Only this process.
        pid: Option<u32>,
    },
    /// Entries or returns of kernel functions; the context is the registers.
    Kprobe {
        /// At the return instead of the entry.
        at_return: bool,
        /// The functions, each with its cookie.
        sites: Vec<FunctionSite>,
        /// One multi link (the program's section is `kprobe.multi`); else one perf event a site. Since 5.18.
        multi: bool,
    },
    /// The entry or exit of the kernel function that the program's section names; the context is its arguments.
    Trampoline {
        /// The function.
        function: String,
        /// At the exit, where the result follows the arguments.
        at_return: bool,
    },
    /// Run once for each object of a kind that the kernel has when the script starts.
    Iterator {
        /// The kind (`task`).
        objects: String,
        /// Only those of this process. Since 6.1.
        pid: Option<u32>,
    },
    /// Accesses to memory.
    Watchpoint {
        /// Where it begins.
        address: u64,
        /// How much of it; of no meaning for execution.
        length_bytes: u8,
        /// Which accesses.
        mode: Watch,
        /// By this process; `None` for an address of the kernel.
        pid: Option<u32>,
    },
    /// A perf event on each CPU.
    PerfEvent {
        /// `PERF_TYPE_*`.
        kind: u32,
        /// `PERF_COUNT_*`.
        config: u64,
        /// How often.
        rate: Rate,
        /// Only this process.
        pid: Option<u32>,
    },
}

impl Attach {
    /// Whether it is a test or a benchmark, which other runs leave alone.
    pub fn is_trial(&self) -> bool {
        matches!(self, Attach::Test { .. } | Attach::Bench { .. })
    }

    /// Whether the program runs when a function returns.
    pub fn at_return(&self) -> bool {
        matches!(
            self,
            Attach::Uprobe { at_return: true, .. }
                | Attach::Kprobe { at_return: true, .. }
                | Attach::Trampoline { at_return: true, .. }
        )
    }

    /// What the kernel calls this way of probing a function; `None` where it is no function.
    pub fn function_mechanism(&self) -> Option<&'static str> {
        Some(match self {
            Attach::Uprobe { multi: true, .. } => "uprobe.multi",
            Attach::Uprobe { .. } => "uprobe",
            Attach::Kprobe { multi: true, .. } => "kprobe.multi",
            Attach::Kprobe { .. } => "kprobe",
            Attach::Trampoline { at_return: false, .. } => "fentry",
            Attach::Trampoline { .. } => "fexit",
            _ => return None,
        })
    }
}

/// Where a kprobe sits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSite {
    /// The function.
    pub function: String,
    /// Its module, when the script names one.
    pub module: Option<String>,
    /// Bytes from its entry.
    pub offset_bytes: u64,
    /// What `bpf_get_attach_cookie` yields there.
    pub cookie: u64,
}

/// Where a uprobe sits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Offset in the file.
    pub file_offset: u64,
    /// The function or `0x…`.
    pub name: String,
    /// What `bpf_get_attach_cookie` yields there.
    pub cookie: u64,
    /// Offset in the file of a 16-bit counter that is raised as long as the site is probed; 0 for none.
    pub semaphore_offset: u64,
}

/// Accesses to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watch {
    /// Reads.
    pub read: bool,
    /// Writes.
    pub write: bool,
    /// Execution.
    pub execute: bool,
}

/// How often a perf event fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Times a second.
    Hertz(u64),
    /// Once every so many counts (ns for clocks).
    Period(u64),
}

/// A map of the script.
#[derive(Debug)]
pub struct UserMap {
    /// The name with its sigil: `@`, `@start`.
    pub name: String,
    /// Key; `None` for a scalar.
    pub key: Option<Type>,
    /// Value.
    pub value: MapValue,
    /// What its values count.
    pub unit: Unit,
    /// Where it lives.
    pub storage: Storage,
    /// Where it lives while the generation is 1, when a view takes it by windows.
    pub alternate: Option<Storage>,
    /// First use in the script.
    pub span: Span,
}

impl UserMap {
    /// Where programs put what they find while the generation is this.
    pub fn place(&self, generation: u64) -> &Storage {
        self.alternate.as_ref().filter(|_| generation == 1).unwrap_or(&self.storage)
    }

    /// Whether it holds declared states, which are printed where the script asks for it only.
    pub fn is_state(&self) -> bool {
        !self.name.starts_with('@')
    }
}

/// What a map holds.
#[derive(Debug)]
pub enum MapValue {
    /// A value that was assigned.
    Plain(Type),
    /// An aggregation.
    Aggregate {
        /// Which.
        word: &'static dyn Aggregation,
        /// Its constants (bounds, steps).
        params: Vec<i64>,
        /// Whether the aggregated values are signed.
        signed: bool,
    },
}

impl MapValue {
    /// How its value under a key is kept, when that is in pages.
    pub fn pages(&self) -> Option<Pages> {
        match self {
            MapValue::Aggregate { word, params, .. } => word.pages(params),
            MapValue::Plain(_) => None,
        }
    }
}

/// Where a map lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// Copies in `.bss`, `copies` of them, `stride_bytes` apart (one a CPU for aggregations). Each copy is a `u64` that is
    /// nonzero once the map was written, then the value.
    Global {
        /// Offset of the first copy in `.bss`.
        offset_bytes: u32,
        /// Distance of two copies.
        stride_bytes: u32,
        /// How many.
        copies: u32,
        /// Size of the value behind the `u64`.
        value_size_bytes: u32,
    },
    /// A BPF map; entries exist as soon as they were written.
    Map {
        /// Its name in the object.
        map: String,
        /// Whether each CPU has its own values, which the aggregation merges.
        per_cpu: bool,
        /// Size of a key.
        key_size_bytes: u32,
        /// Size of a value.
        value_size_bytes: u32,
        /// Room for entries.
        max_entries: u32,
        /// Whether entries get their memory as they come, instead of beforehand.
        on_demand: bool,
        /// Whether the entry that was not used for longest makes room for a new one.
        evicts: bool,
        /// `.bss` offset of a `u64` with the number of entries, when programs keep one: whoever removes entries from
        /// outside must subtract them there.
        length_offset: Option<u32>,
    },
    /// A value for each thread, which goes with it. The key is the thread's number.
    Threads(ThreadMap),
}

/// A map with a value for each thread, and what reads all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadMap {
    /// Its name in the object.
    pub map: String,
    /// The name of a program for the iterator of tasks. It writes out, for each thread that has a value, its bytes and a `u64` with
    /// the thread's number in the low half and 1 in the high one.
    pub reader: String,
    /// Offset in `.bss` of a `u64`: when it is not 0, the program removes the values instead.
    pub order_offset: u32,
    /// Size of a value, a multiple of 8.
    pub value_size_bytes: u32,
}

/// A kind of ring-buffer record: bytes 0..4 are the event's index, 4..8 the record's size, then its fields.
#[derive(Debug)]
pub struct Event {
    /// The function that made it and knows what to do with it.
    pub word: &'static dyn Function,
    /// Constants of the call (formats, map indices, modes).
    pub constants: Vec<Constant>,
    /// Its fields.
    pub fields: Vec<Field>,
    /// Bytes of the longest record of this kind.
    pub max_size_bytes: u32,
    /// Index of the program that emits it.
    pub program: usize,
    /// The call in the script.
    pub span: Span,
}

/// A constant of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Constant {
    /// A number.
    Int(i64),
    /// A string.
    Str(String),
    /// A map of [`Object::maps`].
    Map(usize),
    /// A format string, parsed.
    Format(crate::format::Format),
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its type.
    pub ty: Type,
    /// Where it lies; for `variable` ones a `u32` offset and a `u32` length of the bytes in the record.
    pub offset_bytes: u32,
    /// Whether only its real length is in the record (strings and buffers).
    pub variable: bool,
}

/// A `u64` in `.bss` that counts something lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Offset in `.bss`.
    pub offset_bytes: u32,
    /// What it counts.
    pub loss: Loss,
}

/// The most rounds of a loop, the kernel's `BPF_MAX_LOOPS`.
pub const MAX_ROUNDS: u32 = 8 << 20;

/// What can be lost.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Records of a program that found the data ring full.
    Events {
        /// Index of the program.
        program: usize,
    },
    /// Control records that found the control ring full.
    Control {
        /// Index of the program.
        program: usize,
    },
    /// Updates refused because a map was full.
    MapFull {
        /// Index of the map.
        map: usize,
    },
    /// Stacks that could not be stored.
    Stacks,
    /// Loops that did more rounds than the kernel lets them.
    Rounds {
        /// Index of the program.
        program: usize,
    },
    /// Runs that found no scratch memory free.
    Scratch {
        /// Index of the program.
        program: usize,
    },
    /// Runs that the kernel skipped, because a program was running on that CPU already. The kernel counts them, not the
    /// program.
    Skipped {
        /// Index of the program.
        program: usize,
    },
}

impl UserMap {
    /// Whether a module keeps it to itself: it is not printed when the run ends.
    pub fn is_private(&self) -> bool {
        self.name.contains('\'')
    }
}

impl Default for Config {
    fn default() -> Config {
        Config { print_maps_on_exit: true, max_cat_bytes: 10240, str_trunc_trailer: "..".into(), max_strlen: 1024 }
    }
}
