//! The intermediate representation: one function a BPF program, in basic blocks over virtual registers.
//!
//! In: made by `lower`. Out: optimised in place, verified, printed, evaluated by [`eval`], and turned into bytecode by `emit`.
//! Guarantees after [`verify`]: every block ends in one terminator, every used register was defined on every path to
//! the use, every slot access lies inside its slot, every helper call has its helper's number of arguments.
//!
//! Level: registers hold 64 bits. A register may be assigned more than once (it is not SSA); loops are back edges.
//! Memory is reached through *addresses the kernel's verifier knows*: slots (the BPF stack), data sections,
//! map values (results of a look-up, after a null check), ring-buffer records and the context. Everything else is read
//! by `ProbeRead*` helpers into a slot. Sub-64-bit loads zero-extend; use [`Inst::Extend`] for signed values.

pub mod arithmetic;
pub mod build;
pub mod eval;
pub mod flow;
mod helper;
mod inst;
pub mod optimise;
pub mod print;
pub mod random;
pub mod regs;
pub mod verify;
pub(crate) mod visit;

pub use helper::{Effect, Helper, WALK_BYTES};
pub use inst::{Addr, Arg, Base, BinOp, CmpOp, Inst, Likely, Operand, Section, Size, Terminator, Width};

use crate::source::Span;

/// A virtual register: 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VReg(pub u32);

/// An object on the function's stack frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub u32);

/// A basic block of the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// A map of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MapId(pub u32);

/// A function that helpers call: its place in [`Program::subprograms`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// Everything that becomes one object file.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// One a BPF program.
    pub functions: Vec<Function>,
    /// What programs hand to helpers that call back. A subprogram names only earlier ones, so none runs inside itself.
    pub subprograms: Vec<Function>,
    /// Maps, named as in the object (`at_start`), without the data sections.
    pub maps: Vec<Map>,
    /// Bytes of the frozen `.rodata` section.
    pub rodata: Vec<u8>,
    /// Names of the parts at its start that others may give other values before it is frozen, with offset and size.
    pub rodata_names: Vec<(String, u32, u32)>,
    /// Size of the zero-initialised `.bss` section.
    pub bss_size_bytes: u32,
    /// The numbers in the kernel's BTF of the functions that programs call.
    pub kernel_functions: Vec<(Helper, u32)>,
}

/// A BPF map declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    /// Symbol name: `[A-Za-z_][A-Za-z0-9_]*`, at most 15 characters matter to the kernel.
    pub name: String,
    /// What kind.
    pub kind: MapKind,
    /// Bytes of a key; 0 for a ring buffer.
    pub key_size_bytes: u32,
    /// Bytes of a value; 0 for a ring buffer.
    pub value_size_bytes: u32,
    /// Entries, or bytes for a ring buffer (a power of two, a multiple of the page size).
    pub max_entries: u32,
    /// Allocate entries on demand (`BPF_F_NO_PREALLOC`).
    pub no_prealloc: bool,
}

/// What the kernel keeps beside key and value of an entry of a hash map (`struct htab_elem`, its bucket, a pointer to the CPUs' values).
pub const ENTRY_OVERHEAD_BYTES: u64 = 64;

impl Map {
    /// Memory that it takes when it is full, on a machine with so many CPUs; for a hash map within some percent.
    pub fn memory_bytes(&self, cpus: u64) -> u64 {
        let (key, value) = (u64::from(self.key_size_bytes), u64::from(self.value_size_bytes).next_multiple_of(8));
        let entry = match self.kind {
            MapKind::RingBuf => return u64::from(self.max_entries),
            MapKind::PerCpuHash | MapKind::LruPerCpuHash => ENTRY_OVERHEAD_BYTES + key + value * cpus,
            MapKind::PerCpuArray => value * cpus,
            MapKind::Array => value,
            MapKind::Hash | MapKind::LruHash | MapKind::StackTrace | MapKind::TaskStorage => {
                ENTRY_OVERHEAD_BYTES + key + value
            }
        };
        u64::from(self.max_entries) * entry
    }
}

/// Memory that hash maps take as soon as they exist.
pub fn preallocated_bytes(maps: &[Map], cpus: u64) -> u64 {
    let is_hash = |map: &&Map| {
        matches!(map.kind, MapKind::Hash | MapKind::PerCpuHash | MapKind::LruHash | MapKind::LruPerCpuHash)
    };
    maps.iter().filter(is_hash).filter(|map| !map.no_prealloc).map(|map| map.memory_bytes(cpus)).sum()
}

/// The kernel's map types that we use. Numbers: `enum bpf_map_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant is the kernel's map type of its name")]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    PerCpuHash = 5,
    PerCpuArray = 6,
    StackTrace = 7,
    LruHash = 9,
    LruPerCpuHash = 10,
    RingBuf = 27,
    TaskStorage = 29,
}

/// Who calls a function, and with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Role {
    /// The kernel, with the context.
    #[default]
    Program,
    /// `loop`, with the number of the iteration and the caller's address; anything but 0 ends the loop.
    Iteration,
    /// `for_each_map_elem`, with the map, a key, its value and the caller's address; anything but 0 ends the walk.
    Entry,
}

impl Role {
    /// How many parameters [`Inst::Parameter`] may ask for.
    pub fn parameters(self) -> u8 {
        match self {
            Role::Program => 0,
            Role::Iteration => 2,
            Role::Entry => 4,
        }
    }
}

/// One BPF program, or a subprogram of some.
#[derive(Debug, Clone)]
pub struct Function {
    /// Symbol name, unique in the object.
    pub name: String,
    /// ELF section, which tells a loader how to attach: `raw_tp/sys_enter`, `tp/sched/sched_switch`, `uprobe.multi`, `perf_event`.
    pub section: String,
    /// Who calls it.
    pub role: Role,
    /// The context's size that may be read, in bytes; 0 when the context is not touched.
    pub context_size_bytes: u32,
    /// Blocks; execution starts at block 0.
    pub blocks: Vec<Block>,
    /// Number of virtual registers.
    pub vregs: u32,
    /// Stack objects.
    pub slots: Vec<Slot>,
    /// The probe block in the script.
    pub span: Span,
}

/// An object on the stack frame. Contents are undefined until written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Size; at most 512 less what spills need.
    pub size_bytes: u32,
    /// Alignment: 1, 2, 4 or 8.
    pub align_bytes: u32,
    /// For the printer: `key`, `str`, `event`.
    pub name: &'static str,
}

/// Straight-line code with one way out.
#[derive(Debug, Clone)]
pub struct Block {
    /// The instructions, each with the script's characters it came from.
    pub insts: Vec<(Inst, Span)>,
    /// The way out.
    pub end: Terminator,
    /// The characters the terminator came from.
    pub end_span: Span,
}
