//! An interpreter of emitted bytecode.
//!
//! In: an [`EmittedFunction`], [`Memory`] and a [`Host`] that answers helper calls. Out: the program's result, or a [`Fault`].
//! Guarantees: it exists to check the compiler, not to be fast; registers that a call spoils hold nonsense afterwards;
//! every access is checked against its region; execution ends after a bounded number of steps.

use super::bpf::{self, Insn};
use super::{EmittedFunction, Note};
use crate::ir::{BinOp, CmpOp, FunctionId, Helper, MapId, Section, Size, Width};

/// Bytes of stack that a program has.
const STACK_BYTES: usize = 512;
/// What a spoiled register holds.
const SPOILED: u64 = 0xdead_dead_dead_dead;
/// Regions are this far apart, so that no offset leads from one into another.
const REGION_DISTANCE: u64 = 1 << 40;
/// Maps have addresses of their own, which are not memory.
const MAP_BASE: u64 = 1 << 60;
/// So have subprograms.
const FUNCTION_BASE: u64 = 1 << 61;
/// What memory holds that nothing has written.
const NONSENSE: u8 = 0xa5;
/// Instructions after which a program counts as endless.
const STEP_LIMIT: usize = 1_000_000;

/// Why execution stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An access outside every region, or across the end of one.
    OutOfBounds {
        /// The address.
        address: u64,
    },
    /// A stack access that is not aligned to its size.
    Misaligned {
        /// The address.
        address: u64,
    },
    /// An instruction that the emitter never produces.
    UnknownInsn {
        /// The instruction.
        insn: Insn,
    },
    /// The end of the instructions without an `exit`.
    RanOff,
    /// Too many steps.
    Endless,
    /// The host does not know the helper.
    UnknownHelper {
        /// Its number.
        number: u32,
    },
}

/// Memory that a program can reach, in separate regions.
#[derive(Debug, Clone)]
pub struct Memory {
    regions: Vec<Vec<u8>>,
    /// The stacks of subprograms by depth, made when one first gets there.
    stacks: Vec<usize>,
}

/// Answers helper calls.
pub trait Host {
    /// Runs the helper `number`; `arguments` are `r1` to `r5`.
    fn call(&mut self, number: u32, arguments: [u64; 5], memory: &mut Memory) -> Result<u64, Fault>;

    /// The addresses of the keys and values of a map, for a walk over it.
    fn entries(&mut self, _map: u64, _memory: &mut Memory) -> Result<Vec<(u64, u64)>, Fault> {
        Err(Fault::UnknownHelper { number: Helper::ForEachMapElem as u32 })
    }
}

impl Memory {
    const STACK: usize = 0;
    const CONTEXT: usize = 1;
    const RODATA: usize = 2;
    const BSS: usize = 3;

    /// A stack of nonsense, a context, and the two data sections.
    pub fn new(context: Vec<u8>, rodata: Vec<u8>, bss: Vec<u8>) -> Memory {
        Memory { regions: vec![vec![NONSENSE; STACK_BYTES], context, rodata, bss], stacks: vec![Memory::STACK] }
    }

    /// Adds a region (a map value, a ring buffer record) and returns its address.
    pub fn add(&mut self, bytes: Vec<u8>) -> u64 {
        self.regions.push(bytes);
        Memory::base(self.regions.len() - 1)
    }

    /// The bytes of the `.bss` section.
    pub fn bss(&self) -> &[u8] {
        &self.regions[Memory::BSS]
    }

    /// The same, to be changed.
    pub fn bss_mut(&mut self) -> &mut [u8] {
        &mut self.regions[Memory::BSS]
    }

    /// Makes ready for the next program: a stack of nonsense and another context; everything else stays.
    pub fn enter(&mut self, context: Vec<u8>) {
        self.regions[Memory::STACK] = vec![NONSENSE; STACK_BYTES];
        self.regions[Memory::CONTEXT] = context;
    }

    fn base(region: usize) -> u64 {
        (region as u64 + 1) * REGION_DISTANCE
    }

    /// The bytes at an address.
    pub fn bytes(&self, address: u64, length: usize) -> Result<&[u8], Fault> {
        let fault = Fault::OutOfBounds { address };
        let region = (address / REGION_DISTANCE).checked_sub(1).ok_or(fault)? as usize;
        let at = (address % REGION_DISTANCE) as usize;
        self.regions.get(region).and_then(|bytes| bytes.get(at..at + length)).ok_or(fault)
    }

    /// The bytes at an address, to change.
    pub fn bytes_mut(&mut self, address: u64, length: usize) -> Result<&mut [u8], Fault> {
        let fault = Fault::OutOfBounds { address };
        let region = (address / REGION_DISTANCE).checked_sub(1).ok_or(fault)? as usize;
        let at = (address % REGION_DISTANCE) as usize;
        self.regions.get_mut(region).and_then(|bytes| bytes.get_mut(at..at + length)).ok_or(fault)
    }

    /// The end of a stack of nonsense for a function that is so many calls deep.
    fn stack_at(&mut self, depth: usize) -> u64 {
        while self.stacks.len() <= depth {
            self.regions.push(vec![NONSENSE; STACK_BYTES]);
            self.stacks.push(self.regions.len() - 1);
        }
        let region = self.stacks[depth];
        self.regions[region].fill(NONSENSE);
        Memory::base(region) + STACK_BYTES as u64
    }

    fn check_alignment(&self, address: u64, size: Size) -> Result<(), Fault> {
        let is_stack = self.stacks.iter().any(|region| address / REGION_DISTANCE == *region as u64 + 1);
        if is_stack && !address.is_multiple_of(u64::from(size.bytes())) {
            return Err(Fault::Misaligned { address });
        }
        Ok(())
    }

    fn load(&self, address: u64, size: Size) -> Result<u64, Fault> {
        self.check_alignment(address, size)?;
        let mut word = [0; 8];
        let length = size.bytes() as usize;
        word[..length].copy_from_slice(self.bytes(address, length)?);
        Ok(u64::from_le_bytes(word))
    }

    fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), Fault> {
        self.check_alignment(address, size)?;
        let length = size.bytes() as usize;
        self.bytes_mut(address, length)?.copy_from_slice(&value.to_le_bytes()[..length]);
        Ok(())
    }
}

/// The number that stands for a map in registers and helper arguments.
pub fn map_address(map: MapId) -> u64 {
    MAP_BASE + u64::from(map.0)
}

/// The number that stands for a subprogram in registers and helper arguments.
fn function_address(function: FunctionId) -> u64 {
    FUNCTION_BASE + u64::from(function.0)
}

/// Runs a program that calls no subprogram to its `exit`.
pub fn run(function: &EmittedFunction, memory: &mut Memory, host: &mut dyn Host) -> Result<u64, Fault> {
    run_with(function, &[], memory, host)
}

/// Runs a program to its `exit`; helpers call these subprograms.
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

/// What the functions of one run share.
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
        Some(Note::Helper(_)) | None => u64::from(insn.imm as u32) | u64::from(second.imm as u32) << 32,
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

/// The result of an arithmetic operation as the machine computes it.
pub fn binary(op: BinOp, width: Width, left: u64, right: u64) -> u64 {
    match width {
        Width::W64 => binary64(op, left, right),
        Width::W32 => u64::from(binary32(op, left as u32, right as u32)),
    }
}

fn binary64(op: BinOp, left: u64, right: u64) -> u64 {
    match op {
        BinOp::Add => left.wrapping_add(right),
        BinOp::Sub => left.wrapping_sub(right),
        BinOp::Mul => left.wrapping_mul(right),
        BinOp::Div => left.checked_div(right).unwrap_or(0),
        BinOp::Mod => left.checked_rem(right).unwrap_or(left),
        BinOp::And => left & right,
        BinOp::Or => left | right,
        BinOp::Xor => left ^ right,
        BinOp::Shl => left.wrapping_shl(right as u32),
        BinOp::Shr => left.wrapping_shr(right as u32),
        BinOp::Sar => (left as i64).wrapping_shr(right as u32) as u64,
    }
}

fn binary32(op: BinOp, left: u32, right: u32) -> u32 {
    match op {
        BinOp::Add => left.wrapping_add(right),
        BinOp::Sub => left.wrapping_sub(right),
        BinOp::Mul => left.wrapping_mul(right),
        BinOp::Div => left.checked_div(right).unwrap_or(0),
        BinOp::Mod => left.checked_rem(right).unwrap_or(left),
        BinOp::And => left & right,
        BinOp::Or => left | right,
        BinOp::Xor => left ^ right,
        BinOp::Shl => left.wrapping_shl(right),
        BinOp::Shr => left.wrapping_shr(right),
        BinOp::Sar => (left as i32).wrapping_shr(right) as u32,
    }
}

/// Whether a comparison holds, as the machine compares.
pub fn compare(op: CmpOp, width: Width, left: u64, right: u64) -> bool {
    let (left, right) = match width {
        Width::W64 => (left, right),
        // Sign extension of both sides keeps the unsigned order, too.
        Width::W32 => (i64::from(left as i32) as u64, i64::from(right as i32) as u64),
    };
    match op {
        CmpOp::Eq => left == right,
        CmpOp::Ne => left != right,
        CmpOp::Lt => left < right,
        CmpOp::Le => left <= right,
        CmpOp::Gt => left > right,
        CmpOp::Ge => left >= right,
        CmpOp::SLt => (left as i64) < (right as i64),
        CmpOp::SLe => (left as i64) <= (right as i64),
        CmpOp::SGt => (left as i64) > (right as i64),
        CmpOp::SGe => (left as i64) >= (right as i64),
    }
}
