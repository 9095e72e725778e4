//! The intermediate representation: one function per BPF program, in blocks over virtual registers.
//!
//! In: built by `lower`. Out: optimised in place, verified, printed, and turned into
//! bytecode by `emit`.
//! Guarantees after [`verify`]: every block ends in one terminator; every used register is assigned
//! on every path to the use; every slot access lies inside its slot; every helper call has the
//! number of arguments its helper takes.
//!
//! Level: registers hold 64 bits. A register may be assigned more than once (this is not SSA).
//! Loops are back edges. Loads and stores use only *addresses the kernel's verifier tracks*: slots
//! (the BPF stack), data sections, map values (lookup results after a null check), ring-buffer
//! records and the context. All other memory is read into a slot by `ProbeRead*` helpers. Loads of
//! less than 64 bits zero-extend; use [`Inst::Extend`] for signed values.

pub mod arithmetic;
pub mod build;
pub mod flow;
mod helper;
mod inst;
pub mod joins;
pub mod optimise;
pub mod print;
pub mod regs;
pub mod verify;
pub(crate) mod visit;

pub use helper::{Effect, Helper, WALK_BYTES};
pub use inst::{Addr, Arg, Base, BinOp, CmpOp, Inst, Likely, Operand, Section, Size, Terminator, Width};

use crate::source::Span;

/// A virtual register: 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VReg(pub u32);

/// An object in the function's stack frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub u32);

/// A basic block of the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// A map of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MapId(pub u32);

/// A subprogram: its index in [`Program::subprograms`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// Everything that goes into one object file.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// One function per BPF program.
    pub functions: Vec<Function>,
    /// Functions that programs call or pass to helpers as callbacks. A subprogram refers only to
    /// earlier ones, so there is no recursion.
    pub subprograms: Vec<Function>,
    /// The maps, named as in the object (`at_start`), without the data sections.
    pub maps: Vec<Map>,
    /// Bytes of the frozen `.rodata` section.
    pub rodata: Vec<u8>,
    /// Named variables at the start of `.rodata`, with offset and size. A loader may set them
    /// before the section is frozen.
    pub rodata_names: Vec<(String, u32, u32)>,
    /// Size of the zero-initialised `.bss` section.
    pub bss_size_bytes: u32,
    /// The BTF ids of the kernel functions (kfuncs) that programs call.
    pub kernel_functions: Vec<(Helper, u32)>,
}

/// A BPF map declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    /// Symbol name: `[A-Za-z_][A-Za-z0-9_]*`, at most 15 characters matter to the kernel.
    pub name: String,
    /// The kernel's map type.
    pub kind: MapKind,
    /// Size of a key in bytes; 0 for a ring buffer.
    pub key_size_bytes: u32,
    /// Size of a value in bytes; 0 for a ring buffer.
    pub value_size_bytes: u32,
    /// Capacity in entries, or in bytes for a ring buffer (a power of two, a multiple of the page
    /// size).
    pub max_entries: u32,
    /// Allocate entries on demand (`BPF_F_NO_PREALLOC`).
    pub no_prealloc: bool,
}

/// The kernel's overhead per hash map entry, besides key and value (`struct htab_elem`, its bucket,
/// a pointer to the per-CPU values).
pub const ENTRY_OVERHEAD_BYTES: u64 = 64;

impl Map {
    /// Memory that a full map takes on a machine with `cpus` CPUs, in bytes. For hash maps accurate
    /// to a few percent.
    pub fn memory_bytes(&self, cpus: u64) -> u64 {
        let (key, value) = (u64::from(self.key_size_bytes), u64::from(self.value_size_bytes).next_multiple_of(8));
        let entry = match self.kind {
            MapKind::RingBuf => return u64::from(self.max_entries),
            MapKind::PerCpuHash | MapKind::LruPerCpuHash => ENTRY_OVERHEAD_BYTES + key + value * cpus,
            MapKind::PerCpuArray => value * cpus,
            MapKind::Array | MapKind::PerfEventArray => value,
            MapKind::Hash | MapKind::LruHash | MapKind::StackTrace | MapKind::TaskStorage => {
                ENTRY_OVERHEAD_BYTES + key + value
            }
        };
        u64::from(self.max_entries) * entry
    }
}

/// Memory in bytes that preallocated hash maps take as soon as they are created.
pub fn preallocated_bytes(maps: &[Map], cpus: u64) -> u64 {
    let is_hash = |map: &&Map| {
        matches!(map.kind, MapKind::Hash | MapKind::PerCpuHash | MapKind::LruHash | MapKind::LruPerCpuHash)
    };
    maps.iter().filter(is_hash).filter(|map| !map.no_prealloc).map(|map| map.memory_bytes(cpus)).sum()
}

/// The kernel's map types that we use. The numbers are those of `enum bpf_map_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    /// Descriptors of perf events, by CPU.
    PerfEventArray = 4,
    PerCpuHash = 5,
    PerCpuArray = 6,
    StackTrace = 7,
    LruHash = 9,
    LruPerCpuHash = 10,
    RingBuf = 27,
    TaskStorage = 29,
}

/// The caller of a function and the arguments that it passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Role {
    /// Called by the kernel with the context.
    #[default]
    Program,
    /// Called by `loop` with the iteration number and the caller's address; any result but 0 ends
    /// the loop.
    Iteration,
    /// Called by `for_each_map_elem` with the map, a key, its value and the caller's address; any
    /// result but 0 ends the walk.
    Entry,
    /// Called by a program with its context: one of several blocks that share a program.
    Block,
    /// Called by any function with two numbers. It has no context, and the verifier checks it on
    /// its own.
    Apart,
}

impl Role {
    /// The number of parameters that [`Inst::Parameter`] can read.
    pub fn parameters(self) -> u8 {
        match self {
            Role::Program | Role::Block => 0,
            Role::Iteration | Role::Apart => 2,
            Role::Entry => 4,
        }
    }
}

/// One BPF program or subprogram.
#[derive(Debug, Clone)]
pub struct Function {
    /// Symbol name, unique in the object.
    pub name: String,
    /// ELF section, from which a loader derives how to attach: `raw_tp/sys_enter`,
    /// `tp/sched/sched_switch`, `uprobe.multi`, `perf_event`.
    pub section: String,
    /// The caller and the arguments.
    pub role: Role,
    /// Readable bytes of the context; 0 when the function does not use the context.
    pub context_size_bytes: u32,
    /// The blocks; execution starts at block 0.
    pub blocks: Vec<Block>,
    /// Number of virtual registers.
    pub vregs: u32,
    /// Stack objects.
    pub slots: Vec<Slot>,
    /// The probe block in the script.
    pub span: Span,
}

/// An object in the stack frame. Its contents are undefined until written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Size in bytes; at most 512 minus the space for spills.
    pub size_bytes: u32,
    /// Alignment in bytes: 1, 2, 4 or 8.
    pub align_bytes: u32,
    /// Name for the printer: `key`, `str`, `event`.
    pub name: &'static str,
}

/// Straight-line code that ends in one terminator.
#[derive(Debug, Clone)]
pub struct Block {
    /// The instructions, each with its span in the script.
    pub insts: Vec<(Inst, Span)>,
    pub end: Terminator,
    /// The terminator's span in the script.
    pub end_span: Span,
}
