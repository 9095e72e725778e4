//! An interpreter of emitted bytecode.
//!
//! In: an [`EmittedFunction`], [`Memory`] and a [`Host`] that answers helper calls. Out: the
//! program's result, or a [`Fault`].
//! Guarantees: it exists to check the compiler, not to be fast. Registers that a call clobbers hold
//! garbage afterwards. Every access is checked against its region. Execution ends after a bounded
//! number of steps.

mod arithmetic;
mod memory;

use profiler_compiler::emit::bpf::{self, Insn};
use profiler_compiler::emit::{EmittedFunction, Note};
use profiler_compiler::ir::{BinOp, FunctionId, Helper, MapId, Section, Width};

use arithmetic::{binary, compare};
pub use memory::Memory;
use memory::SPOILED;

/// Base of the pseudo addresses of maps, which are not memory.
const MAP_BASE: u64 = 1 << 60;
/// Base of the pseudo addresses of subprograms.
const FUNCTION_BASE: u64 = 1 << 61;
/// The step limit, above which a program counts as endless.
const STEP_LIMIT: usize = 1_000_000;

/// Why execution stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An access outside every region, or across the end of one.
    OutOfBounds { address: u64 },
    /// A stack access that is not aligned to its size.
    Misaligned { address: u64 },
    /// An instruction that the emitter never produces.
    UnknownInsn {
        /// The instruction.
        insn: Insn,
    },
    /// Execution reached the end of the instructions without an `exit`.
    RanOff,
    /// The step limit was exceeded.
    Endless,
    /// The host does not implement the helper.
    UnknownHelper { number: u32 },
}

/// Answers helper calls.
pub trait Host {
    /// Runs the helper `number`; `arguments` are `r1` to `r5`.
    fn call(&mut self, number: u32, arguments: [u64; 5], memory: &mut Memory) -> Result<u64, Fault>;

    /// The addresses of the keys and values of a map, for `bpf_for_each_map_elem`.
    fn entries(&mut self, _map: u64, _memory: &mut Memory) -> Result<Vec<(u64, u64)>, Fault> {
        Err(Fault::UnknownHelper { number: Helper::ForEachMapElem as u32 })
    }
}

/// The pseudo address that represents a map in registers and helper arguments.
pub fn map_address(map: MapId) -> u64 {
    MAP_BASE + u64::from(map.0)
}

/// The pseudo address that represents a subprogram in registers and helper arguments.
fn function_address(function: FunctionId) -> u64 {
    FUNCTION_BASE + u64::from(function.0)
}

/// Runs a program without subprograms to its `exit`.
pub fn run(function: &EmittedFunction, memory: &mut Memory, host: &mut dyn Host) -> Result<u64, Fault> {
    run_with(function, &[], memory, host)
}

/// Runs a program to its `exit`; calls and helper callbacks run these subprograms.
pub fn run_with(
    function: &EmittedFunction,
    subprograms: &[EmittedFunction],
    memory: &mut Memory,
    host: &mut dyn Host,
) -> Result<u64, Fault> {
    let mut steps_left = STEP_LIMIT;
    let mut run = Run { subprograms, memory, host, steps_left: &mut steps_left, depth: 0 };
    execute(function, &[Memory::base(Memory::CONTEXT)], &mut run)
}

/// State shared by all functions of one run.
struct Run<'a> {
    subprograms: &'a [EmittedFunction],
    memory: &'a mut Memory,
    host: &'a mut dyn Host,
    steps_left: &'a mut usize,
    depth: usize,
}

fn execute(function: &EmittedFunction, given: &[u64], run: &mut Run<'_>) -> Result<u64, Fault> {
    let frame = run.memory.stack_at(run.depth);
    let mut machine = Machine { regs: [SPOILED; 11], run };
    machine.regs[1..=given.len()].copy_from_slice(given);
    machine.regs[usize::from(bpf::R10)] = frame;
    let mut at = 0;
    loop {
        *machine.run.steps_left = machine.run.steps_left.checked_sub(1).ok_or(Fault::Endless)?;
        let insn = *function.insns.get(at).ok_or(Fault::RanOff)?;
        if insn.is_wide() {
            let second = function.insns.get(at + 1).ok_or(Fault::RanOff)?;
            machine.regs[usize::from(insn.dst)] = wide(insn, *second, function.notes[at]);
            at += 2;
            continue;
        }
        if function.notes[at] == Some(Note::Peek) {
            let address = machine.place(insn.src, insn);
            machine.regs[usize::from(insn.dst)] = machine.run.memory.peek(address, insn.access_size())?;
            at += 1;
            continue;
        }
        match machine.step(insn)? {
            Next::Exit => return Ok(machine.regs[0]),
            Next::Insn => at += 1,
            Next::Jump => at = (at as i64 + 1 + i64::from(insn.off)) as usize,
        }
    }
}

enum Next {
    Insn,
    Jump,
    Exit,
}

struct Machine<'r, 'a> {
    regs: [u64; 11],
    run: &'r mut Run<'a>,
}

fn wide(insn: Insn, second: Insn, note: Option<Note>) -> u64 {
    match note {
        Some(Note::Map(map)) => map_address(map),
        Some(Note::Data(Section::Rodata, offset)) => Memory::base(Memory::RODATA) + u64::from(offset),
        Some(Note::Data(Section::Bss, offset)) => Memory::base(Memory::BSS) + u64::from(offset),
        Some(Note::Function(function)) => function_address(function),
        Some(Note::Helper(_) | Note::Call(_) | Note::Peek) | None => {
            u64::from(insn.imm as u32) | u64::from(second.imm as u32) << 32
        }
    }
}

impl Machine<'_, '_> {
    fn step(&mut self, insn: Insn) -> Result<Next, Fault> {
        match insn.class() {
            bpf::ALU32 | bpf::ALU64 => self.arithmetic(insn)?,
            bpf::LDX => {
                let address = self.place(insn.src, insn);
                self.regs[usize::from(insn.dst)] = self.run.memory.load(address, insn.access_size())?;
            }
            bpf::ST => {
                let value = i64::from(insn.imm) as u64;
                self.run.memory.store(self.place(insn.dst, insn), insn.access_size(), value)?;
            }
            bpf::STX if insn.code & bpf::MODE_MASK == bpf::ATOMIC => self.atomic(insn)?,
            bpf::STX => {
                let value = self.regs[usize::from(insn.src)];
                self.run.memory.store(self.place(insn.dst, insn), insn.access_size(), value)?;
            }
            bpf::JMP | bpf::JMP32 => return self.jump(insn),
            _ => return Err(Fault::UnknownInsn { insn }),
        }
        Ok(Next::Insn)
    }

    fn call(&mut self, number: u32, arguments: [u64; 5]) -> Result<u64, Fault> {
        let [first, function, given, ..] = arguments;
        if number == Helper::Loop as u32 {
            for iteration in 0..u64::from(first as u32) {
                if self.call_back(function, &[iteration, given])? != 0 {
                    return Ok(iteration + 1);
                }
            }
            return Ok(u64::from(first as u32));
        }
        if number != Helper::ForEachMapElem as u32 {
            return self.run.host.call(number, arguments, self.run.memory);
        }
        let mut visited = 0;
        for (key, value) in self.run.host.entries(first, self.run.memory)? {
            visited += 1;
            if self.call_back(function, &[first, key, value, given])? != 0 {
                break;
            }
        }
        Ok(visited)
    }

    fn call_back(&mut self, address: u64, given: &[u64]) -> Result<u64, Fault> {
        let subprograms = self.run.subprograms;
        let index = address.checked_sub(FUNCTION_BASE).and_then(|index| usize::try_from(index).ok());
        let function = index.and_then(|index| subprograms.get(index)).ok_or(Fault::OutOfBounds { address })?;
        self.run.depth += 1;
        let result = execute(function, given, self.run);
        self.run.depth -= 1;
        result
    }

    fn place(&self, base: bpf::RegNumber, insn: Insn) -> u64 {
        self.regs[usize::from(base)].wrapping_add_signed(i64::from(insn.off))
    }

    fn right(&self, insn: Insn) -> u64 {
        if insn.is_register_source() { self.regs[usize::from(insn.src)] } else { i64::from(insn.imm) as u64 }
    }

    fn arithmetic(&mut self, insn: Insn) -> Result<(), Fault> {
        let left = self.regs[usize::from(insn.dst)];
        let right = self.right(insn);
        let result = match (insn.operation(), insn.bin_op()) {
            (bpf::MOV, _) if insn.width() == Width::W32 => u64::from(right as u32),
            (bpf::MOV, _) => right,
            (bpf::END, _) => match insn.imm {
                16 => u64::from((left as u16).swap_bytes()),
                32 => u64::from((left as u32).swap_bytes()),
                _ => left.swap_bytes(),
            },
            (_, Some(op)) => binary(op, insn.width(), left, right),
            (_, None) => return Err(Fault::UnknownInsn { insn }),
        };
        self.regs[usize::from(insn.dst)] = result;
        Ok(())
    }

    fn atomic(&mut self, insn: Insn) -> Result<(), Fault> {
        let (address, size) = (self.place(insn.dst, insn), insn.access_size());
        let old = self.run.memory.load(address, size)?;
        let src = self.regs[usize::from(insn.src)];
        let new = match insn.imm {
            bpf::XCHG => src,
            bpf::CMPXCHG if old == self.regs[0] => src,
            bpf::CMPXCHG => old,
            operation => {
                let op = [BinOp::Add, BinOp::And, BinOp::Or, BinOp::Xor]
                    .into_iter()
                    .find(|op| bpf::atomic_op(*op, false) == Some(operation & !bpf::FETCH))
                    .ok_or(Fault::UnknownInsn { insn })?;
                binary(op, Width::W64, old, src)
            }
        };
        self.run.memory.store(address, size, new)?;
        match insn.imm {
            bpf::CMPXCHG => self.regs[0] = old,
            operation if operation & bpf::FETCH != 0 => self.regs[usize::from(insn.src)] = old,
            _ => {}
        }
        Ok(())
    }

    fn jump(&mut self, insn: Insn) -> Result<Next, Fault> {
        match insn.operation() {
            bpf::EXIT => return Ok(Next::Exit),
            bpf::JA => return Ok(Next::Jump),
            bpf::CALL if insn.src == bpf::PSEUDO_KFUNC_CALL => return Err(Fault::UnknownInsn { insn }),
            bpf::CALL if insn.src == bpf::PSEUDO_CALL => {
                let [_, given @ .., _, _, _, _, _] = self.regs;
                self.regs[0] = self.call_back(FUNCTION_BASE + u64::from(insn.imm as u32), &given)?;
                self.regs[1..=5].fill(SPOILED);
                return Ok(Next::Insn);
            }
            bpf::CALL => {
                let [_, r1, r2, r3, r4, r5, ..] = self.regs;
                self.regs[0] = self.call(insn.imm as u32, [r1, r2, r3, r4, r5])?;
                self.regs[1..=5].fill(SPOILED);
                return Ok(Next::Insn);
            }
            _ => {}
        }
        let op = insn.cmp_op().ok_or(Fault::UnknownInsn { insn })?;
        let taken = compare(op, insn.width(), self.regs[usize::from(insn.dst)], self.right(insn));
        Ok(if taken { Next::Jump } else { Next::Insn })
    }
}
