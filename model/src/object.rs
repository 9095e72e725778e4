//! The compiler's output for the runtime: one ELF file and everything needed to attach it and to
//! read its results.
//!
//! In: assembled by the compiler. Out: read by the runtime; `profiler build` writes it to a file.
//! Guarantee: plain data that can be stored as text; no file descriptors, no pointers.

mod attach;
mod events;
mod loss;
mod map;
mod span;
mod stored;
mod validate;

pub use attach::{Attach, CPU_CLOCK, FoundBy, FunctionSite, PROCESS_SHIFT, Program, Rate, SOFTWARE, Site, Watch};
pub use loss::{Counter, Loss, MAX_FOLLOWED_RETURNS, MAX_ROUNDS, MERGED_TICKS_BYTES, RunCounter};
pub use map::{Alternate, MapValue, PAGE_NUMBER_BYTES, Pages, Storage, ThreadMap, UserMap};
pub use span::{EndedKeys, Span as TimeSpan, SpanCounter, WhenFull};
pub use validate::{DataSizes, Flaw};

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::params::Param;
use crate::results::WordName;
use crate::source::Span;
use crate::types::BtfId;
use crate::types::Type;
use crate::unwind::Unwinding;
use crate::view::View;

/// A compiled script.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Object {
    /// The relocatable BPF ELF; not part of the serialised form, which is a section of it.
    #[serde(skip)]
    pub elf: Vec<u8>,
    /// By the name of a program: the BTF id of the kernel's function that it is loaded for, if that
    /// is known. Ids of another kernel differ, so they are not serialised.
    #[serde(skip)]
    pub loaded_for: BTreeMap<String, u32>,
    /// Its programs, in script order.
    pub programs: Vec<Program>,
    /// The script's maps (`@x`), sorted by name.
    pub maps: Vec<UserMap>,
    /// Enumerator names of the enums that may be printed.
    pub enums: BTreeMap<BtfId, Vec<(i64, String)>>,
    /// Kinds of ring-buffer records. The first `u32` of a record is an index into this list.
    pub events: Vec<Event>,
    /// Probe names. Values of type [`Type::ProbeName`] are indexes into this list.
    pub probe_names: Vec<String>,
    /// Strings that values refer to by index (time formats).
    pub strings: Vec<String>,
    /// Name of the ring-buffer map for data records, if any event needs it.
    pub data_ring: Option<String>,
    /// Name of the ring-buffer map for control records, if any event needs it.
    pub control_ring: Option<String>,
    /// The perf buffers for packets, if any program sends some.
    pub packets: Option<PacketBuffers>,
    /// Offset in `.bss` of a `u64`: nonzero while the reader sleeps and wants a commit to wake it.
    pub wake_flag_offset: Option<u32>,
    /// Offset in `.bss` of a `u64`: the boot-clock time in ns at which the run started (`elapsed`).
    /// The runtime writes it before it attaches anything.
    pub start_time_offset: Option<u32>,
    /// Offset in `.bss` of a `u64`: the wall-clock time in ns since 1970 at which the boot clock
    /// was 0. The runtime writes it before it attaches anything.
    pub wall_clock_offset: Option<u32>,
    /// Offset in `.bss` of a `u64`: the byte offset, within the kernel's perf event, of the expiry
    /// time of its timer. The runtime writes it before it attaches anything. While it is 0, merged
    /// ticks cannot be distinguished from ticks at which a program did not run.
    pub expiry_offset: Option<u32>,
    /// Offset in `.bss` of a `u64`, the gate: while it is nonzero, attached programs return
    /// immediately. The runtime keeps it [`CLOSED`] until everything is attached, and closes it
    /// again before `END` runs. `exit` closes it with [`CLOSED_BY_EXIT`] and its exit code.
    pub gate_offset: u32,
    /// Offset in `.bss` of a `u64`: the last return value of a test or benchmark.
    pub result_offset: Option<u32>,
    /// Stack tables, one for each frame limit in use.
    pub stack_tables: Vec<StackTable>,
    /// The maps for walking stacks by unwind tables, if the script asks for such stacks.
    pub unwinding: Option<Unwinding>,
    /// Loss counters.
    pub ledger: Vec<Counter>,
    /// Run counters of the programs that are attached to perf events.
    pub run_counters: Vec<RunCounter>,
    /// Settings from the script's config block that affect the runtime.
    pub config: Config,
    /// The script's parameters: the values it was compiled with, and where to write other values.
    pub params: Vec<Param>,
    /// How maps are displayed.
    pub views: Vec<View>,
    /// Offset in `.bss` of the generation word, a `u64`: selects which of the two buffers newly
    /// started programs write, for maps with an [`UserMap::alternate`]. Each bit belongs to one
    /// group of maps.
    pub generation_offset: Option<u32>,
    /// The script's spans.
    pub spans: Vec<TimeSpan>,
}

impl Object {
    /// Whether the results contain addresses of user processes that are printed as symbols.
    pub fn has_user_addresses(&self) -> bool {
        let in_map = |map: &UserMap| {
            map.key.as_ref().is_some_and(Type::has_user_addresses)
                || matches!(&map.value, MapValue::Plain(ty) if ty.has_user_addresses())
        };
        let in_event = |event: &Event| event.fields.iter().any(|field| field.ty.has_user_addresses());
        self.maps.iter().any(in_map) || self.events.iter().any(in_event)
    }

    /// The first block of each kernel program, with its index. All blocks of a kernel program are
    /// attached the same way.
    pub fn kernel_programs(&self) -> impl Iterator<Item = (usize, &Program)> {
        let mut seen = BTreeSet::new();
        self.programs.iter().enumerate().filter(move |(_, program)| seen.insert(program.runs_in.as_str()))
    }

    /// All blocks that run in the same kernel program as block `index`, in execution order.
    pub fn blocks_with(&self, index: usize) -> impl Iterator<Item = (usize, &Program)> {
        let runs_in = self.programs.get(index).map(|program| &program.runs_in);
        self.programs.iter().enumerate().filter(move |(_, program)| Some(&program.runs_in) == runs_in)
    }
}

/// The value that the runtime writes to the gate to close it.
pub const CLOSED: u64 = 1;

/// The value that `exit` writes to the gate, with the exit code in the low 8 bits.
pub const CLOSED_BY_EXIT: u64 = 1 << 8;

/// Stack ids from this value on are keys of [`StackTable::overflow`].
pub const IN_OVERFLOW: i64 = 1 << 62;

/// A table of stacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackTable {
    /// Name in the object of the `BPF_MAP_TYPE_STACK_TRACE` map. `None` if only iterators take
    /// stacks, since they cannot use it.
    pub map: Option<String>,
    /// Name of a hash map for the stacks that are not in the first map. Key: the id, a `u64`.
    /// Value: `limit` frames as `u64`, padded with zeros.
    pub overflow: String,
    /// Minimum number of distinct stacks that can be kept.
    pub capacity: u32,
    /// Maximum number of frames of an entry; a value of [`Type::Stack`] with this limit uses this
    /// table.
    pub limit: u8,
}

/// The buffers of `skboutput`. The kernel copies packets to perf buffers only. What it copies is a
/// record of an [`Event`] whose last bytes are those of the packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketBuffers {
    /// Name in the object of the `BPF_MAP_TYPE_PERF_EVENT_ARRAY` map, which has an entry per CPU.
    pub map: String,
    /// Size of all buffers together, in bytes.
    pub size_bytes: u32,
    /// Paths of the files that packets are written to.
    pub files: BTreeSet<String>,
}

/// Runtime settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Print all maps when the run ends.
    pub print_maps_on_exit: bool,
    /// Maximum number of bytes that `cat` prints.
    pub max_cat_bytes: u64,
    /// Appended to a truncated string (`..`).
    pub str_trunc_trailer: String,
    /// Capacity in bytes of strings without an explicit size.
    pub max_strlen: u32,
    /// Whether user stacks have source lines and inlined functions.
    pub show_debug_info: bool,
    /// What a program that cannot be attached does to the run.
    pub refused_probes: RefusedProbes,
}

/// What to do about a probe that the kernel refuses to attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RefusedProbes {
    /// The run ends.
    #[default]
    End,
    /// A warning: the rest runs.
    Warn,
    /// The rest runs, without a warning.
    Ignore,
}

/// A kind of ring-buffer record: bytes 0..4 are the event index, bytes 4..8 the size of the record,
/// then its fields.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The function that emits the record and handles it in the runtime.
    pub word: WordName,
    /// Whether it ends the run.
    pub ends_the_run: bool,
    /// Constants of the call (formats, map indices, modes).
    pub constants: Vec<Constant>,
    pub fields: Vec<Field>,
    /// Maximum size of such a record, in bytes.
    pub max_size_bytes: u32,
    /// Index of the program that emits it.
    pub program: usize,
    /// The call in the script.
    pub span: Span,
    /// The calls of macros whose expansion has the call, the innermost first.
    pub expanded_from: Vec<Span>,
}

impl Event {
    /// The call, then the calls of macros that led to it.
    pub fn places(&self) -> Vec<Span> {
        std::iter::once(self.span).chain(self.expanded_from.iter().copied()).collect()
    }
}

/// A constant of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Constant {
    /// A number.
    Int(i64),
    /// A string.
    Str(String),
    /// Index of a map in [`Object::maps`].
    Map(usize),
    /// A format string, parsed.
    Format(crate::format::Format),
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    pub ty: Type,
    /// Offset in the record. For a `variable` field, the offset of a `u32` pair: offset and length
    /// of the bytes within the record.
    pub offset_bytes: u32,
    /// Whether the record contains only the bytes in use (strings and buffers), not the full
    /// capacity.
    pub variable: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            print_maps_on_exit: true,
            max_cat_bytes: 10240,
            str_trunc_trailer: "..".into(),
            max_strlen: 1024,
            refused_probes: RefusedProbes::End,
            show_debug_info: true,
        }
    }
}
