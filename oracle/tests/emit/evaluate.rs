//! An independent evaluator of IR, for the instructions that [`crate::random`] generates.
//!
//! In: an IR function. Out: its result, the data section afterwards, and the helper calls it made.
//! Guarantee: shares no code with the emit stage.

use std::collections::BTreeMap;

use profiler_compiler::ir::{
    Addr, Arg, Base, BinOp, CmpOp, Function, Inst, Operand, Size, SlotId, Terminator, VReg, Width,
};

/// The observable result of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub result: u64,
    pub bss: Vec<u8>,
    pub calls: Vec<(u32, Vec<u64>)>,
}

/// The result of the `n`th helper call of a run.
pub fn answer(n: usize, arguments: &[u64]) -> u64 {
    let seed = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    arguments.iter().fold(seed, |hash, argument| (hash ^ argument).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17))
}

struct State<'a> {
    regs: Vec<u64>,
    slots: Vec<Vec<u8>>,
    bss: Vec<u8>,
    calls: Vec<(u32, Vec<u64>)>,
    /// Registers that hold an address: the slot, or `None` for the data section, and the offset.
    addresses: BTreeMap<VReg, (Option<SlotId>, i64)>,
    function: &'a Function,
}

pub fn evaluate(function: &Function, bss_size_bytes: u32) -> Outcome {
    let mut state = State {
        regs: vec![0; function.vregs as usize],
        slots: function.slots.iter().map(|slot| vec![0; slot.size_bytes as usize]).collect(),
        bss: vec![0; bss_size_bytes as usize],
        calls: Vec::new(),
        addresses: BTreeMap::new(),
        function,
    };
    let mut at = 0;
    for _ in 0..1_000_000 {
        for (inst, _) in &state.function.blocks[at].insts {
            state.step(inst);
        }
        at = match state.function.blocks[at].end {
            Terminator::Jump(to) => to.0 as usize,
            Terminator::Return(value) => {
                let result = i64::from(value) as u64;
                return Outcome { result, bss: state.bss, calls: state.calls };
            }
            Terminator::Branch { op, width, a, b, then, otherwise, .. } => {
                let side = if holds(op, width, state.operand(a), state.operand(b)) { then } else { otherwise };
                side.0 as usize
            }
        };
    }
    panic!("the generated program does not end");
}

impl State<'_> {
    fn operand(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Reg(reg) => self.regs[reg.0 as usize],
            Operand::Imm(value) => value as u64,
        }
    }

    fn memory(&mut self, addr: Addr, length: usize) -> &mut [u8] {
        let (slot, start) = match addr.base {
            Base::Slot(slot) => (Some(slot), 0),
            Base::Reg(reg) => self.addresses[&reg],
        };
        let start = (start + i64::from(addr.offset)) as usize;
        let bytes = match slot {
            Some(slot) => &mut self.slots[slot.0 as usize],
            None => &mut self.bss,
        };
        &mut bytes[start..start + length]
    }

    fn read(&mut self, addr: Addr, size: Size) -> u64 {
        let bytes = self.memory(addr, size.bytes() as usize);
        bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }

    fn write(&mut self, addr: Addr, size: Size, value: u64) {
        for (index, byte) in self.memory(addr, size.bytes() as usize).iter_mut().enumerate() {
            *byte = (value >> (8 * index)) as u8;
        }
    }

    fn set(&mut self, dst: VReg, value: u64) {
        self.regs[dst.0 as usize] = value;
    }

    fn step(&mut self, inst: &Inst) {
        match *inst {
            Inst::Copy { dst, src } => self.set(dst, self.operand(src)),
            Inst::Bin { op, width, dst, a, b } => self.set(dst, compute(op, width, self.operand(a), self.operand(b))),
            Inst::Set { op, width, dst, a, b } => {
                self.set(dst, u64::from(holds(op, width, self.operand(a), self.operand(b))));
            }
            Inst::Extend { dst, src, size, signed } => {
                let extended = extend(self.regs[src.0 as usize], size, signed);
                self.set(dst, extended);
            }
            Inst::Swap { dst, src, size } => {
                let value = self.regs[src.0 as usize];
                self.set(dst, value.swap_bytes() >> (64 - 8 * size.bytes()));
            }
            Inst::Clamp { dst, src, most } => self.set(dst, self.regs[src.0 as usize].min(most.into())),
            Inst::Load { dst, addr, size } => {
                let value = self.read(addr, size);
                self.set(dst, value);
            }
            // Kernel memory does not exist here.
            Inst::Peek { dst, .. } => self.set(dst, 0),
            Inst::Store { addr, src, size } => self.write(addr, size, self.operand(src)),
            Inst::Zero { addr, size_bytes } => self.memory(addr, size_bytes as usize).fill(0),
            Inst::Move { to, from, size_bytes, .. } => {
                let bytes = self.memory(from, size_bytes as usize).to_vec();
                self.memory(to, size_bytes as usize).copy_from_slice(&bytes);
            }
            Inst::Atomic { op, addr, src, fetch, size } => {
                let old = self.read(addr, size);
                self.write(addr, size, compute(op, Width::W64, old, self.regs[src.0 as usize]));
                if let Some(dst) = fetch {
                    self.set(dst, old);
                }
            }
            Inst::Exchange { dst, addr, src } => {
                let old = self.read(addr, Size::B8);
                self.write(addr, Size::B8, self.regs[src.0 as usize]);
                self.set(dst, old);
            }
            Inst::CompareExchange { dst, addr, expected, new } => {
                let old = self.read(addr, Size::B8);
                if old == self.regs[expected.0 as usize] {
                    self.write(addr, Size::B8, self.regs[new.0 as usize]);
                }
                self.set(dst, old);
            }
            Inst::SlotAddr { dst, slot, offset } => {
                self.addresses.insert(dst, (Some(slot), i64::from(offset)));
            }
            Inst::DataAddr { dst, offset, .. } => {
                self.addresses.insert(dst, (None, i64::from(offset)));
            }
            Inst::Call { dst, helper, ref args } => self.call(dst, helper as u32, args),
            Inst::Context { .. } | Inst::Parameter { .. } => panic!("not generated"),
        }
    }

    fn call(&mut self, dst: Option<VReg>, helper: u32, args: &[Arg]) {
        let arguments: Vec<u64> = args
            .iter()
            .map(|arg| match arg {
                Arg::Value(value) => self.operand(*value),
                _ => panic!("not generated"),
            })
            .collect();
        let result = answer(self.calls.len(), &arguments);
        self.calls.push((helper, arguments));
        if let Some(dst) = dst {
            self.set(dst, result);
        }
    }
}

fn extend(value: u64, size: Size, signed: bool) -> u64 {
    match (size, signed) {
        (Size::B1, false) => u64::from(value as u8),
        (Size::B2, false) => u64::from(value as u16),
        (Size::B4, false) => u64::from(value as u32),
        (Size::B1, true) => i64::from(value as i8) as u64,
        (Size::B2, true) => i64::from(value as i16) as u64,
        (Size::B4, true) => i64::from(value as i32) as u64,
        (Size::B8, _) => value,
    }
}

fn compute(op: BinOp, width: Width, a: u64, b: u64) -> u64 {
    let (bits, mask) = if width == Width::W32 { (32, u64::from(u32::MAX)) } else { (64, u64::MAX) };
    let (x, y) = (a & mask, b & mask);
    let count = y % bits;
    let signed = if bits == 32 { i64::from(x as i32) } else { x as i64 };
    let result = match op {
        BinOp::Add => x.wrapping_add(y),
        BinOp::Sub => x.wrapping_sub(y),
        BinOp::Mul => x.wrapping_mul(y),
        BinOp::Div if y == 0 => 0,
        BinOp::Div => x / y,
        BinOp::Mod if y == 0 => x,
        BinOp::Mod => x % y,
        BinOp::And => x & y,
        BinOp::Or => x | y,
        BinOp::Xor => x ^ y,
        BinOp::Shl => x << count,
        BinOp::Shr => x >> count,
        BinOp::Sar => (signed >> count) as u64,
    };
    result & mask
}

fn holds(op: CmpOp, width: Width, a: u64, b: u64) -> bool {
    let (unsigned, signed) = match width {
        Width::W32 => ((a as u32).cmp(&(b as u32)), (a as i32).cmp(&(b as i32))),
        Width::W64 => (a.cmp(&b), (a as i64).cmp(&(b as i64))),
    };
    match op {
        CmpOp::Eq => unsigned.is_eq(),
        CmpOp::Ne => unsigned.is_ne(),
        CmpOp::Lt => unsigned.is_lt(),
        CmpOp::Le => unsigned.is_le(),
        CmpOp::Gt => unsigned.is_gt(),
        CmpOp::Ge => unsigned.is_ge(),
        CmpOp::SLt => signed.is_lt(),
        CmpOp::SLe => signed.is_le(),
        CmpOp::SGt => signed.is_gt(),
        CmpOp::SGe => signed.is_ge(),
    }
}
