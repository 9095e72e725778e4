//! Builds IR by hand.
//!
//! In: calls in program order. Out: an [`ir::Function`](Function) or [`ir::Program`](Program) for
//! the emit stage.
//! Guarantee: the result contains exactly the given instructions; nothing is checked or optimized.

use profiler_compiler::ir::{
    Addr, Arg, BinOp, Block, BlockId, CmpOp, Function, Helper, Inst, Likely, Map, MapId, MapKind, Operand, Program,
    Role, Section, Size, Slot, SlotId, Terminator, VReg, Width,
};
use profiler_compiler::source::{Source, Span};

/// One function under construction; new instructions go to the current block.
pub struct Builder {
    function: Function,
    current: usize,
    pub span: Span,
}

impl Builder {
    pub fn new(name: &str, section: &str) -> Builder {
        let function = Function {
            name: name.to_owned(),
            section: section.to_owned(),
            role: Role::Program,
            context_size_bytes: 0,
            blocks: Vec::new(),
            vregs: 0,
            slots: Vec::new(),
            span: Span::default(),
        };
        let mut builder = Builder { function, current: 0, span: Span::default() };
        builder.block();
        builder
    }

    pub fn finish(self) -> Function {
        self.function
    }

    pub fn reg(&mut self) -> VReg {
        self.function.vregs += 1;
        VReg(self.function.vregs - 1)
    }

    pub fn slot(&mut self, size_bytes: u32, align_bytes: u32) -> SlotId {
        self.function.slots.push(Slot { size_bytes, align_bytes, name: "slot" });
        SlotId(self.function.slots.len() as u32 - 1)
    }

    pub fn block(&mut self) -> BlockId {
        self.function.blocks.push(Block { insts: Vec::new(), end: Terminator::Return(0), end_span: self.span });
        BlockId(self.function.blocks.len() as u32 - 1)
    }

    pub fn at(&mut self, block: BlockId) {
        self.current = block.0 as usize;
    }

    pub fn push(&mut self, inst: Inst) {
        self.function.blocks[self.current].insts.push((inst, self.span));
    }

    pub fn end(&mut self, end: Terminator) {
        self.function.blocks[self.current].end = end;
        self.function.blocks[self.current].end_span = self.span;
    }

    pub fn copy(&mut self, src: impl Into<Operand>) -> VReg {
        let dst = self.reg();
        self.push(Inst::Copy { dst, src: src.into() });
        dst
    }

    pub fn bin(&mut self, op: BinOp, width: Width, a: impl Into<Operand>, b: impl Into<Operand>) -> VReg {
        let dst = self.reg();
        self.push(Inst::Bin { op, width, dst, a: a.into(), b: b.into() });
        dst
    }

    pub fn add(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> VReg {
        self.bin(BinOp::Add, Width::W64, a, b)
    }

    pub fn load(&mut self, addr: Addr, size: Size) -> VReg {
        let dst = self.reg();
        self.push(Inst::Load { dst, addr, size });
        dst
    }

    pub fn store(&mut self, addr: Addr, src: impl Into<Operand>, size: Size) {
        self.push(Inst::Store { addr, src: src.into(), size });
    }

    pub fn data(&mut self, section: Section, offset: u32) -> VReg {
        let dst = self.reg();
        self.push(Inst::DataAddr { dst, section, offset });
        dst
    }

    pub fn call(&mut self, helper: Helper, args: &[Arg]) -> VReg {
        let dst = self.reg();
        self.push(Inst::Call { dst: Some(dst), helper, args: args.to_vec() });
        dst
    }

    pub fn call_void(&mut self, helper: Helper, args: &[Arg]) {
        self.push(Inst::Call { dst: None, helper, args: args.to_vec() });
    }

    pub fn jump(&mut self, to: BlockId) {
        self.end(Terminator::Jump(to));
    }

    pub fn ret(&mut self, value: i32) {
        self.end(Terminator::Return(value));
    }

    /// Branches and returns the two successor blocks, `then` first.
    pub fn branch(
        &mut self,
        op: CmpOp,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        likely: Likely,
    ) -> (BlockId, BlockId) {
        let (then, otherwise) = (self.block(), self.block());
        let (a, b) = (a.into(), b.into());
        self.end(Terminator::Branch { op, width: Width::W64, a, b, then, otherwise, likely });
        (then, otherwise)
    }

    /// Returns 0 if `pointer` is null; continues in a new block otherwise.
    pub fn null_check(&mut self, pointer: VReg) {
        let (null, valid) = self.branch(CmpOp::Eq, pointer, 0, Likely::Otherwise);
        self.at(null);
        self.ret(0);
        self.at(valid);
    }
}

/// An argument from a register or number.
pub fn value(of: impl Into<Operand>) -> Arg {
    Arg::Value(of.into())
}

pub fn map(name: &str, kind: MapKind, key: u32, value: u32, entries: u32) -> Map {
    Map {
        name: name.to_owned(),
        kind,
        key_size_bytes: key,
        value_size_bytes: value,
        max_entries: entries,
        no_prealloc: kind == MapKind::TaskStorage,
    }
}

/// A program of functions, with the maps and data that the tests use.
pub fn program(functions: Vec<Function>) -> Program {
    let maps = vec![
        map("at_hash", MapKind::PerCpuHash, 8, 8, 4096),
        map("at_start", MapKind::Hash, 16, 24, 1024),
        map("at_array", MapKind::PerCpuArray, 4, 64, 4),
        map("events", MapKind::RingBuf, 0, 0, 1 << 16),
        map("at_task", MapKind::TaskStorage, 4, 24, 0),
        map("stacks", MapKind::StackTrace, 4, 127 * 8, 128),
    ];
    Program {
        functions,
        subprograms: Vec::new(),
        maps,
        rodata: b"hello, world\0\x01\x02\x03".to_vec(),
        rodata_names: Vec::new(),
        bss_size_bytes: 64 * 1024,
        kernel_functions: Vec::new(),
    }
}

pub const HASH: MapId = MapId(0);
pub const START: MapId = MapId(1);
pub const ARRAY: MapId = MapId(2);
pub const EVENTS: MapId = MapId(3);
pub const TASK: MapId = MapId(4);
pub const STACKS: MapId = MapId(5);

/// The script that the spans of the tests refer to.
pub fn source() -> Source {
    Source::new("count.pt", "raw_tp:sys_enter {\n  @ = count();\n  @total = sum(1);\n}\n")
}

/// The byte range of the `n`th line of [`source`].
pub fn line(n: usize) -> Span {
    let text = source().text;
    let start: usize = text.split_inclusive('\n').take(n - 1).map(str::len).sum();
    Span::new(start, start + text[start..].find('\n').unwrap_or(0))
}
