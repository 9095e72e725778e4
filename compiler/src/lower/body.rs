//! The body of one program, and what all code that lowers a part of it needs: values, our own
//! memory, expressions, branches.
//!
//! In: a [`typed::Probe`]. Out: an [`ir::Function`].
//! Guarantee: a method of [`Body`] is something that all parts of the language need. Those that
//! depend on a part are in its module: `expr` (values), `memory` (stores and copies), `stmt` and
//! `loops`; this file depends on none. What only some parts need is a function in the module named
//! after it, such as `maps::read` or `text::position`. State that belongs together is a type of its
//! own: [`FunctionState`], [`Scratch`], [`Captures`].

use crate::ir::build::FunctionBuilder;
use crate::ir::{self, Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, Operand, Role, Section, Size, VReg, Width};
use crate::layout;
use crate::lower::allocation::{self, Scratch};
use crate::lower::captures::Captures;
use crate::lower::function::FunctionState;
use crate::lower::merge::block_name;
use crate::lower::shared::Shared;
use crate::object::Loss;
use crate::source::Span;
use crate::typed::{self, ContextKind};
use crate::types::{Int, Type};

/// A lowered value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// No value.
    None,
    /// A scalar, sign- or zero-extended to 64 bits by its type.
    Scalar(Operand),
    /// Bytes in our own memory, laid out as [`layout`] says, padded with zeros.
    Memory(Addr),
    /// A string in our own memory. Only the given number of bytes, including the NUL, is written.
    Text(Addr, Operand),
    /// A string constant, without NUL.
    Bytes(Vec<u8>),
}

/// Memory that an expression may write its result to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Destination {
    pub addr: Addr,
    /// Whether the bytes after a string's NUL must be zero.
    pub padded: bool,
}

/// A program being lowered.
#[derive(Debug)]
pub struct Body<'a, 'p> {
    pub(super) shared: &'a mut Shared<'p>,
    /// The function being built.
    pub b: FunctionBuilder,
    pub(super) index: usize,
    pub(super) probe: &'p typed::Probe,
    /// Variables that the probe's loops share with the code around them.
    pub(super) captures: Captures,
    /// State of the function being built; each loop has its own.
    pub(super) function: FunctionState,
    /// The program's scratch memory.
    pub(super) scratch: Scratch,
    /// Number of subprograms so far, for their names.
    pub(super) subprograms: u32,
    /// Where the expression being lowered should store its result.
    pub(super) wanted: Option<Destination>,
    /// The active buffer of each group of double-buffered maps in the current code: a set bit
    /// selects the second.
    pub(super) generations: u64,
    /// The calls of macros whose expansions are being lowered, the innermost first.
    pub(super) expanded_from: Vec<Span>,
}

impl<'a, 'p> Body<'a, 'p> {
    /// A body without code.
    pub(super) fn new(shared: &'a mut Shared<'p>, index: usize) -> Body<'a, 'p> {
        let probe = &shared.program.probes[index];
        let name = block_name(index);
        let mut b = if shared.merged.has(index) {
            FunctionBuilder::subprogram(name, Role::Block, probe.span)
        } else {
            FunctionBuilder::new(name, probe.section.clone(), probe.span)
        };
        let exit = b.new_block();
        let looped = shared.program.maps.iter().map(|map| shared.is_read_in_a_loop(map)).collect();
        Body {
            shared,
            b,
            index,
            probe,
            captures: Captures::of(probe, looped),
            function: FunctionState::new(exit, None),
            scratch: Scratch::default(),
            subprograms: 0,
            wanted: None,
            generations: 0,
            expanded_from: Vec::new(),
        }
    }

    /// Lowers a block whose first statement is at `first`. The block of a macro's expansion is at
    /// the call, and its statements are in the macro.
    pub(super) fn within<T>(&mut self, first: Option<Span>, lower: impl FnOnce(&mut Self) -> T) -> T {
        let block = self.b.span();
        let is_expansion = first.is_some_and(|first| first.start < block.start || first.end > block.end);
        if is_expansion {
            self.expanded_from.insert(0, block);
        }
        let lowered = lower(self);
        if is_expansion {
            self.expanded_from.remove(0);
        }
        lowered
    }

    /// Whether this block shares its program, which has already tested the gate and the system
    /// call.
    pub(super) fn is_merged(&self) -> bool {
        self.shared.merged.has(self.index)
    }

    /// Completes the function as built so far.
    pub(super) fn finish(self) -> ir::Function {
        let mut function = self.b.finish();
        function.context_size_bytes = context_size_bytes(self.probe.context.kind);
        function
    }

    /// The layout of a type.
    pub fn layout(&self, ty: &Type) -> layout::Layout {
        layout::of(ty, self.shared.target.btf_if_needed(ty))
    }

    /// Memory for a value of a type: the requested place, or new memory. Its contents are
    /// undefined, unless the place must be padded: then it is zero.
    pub fn allocate(&mut self, ty: &Type) -> Addr {
        let size_bytes = self.layout(ty).size_bytes;
        let (addr, padded) = match self.wanted.take() {
            Some(wanted) => (wanted.addr, wanted.padded),
            None => (self.memory(size_bytes, "temp"), true),
        };
        if padded {
            self.zero(addr, size_bytes);
        }
        addr
    }

    /// New memory for a value of a type. Its contents are undefined.
    pub(super) fn allocate_named(&mut self, ty: &Type, name: &'static str) -> Addr {
        let size_bytes = self.layout(ty).size_bytes;
        self.memory(size_bytes, name)
    }

    /// The same as [`Body::allocate`] for callers that write every byte themselves.
    pub(super) fn allocate_unwritten(&mut self, ty: &Type) -> Addr {
        match self.wanted.take() {
            Some(wanted) => wanted.addr,
            None => self.allocate_named(ty, "temp"),
        }
    }

    /// Memory private to the program, aligned to 8 bytes. Its contents are undefined.
    pub(super) fn memory(&mut self, size_bytes: u32, name: &'static str) -> Addr {
        let rounded = size_bytes.max(1).next_multiple_of(8);
        let most_bytes = allocation::stack_objects_bytes(&self.captures);
        if let Some(slot) = self.function.stack.slot(&mut self.b, rounded, most_bytes, name) {
            return Addr::slot(slot, 0);
        }
        let offset = self.scratch_room(rounded);
        self.scratch_at(offset)
    }

    /// 8 bytes that are read a few instructions after they are written, and never again.
    pub(super) fn brief_word(&mut self, name: &'static str) -> Addr {
        let most_bytes = allocation::stack_objects_bytes(&self.captures);
        match self.function.stack.brief_word(&mut self.b, most_bytes, name) {
            Some(slot) => Addr::slot(slot, 0),
            None => self.memory(8, name),
        }
    }

    /// Reserves scratch memory of this program; returns its offset.
    pub(super) fn scratch_room(&mut self, size_bytes: u32) -> i32 {
        self.scratch.reserve(size_bytes)
    }

    /// The address of an offset in scratch memory.
    pub(super) fn scratch_at(&mut self, offset: i32) -> Addr {
        // In the first pass there is no scratch memory yet; the code of that pass is discarded.
        let base = match self.function.scratch {
            Some(base) => base,
            None => self.b.copy(0),
        };
        Addr::reg(base, offset)
    }

    /// The address of these bytes in read-only data.
    pub fn constant_bytes(&mut self, bytes: &[u8]) -> Addr {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(8), 0);
        let offset = self.shared.rodata(&padded);
        Addr::reg(self.b.data_addr(Section::Rodata, offset), 0)
    }

    /// An address as a helper argument.
    pub fn address_arg(&mut self, addr: Addr) -> Arg {
        match addr.base {
            ir::Base::Slot(slot) => Arg::Slot(slot, addr.offset),
            ir::Base::Reg(_) => Arg::Value(self.address(addr).into()),
        }
    }

    /// An address in a register.
    pub fn address(&mut self, addr: Addr) -> VReg {
        match addr.base {
            ir::Base::Slot(slot) => self.b.slot_addr(slot, addr.offset),
            ir::Base::Reg(reg) if addr.offset == 0 => reg,
            ir::Base::Reg(reg) => self.b.bin(BinOp::Add, Width::W64, reg, i64::from(addr.offset)),
        }
    }

    /// The address of this CPU's copy in a per-CPU array in `.bss`.
    pub(super) fn cpu_copy(&mut self, offset_bytes: u32, stride_bytes: u32) -> VReg {
        let cpu = self.b.call(Helper::GetSmpProcessorId, &[]);
        let mask = i64::from(self.shared.cpu_slots() - 1);
        // Verifier: it knows no bound of the number; the mask covers every possible CPU.
        let cpu = self.b.bin(BinOp::And, Width::W64, cpu, mask);
        let distance = self.b.bin(BinOp::Mul, Width::W64, cpu, i64::from(stride_bytes));
        let base = self.b.data_addr(Section::Bss, offset_bytes);
        self.b.bin(BinOp::Add, Width::W64, base, distance)
    }

    /// Increments the counter of a loss.
    pub(super) fn count_loss(&mut self, loss: Loss) {
        let offset = self.shared.counter(loss);
        let counter = self.b.data_addr(Section::Bss, offset);
        let one = self.b.copy(1);
        self.b.atomic_add(Addr::reg(counter, 0), one, Size::B8);
    }

    /// The index of a string in the object.
    pub fn string_index(&mut self, text: &str) -> u64 {
        self.shared.string(text)
    }

    /// The `.bss` offset of the start time of the run.
    pub fn start_time_offset(&mut self) -> u32 {
        self.shared.word(|shared| &mut shared.start_time)
    }

    /// The `.bss` offset of the difference between the wall clock and the boot clock.
    pub fn wall_clock_offset(&mut self) -> u32 {
        self.shared.word(|shared| &mut shared.wall_clock)
    }

    /// Branches on a 64-bit comparison, without a likely side.
    pub(super) fn branch(
        &mut self,
        op: CmpOp,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        then: BlockId,
        otherwise: BlockId,
    ) {
        self.b.branch(op, Width::W64, a, b, then, otherwise, Likely::Unknown);
    }

    /// A register truncated to an integer type and extended again by its sign.
    pub(super) fn extended(&mut self, value: VReg, ty: &Type) -> Value {
        let int = ty.as_int().unwrap_or(Int::U64);
        let cut = match Size::from_bytes(u32::from(int.size_bytes)) {
            Some(Size::B8) | None => value,
            Some(size) => self.b.extend(value, size, int.signed),
        };
        Value::Scalar(cut.into())
    }

    /// The address of a value's bytes, which are stored to memory if necessary.
    pub fn in_memory(&mut self, value: Value, ty: &Type) -> Addr {
        match value {
            Value::Memory(addr) | Value::Text(addr, _) => addr,
            other => {
                let addr = self.allocate_named(ty, "value");
                self.store(other, ty, addr);
                addr
            }
        }
    }

    /// Lowers code that may not run; look-ups made there are forgotten afterwards.
    pub(super) fn conditionally<T>(&mut self, lower: impl FnOnce(&mut Self) -> T) -> T {
        self.function.lookups.enter();
        let result = lower(self);
        self.function.lookups.leave();
        result
    }
}

/// How many context bytes a program may read. Test runs pass twelve zero arguments to raw
/// tracepoint programs.
fn context_size_bytes(kind: ContextKind) -> u32 {
    match kind {
        ContextKind::Empty | ContextKind::RawTracepoint => 12 * 8,
        // `PERF_MAX_TRACE_SIZE`: the kernel checks each access against the event at attachment.
        ContextKind::Tracepoint => 8192,
        // The larger of the `pt_regs` sizes of x86 (168 bytes) and arm64 (336); the architecture
        // selects the registers.
        ContextKind::Registers => 336,
        ContextKind::PerfEvent => 336 + 16,
        // The kernel checks each access against the struct's fields.
        ContextKind::Iterator => 12 * 8,
    }
}
