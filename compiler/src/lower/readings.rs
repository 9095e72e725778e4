//! Reads an aggregation inside a program: combines the per-CPU copies.
//!
//! In: a map that holds an aggregation, a key. Out: its value, a number.
//! Guarantee: the value that user space would print at that moment; 0 if there is none. Copies that
//! other CPUs change meanwhile are read one after another, as user space reads them.

use crate::catalogue::{Aggregation, Reading};
use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, MapId, Operand, Role, Section, Size, VReg, Width};
use crate::lower::shared::Shared;
use crate::lower::storage::Storage;
use crate::lower::{Body, Value, loops, maps, threads};
use crate::typed::{Expr, Map, MapIndex, MapValue};

/// Copies of up to this many CPUs are read by unrolled code; more, in a loop.
const MAX_UNROLLED_CPUS: u32 = 8;

/// Location of a map's copies.
#[derive(Debug, Clone, Copy)]
enum Copies {
    /// In `.bss`: the offset of the first one's value, and the distance between copies.
    Global { offset_bytes: u32, stride_bytes: u32 },
    /// In a map, under the key at this address.
    PerCpu { id: MapId, key: Addr },
}

impl Shared<'_> {
    /// Whether reading a map takes a loop over CPUs.
    pub(super) fn is_read_in_a_loop(&self, map: &Map) -> bool {
        matches!(map.value, MapValue::Aggregate { .. }) && self.target.possible_cpus() > MAX_UNROLLED_CPUS
    }
}

pub(super) fn read_aggregate(cx: &mut Body<'_, '_>, map: MapIndex, key: Option<&Expr>) -> Value {
    let value = match maps::storage(cx, map) {
        Storage::Global { offset_bytes, stride_bytes, copies, .. } => {
            over_cpus(cx, map, Copies::Global { offset_bytes: offset_bytes + 8, stride_bytes }, copies)
        }
        Storage::Map { id, per_cpu: false, .. } => {
            let key = maps::key_address(cx, map, key);
            let key = cx.address_arg(key);
            let found = cx.b.call(Helper::MapLookupElem, &[Arg::Map(id), key]);
            of_one_copy(cx, map, found)
        }
        Storage::Threads { id, .. } => {
            let found = threads::value_once(cx, map, id, key);
            of_one_copy(cx, map, found)
        }
        Storage::Map { id, per_cpu: true, .. } => {
            let key = maps::key_address(cx, map, key);
            over_cpus(cx, map, Copies::PerCpu { id, key }, cx.shared.target.possible_cpus())
        }
    };
    Value::Scalar(value)
}

/// The value of a loop's current entry, whose key is in the map's memory. `None` for a map of
/// plain values.
pub(super) fn entry_value(cx: &mut Body<'_, '_>, map: MapIndex, key: VReg, key_bytes: u32) -> Option<Operand> {
    let MapValue::Aggregate { .. } = cx.shared.program.maps[map.0].value else { return None };
    let Storage::Map { id, per_cpu, .. } = maps::storage(cx, map) else { return None };
    if !per_cpu {
        let found = cx.b.call(Helper::MapLookupElem, &[Arg::Map(id), key.into()]);
        return Some(of_one_copy(cx, map, found));
    }
    // Copy the key: by the time the last CPU is read, the entry may belong to another key.
    let copy = cx.memory(key_bytes, "key");
    cx.copy(copy, Addr::reg(key, 0), key_bytes);
    let cpus = cx.shared.target.possible_cpus();
    Some(over_cpus(cx, map, Copies::PerCpu { id, key: copy }, cpus))
}

fn word_of(cx: &Body<'_, '_>, map: MapIndex) -> Option<(&'static dyn Aggregation, Reading, bool, u32)> {
    let MapValue::Aggregate { word, signed, params, .. } = &cx.shared.program.maps[map.0].value else { return None };
    let word = cx.shared.catalogue.aggregation_of(word);
    Some((word, word.reading()?, *signed, word.size_bytes(params) / 8))
}

/// The value from a single copy, at an address that may be 0.
fn of_one_copy(cx: &mut Body<'_, '_>, map: MapIndex, found: VReg) -> Operand {
    let Some((word, _, signed, words)) = word_of(cx, map) else { return Operand::Imm(0) };
    let values: Vec<VReg> = (0..words).map(|_| cx.b.copy(0)).collect();
    let (hit, done) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Ne, Width::W64, found, 0, hit, done, Likely::Then);
    cx.b.switch_to(hit);
    for (value, offset) in values.iter().zip((0..).step_by(8)) {
        let have = cx.b.load(Addr::reg(found, offset), Size::B8);
        cx.b.assign(*value, have);
    }
    cx.b.jump(done);
    cx.b.switch_to(done);
    word.value(cx, signed, &values)
}

fn over_cpus(cx: &mut Body<'_, '_>, map: MapIndex, copies: Copies, cpus: u32) -> Operand {
    let Some((word, reading, signed, words)) = word_of(cx, map) else { return Operand::Imm(0) };
    let values = if cpus <= MAX_UNROLLED_CPUS {
        one_by_one(cx, copies, cpus, reading, words)
    } else {
        in_a_loop(cx, copies, cpus, reading, words)
    };
    word.value(cx, signed, &values)
}

fn one_by_one(cx: &mut Body<'_, '_>, copies: Copies, cpus: u32, reading: Reading, words: u32) -> Vec<VReg> {
    let values: Vec<VReg> = (0..words).map(|_| cx.b.copy(0)).collect();
    for cpu in 0..cpus {
        let next = cx.b.new_block();
        let at = copy_address(cx, copies, i64::from(cpu).into(), next);
        for (value, offset) in values.iter().zip((0..).step_by(8)) {
            let have = cx.b.load(at.plus(offset), Size::B8);
            let both = joined(cx, reading, *value, have);
            cx.b.assign(*value, both);
        }
        cx.b.jump(next);
        cx.b.switch_to(next);
    }
    values
}

fn in_a_loop(cx: &mut Body<'_, '_>, copies: Copies, cpus: u32, reading: Reading, words: u32) -> Vec<VReg> {
    let rooms: Vec<i32> = (0..words).map(|_| cx.scratch_room(8)).collect();
    for room in &rooms {
        let at = cx.scratch_at(*room);
        cx.b.store(at, 0, Size::B8);
    }
    let key = shared_key(cx, copies);
    let repeated = loops::subprogram(cx, Role::Iteration, "cpus", |cx, given| {
        let copies = match (copies, key) {
            (Copies::PerCpu { id, .. }, Some(key)) => Copies::PerCpu { id, key: cx.scratch_at(key) },
            (copies, _) => copies,
        };
        let next = cx.b.new_block();
        let at = copy_address(cx, copies, given[0].into(), next);
        for (room, offset) in rooms.iter().zip((0..).step_by(8)) {
            let place = cx.scratch_at(*room);
            let (value, have) = (cx.b.load(place, Size::B8), cx.b.load(at.plus(offset), Size::B8));
            let both = joined(cx, reading, value, have);
            cx.b.store(place, both, Size::B8);
        }
        cx.b.jump(next);
        cx.b.switch_to(next);
        cx.b.ret(0);
    });
    loops::run_rounds(cx, repeated, i64::from(cpus).into());
    let read = |cx: &mut Body<'_, '_>, room: &i32| {
        let at = cx.scratch_at(*room);
        cx.b.load(at, Size::B8)
    };
    rooms.iter().map(|room| read(cx, room)).collect()
}

/// A copy of the key in scratch memory, where a subprogram can read it.
fn shared_key(cx: &mut Body<'_, '_>, copies: Copies) -> Option<i32> {
    let Copies::PerCpu { id, key } = copies else { return None };
    let size_bytes = cx.shared.ir.maps[id.0 as usize].key_size_bytes;
    let room = cx.scratch_room(size_bytes);
    let to = cx.scratch_at(room);
    cx.copy(to, key, size_bytes);
    Some(room)
}

/// The address of a CPU's copy; jumps to `none` if it has none.
fn copy_address(cx: &mut Body<'_, '_>, copies: Copies, cpu: Operand, none: BlockId) -> Addr {
    match (copies, cpu) {
        (Copies::Global { offset_bytes, stride_bytes }, Operand::Imm(cpu)) => {
            Addr::reg(cx.b.data_addr(Section::Bss, offset_bytes + cpu as u32 * stride_bytes), 0)
        }
        (Copies::Global { offset_bytes, stride_bytes }, cpu) => {
            // Verifier: it knows no bound of the iteration number.
            let mask = i64::from(cx.shared.cpu_slots() - 1);
            let bounded = cx.b.bin(BinOp::And, Width::W64, cpu, mask);
            let distance = cx.b.bin(BinOp::Mul, Width::W64, bounded, i64::from(stride_bytes));
            let base = cx.b.data_addr(Section::Bss, offset_bytes);
            Addr::reg(cx.b.bin(BinOp::Add, Width::W64, base, distance), 0)
        }
        (Copies::PerCpu { id, key }, cpu) => {
            let key = cx.address_arg(key);
            let args = [Arg::Map(id), key, Arg::Value(cpu)];
            let found = cx.b.call(Helper::MapLookupPercpuElem, &args);
            let hit = cx.b.new_block();
            cx.b.branch(CmpOp::Ne, Width::W64, found, 0, hit, none, Likely::Then);
            cx.b.switch_to(hit);
            Addr::reg(found, 0)
        }
    }
}

/// Combines one word of two copies.
fn joined(cx: &mut Body<'_, '_>, reading: Reading, a: VReg, b: VReg) -> VReg {
    if reading == Reading::Sum {
        return cx.b.bin(BinOp::Add, Width::W64, a, b);
    }
    let larger = cx.b.copy(a);
    let (raise, done) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Gt, Width::W64, b, larger, raise, done, Likely::Unknown);
    cx.b.switch_to(raise);
    cx.b.assign(larger, b);
    cx.b.jump(done);
    cx.b.switch_to(done);
    larger
}

/// The sum of a `u64` over all CPUs' copies.
pub(super) fn sum_of_copies(cx: &mut Body<'_, '_>, offset_bytes: u32, stride_bytes: u32, cpus: u32) -> VReg {
    let copies = Copies::Global { offset_bytes, stride_bytes };
    one_by_one(cx, copies, cpus, Reading::Sum, 1)[0]
}
