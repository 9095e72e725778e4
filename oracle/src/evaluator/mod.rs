//! The IR evaluator: the reference semantics of a program.
//!
//! In: a program, an [`Environment`], the context's bytes. Out: the program's result, and its maps,
//! ring buffers and `.bss` for the caller to read. Guarantees: the same input gives the same
//! output. Every access is checked. Behaviour that the kernel's verifier would reject or leave
//! undefined (bounds, undefined bytes, lost records) is a [`Fault`].

mod environment;
mod helpers;
mod kernel;
mod maps;
mod memory;
#[cfg(test)]
mod tests;

use std::fmt;

pub use environment::{Environment, Traced};
pub use kernel::Kernel;
pub use maps::MapEntry;
pub use memory::Space;
use memory::{Access, Bytes, Memory, RegionId};
use profiler_compiler::ir::arithmetic;
use profiler_compiler::ir::{
    Addr, Arg, Base, Block, BlockId, Function, FunctionId, Helper, Inst, MapId, Operand, Program, Section, Size,
    SlotId, Terminator, VReg, Width,
};

/// The default limit of instructions in one run.
const DEFAULT_STEP_LIMIT: u64 = 1_000_000;

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The program has no function of that name.
    NoFunction,
    /// The run executed more instructions than [`Machine::step_limit`].
    StepLimit,
    /// Out-of-bounds access, or no region at this address.
    BadAddress(u64),
    /// Not aligned as the stack or an atomic operation requires.
    Misaligned(u64),
    /// A write to the context or to read-only data.
    ReadOnly(u64),
    /// A read of bytes that were never written.
    Undefined(u64),
    /// A read of a register that was never assigned.
    Unassigned(VReg),
    /// An id that does not exist; [`verify`](profiler_compiler::ir::verify::verify) rejects such
    /// programs.
    Malformed(&'static str),
    /// A helper got an argument that it does not accept; holds the argument's index.
    BadArgument(usize),
    /// A ring buffer record was reserved, but neither submitted nor discarded.
    LostRecord,
}

/// A fault and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvalError {
    pub fault: Fault,
    pub function: String,
    pub block: BlockId,
    /// Index of the instruction in the block; the terminator has the index after the last
    /// instruction.
    pub inst: usize,
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, b{}, instruction {}: {:?}", self.function, self.block.0, self.inst, self.fault)
    }
}

impl std::error::Error for EvalError {}

/// A VM: a program with its maps and data. Functions run on it one after another.
#[derive(Debug, Clone)]
pub struct Machine<'p> {
    /// The kernel that the program runs in.
    pub kernel: Kernel<'p>,
    /// The maximum number of instructions in one run.
    pub step_limit: u64,
    /// Remaining steps of the current run.
    steps_left: u64,
    program: &'p Program,
    rodata: RegionId,
    bss: RegionId,
}

/// The registers and the stack of one run.
struct Frame<'p> {
    function: &'p Function,
    regs: Vec<Option<u64>>,
    slots: Vec<RegionId>,
    context: RegionId,
    /// The arguments of a subprogram.
    parameters: Vec<u64>,
    /// The current location, for error reports.
    at: (BlockId, usize),
}

impl<'p> Machine<'p> {
    /// A VM with empty maps, zeroed `.bss` and the default environment.
    pub fn new(program: &'p Program) -> Machine<'p> {
        let mut memory = Memory::default();
        let rodata = memory.add(Access::ReadOnly, Bytes::defined(program.rodata.clone()));
        let bss = memory.add(Access::Data, Bytes::zeroed(program.bss_size_bytes as usize));
        Machine {
            kernel: Kernel::new(&program.maps, memory),
            step_limit: DEFAULT_STEP_LIMIT,
            steps_left: DEFAULT_STEP_LIMIT,
            program,
            rodata,
            bss,
        }
    }

    /// The contents of `.bss`.
    pub fn bss(&self) -> &[u8] {
        &self.kernel.memory.region(self.bss).bytes.value
    }

    /// The contents of `.bss`, mutable.
    pub fn bss_mut(&mut self) -> &mut [u8] {
        &mut self.kernel.memory.region_mut(self.bss).bytes.value
    }

    /// Adds memory at an address, for the probe-read helpers to read.
    pub fn add_memory(&mut self, space: Space, address: u64, bytes: Vec<u8>) {
        self.kernel.memory.add_foreign(space, address, bytes);
    }

    /// Runs a function with a context and returns its result.
    pub fn run(&mut self, function_name: &str, context: &[u8]) -> Result<i64, EvalError> {
        let error = |fault, (block, inst)| EvalError { fault, function: function_name.to_string(), block, inst };
        let found = self.program.functions.iter().find(|f| f.name == function_name);
        let function = found.ok_or_else(|| error(Fault::NoFunction, (BlockId(0), 0)))?;
        self.steps_left = self.step_limit;
        let context = self.kernel.memory.add(Access::ReadOnly, Bytes::defined(context.to_vec()));
        let mut frame = self.enter(function, context, Vec::new());
        let result = self.execute(&mut frame);
        self.kernel.discard_open_records();
        for region in frame.slots.iter().chain([&frame.context]) {
            self.kernel.memory.release(*region);
        }
        result.map_err(|fault| error(fault, frame.at))
    }

    /// Runs a subprogram without a context. Leaving a record reserved is a fault in the subprogram
    /// itself.
    fn call_back(&mut self, callback: FunctionId, parameters: Vec<u64>) -> Result<i64, Fault> {
        let program = self.program;
        let function = program.subprograms.get(callback.0 as usize).ok_or(Fault::Malformed("no such subprogram"))?;
        let context = self.kernel.memory.add(Access::ReadOnly, Bytes::defined(Vec::new()));
        let mut frame = self.enter(function, context, parameters);
        let result = self.execute(&mut frame);
        for region in frame.slots.iter().chain([&frame.context]) {
            self.kernel.memory.release(*region);
        }
        result
    }

    /// Runs one of the blocks of a program with the program's context.
    fn run_block(&mut self, args: &[Arg], context: RegionId) -> Result<i64, Fault> {
        let [Arg::Function(id), Arg::Context] = args else { return Err(Fault::BadArgument(0)) };
        let program = self.program;
        let function = program.subprograms.get(id.0 as usize).ok_or(Fault::Malformed("no such subprogram"))?;
        let mut frame = self.enter(function, context, Vec::new());
        let result = self.execute(&mut frame);
        for region in &frame.slots {
            self.kernel.memory.release(*region);
        }
        result
    }

    fn enter(&mut self, function: &'p Function, context: RegionId, parameters: Vec<u64>) -> Frame<'p> {
        let mut slots = Vec::with_capacity(function.slots.len());
        for slot in &function.slots {
            let kind = Access::Slot { align_bytes: slot.align_bytes };
            slots.push(self.kernel.memory.add(kind, Bytes::undefined(slot.size_bytes as usize)));
        }
        Frame { function, regs: vec![None; function.vregs as usize], slots, context, parameters, at: (BlockId(0), 0) }
    }

    fn execute(&mut self, frame: &mut Frame<'p>) -> Result<i64, Fault> {
        let open_records = self.kernel.open_records();
        loop {
            let block = frame.block()?;
            for (index, (inst, _)) in block.insts.iter().enumerate() {
                frame.at.1 = index;
                self.count_step()?;
                self.step(frame, inst)?;
            }
            frame.at.1 = block.insts.len();
            self.count_step()?;
            match frame.next(&block.end)? {
                Next::Block(next) => frame.at = (next, 0),
                Next::Return(_) if self.kernel.open_records() > open_records => return Err(Fault::LostRecord),
                Next::Return(value) => return Ok(i64::from(value)),
            }
        }
    }

    fn count_step(&mut self) -> Result<(), Fault> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(Fault::StepLimit)?;
        Ok(())
    }

    fn step(&mut self, frame: &mut Frame, inst: &Inst) -> Result<(), Fault> {
        let value = match inst {
            Inst::Copy { src, .. } => frame.operand(*src)?,
            Inst::Bin { op, width, a, b, .. } => arithmetic::bin(*op, *width, frame.operand(*a)?, frame.operand(*b)?),
            Inst::Set { op, width, a, b, .. } => {
                let holds = arithmetic::compare(*op, *width, frame.operand(*a)?, frame.operand(*b)?);
                u64::from(holds)
            }
            Inst::Extend { src, size, signed, .. } => arithmetic::extend(frame.reg(*src)?, *size, *signed),
            Inst::Swap { src, size, .. } => arithmetic::swap(frame.reg(*src)?, *size),
            Inst::Clamp { src, most, .. } => frame.reg(*src)?.min(u64::from(*most)),
            Inst::Context { .. } => Memory::address(frame.context, 0),
            Inst::Parameter { index, .. } => {
                let given = frame.parameters.get(usize::from(*index));
                *given.ok_or(Fault::Malformed("no such parameter"))?
            }
            Inst::SlotAddr { slot, offset, .. } => frame.slot(*slot, *offset)?,
            Inst::DataAddr { section, offset, .. } => {
                let region = match section {
                    Section::Rodata => self.rodata,
                    Section::Bss => self.bss,
                };
                Memory::address(region, 0).wrapping_add(u64::from(*offset))
            }
            Inst::Call { dst, helper: Helper::Run, args } => {
                let result = self.run_block(args, frame.context)?;
                return dst.map_or(Ok(()), |dst| frame.set(dst, result as u64));
            }
            Inst::Call { dst, helper, args } => {
                let args = frame.args(args)?;
                let result = self.call(*helper, &args)?;
                return dst.map_or(Ok(()), |dst| frame.set(dst, result));
            }
            _ => return self.touch(frame, inst),
        };
        inst.def().map_or(Ok(()), |dst| frame.set(dst, value))
    }

    /// Executes the instructions that access memory.
    fn touch(&mut self, frame: &mut Frame, inst: &Inst) -> Result<(), Fault> {
        match inst {
            Inst::Load { dst, addr, size } => {
                let value = self.kernel.memory.load(frame.addr(*addr)?, *size)?;
                frame.set(*dst, value)
            }
            Inst::Peek { dst, base, offset, size } => {
                let address = frame.reg(*base)?.wrapping_add_signed(i64::from(*offset));
                frame.set(*dst, self.kernel.memory.peek(address, *size))
            }
            Inst::Store { addr, src, size } => {
                self.kernel.memory.store(frame.addr(*addr)?, *size, frame.operand(*src)?)
            }
            Inst::Zero { addr, size_bytes } => {
                self.kernel.memory.write(frame.addr(*addr)?, &Bytes::zeroed(*size_bytes as usize))
            }
            Inst::Move { to, from, size_bytes, .. } => {
                let bytes = self.kernel.memory.read(frame.addr(*from)?, *size_bytes as usize)?;
                self.kernel.memory.write(frame.addr(*to)?, &bytes)
            }
            Inst::Atomic { op, addr, src, fetch, size } => {
                let src = frame.reg(*src)?;
                let change = |old| arithmetic::bin(*op, Width::W64, old, src);
                let old = self.exchange(frame.addr(*addr)?, *size, change)?;
                fetch.map_or(Ok(()), |dst| frame.set(dst, old))
            }
            Inst::Exchange { dst, addr, src } => {
                let src = frame.reg(*src)?;
                let old = self.exchange(frame.addr(*addr)?, Size::B8, |_| src)?;
                frame.set(*dst, old)
            }
            Inst::CompareExchange { dst, addr, expected, new } => {
                let (expected, new) = (frame.reg(*expected)?, frame.reg(*new)?);
                let change = |old| if old == expected { new } else { old };
                let old = self.exchange(frame.addr(*addr)?, Size::B8, change)?;
                frame.set(*dst, old)
            }
            _ => Err(Fault::Malformed("an instruction that is none")),
        }
    }

    /// Replaces the value at an address and returns the old one.
    fn exchange(&mut self, address: u64, size: Size, change: impl FnOnce(u64) -> u64) -> Result<u64, Fault> {
        if !address.is_multiple_of(u64::from(size.bytes())) {
            return Err(Fault::Misaligned(address));
        }
        let old = self.kernel.memory.load(address, size)?;
        self.kernel.memory.store(address, size, change(old))?;
        Ok(old)
    }
}

/// The outcome of a terminator.
enum Next {
    Block(BlockId),
    Return(i32),
}

/// An evaluated helper argument.
#[derive(Debug, Clone, Copy)]
enum Value {
    Number(u64),
    Map(MapId),
    Function(FunctionId),
}

impl<'p> Frame<'p> {
    fn block(&self) -> Result<&'p Block, Fault> {
        let function: &'p Function = self.function;
        function.blocks.get(self.at.0.0 as usize).ok_or(Fault::Malformed("no such block"))
    }

    /// Evaluates a terminator: the next block or the function's result.
    fn next(&self, end: &Terminator) -> Result<Next, Fault> {
        Ok(match end {
            Terminator::Jump(to) => Next::Block(*to),
            Terminator::Return(value) => Next::Return(*value),
            Terminator::Branch { op, width, a, b, then, otherwise, .. } => {
                let holds = arithmetic::compare(*op, *width, self.operand(*a)?, self.operand(*b)?);
                Next::Block(if holds { *then } else { *otherwise })
            }
        })
    }

    fn reg(&self, reg: VReg) -> Result<u64, Fault> {
        self.regs.get(reg.0 as usize).copied().flatten().ok_or(Fault::Unassigned(reg))
    }

    fn set(&mut self, reg: VReg, value: u64) -> Result<(), Fault> {
        let place = self.regs.get_mut(reg.0 as usize).ok_or(Fault::Malformed("no such register"))?;
        *place = Some(value);
        Ok(())
    }

    fn operand(&self, operand: Operand) -> Result<u64, Fault> {
        match operand {
            Operand::Reg(reg) => self.reg(reg),
            Operand::Imm(value) => Ok(value as u64),
        }
    }

    fn slot(&self, slot: SlotId, offset: i32) -> Result<u64, Fault> {
        let region = self.slots.get(slot.0 as usize).ok_or(Fault::Malformed("no such slot"))?;
        Ok(Memory::address(*region, offset))
    }

    fn addr(&self, addr: Addr) -> Result<u64, Fault> {
        match addr.base {
            Base::Reg(reg) => Ok(self.reg(reg)?.wrapping_add(addr.offset as u64)),
            Base::Slot(slot) => self.slot(slot, addr.offset),
        }
    }

    fn args(&self, args: &[Arg]) -> Result<Vec<Value>, Fault> {
        let value = |arg: &Arg| {
            Ok(match arg {
                Arg::Value(operand) => Value::Number(self.operand(*operand)?),
                Arg::Slot(slot, offset) => Value::Number(self.slot(*slot, *offset)?),
                Arg::Map(map) => Value::Map(*map),
                Arg::Function(function) => Value::Function(*function),
                Arg::Context => Value::Number(Memory::address(self.context, 0)),
            })
        };
        args.iter().map(value).collect()
    }
}
