//! Reading an aggregation inside a program: the CPUs' copies together.
//!
//! In: a map that holds an aggregation, a key. Out: its value, a number.
//! Guarantee: the same value that user space would print at that moment, 0 where there is none; copies that other CPUs
//! change meanwhile are read one after another, as user space reads them.

use crate::ast::BinaryOp;
use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, MapId, Operand, Role, Section, Size, VReg, Width};
use crate::lower::storage::Place;
use crate::lower::{Body, Shared, Value};
use crate::typed::{Expr, Map, MapIndex, MapValue};
use crate::words::{Aggregation, Reading};

/// Copies of up to so many CPUs are read one by one in the program itself, more of them in a loop.
const MAX_UNROLLED_CPUS: u32 = 8;

/// Where a map's copies are.
#[derive(Debug, Clone, Copy)]
enum Copies {
    /// In `.bss`: the first one's value, and the distance to the next.
    Global { offset_bytes: u32, stride_bytes: u32 },
    /// In a map, at the key at this address.
    PerCpu { id: MapId, key: Addr },
}

impl Shared<'_> {
    /// Whether reading a map takes a loop over CPUs.
    pub(super) fn is_read_in_a_loop(&self, map: &Map) -> bool {
        matches!(map.value, MapValue::Aggregate { .. }) && self.target.possible_cpus() > MAX_UNROLLED_CPUS
    }
}

impl Body<'_, '_> {
    pub(super) fn read_aggregate(&mut self, map: MapIndex, key: Option<&Expr>) -> Value {
        let value = match self.map_place(map) {
            Place::Global { offset_bytes, stride_bytes, copies, .. } => {
                self.over_cpus(map, Copies::Global { offset_bytes: offset_bytes + 8, stride_bytes }, copies)
            }
            Place::Map { id, per_cpu: false, .. } => {
                let key = self.key(map, key);
                let key = self.address_arg(key);
                let found = self.b.call(Helper::MapLookupElem, &[Arg::Map(id), key]);
                self.of_one_copy(map, found)
            }
            Place::Threads { id, .. } => {
                let found = self.thread_value_once(map, id, key);
                self.of_one_copy(map, found)
            }
            Place::Map { id, per_cpu: true, .. } => {
                let key = self.key(map, key);
                self.over_cpus(map, Copies::PerCpu { id, key }, self.shared.target.possible_cpus())
            }
        };
        Value::Scalar(value)
    }

    /// The value of an entry that a loop is at: the key is in the map's memory. Nothing for a map of plain values.
    pub(super) fn entry_value(&mut self, map: MapIndex, key: VReg, key_bytes: u32) -> Option<Operand> {
        let MapValue::Aggregate { .. } = self.shared.program.maps[map.0].value else { return None };
        let Place::Map { id, per_cpu, .. } = self.map_place(map) else { return None };
        if !per_cpu {
            let found = self.b.call(Helper::MapLookupElem, &[Arg::Map(id), key.into()]);
            return Some(self.of_one_copy(map, found));
        }
        // A copy: by the time of the last CPU, the entry may be another's.
        let copy = self.memory(key_bytes, "key");
        self.copy(copy, Addr::reg(key, 0), key_bytes);
        let cpus = self.shared.target.possible_cpus();
        Some(self.over_cpus(map, Copies::PerCpu { id, key: copy }, cpus))
    }

    fn word_of(&self, map: MapIndex) -> Option<(&'static dyn Aggregation, Reading, bool, u32)> {
        let MapValue::Aggregate { word, signed, params } = &self.shared.program.maps[map.0].value else { return None };
        Some((*word, word.reading()?, *signed, word.size_bytes(params) / 8))
    }

    /// The value from the only copy there is, at an address that may be 0.
    fn of_one_copy(&mut self, map: MapIndex, found: VReg) -> Operand {
        let Some((word, _, signed, words)) = self.word_of(map) else { return Operand::Imm(0) };
        let values: Vec<VReg> = (0..words).map(|_| self.b.copy(0)).collect();
        let (hit, done) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Ne, Width::W64, found, 0, hit, done, Likely::Then);
        self.b.switch_to(hit);
        for (value, offset) in values.iter().zip((0..).step_by(8)) {
            let have = self.b.load(Addr::reg(found, offset), Size::B8);
            self.b.assign(*value, have);
        }
        self.b.jump(done);
        self.b.switch_to(done);
        word.value(self, signed, &values)
    }

    fn over_cpus(&mut self, map: MapIndex, copies: Copies, cpus: u32) -> Operand {
        let Some((word, reading, signed, words)) = self.word_of(map) else { return Operand::Imm(0) };
        let values = if cpus <= MAX_UNROLLED_CPUS {
            self.one_by_one(copies, cpus, reading, words)
        } else {
            self.in_a_loop(copies, cpus, reading, words)
        };
        word.value(self, signed, &values)
    }

    fn one_by_one(&mut self, copies: Copies, cpus: u32, reading: Reading, words: u32) -> Vec<VReg> {
        let values: Vec<VReg> = (0..words).map(|_| self.b.copy(0)).collect();
        for cpu in 0..cpus {
            let next = self.b.new_block();
            let at = self.copy_of(copies, i64::from(cpu).into(), next);
            for (value, offset) in values.iter().zip((0..).step_by(8)) {
                let have = self.b.load(at.plus(offset), Size::B8);
                let both = self.joined(reading, *value, have);
                self.b.assign(*value, both);
            }
            self.b.jump(next);
            self.b.switch_to(next);
        }
        values
    }

    fn in_a_loop(&mut self, copies: Copies, cpus: u32, reading: Reading, words: u32) -> Vec<VReg> {
        let rooms: Vec<i32> = (0..words).map(|_| self.scratch_room(8)).collect();
        for room in &rooms {
            let at = self.scratch_at(*room);
            self.b.store(at, 0, Size::B8);
        }
        let key = self.shared_key(copies);
        let repeated = self.subprogram(Role::Iteration, "cpus", |cx, given| {
            let copies = match (copies, key) {
                (Copies::PerCpu { id, .. }, Some(key)) => Copies::PerCpu { id, key: cx.scratch_at(key) },
                (copies, _) => copies,
            };
            let next = cx.b.new_block();
            let at = cx.copy_of(copies, given[0].into(), next);
            for (room, offset) in rooms.iter().zip((0..).step_by(8)) {
                let place = cx.scratch_at(*room);
                let (value, have) = (cx.b.load(place, Size::B8), cx.b.load(at.plus(offset), Size::B8));
                let both = cx.joined(reading, value, have);
                cx.b.store(place, both, Size::B8);
            }
            cx.b.jump(next);
            cx.b.switch_to(next);
            cx.b.ret(0);
        });
        self.run_rounds(repeated, i64::from(cpus).into());
        let read = |cx: &mut Self, room: &i32| {
            let at = cx.scratch_at(*room);
            cx.b.load(at, Size::B8)
        };
        rooms.iter().map(|room| read(self, room)).collect()
    }

    /// A copy of the key where a subprogram finds it.
    fn shared_key(&mut self, copies: Copies) -> Option<i32> {
        let Copies::PerCpu { id, key } = copies else { return None };
        let size_bytes = self.shared.ir.maps[id.0 as usize].key_size_bytes;
        let room = self.scratch_room(size_bytes);
        let to = self.scratch_at(room);
        self.copy(to, key, size_bytes);
        Some(room)
    }

    /// The address of a CPU's copy; goes to `none` where it has none.
    fn copy_of(&mut self, copies: Copies, cpu: Operand, none: BlockId) -> Addr {
        match (copies, cpu) {
            (Copies::Global { offset_bytes, stride_bytes }, Operand::Imm(cpu)) => {
                Addr::reg(self.b.data_addr(Section::Bss, offset_bytes + cpu as u32 * stride_bytes), 0)
            }
            (Copies::Global { offset_bytes, stride_bytes }, cpu) => {
                // Verifier: of the number of a round it knows no bound.
                let mask = i64::from(self.shared.cpu_slots() - 1);
                let bounded = self.b.bin(BinOp::And, Width::W64, cpu, mask);
                let distance = self.b.bin(BinOp::Mul, Width::W64, bounded, i64::from(stride_bytes));
                let base = self.b.data_addr(Section::Bss, offset_bytes);
                Addr::reg(self.b.bin(BinOp::Add, Width::W64, base, distance), 0)
            }
            (Copies::PerCpu { id, key }, cpu) => {
                let key = self.address_arg(key);
                let args = [Arg::Map(id), key, Arg::Value(cpu)];
                let found = self.b.call(Helper::MapLookupPercpuElem, &args);
                let hit = self.b.new_block();
                self.b.branch(CmpOp::Ne, Width::W64, found, 0, hit, none, Likely::Then);
                self.b.switch_to(hit);
                Addr::reg(found, 0)
            }
        }
    }

    /// Two copies' words as one.
    fn joined(&mut self, reading: Reading, a: VReg, b: VReg) -> VReg {
        if reading == Reading::Sum {
            return self.b.bin(BinOp::Add, Width::W64, a, b);
        }
        let larger = self.b.copy(a);
        let (raise, done) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Gt, Width::W64, b, larger, raise, done, Likely::Unknown);
        self.b.switch_to(raise);
        self.b.assign(larger, b);
        self.b.jump(done);
        self.b.switch_to(done);
        larger
    }

    /// The sum of a `u64` over all CPUs' copies.
    pub(super) fn sum_of_copies(&mut self, offset_bytes: u32, stride_bytes: u32, cpus: u32) -> VReg {
        let copies = Copies::Global { offset_bytes, stride_bytes };
        self.one_by_one(copies, cpus, Reading::Sum, 1)[0]
    }

    /// A truncating division; by 0 it is 0.
    pub fn quotient(&mut self, a: Operand, b: Operand, signed: bool) -> VReg {
        self.arithmetic(BinaryOp::Div, a, b, signed)
    }
}
