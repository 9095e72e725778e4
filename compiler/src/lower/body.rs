//! One program's body: registers, memory, the frame.
//!
//! In: a [`typed::Probe`]. Out: an [`ir::Function`].
//! Guarantee: memory that a word asks for is large enough, aligned to 8 bytes and the program's own: small objects are on
//! the BPF stack, large ones in scratch memory of this program and CPU, which nothing else enters.

use crate::ir::build::FunctionBuilder;
use crate::ir::{self, Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, Operand, Section, Size, VReg, Width};
use crate::layout;
use crate::lower::Shared;
use crate::lower::captures::{Captures, Mentions};
use crate::lower::loops::{FramePlace, Targets};
use crate::object::Loss;
use crate::typed::{self, ContextKind};
use crate::types::Type;

/// A lowered value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    None,
    /// A scalar, extended to 64 bits by the sign of its type.
    Scalar(Operand),
    /// Bytes of our own, laid out as [`layout`] says, padded with zeros.
    Memory(Addr),
    /// A string in our own memory of which only the first so many bytes (with NUL) are written.
    Text(Addr, Operand),
    /// A string constant, without NUL.
    Bytes(Vec<u8>),
}

/// Objects up to this size go on the stack.
const MAX_STACK_OBJECT_BYTES: u32 = 64;

/// Objects from this size on are in scratch memory.
pub(super) const FIRST_SCRATCH_BYTES: u32 = MAX_STACK_OBJECT_BYTES + 8;

/// So much of the 512-byte stack is for objects; the rest is for spilled registers.
const MAX_STACK_OBJECTS_BYTES: u32 = 320;

/// Programs that can be preempted share this many scratch frames a CPU.
pub(super) const SHARED_FRAMES: u32 = 4;

/// Where a variable lives.
#[derive(Debug, Clone, Copy)]
pub(super) enum VarPlace {
    Register(VReg),
    Memory(Addr),
    /// 8 bytes of scratch memory: a scalar that loops share with the code around them.
    SharedScalar(i32),
    /// Scratch memory: anything else that they share.
    Shared(i32),
}

/// A place offered to an expression.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub addr: Addr,
    /// Whether bytes behind a string's NUL must be zero.
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
    /// By variable; in a subprogram those of its own are placed when they are first mentioned.
    pub(super) vars: Vec<Option<VarPlace>>,
    /// What the probe's loops share with the code around them.
    pub(super) captures: Captures,
    /// The loops around the present code, in this function.
    pub(super) targets: Vec<Targets>,
    /// What this function gives to the loops that it runs.
    pub(super) frame: Option<FramePlace>,
    /// Scratch memory in which the present loop says how it ended.
    pub(super) signal: Option<i32>,
    /// Loops made so far, for their names.
    pub(super) loops: u32,
    pub(super) exit: BlockId,
    /// Whether that is the end of a handler, in the same function.
    pub(super) in_handler: bool,
    /// The address of this run's scratch memory.
    pub(super) scratch: Option<VReg>,
    /// The flag of a shared scratch frame that this run has taken.
    pub(super) claimed: Option<VReg>,
    pub(super) scratch_used_bytes: u32,
    pub(super) stack_used_bytes: u32,
    /// Look-ups made so far.
    pub(super) lookups: Vec<super::lookups::Lookup>,
    /// How many conditions the present code is under.
    pub(super) depth: u32,
    /// Where the expression being lowered should put its bytes.
    pub(super) wanted: Option<Wanted>,
    /// Which place of maps with two of them the present code means: 0 or 1.
    pub(super) generation: usize,
}

impl<'a, 'p> Body<'a, 'p> {
    pub(super) fn new(shared: &'a mut Shared<'p>, index: usize) -> Body<'a, 'p> {
        let probe = &shared.program.probes[index];
        let mut b = FunctionBuilder::new(format!("p{index}"), probe.section.clone(), probe.span);
        let exit = b.new_block();
        let looped = shared.program.maps.iter().map(|map| shared.is_read_in_a_loop(map)).collect();
        Body {
            shared,
            b,
            index,
            probe,
            vars: Vec::new(),
            captures: Captures::of(probe, looped),
            targets: Vec::new(),
            frame: None,
            signal: None,
            loops: 0,
            exit,
            in_handler: false,
            scratch: None,
            claimed: None,
            scratch_used_bytes: 0,
            stack_used_bytes: 0,
            lookups: Vec::new(),
            depth: 0,
            wanted: None,
            generation: 0,
        }
    }

    pub(super) fn lower(mut self) -> ir::Function {
        self.prologue();
        self.in_generations();
        self.b.switch_to(self.exit);
        self.epilogue();
        self.b.ret(0);
        self.shared.learned.scratch_bytes[self.index] = self.scratch_used_bytes;
        let mut function = self.b.finish();
        function.context_size_bytes = context_size_bytes(self.probe.context.kind);
        function
    }

    /// What the script says of the probe, up to the way out.
    pub(super) fn predicate_and_statements(&mut self) {
        self.declare_vars();
        if let Some(predicate) = &self.probe.predicate {
            let (body, exit) = (self.b.new_block(), self.exit);
            self.branch_on(predicate, body, exit);
            self.b.switch_to(body);
        }
        self.stmts(&self.probe.body);
        self.b.jump(self.exit);
    }

    fn declare_vars(&mut self) {
        for (index, var) in self.probe.vars.iter().enumerate() {
            let is_scalar = var.ty.is_scalar() || var.ty == Type::Unknown;
            let place = match (self.captures.of_var(index), is_scalar) {
                (Mentions::Loop, _) => None,
                // Defined on every path; the optimiser removes what is not needed.
                (Mentions::Probe, true) => Some(VarPlace::Register(self.b.copy(0))),
                (Mentions::Probe, false) => Some(VarPlace::Memory(self.room_for(&var.ty, "var"))),
                (Mentions::Several, true) => Some(VarPlace::SharedScalar(self.scratch_room(8))),
                (Mentions::Several, false) => {
                    let size_bytes = self.layout(&var.ty).size_bytes;
                    Some(VarPlace::Shared(self.scratch_room(size_bytes)))
                }
            };
            self.vars.push(place);
        }
    }

    /// The layout of a type.
    pub fn layout(&self, ty: &Type) -> layout::Layout {
        layout::of(ty, self.shared.target.btf_if_needed(ty))
    }

    /// Memory for a value of a type: the place that was asked for, or new memory. Its contents are undefined unless the
    /// place must be padded; then it is zero.
    pub fn room(&mut self, ty: &Type) -> Addr {
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

    pub(super) fn room_for(&mut self, ty: &Type, name: &'static str) -> Addr {
        let size_bytes = self.layout(ty).size_bytes;
        self.memory(size_bytes, name)
    }

    /// Memory of the program's own, aligned to 8 bytes, contents undefined.
    pub fn memory(&mut self, size_bytes: u32, name: &'static str) -> Addr {
        let rounded = size_bytes.max(1).next_multiple_of(8);
        if rounded <= MAX_STACK_OBJECT_BYTES && self.stack_used_bytes + rounded <= self.stack_objects_bytes() {
            self.stack_used_bytes += rounded;
            return Addr::slot(self.b.slot(rounded, 8, name), 0);
        }
        let offset = self.scratch_room(rounded);
        self.scratch_at(offset)
    }

    /// So much of a function's stack is for objects. Loops are functions of their own, and share the stack with those around
    /// them.
    fn stack_objects_bytes(&self) -> u32 {
        match self.captures.depth() {
            0 => MAX_STACK_OBJECTS_BYTES,
            1 => 96,
            2 => 48,
            _ => 0,
        }
    }

    /// Scratch memory of the program's own: its offset.
    pub(super) fn scratch_room(&mut self, size_bytes: u32) -> i32 {
        let offset = self.scratch_used_bytes;
        self.scratch_used_bytes += size_bytes.max(1).next_multiple_of(8);
        offset as i32
    }

    /// The address of a place in scratch memory.
    pub(super) fn scratch_at(&mut self, offset: i32) -> Addr {
        // In the first round there is no scratch memory yet; that round's code is thrown away.
        let base = match self.scratch {
            Some(base) => base,
            None => self.b.copy(0),
        };
        Addr::reg(base, offset)
    }

    /// The address of these bytes, which nothing can change.
    pub fn constant_bytes(&mut self, bytes: &[u8]) -> Addr {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(8), 0);
        let offset = self.shared.rodata(&padded);
        Addr::reg(self.b.data_addr(Section::Rodata, offset), 0)
    }

    /// Sets memory to zero; large areas by one copy from zeros.
    pub fn zero(&mut self, addr: Addr, size_bytes: u32) {
        const MAX_STORES_BYTES: u32 = 128;
        if size_bytes <= MAX_STORES_BYTES {
            self.zero_by_stores(addr, size_bytes);
            return;
        }
        let offset = self.shared.zeros(size_bytes);
        let zeros = self.b.data_addr(Section::Rodata, offset);
        let to = self.address_arg(addr);
        self.b.call_void(
            Helper::ProbeReadKernel,
            &[to, Arg::Value(i64::from(size_bytes).into()), Arg::Value(zeros.into())],
        );
    }

    fn zero_by_stores(&mut self, addr: Addr, size_bytes: u32) {
        let mut at = 0;
        while at < size_bytes && (addr.offset + at as i32) % 8 != 0 {
            let size = super::conditions::chunk(addr.plus(at as i32), (size_bytes - at) as usize);
            self.b.store(addr.plus(at as i32), 0, size);
            at += size.bytes();
        }
        if at < size_bytes {
            self.b.zero(addr.plus(at as i32), size_bytes - at);
        }
    }

    /// The same address as an argument of a helper.
    pub fn address_arg(&mut self, addr: Addr) -> Arg {
        match addr.base {
            ir::Base::Slot(slot) => Arg::Slot(slot, addr.offset),
            ir::Base::Reg(_) => Arg::Value(self.address(addr).into()),
        }
    }

    /// The same address in a register.
    pub fn address(&mut self, addr: Addr) -> VReg {
        match addr.base {
            ir::Base::Slot(slot) => self.b.slot_addr(slot, addr.offset),
            ir::Base::Reg(reg) if addr.offset == 0 => reg,
            ir::Base::Reg(reg) => self.b.bin(BinOp::Add, Width::W64, reg, i64::from(addr.offset)),
        }
    }

    /// This CPU's number, bounded for the verifier by a mask.
    pub fn cpu_slot(&mut self) -> VReg {
        let cpu = self.b.call(Helper::GetSmpProcessorId, &[]);
        let mask = i64::from(self.shared.cpu_slots() - 1);
        // Verifier: the number has no bound of its own; the mask covers every possible CPU.
        self.b.bin(BinOp::And, Width::W64, cpu, mask)
    }

    /// The address of this CPU's copy in an array of copies in `.bss`.
    pub(super) fn cpu_copy(&mut self, offset_bytes: u32, stride_bytes: u32) -> VReg {
        let cpu = self.cpu_slot();
        let distance = self.b.bin(BinOp::Mul, Width::W64, cpu, i64::from(stride_bytes));
        let base = self.b.data_addr(Section::Bss, offset_bytes);
        self.b.bin(BinOp::Add, Width::W64, base, distance)
    }

    /// Counts a loss.
    pub fn count_loss(&mut self, loss: Loss) {
        let offset = self.shared.counter(loss);
        let counter = self.b.data_addr(Section::Bss, offset);
        let one = self.b.copy(1);
        self.b.atomic_add(Addr::reg(counter, 0), one, Size::B8);
    }

    /// The index of this body's program in the object.
    pub fn program_index(&self) -> usize {
        self.index
    }

    /// The probe's context and attachment.
    pub fn probe(&self) -> &'p typed::Probe {
        self.probe
    }

    /// The index of a string in the object.
    pub fn string_index(&mut self, text: &str) -> u64 {
        self.shared.string(text)
    }

    /// The `.bss` offset of the time at which the run started.
    pub fn start_time_offset(&mut self) -> u32 {
        if let Some(offset) = self.shared.start_time {
            return offset;
        }
        let offset = self.shared.bss(8);
        self.shared.start_time = Some(offset);
        offset
    }

    /// The `.bss` offset of what the boot clock lacks to the wall clock.
    pub fn wall_clock_offset(&mut self) -> u32 {
        if let Some(offset) = self.shared.wall_clock {
            return offset;
        }
        let offset = self.shared.bss(8);
        self.shared.wall_clock = Some(offset);
        offset
    }

    /// The `.bss` offset of what a test or a benchmark returned.
    pub(super) fn result_offset(&mut self) -> u32 {
        if let Some(offset) = self.shared.result {
            return offset;
        }
        let offset = self.shared.bss(8);
        self.shared.result = Some(offset);
        offset
    }

    /// Branches on a comparison of 64 bits with no expectation.
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

    /// Leaves the probe, or the handler of a span's event.
    pub fn leave(&mut self) {
        if !self.in_handler {
            self.note_leaving();
        }
        self.b.jump(self.exit);
    }
}

/// How much of a context a program may read. Test runs give raw tracepoint programs twelve zero arguments.
fn context_size_bytes(kind: ContextKind) -> u32 {
    match kind {
        ContextKind::Empty | ContextKind::RawTracepoint => 12 * 8,
        // `PERF_MAX_TRACE_SIZE`: the kernel checks each access against the event at attachment.
        ContextKind::Tracepoint => 8192,
        // The larger of x86's 168 and arm64's 336 bytes of `pt_regs`; registers are chosen by the architecture.
        ContextKind::Registers => 336,
        ContextKind::PerfEvent => 336 + 16,
        // The kernel checks each access against the struct's fields.
        ContextKind::Iterator => 12 * 8,
    }
}
