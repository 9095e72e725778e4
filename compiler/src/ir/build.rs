//! Builds one IR function, instruction by instruction.
//!
//! In: calls from the lowering, in source order. Out: an [`ir::Function`](Function) whose blocks
//! all end in a terminator.
//! Guarantee: every instruction carries the span that was current when it was added. Code after a
//! `return` goes to an unreachable block, so the lowering needs no special case for dead source
//! code.

use super::{
    Addr, Arg, BinOp, Block, BlockId, CmpOp, Function, Helper, Inst, Likely, MapId, Operand, Role, Section, Size, Slot,
    SlotId, Terminator, VReg, Width,
};
use crate::source::Span;

/// The ELF section of subprograms; no function in it is a program of its own.
const SUBPROGRAM_SECTION: &str = ".text";

/// A function under construction. Instructions are appended to the current block, which at first is
/// block 0.
#[derive(Debug, Clone)]
pub struct FunctionBuilder {
    name: String,
    section: String,
    role: Role,
    context_size_bytes: u32,
    /// In a subprogram, the register that holds the program's context.
    context: Option<VReg>,
    function_span: Span,
    blocks: Vec<OpenBlock>,
    vregs: u32,
    slots: Vec<Slot>,
    current: BlockId,
    span: Span,
}

/// A block that may not have its terminator yet.
#[derive(Debug, Clone, Default)]
struct OpenBlock {
    insts: Vec<(Inst, Span)>,
    end: Option<(Terminator, Span)>,
}

impl FunctionBuilder {
    /// A function called `name` in the ELF section `section`, compiled from the probe block at
    /// `span`.
    pub fn new(name: impl Into<String>, section: impl Into<String>, span: Span) -> FunctionBuilder {
        FunctionBuilder {
            name: name.into(),
            section: section.into(),
            role: Role::Program,
            context_size_bytes: 0,
            context: None,
            function_span: span,
            blocks: vec![OpenBlock::default()],
            vregs: 0,
            slots: Vec::new(),
            current: BlockId(0),
            span,
        }
    }

    /// A subprogram, compiled from the code at `span`.
    pub fn subprogram(name: impl Into<String>, role: Role, span: Span) -> FunctionBuilder {
        FunctionBuilder { role, ..FunctionBuilder::new(name, SUBPROGRAM_SECTION, span) }
    }

    /// Sets the register of a subprogram that holds the program's context.
    pub fn set_context(&mut self, context: VReg) {
        self.context = Some(context);
    }

    /// Sets the number of readable bytes of the context.
    pub fn set_context_size(&mut self, size_bytes: u32) {
        self.context_size_bytes = size_bytes;
    }

    /// Sets the span of later instructions; returns the previous one, so that the caller can
    /// restore it.
    pub fn set_span(&mut self, span: Span) -> Span {
        std::mem::replace(&mut self.span, span)
    }

    /// The span of instructions added now.
    pub fn span(&self) -> Span {
        self.span
    }

    /// A new register, not yet assigned.
    pub fn new_vreg(&mut self) -> VReg {
        self.vregs += 1;
        VReg(self.vregs - 1)
    }

    /// Adds an object to the stack frame.
    pub fn slot(&mut self, size_bytes: u32, align_bytes: u32, name: &'static str) -> SlotId {
        self.slots.push(Slot { size_bytes, align_bytes, name });
        SlotId(self.slots.len() as u32 - 1)
    }

    /// A new empty block without predecessors; the current block stays the same.
    pub fn new_block(&mut self) -> BlockId {
        self.blocks.push(OpenBlock::default());
        BlockId(self.blocks.len() as u32 - 1)
    }

    /// Makes `block` the current block; instructions are appended to it.
    pub fn switch_to(&mut self, block: BlockId) {
        self.current = block;
    }

    /// The block that instructions are appended to.
    pub fn current_block(&self) -> BlockId {
        self.current
    }

    /// Whether the current block already has its terminator.
    pub fn is_terminated(&self) -> bool {
        self.open().end.is_some()
    }

    /// Adds an instruction; after a terminator, in a new unreachable block.
    pub fn inst(&mut self, inst: Inst) {
        if self.is_terminated() {
            self.current = self.new_block();
        }
        let span = self.span;
        self.open_mut().insts.push((inst, span));
    }

    /// Copies `src` into a new register.
    pub fn copy(&mut self, src: impl Into<Operand>) -> VReg {
        let dst = self.new_vreg();
        self.assign(dst, src);
        dst
    }

    /// `dst = src`, for a register that is assigned more than once.
    pub fn assign(&mut self, dst: VReg, src: impl Into<Operand>) {
        self.inst(Inst::Copy { dst, src: src.into() });
    }

    /// `a op b` in a new register.
    pub fn bin(&mut self, op: BinOp, width: Width, a: impl Into<Operand>, b: impl Into<Operand>) -> VReg {
        let dst = self.new_vreg();
        self.inst(Inst::Bin { op, width, dst, a: a.into(), b: b.into() });
        dst
    }

    /// `a op b ? 1 : 0` in a new register.
    pub fn set(&mut self, op: CmpOp, width: Width, a: impl Into<Operand>, b: impl Into<Operand>) -> VReg {
        let dst = self.new_vreg();
        self.inst(Inst::Set { op, width, dst, a: a.into(), b: b.into() });
        dst
    }

    /// The low `size` bytes of `src`, sign- or zero-extended, in a new register.
    pub fn extend(&mut self, src: VReg, size: Size, signed: bool) -> VReg {
        let dst = self.new_vreg();
        self.inst(Inst::Extend { dst, src, size, signed });
        dst
    }

    /// The minimum of `src` and `most`, in a new register.
    pub fn clamp(&mut self, src: VReg, most: u32) -> VReg {
        let dst = self.new_vreg();
        self.inst(Inst::Clamp { dst, src, most });
        dst
    }

    /// The low `size` bytes of `src` in reversed order, in a new register.
    pub fn swap(&mut self, src: VReg, size: Size) -> VReg {
        let dst = self.new_vreg();
        self.inst(Inst::Swap { dst, src, size });
        dst
    }

    /// The `size` bytes at `addr`, zero-extended, in a new register.
    pub fn load(&mut self, addr: Addr, size: Size) -> VReg {
        let dst = self.new_vreg();
        self.inst(Inst::Load { dst, addr, size });
        dst
    }

    /// The `size` bytes at `base + offset` in kernel memory, zero-extended, in a new register; 0 if
    /// they cannot be read.
    pub fn peek(&mut self, base: VReg, offset: i16, size: Size) -> VReg {
        let dst = self.new_vreg();
        self.inst(Inst::Peek { dst, base, offset, size });
        dst
    }

    /// `*(size *)addr = src`.
    pub fn store(&mut self, addr: Addr, src: impl Into<Operand>, size: Size) {
        self.inst(Inst::Store { addr, src: src.into(), size });
    }

    /// Sets `size_bytes` bytes at `addr` to zero.
    pub fn zero(&mut self, addr: Addr, size_bytes: u32) {
        self.inst(Inst::Zero { addr, size_bytes });
    }

    /// Copies `size_bytes` bytes between addresses that are both aligned to `align_bytes`.
    pub fn move_(&mut self, to: Addr, from: Addr, size_bytes: u32, align_bytes: u32) {
        self.inst(Inst::Move { to, from, size_bytes, align_bytes });
    }

    /// `*(size *)addr += src`, atomically.
    pub fn atomic_add(&mut self, addr: Addr, src: VReg, size: Size) {
        self.inst(Inst::Atomic { op: BinOp::Add, addr, src, fetch: None, size });
    }

    /// Calls a helper and returns the register of its result.
    pub fn call(&mut self, helper: Helper, args: &[Arg]) -> VReg {
        let dst = self.new_vreg();
        let args = self.arguments(args);
        self.inst(Inst::Call { dst: Some(dst), helper, args });
        dst
    }

    /// Calls a helper and ignores its result.
    pub fn call_void(&mut self, helper: Helper, args: &[Arg]) {
        let args = self.arguments(args);
        self.inst(Inst::Call { dst: None, helper, args });
    }

    /// Resolves arguments: in a subprogram the context is an ordinary value.
    fn arguments(&self, args: &[Arg]) -> Vec<Arg> {
        let argument = |arg: &Arg| match (arg, self.context) {
            (Arg::Context, Some(context)) => context.into(),
            (arg, _) => *arg,
        };
        args.iter().map(argument).collect()
    }

    /// An argument that the caller passed to this subprogram, in a new register.
    pub fn parameter(&mut self, index: u8) -> VReg {
        let dst = self.new_vreg();
        self.inst(Inst::Parameter { dst, index });
        dst
    }

    /// The address of a byte of a data section.
    pub fn data_addr(&mut self, section: Section, offset: u32) -> VReg {
        let dst = self.new_vreg();
        self.inst(Inst::DataAddr { dst, section, offset });
        dst
    }

    /// The address of a stack object plus `offset` bytes.
    pub fn slot_addr(&mut self, slot: SlotId, offset: i32) -> VReg {
        let dst = self.new_vreg();
        self.inst(Inst::SlotAddr { dst, slot, offset });
        dst
    }

    /// The context's address.
    pub fn context(&mut self) -> VReg {
        if let Some(context) = self.context {
            return context;
        }
        let dst = self.new_vreg();
        self.inst(Inst::Context { dst });
        dst
    }

    /// Ends the block: continues at `then` when `a op b` holds, else at `otherwise`.
    #[allow(clippy::too_many_arguments, reason = "one a field of the terminator")]
    pub fn branch(
        &mut self,
        op: CmpOp,
        width: Width,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        then: BlockId,
        otherwise: BlockId,
        likely: Likely,
    ) {
        let (a, b) = (a.into(), b.into());
        self.end(Terminator::Branch { op, width, a, b, then, otherwise, likely });
    }

    /// Ends the block: continues at `block`.
    pub fn jump(&mut self, block: BlockId) {
        self.end(Terminator::Jump(block));
    }

    /// Ends the block and returns from the function.
    pub fn ret(&mut self, value: i32) {
        self.end(Terminator::Return(value));
    }

    /// Ends the block. A block that already has a terminator keeps it, because later code is
    /// unreachable.
    pub fn end(&mut self, end: Terminator) {
        let span = self.span;
        self.open_mut().end.get_or_insert((end, span));
    }

    /// The finished function. Panics if a block has no terminator, which is a bug in the caller.
    pub fn finish(self) -> Function {
        let close = |(index, block): (usize, OpenBlock)| match block.end {
            Some((end, end_span)) => Block { insts: block.insts, end, end_span },
            None => panic!("block b{index} of `{}` has no terminator", self.name),
        };
        let blocks = self.blocks.into_iter().enumerate().map(close).collect();
        Function {
            name: self.name,
            section: self.section,
            role: self.role,
            context_size_bytes: self.context_size_bytes,
            blocks,
            vregs: self.vregs,
            slots: self.slots,
            span: self.function_span,
        }
    }

    fn open(&self) -> &OpenBlock {
        &self.blocks[self.current.0 as usize]
    }

    fn open_mut(&mut self) -> &mut OpenBlock {
        &mut self.blocks[self.current.0 as usize]
    }
}

impl From<VReg> for Arg {
    fn from(reg: VReg) -> Arg {
        Arg::Value(Operand::Reg(reg))
    }
}

impl From<Operand> for Arg {
    fn from(operand: Operand) -> Arg {
        Arg::Value(operand)
    }
}

impl From<i64> for Arg {
    fn from(value: i64) -> Arg {
        Arg::Value(Operand::Imm(value))
    }
}

impl From<SlotId> for Arg {
    fn from(slot: SlotId) -> Arg {
        Arg::Slot(slot, 0)
    }
}

impl From<MapId> for Arg {
    fn from(map: MapId) -> Arg {
        Arg::Map(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_return_goes_to_a_block_that_nothing_reaches() {
        let mut b = FunctionBuilder::new("f", "raw_tp/sys_enter", Span::new(0, 9));
        b.copy(1);
        b.ret(0);
        b.jump(BlockId(0));
        assert!(b.is_terminated());
        b.set_span(Span::new(3, 4));
        b.copy(2);
        assert!(!b.is_terminated());
        b.ret(1);
        let f = b.finish();
        assert_eq!(f.blocks.len(), 2);
        assert_eq!(f.blocks[0].end, Terminator::Return(0));
        assert_eq!(f.blocks[1].insts[0].1, Span::new(3, 4));
        assert_eq!(f.blocks[1].end, Terminator::Return(1));
        assert_eq!(f.vregs, 2);
    }

    #[test]
    #[should_panic(expected = "block b1 of `f` has no terminator")]
    fn a_block_without_terminator_is_refused() {
        let mut b = FunctionBuilder::new("f", "raw_tp/sys_enter", Span::default());
        let next = b.new_block();
        b.jump(next);
        b.finish();
    }
}
