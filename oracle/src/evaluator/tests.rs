//! Small programs with known results.

use super::{Fault, Machine, Space};
use profiler_compiler::ir::build::FunctionBuilder;
use profiler_compiler::ir::verify::verify;
use profiler_compiler::ir::{
    Addr, BinOp, CmpOp, Helper, Likely, Map, MapId, MapKind, Program, Section, Size, SlotId, Width,
};
use profiler_compiler::source::Span;

const HASH: MapId = MapId(0);
const PER_CPU: MapId = MapId(1);
const RING: MapId = MapId(2);
const STACKS: MapId = MapId(3);
const TASKS: MapId = MapId(4);
const ARRAY: MapId = MapId(5);
const LRU: MapId = MapId(6);

fn map(kind: MapKind, key_size_bytes: u32, value_size_bytes: u32, max_entries: u32) -> Map {
    let name = format!("{kind:?}");
    Map { name, kind, key_size_bytes, value_size_bytes, max_entries, no_prealloc: false }
}

fn program(bodies: &[&dyn Fn(&mut FunctionBuilder)]) -> Program {
    let mut functions = Vec::new();
    for (index, body) in bodies.iter().enumerate() {
        let mut b = FunctionBuilder::new(format!("f{index}"), "raw_tp/x", Span::default());
        b.set_context_size(16);
        body(&mut b);
        b.ret(index as i32);
        functions.push(b.finish());
    }
    let maps = vec![
        map(MapKind::Hash, 8, 8, 2),
        map(MapKind::PerCpuHash, 8, 8, 2),
        map(MapKind::RingBuf, 0, 0, 4096),
        map(MapKind::StackTrace, 4, 8, 1),
        map(MapKind::TaskStorage, 4, 8, 1),
        map(MapKind::Array, 4, 8, 2),
        map(MapKind::LruHash, 8, 8, 2),
    ];
    Program { functions, maps, rodata: b"hi\0\0".to_vec(), bss_size_bytes: 64, ..Program::default() }
}

/// The fault of one body, or the words of `.bss` after it ran.
fn run(body: &dyn Fn(&mut FunctionBuilder)) -> Result<Vec<u64>, Fault> {
    let program = program(&[body]);
    let mut machine = Machine::new(&program);
    machine.run("f0", &[7; 16]).map_err(|error| error.fault)?;
    Ok(words(machine.bss()))
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    bytes.chunks(8).map(word).collect()
}

/// Stores a value in a word of `.bss`.
fn show(b: &mut FunctionBuilder, word: u32, value: impl Into<profiler_compiler::ir::Operand>) {
    let at = b.data_addr(Section::Bss, word * 8);
    b.store(Addr::reg(at, 0), value, Size::B8);
}

fn key_slot(b: &mut FunctionBuilder, key: i64) -> SlotId {
    let slot = b.slot(8, 8, "key");
    b.store(Addr::slot(slot, 0), key, Size::B8);
    slot
}

fn update(b: &mut FunctionBuilder, map: MapId, key: i64, value: i64) {
    let (key, value) = (key_slot(b, key), key_slot(b, value));
    let result = b.call(Helper::MapUpdateElem, &[map.into(), key.into(), value.into(), 0.into()]);
    show(b, 7, result);
}

#[test]
fn a_loop_sums_and_memory_keeps() {
    let shown = run(&|b| {
        let (sum, i) = (b.copy(0), b.copy(0));
        let (body, end) = (b.new_block(), b.new_block());
        b.jump(body);
        b.switch_to(body);
        let next = b.bin(BinOp::Add, Width::W64, sum, i);
        b.assign(sum, next);
        let next = b.bin(BinOp::Add, Width::W64, i, 1);
        b.assign(i, next);
        b.branch(CmpOp::Lt, Width::W64, i, 10, body, end, Likely::Then);
        b.switch_to(end);
        show(b, 0, sum);
        let slot = b.slot(16, 8, "pair");
        b.zero(Addr::slot(slot, 8), 8);
        let address = b.slot_addr(slot, 8);
        b.store(Addr::slot(slot, 0), address, Size::B8);
        let again = b.load(Addr::slot(slot, 0), Size::B8);
        b.store(Addr::reg(again, 0), 0x1234, Size::B2);
        let low = b.load(Addr::slot(slot, 8), Size::B1);
        show(b, 1, low);
        let context = b.context();
        let field = b.load(Addr::reg(context, 12), Size::B4);
        show(b, 2, field);
    });
    assert_eq!(shown.unwrap()[..3], [45, 0x34, 0x0707_0707]);
}

#[test]
fn every_access_is_checked() {
    let fault = |body: &dyn Fn(&mut FunctionBuilder)| run(body).unwrap_err();
    let undefined = fault(&|b| {
        let slot = b.slot(8, 8, "x");
        b.store(Addr::slot(slot, 0), 1, Size::B4);
        b.load(Addr::slot(slot, 0), Size::B8);
    });
    assert!(matches!(undefined, Fault::Undefined(_)));
    let null = fault(&|b| {
        let null = b.copy(0);
        b.load(Addr::reg(null, 0), Size::B8);
    });
    assert_eq!(null, Fault::BadAddress(0));
    let outside = fault(&|b| {
        let slot = key_slot(b, 0);
        let address = b.slot_addr(slot, 4);
        b.store(Addr::reg(address, 4), 1, Size::B1);
    });
    assert!(matches!(outside, Fault::BadAddress(_)));
    let before = fault(&|b| {
        let bss = b.data_addr(Section::Bss, 0);
        b.store(Addr::reg(bss, -1), 1, Size::B1);
    });
    assert!(matches!(before, Fault::BadAddress(_)));
    let misaligned = fault(&|b| {
        let slot = key_slot(b, 0);
        let address = b.slot_addr(slot, 1);
        b.load(Addr::reg(address, 0), Size::B2);
    });
    assert!(matches!(misaligned, Fault::Misaligned(_)));
    let read_only = fault(&|b| {
        let context = b.context();
        b.store(Addr::reg(context, 0), 1, Size::B1);
    });
    assert!(matches!(read_only, Fault::ReadOnly(_)));
    let endless = fault(&|b| {
        let block = b.new_block();
        b.jump(block);
        b.switch_to(block);
        b.jump(block);
    });
    assert_eq!(endless, Fault::StepLimit);
}

#[test]
fn hashes_hold_replace_fill_up_and_evict() {
    let program = program(&[
        &|b| update(b, HASH, 1, 10),
        &|b| update(b, HASH, 2, 20),
        &|b| update(b, HASH, 3, 30),
        &|b| update(b, HASH, 1, 11),
        &|b| {
            let key = key_slot(b, 2);
            b.call_void(Helper::MapDeleteElem, &[HASH.into(), key.into()]);
        },
    ]);
    assert_eq!(verify(&program), Ok(()));
    let mut machine = Machine::new(&program);
    let mut results = Vec::new();
    for name in ["f0", "f1", "f2", "f3", "f4"] {
        machine.run(name, &[]).unwrap();
        results.push(words(machine.bss())[7] as i64);
    }
    assert_eq!(results, [0, 0, -7, 0, 0]);
    let entries = machine.map_entries(HASH);
    assert_eq!(entries, [(1u64.to_le_bytes().to_vec(), vec![11u64.to_le_bytes().to_vec()])]);
    assert_eq!(machine.set_map_entry(LRU, &[0; 4], &[0; 8]), Err(-22));
    for key in [5u64, 6, 7] {
        machine.set_map_entry(LRU, &key.to_le_bytes(), &[0; 8]).unwrap();
    }
    let keys: Vec<u8> = machine.map_entries(LRU).iter().map(|(key, _)| key[0]).collect();
    assert_eq!(keys, [6, 7]);
}

#[test]
fn per_cpu_maps_and_arrays_have_their_places() {
    let program = program(&[&|b| update(b, PER_CPU, 9, 1), &|b| update(b, PER_CPU, 9, 2), &|b| {
        let key = key_slot(b, 1);
        let at = b.call(Helper::MapLookupElem, &[ARRAY.into(), key.into()]);
        b.store(Addr::reg(at, 0), 5, Size::B8);
        b.store(Addr::slot(key, 0), 2, Size::B4);
        let past = b.call(Helper::MapLookupElem, &[ARRAY.into(), key.into()]);
        show(b, 0, past);
    }]);
    let mut machine = Machine::new(&program);
    machine.run("f0", &[]).unwrap();
    machine.kernel.environment.cpu = 1;
    machine.run("f1", &[]).unwrap();
    assert_eq!(machine.run("f2", &[]), Ok(2));
    let values: Vec<u64> = machine.map_entries(PER_CPU)[0].1.iter().map(|v| words(v)[0]).collect();
    assert_eq!(values, [1, 2]);
    assert_eq!(words(&machine.map_entries(ARRAY)[0].1[0]), [5]);
    assert_eq!(words(machine.bss())[0], 0);
}

#[test]
fn rings_commit_discard_fill_up_and_lose_nothing() {
    let program = program(&[
        &|b| {
            let record = b.call(Helper::RingbufReserve, &[RING.into(), 4.into(), 0.into()]);
            b.store(Addr::reg(record, 0), 0x0403_0201, Size::B4);
            b.call_void(Helper::RingbufSubmit, &[record.into(), 0.into()]);
            let record = b.call(Helper::RingbufReserve, &[RING.into(), 4.into(), 0.into()]);
            b.call_void(Helper::RingbufDiscard, &[record.into(), 0.into()]);
            let key = key_slot(b, 6);
            b.call_void(Helper::RingbufOutput, &[RING.into(), key.into(), 8.into(), 0.into()]);
            let used = b.call(Helper::RingbufQuery, &[RING.into(), 0.into()]);
            show(b, 0, used);
        },
        &|b| {
            let record = b.call(Helper::RingbufReserve, &[RING.into(), 4088.into(), 0.into()]);
            show(b, 1, record);
            b.call_void(Helper::RingbufReserve, &[RING.into(), 8.into(), 0.into()]);
        },
    ]);
    let mut machine = Machine::new(&program);
    machine.run("f0", &[]).unwrap();
    assert_eq!(words(machine.bss())[0], 48);
    assert_eq!(machine.ring_records(RING), [vec![1, 2, 3, 4], vec![6, 0, 0, 0, 0, 0, 0, 0]]);
    assert_eq!(machine.take_ring_records(RING).len(), 2);
    assert_eq!(machine.run("f1", &[]).unwrap_err().fault, Fault::LostRecord);
    assert_eq!(words(machine.bss())[1], 0);
    assert_eq!(machine.ring_records(RING), Vec::<Vec<u8>>::new());
}

#[test]
fn strings_and_foreign_memory_are_probed() {
    let program = program(&[&|b| {
        let text = b.slot(16, 8, "str");
        let copied = b.call(Helper::ProbeReadUserStr, &[text.into(), 16.into(), 0x1000.into()]);
        show(b, 0, copied);
        let low = b.load(Addr::slot(text, 0), Size::B4);
        show(b, 1, low);
        let failed = b.call(Helper::ProbeReadKernel, &[text.into(), 16.into(), 0x1000.into()]);
        show(b, 2, failed);
        let cleared = b.load(Addr::slot(text, 8), Size::B8);
        show(b, 3, cleared);
        let cut = b.call(Helper::ProbeReadUserStr, &[text.into(), 3.into(), 0x1000.into()]);
        show(b, 4, cut);
        b.call_void(Helper::GetCurrentComm, &[text.into(), 16.into()]);
        let comm = b.load(Addr::slot(text, 0), Size::B8);
        show(b, 5, comm);
    }]);
    let mut machine = Machine::new(&program);
    machine.add_memory(Space::User, 0x1000, b"abc\0".to_vec());
    machine.run("f0", &[]).unwrap();
    let shown = words(machine.bss());
    assert_eq!(shown[..2], [4, 0x0063_6261]);
    assert_eq!(shown[2..6], [-14i64 as u64, 0, 3, u64::from(u32::from_le_bytes(*b"bash"))]);
}

#[test]
fn stacks_have_ids_and_tasks_have_storage() {
    let program = program(&[&|b| {
        let stack = |b: &mut FunctionBuilder, flags: i64| {
            b.call(Helper::GetStackid, &[profiler_compiler::ir::Arg::Context, STACKS.into(), flags.into()])
        };
        let (first, again, full) = (stack(b, 256), stack(b, 256), stack(b, 0));
        show(b, 0, first);
        show(b, 1, again);
        show(b, 2, full);
        let task = b.call(Helper::GetCurrentTaskBtf, &[]);
        let get = |b: &mut FunctionBuilder, flags: i64| {
            b.call(Helper::TaskStorageGet, &[TASKS.into(), task.into(), 0.into(), flags.into()])
        };
        let none = get(b, 0);
        show(b, 3, none);
        let made = get(b, 1);
        b.store(Addr::reg(made, 0), 8, Size::B8);
        let found = get(b, 0);
        let value = b.load(Addr::reg(found, 0), Size::B8);
        show(b, 4, value);
    }]);
    assert_eq!(verify(&program), Ok(()));
    let mut machine = Machine::new(&program);
    machine.run("f0", &[]).unwrap();
    assert_eq!(words(machine.bss())[..5], [0, 0, -17i64 as u64, 0, 8]);
    assert_eq!(machine.stack(STACKS, 0), Some([0x40_1000].as_slice()));
}

#[test]
fn a_walk_goes_over_the_tasks_that_have_values() {
    let program = program(&[&|b| {
        let task = b.call(Helper::GetCurrentTaskBtf, &[]);
        for other in [0, 8] {
            let task = b.bin(BinOp::Add, Width::W64, task, other);
            b.call(Helper::TaskStorageGet, &[TASKS.into(), task.into(), 0.into(), 1.into()]);
        }
        let walk = b.slot(24, 8, "walk");
        b.call_void(Helper::IterTaskNew, &[walk.into(), 0.into(), 1.into()]);
        for at in 0..3 {
            let next = b.call(Helper::IterTaskNext, &[walk.into()]);
            let found = b.bin(BinOp::Sub, Width::W64, next, task);
            show(b, at, if at < 2 { found } else { next });
        }
        b.call_void(Helper::IterTaskDestroy, &[walk.into()]);
    }]);
    assert_eq!(verify(&program), Ok(()));
    let mut machine = Machine::new(&program);
    machine.run("f0", &[]).unwrap();
    assert_eq!(words(machine.bss())[..3], [0, 8, 0]);
}

#[test]
fn atomics_return_what_was_there() {
    let shown = run(&|b| {
        let cell = key_slot(b, 5);
        let (two, nine) = (b.copy(2), b.copy(9));
        b.atomic_add(Addr::slot(cell, 0), two, Size::B8);
        let old = b.new_vreg();
        let addr = Addr::slot(cell, 0);
        b.inst(profiler_compiler::ir::Inst::Exchange { dst: old, addr, src: nine });
        show(b, 0, old);
        let seen = b.new_vreg();
        b.inst(profiler_compiler::ir::Inst::CompareExchange { dst: seen, addr, expected: two, new: old });
        show(b, 1, seen);
        let now = b.load(addr, Size::B8);
        show(b, 2, now);
    });
    assert_eq!(shown.unwrap()[..3], [7, 9, 9]);
}
