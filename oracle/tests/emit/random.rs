//! Random programs: the emitted bytecode must do what the IR says.
//!
//! In: seeds. Out: IR with few or many live values, calls, branches and loops, run by the evaluator
//! and by the interpreter and compared.
//! Guarantee: a seed always generates the same program; a failure names its seed.

use profiler_compiler::emit::bpf;
use profiler_compiler::emit::emit;
use profiler_compiler::ir::{
    Addr, Arg, BinOp, CmpOp, Function, Helper, Inst, Likely, Operand, Section, Size, SlotId, Terminator, VReg, Width,
};
use profiler_oracle::interpreter::{Fault, Host, Memory, run};

use crate::build::{Builder, program, source, value};
use crate::evaluate::{Outcome, answer, evaluate};

const SEEDS: u64 = 4000;
const SIZES: [Size; 4] = [Size::B1, Size::B2, Size::B4, Size::B8];
const HELPERS: [Helper; 6] = [
    Helper::KtimeGetNs,
    Helper::SendSignal,
    Helper::RingbufQuery,
    Helper::ProbeReadKernel,
    Helper::RingbufOutput,
    Helper::TracePrintk,
];
const INTERESTING: [i64; 10] = [0, 1, -1, 31, 32, 63, 255, i64::MIN, 0xffff_ffff, 0x1234_5678_9abc_def0];

/// `xorshift64*`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

struct Generator {
    b: Builder,
    random: Random,
    values: Vec<VReg>,
    /// Addresses of 16 bytes of memory each.
    addresses: Vec<VReg>,
    slots: Vec<SlotId>,
    /// Number of statements that may still be generated: bounds the program's size.
    fuel: usize,
    width_of_calls: usize,
}

fn generate(seed: u64) -> Function {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (count, fuel, width_of_calls) = (2 + random.below(28), 5 + random.below(60), random.below(8));
    let b = Builder::new("random", "raw_tp/sys_enter");
    let mut g = Generator { b, random, values: vec![], addresses: vec![], slots: vec![], fuel, width_of_calls };
    for _ in 0..3 {
        let slot = g.b.slot(16, 8);
        g.b.push(Inst::Zero { addr: Addr::slot(slot, 0), size_bytes: 16 });
        g.slots.push(slot);
    }
    for at in 0..2 {
        let address = g.b.data(Section::Bss, 2048 + 16 * at);
        g.addresses.push(address);
    }
    let address = g.b.reg();
    g.b.push(Inst::SlotAddr { dst: address, slot: g.slots[0], offset: 0 });
    g.addresses.push(address);
    for _ in 0..count {
        let number = g.random.next() as i64;
        let number = if g.random.below(2) == 0 { number } else { g.random.pick(&INTERESTING) };
        let reg = g.b.copy(number);
        g.values.push(reg);
    }
    g.statements(0);
    let out = g.b.data(Section::Bss, 0);
    for (index, reg) in g.values.clone().into_iter().enumerate() {
        g.b.store(Addr::reg(out, 8 * index as i32), reg, Size::B8);
    }
    let result = g.random.next() as i32;
    g.b.ret(result);
    g.b.finish()
}

impl Generator {
    fn reg(&mut self) -> VReg {
        self.random.pick(&self.values.clone())
    }

    fn operand(&mut self) -> Operand {
        match self.random.below(4) {
            0 => Operand::Imm(self.random.pick(&INTERESTING)),
            _ => Operand::Reg(self.reg()),
        }
    }

    fn width(&mut self) -> Width {
        self.random.pick(&[Width::W32, Width::W64])
    }

    /// An aligned address for an access.
    fn place(&mut self, size: Size) -> Addr {
        let offset = (self.random.below(16) as u32 / size.bytes() * size.bytes()) as i32;
        if self.random.below(2) == 0 {
            Addr::slot(self.random.pick(&self.slots.clone()), offset)
        } else {
            Addr::reg(self.random.pick(&self.addresses.clone()), offset)
        }
    }

    fn statements(&mut self, depth: usize) {
        for _ in 0..2 + self.random.below(12) {
            if self.fuel == 0 {
                return;
            }
            self.fuel -= 1;
            match self.random.below(20 + self.width_of_calls) {
                0 | 1 if depth < 3 => self.branch(depth),
                2 if depth < 3 => self.repeat(depth),
                3..=12 => self.compute(),
                13..=16 => self.memory(),
                _ => self.call(),
            }
        }
    }

    fn condition(&mut self, then: profiler_compiler::ir::BlockId, otherwise: profiler_compiler::ir::BlockId) {
        let (op, width): (CmpOp, Width) = (self.random.pick(&CmpOp::ALL), self.width());
        let (a, b) = (self.operand(), self.operand());
        let likely = self.random.pick(&[Likely::Then, Likely::Otherwise, Likely::Unknown]);
        self.b.end(Terminator::Branch { op, width, a, b, then, otherwise, likely });
    }

    fn branch(&mut self, depth: usize) {
        let (then, otherwise, join) = (self.b.block(), self.b.block(), self.b.block());
        self.condition(then, otherwise);
        self.b.at(then);
        self.statements(depth + 1);
        match self.random.below(6) {
            0 => self.b.ret(7),
            _ => self.b.jump(join),
        }
        self.b.at(otherwise);
        if self.random.below(2) == 0 {
            self.statements(depth + 1);
        }
        self.b.jump(join);
        self.b.at(join);
    }

    fn repeat(&mut self, depth: usize) {
        let times = 1 + self.random.below(4) as i64;
        let index = self.b.copy(0);
        let (head, body, done) = (self.b.block(), self.b.block(), self.b.block());
        self.b.jump(head);
        self.b.at(head);
        let (a, b) = (index.into(), times.into());
        let (op, width, likely) = (CmpOp::Lt, Width::W64, Likely::Then);
        self.b.end(Terminator::Branch { op, width, a, b, then: body, otherwise: done, likely });
        self.b.at(body);
        self.statements(depth + 1);
        self.b.push(Inst::Bin { op: BinOp::Add, width, dst: index, a, b: 1.into() });
        self.b.jump(head);
        self.b.at(done);
    }

    fn compute(&mut self) {
        let (dst, width) = (self.reg(), self.width());
        let (a, b, src) = (self.operand(), self.operand(), self.reg());
        let inst = match self.random.below(8) {
            0 => Inst::Copy { dst, src: a },
            1 => Inst::Set { op: self.random.pick(&CmpOp::ALL), width, dst, a, b },
            2 => Inst::Extend { dst, src, size: self.random.pick(&SIZES), signed: self.random.below(2) == 0 },
            3 => Inst::Swap { dst, src, size: self.random.pick(&SIZES[1..]) },
            _ => Inst::Bin { op: self.random.pick(&BinOp::ALL), width, dst, a, b },
        };
        self.b.push(inst);
    }

    fn memory(&mut self) {
        let size = self.random.pick(&SIZES);
        let (addr, wide) = (self.place(size), self.place(Size::B8));
        let (dst, src, operand) = (self.reg(), self.reg(), self.operand());
        let inst = match self.random.below(10) {
            9 => return self.peek(dst, size),
            0..=2 => Inst::Load { dst, addr, size },
            3 | 4 => Inst::Store { addr, src: operand, size },
            5 => {
                let (op, size) =
                    (self.random.pick(&[BinOp::Add, BinOp::And, BinOp::Or, BinOp::Xor]), self.random.pick(&SIZES[2..]));
                let fetch = if self.random.below(2) == 0 { Some(dst) } else { None };
                Inst::Atomic { op, addr: self.place(size), src, fetch, size }
            }
            6 => Inst::Exchange { dst, addr: wide, src },
            7 => Inst::CompareExchange { dst, addr: wide, expected: src, new: self.reg() },
            _ => {
                let (to, from) = (Addr::slot(self.slots[1], 0), Addr::slot(self.slots[2], 0));
                Inst::Move { to, from, size_bytes: 1 + self.random.below(16) as u32, align_bytes: 8 }
            }
        };
        self.b.push(inst);
    }

    /// A load of kernel memory, at an address outside of every region.
    fn peek(&mut self, dst: VReg, size: Size) {
        let (base, offset) = (self.reg(), self.random.below(1 << 12) as i16);
        self.b.push(Inst::Copy { dst: base, src: 0x10_0000.into() });
        self.b.push(Inst::Peek { dst, base, offset, size });
    }

    fn call(&mut self) {
        let helper = self.random.pick(&HELPERS);
        let args: Vec<Arg> = (0..helper.arity()).map(|_| value(self.operand())).collect();
        let dst = if self.random.below(4) == 0 { None } else { Some(self.reg()) };
        self.b.push(Inst::Call { dst, helper, args });
    }
}

/// Logs calls and results as the evaluator does.
#[derive(Default)]
struct Log {
    calls: Vec<(u32, Vec<u64>)>,
}

impl Host for Log {
    fn call(&mut self, number: u32, arguments: [u64; 5], _: &mut Memory) -> Result<u64, Fault> {
        let helper = HELPERS.into_iter().find(|helper| *helper as u32 == number);
        let arity = helper.ok_or(Fault::UnknownHelper { number })?.arity();
        let arguments = arguments[..arity].to_vec();
        let result = answer(self.calls.len(), &arguments);
        self.calls.push((number, arguments));
        Ok(result)
    }
}

#[test]
fn bytecode_does_what_the_ir_says() {
    let (mut spilled, mut insns) = (0, 0);
    for seed in 0..SEEDS {
        let function = generate(seed);
        let expected = evaluate(&function, 4096);
        let program = program(vec![function]);
        let emitted = emit(&program, &source()).unwrap_or_else(|errors| panic!("seed {seed}: {errors:?}"));
        let function = &emitted.functions[0];
        spilled += usize::from(function.stack_bytes > 48);
        insns += function.insns.len();
        let mut memory = Memory::new(Vec::new(), Vec::new(), vec![0; 4096]);
        let mut log = Log::default();
        let result = run(function, &mut memory, &mut log).unwrap_or_else(|fault| panic!("seed {seed}: {fault:?}"));
        let actual = Outcome { result, bss: memory.bss().to_vec(), calls: log.calls };
        assert!(actual == expected, "seed {seed} differs: {:x?} instead of {:x?}", actual.calls, expected.calls);
    }
    println!("{SEEDS} programs, {insns} instructions, {spilled} with spilled registers");
    assert!(spilled > SEEDS as usize / 10, "the generator no longer presses on the allocator");
}

/// A wrong instruction must be detected: otherwise the comparison above would prove nothing.
#[test]
fn a_broken_program_is_noticed() {
    let mut noticed = 0;
    for seed in 0..100 {
        let function = generate(seed);
        let expected = evaluate(&function, 4096);
        let emitted = emit(&program(vec![function]), &source()).expect("emits");
        let mut function = emitted.functions[0].clone();
        let first_add = function.insns.iter_mut().find(|insn| {
            insn.class() == bpf::ALU64
                && insn.bin_op().is_some()
                && insn.operation() != bpf::MOV
                && insn.dst != insn.src
        });
        let Some(insn) = first_add else { continue };
        insn.code ^= 0x20;
        let mut memory = Memory::new(Vec::new(), Vec::new(), vec![0; 4096]);
        let mut log = Log::default();
        let result = run(&function, &mut memory, &mut log);
        let actual = result.map(|result| Outcome { result, bss: memory.bss().to_vec(), calls: log.calls });
        noticed += usize::from(actual != Ok(expected));
    }
    assert!(noticed > 50, "only {noticed} of 100 broken programs were noticed");
}
