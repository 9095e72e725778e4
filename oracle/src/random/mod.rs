//! Random programs, for tests of everything that consumes IR.
//!
//! In: a seed. Out: one function with maps, a ring buffer, `.bss`, branches, bounded loops, calls.
//! Guarantees: the same seed gives the same program. The program passes
//! [`verify`](profiler_compiler::ir::verify::verify), terminates, runs without a fault, and is
//! designed to pass the kernel's verifier. Its results contain no address and nothing that differs
//! between runs (clock, random numbers).

mod access;

use profiler_compiler::ir::build::FunctionBuilder;
use profiler_compiler::ir::{
    Addr, BinOp, BlockId, CmpOp, Helper, Likely, Map, MapId, MapKind, Operand, Program, Section, Size, SlotId, VReg,
    Width,
};
use profiler_compiler::source::Span;

/// Name of the function.
pub const FUNCTION: &str = "random";
/// Readable bytes of the context.
pub const CONTEXT_SIZE_BYTES: u32 = 16;
/// Bytes of `.bss`: the scratch words, then the final values of the variables.
pub const BSS_SIZE_BYTES: u32 = (SCRATCH_WORDS + VARIABLES) * 8;
/// The ring buffer that the program writes to.
pub const RING: MapId = MapId(3);

const SCRATCH_WORDS: u32 = 8;
const VARIABLES: u32 = 6;
const HASH: MapId = MapId(0);
const PER_CPU_HASH: MapId = MapId(1);
const ARRAY: MapId = MapId(2);
/// Keys are below this, and every map has this capacity.
const KEYS: i64 = 8;
const RODATA_BYTES: u32 = 16;
/// Size in bytes of the slot for arbitrary data.
const SCRATCH_SLOT_BYTES: u32 = 16;
const LOCAL_SLOT_BYTES: u32 = 8;

/// A pseudo-random number generator (xorshift64*).
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// The generator for a seed.
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.draw() >> 32) % bound.max(1)
    }

    /// One of the given values.
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// The program for a seed.
pub fn program(seed: u64) -> Program {
    let mut b = FunctionBuilder::new(FUNCTION, "raw_tp/sys_enter", Span::default());
    b.set_context_size(CONTEXT_SIZE_BYTES);
    let mut numbers = Numbers::new(seed);
    let scratch = b.slot(SCRATCH_SLOT_BYTES, 8, "scratch");
    let local = b.slot(LOCAL_SLOT_BYTES, 8, "local");
    let key = b.slot(8, 8, "key");
    let value = b.slot(8, 8, "value");
    b.zero(Addr::slot(scratch, 0), SCRATCH_SLOT_BYTES);
    b.zero(Addr::slot(local, 0), LOCAL_SLOT_BYTES);
    let variables = (0..VARIABLES).map(|_| b.copy(numbers.below(100) as i64)).collect();
    let budget = 6 + numbers.below(30) as u32;
    let values = Vec::new();
    let mut generator = Generator { b, numbers, scratch, local, key, value, variables, values, budget };
    generator.statements(0);
    generator.finish();
    let rodata = (0..RODATA_BYTES).map(|at| (at * 37 + 5) as u8).collect();
    let functions = vec![generator.b.finish()];
    Program { functions, maps: maps(), rodata, bss_size_bytes: BSS_SIZE_BYTES, ..Program::default() }
}

fn maps() -> Vec<Map> {
    let map = |name: &str, kind, key_size_bytes, value_size_bytes, max_entries| Map {
        name: name.to_string(),
        kind,
        key_size_bytes,
        value_size_bytes,
        max_entries,
        no_prealloc: false,
    };
    vec![
        map("hash", MapKind::Hash, 8, 8, KEYS as u32),
        map("per_cpu", MapKind::PerCpuHash, 8, 8, KEYS as u32),
        map("array", MapKind::Array, 4, 8, KEYS as u32),
        map("ring", MapKind::RingBuf, 0, 0, 4096),
    ]
}

/// Generates one function. Its variables and values hold only numbers, never addresses.
struct Generator {
    b: FunctionBuilder,
    numbers: Numbers,
    scratch: SlotId,
    /// A slot whose address is never in a register.
    local: SlotId,
    key: SlotId,
    value: SlotId,
    /// Registers that are assigned many times.
    variables: Vec<VReg>,
    /// Registers that may be read at this point. Only the code that created them assigns them.
    values: Vec<VReg>,
    /// Number of statements still to generate.
    budget: u32,
}

const SIZES: [Size; 4] = [Size::B1, Size::B2, Size::B4, Size::B8];
const WIDTHS: [Width; 3] = [Width::W64, Width::W64, Width::W32];
const LIKELY: [Likely; 3] = [Likely::Then, Likely::Otherwise, Likely::Unknown];
const CONSTANTS: [i64; 16] =
    [0, 1, 2, 3, 7, 8, 10, 64, 255, 4096, -1, -8, i32::MAX as i64, i32::MIN as i64, 0xffff_ffff, i64::MIN];

impl Generator {
    fn statements(&mut self, depth: u32) {
        let scope = self.values.len();
        for _ in 0..=self.numbers.below(8) {
            if self.budget == 0 {
                break;
            }
            self.budget -= 1;
            self.statement(depth);
            if self.b.is_terminated() {
                break;
            }
        }
        self.values.truncate(scope);
    }

    fn statement(&mut self, depth: u32) {
        match self.numbers.below(24) {
            0..=4 => self.assign(),
            5 => self.store_to_bss(),
            6 => self.store_to_slot(),
            7 => self.move_bytes(),
            8 => self.atomic(),
            9 | 10 => self.look_up(depth),
            11 => self.update(),
            12 => self.delete(),
            13 => self.output(),
            14 => self.reserve(),
            15 if depth < 2 => self.repeat(depth),
            16 if depth > 0 && self.numbers.one_in(3) => {
                let result = self.numbers.below(3) as i32;
                self.finish_with(result);
            }
            17 => self.probe(),
            18 | 19 => self.through_local(),
            20 => self.through_alias(),
            _ if depth < 3 => self.branch(depth),
            _ => self.assign(),
        }
    }

    fn assign(&mut self) {
        let value = self.expression(2);
        let variable = self.numbers.pick(&self.variables.clone());
        self.b.assign(variable, value);
    }

    fn operand(&mut self) -> Operand {
        match self.numbers.below(5) {
            0 => Operand::Imm(self.numbers.pick(&CONSTANTS)),
            1 | 2 if !self.values.is_empty() => self.numbers.pick(&self.values.clone()).into(),
            _ => self.numbers.pick(&self.variables.clone()).into(),
        }
    }

    fn reg(&mut self) -> VReg {
        match self.operand() {
            Operand::Reg(reg) => reg,
            Operand::Imm(value) => self.b.copy(value),
        }
    }

    fn expression(&mut self, depth: u32) -> Operand {
        if depth == 0 || self.numbers.one_in(4) {
            return self.operand();
        }
        let value = match self.numbers.below(13) {
            0..=4 => {
                let (a, b) = (self.expression(depth - 1), self.expression(depth - 1));
                let (op, width) = (self.numbers.pick(&BinOp::ALL), self.numbers.pick(&WIDTHS));
                self.b.bin(op, width, a, b)
            }
            5 => {
                let (op, width, a, b) = self.comparison();
                self.b.set(op, width, a, b)
            }
            6 => {
                let src = self.reg();
                let once = self.extended(src);
                if self.numbers.one_in(2) { once } else { self.extended(once) }
            }
            7 => {
                let src = self.reg();
                if self.numbers.one_in(2) {
                    let most = self.numbers.below(1 << 31) as u32;
                    self.b.clamp(src, most >> self.numbers.below(31))
                } else {
                    self.b.swap(src, self.numbers.pick(&SIZES[1..]))
                }
            }
            8 => self.load_from_bss(),
            9 => self.load_constant(),
            11 => {
                let src = self.operand();
                self.b.copy(src)
            }
            10 => {
                let (addr, size) = self.scratch_place();
                self.b.load(addr, size)
            }
            _ => {
                let answers = [Helper::GetCurrentPidTgid, Helper::GetCurrentUidGid, Helper::GetSmpProcessorId];
                let helper = self.numbers.pick(&answers);
                self.b.call(helper, &[])
            }
        };
        self.values.push(value);
        value.into()
    }

    fn extended(&mut self, src: VReg) -> VReg {
        let (size, signed) = (self.numbers.pick(&SIZES), self.numbers.one_in(2));
        self.b.extend(src, size, signed)
    }

    fn comparison(&mut self) -> (CmpOp, Width, Operand, Operand) {
        let (a, b) = (self.operand(), self.operand());
        (self.numbers.pick(&CmpOp::ALL), self.numbers.pick(&WIDTHS), a, b)
    }

    /// Runs the code that `body` generates only when `address` is not null.
    fn if_present(&mut self, address: VReg, body: impl FnOnce(&mut Generator)) {
        let (present, end) = (self.b.new_block(), self.b.new_block());
        let likely = self.numbers.pick(&LIKELY);
        self.b.branch(CmpOp::Ne, Width::W64, address, 0, present, end, likely);
        self.b.switch_to(present);
        let scope = self.values.len();
        body(self);
        self.values.truncate(scope);
        self.b.jump(end);
        self.b.switch_to(end);
    }

    fn repeat(&mut self, depth: u32) {
        let times = 1 + self.numbers.below(4) as i64;
        let counter = self.b.copy(0);
        let (head, body, end) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        self.b.jump(head);
        self.b.switch_to(head);
        let more = self.b.set(CmpOp::Lt, Width::W64, counter, times);
        self.b.branch(CmpOp::Ne, Width::W64, more, 0, body, end, Likely::Then);
        self.b.switch_to(body);
        self.values.push(counter);
        self.statements(depth + 1);
        self.values.pop();
        if !self.b.is_terminated() {
            let next = self.b.bin(BinOp::Add, Width::W64, counter, 1);
            self.b.assign(counter, next);
            self.b.jump(head);
        }
        self.b.switch_to(end);
    }

    fn branch(&mut self, depth: u32) {
        let (then, otherwise, end) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        self.condition(then, otherwise);
        for arm in [then, otherwise] {
            self.b.switch_to(arm);
            self.statements(depth + 1);
            self.b.jump(end);
        }
        self.b.switch_to(end);
    }

    /// Ends the block with a branch on a comparison, on its materialised result, on the negated
    /// result, or on a conjunction of two.
    fn condition(&mut self, then: BlockId, otherwise: BlockId) {
        let (op, width, a, b) = self.comparison();
        let likely = self.numbers.pick(&LIKELY);
        let outcome = match self.numbers.below(4) {
            0 => return self.b.branch(op, width, a, b, then, otherwise, likely),
            1 => self.b.set(op, width, a, b),
            2 => {
                let holds = self.b.set(op, width, a, b);
                self.b.set(CmpOp::Eq, Width::W64, holds, 0)
            }
            _ => self.both(op, width, a, b),
        };
        self.b.branch(CmpOp::Ne, Width::W64, outcome, 0, then, otherwise, likely);
    }

    /// `a op b && …` in the form that a compiler emits: a variable that is set in two blocks.
    fn both(&mut self, op: CmpOp, width: Width, a: Operand, b: Operand) -> VReg {
        let outcome = self.b.new_vreg();
        let (second, no, end) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        self.b.branch(op, width, a, b, second, no, Likely::Unknown);
        self.b.switch_to(second);
        let (op, width, a, b) = self.comparison();
        let holds = self.b.set(op, width, a, b);
        self.b.assign(outcome, holds);
        self.b.jump(end);
        self.b.switch_to(no);
        if self.numbers.one_in(2) {
            self.b.assign(outcome, 1);
        }
        self.b.assign(outcome, 0);
        self.b.jump(end);
        self.b.switch_to(end);
        outcome
    }

    fn finish(&mut self) {
        self.finish_with(0);
    }

    /// Stores the variables in `.bss` and ends the program.
    fn finish_with(&mut self, result: i32) {
        for (index, variable) in self.variables.clone().into_iter().enumerate() {
            let word = SCRATCH_WORDS + index as u32;
            let shown = self.b.data_addr(Section::Bss, word * 8);
            self.b.store(Addr::reg(shown, 0), variable, Size::B8);
        }
        self.b.ret(result);
    }
}
