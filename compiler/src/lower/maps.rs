//! Map reads and writes.
//!
//! In: a map's place, its key, a value. Out: code.
//! Guarantee: an update that fails because the map is full is counted. `++`, `+=`, `-=`, `|=`,
//! `&=`, `^=` and all aggregations lose no update to another CPU or to an interrupt. Other compound
//! assignments are a read followed by a write.

use crate::ast::BinaryOp;
use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Inst, Likely, MapId, Operand, Section, Size, VReg, Width};
use crate::lower::storage::Storage;
use crate::lower::{Body, Value, expr, failures, memory, pages, readings, threads, variables};
use crate::object::Loss;
use crate::typed::{Expr, ExprKind, MapIndex, MapValue, VarIndex};
use crate::types::Type;

/// `BPF_ANY`: insert or replace.
const ANY: i64 = 0;
/// `BPF_NOEXIST`: insert only.
pub(super) const NOEXIST: i64 = 1;
/// `BPF_EXIST`: replace only.
const EXIST: i64 = 2;

/// A script's map that is a map of the kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keyed {
    pub map: MapIndex,
    pub id: MapId,
    /// `.bss` offset of the number of entries, if the script reads it.
    pub length: Option<u32>,
}

/// Whether a keyed map has an entry; copies its value to the variable.
pub fn find(cx: &mut Body<'_, '_>, map: MapIndex, key: &Expr, var: VarIndex) -> Value {
    let Storage::Map { id, .. } = storage(cx, map) else { return Value::None };
    let found = look_up_once(cx, map, id, Some(key));
    let (hit, done) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Ne, Width::W64, found, 0, hit, done, Likely::Then);
    cx.b.switch_to(hit);
    let held = plain_type(cx, map);
    match variables::address(cx, var) {
        None => {
            if let Value::Scalar(value) = cx.load_as(Addr::reg(found, 0), &held) {
                variables::write(cx, var, value);
            }
        }
        Some(to) => {
            let ty = cx.probe.vars[var.0].ty.clone();
            memory::copy_as(cx, Addr::reg(found, 0), &held, &ty, to);
        }
    }
    cx.b.jump(done);
    cx.b.switch_to(done);
    Value::Scalar(cx.b.set(CmpOp::Ne, Width::W64, found, 0).into())
}

pub(super) fn storage(cx: &mut Body<'_, '_>, map: MapIndex) -> Storage {
    let Some(alternate) = &cx.shared.alternates[map.0] else { return cx.shared.places[map.0].clone() };
    cx.shared.learned.windowed[cx.index] |= 1 << alternate.bit;
    let is_first = cx.generations & (1 << alternate.bit) == 0;
    if is_first { cx.shared.places[map.0].clone() } else { alternate.place.clone() }
}

/// The key's bytes in memory.
pub(super) fn key_address(cx: &mut Body<'_, '_>, map: MapIndex, key: Option<&Expr>) -> Addr {
    let ty = cx.shared.program.maps[map.0].key.clone().unwrap_or(Type::I64);
    match key.map(|k| (k, key_in_place(cx, k, &ty))) {
        Some((_, Some(addr))) => addr,
        Some((key, None)) => {
            let addr = cx.allocate_named(&ty, "key");
            cx.store_as(key, &ty, addr);
            addr
        }
        None => cx.memory(8, "key"),
    }
}

/// The bytes that identify an entry to user space: its key, or zeros.
fn entry_named(cx: &mut Body<'_, '_>, map: MapIndex, key: Option<&Expr>, key_bytes: u32) -> Value {
    let addr = key_address(cx, map, key);
    if key.is_none() {
        cx.zero(addr, key_bytes);
    }
    Value::Memory(addr)
}

/// The address of a key that is already in memory (a variable).
fn key_in_place(cx: &mut Body<'_, '_>, key: &Expr, ty: &Type) -> Option<Addr> {
    if key.ty != *ty || ty.is_scalar() || !matches!(key.kind, ExprKind::Var(_)) {
        return None;
    }
    match cx.expr(key) {
        Value::Memory(addr) => Some(addr),
        _ => None,
    }
}

/// The address of a map's value for the key, or 0.
pub(super) fn look_up(cx: &mut Body<'_, '_>, id: MapId, key: Addr) -> VReg {
    let key = cx.address_arg(key);
    cx.b.call(Helper::MapLookupElem, &[Arg::Map(id), key])
}

/// The same, reusing an earlier look-up of the key.
fn look_up_once(cx: &mut Body<'_, '_>, map: MapIndex, id: MapId, key: Option<&Expr>) -> VReg {
    if let Some(found) = cx.function.lookups.known(map, key) {
        return found;
    }
    let place = key_address(cx, map, key);
    let found = look_up(cx, id, place);
    cx.function.lookups.remember(cx.shared.catalogue, map, key, found);
    found
}

/// The value of a map; zero if there is none.
pub(super) fn read(cx: &mut Body<'_, '_>, map: MapIndex, key: Option<&Expr>, ty: &Type) -> Value {
    cx.wanted = None;
    if let Type::Statistic { key_bytes, .. } = ty {
        return entry_named(cx, map, key, *key_bytes);
    }
    if let MapValue::Aggregate { .. } = cx.shared.program.maps[map.0].value {
        return readings::read_aggregate(cx, map, key);
    }
    match storage(cx, map) {
        // If it was never written or was deleted, the bytes are zero.
        Storage::Global { offset_bytes, .. } => {
            let base = cx.b.data_addr(Section::Bss, offset_bytes);
            cx.load_as(Addr::reg(base, 8), ty)
        }
        Storage::Map { id, .. } => {
            let found = look_up_once(cx, map, id, key);
            failures::missing_key(cx, found);
            value_or_zero(cx, found, ty)
        }
        Storage::Threads { id, .. } => {
            let found = threads::value_once(cx, map, id, key);
            value_or_zero(cx, found, ty)
        }
    }
}

fn value_or_zero(cx: &mut Body<'_, '_>, found: VReg, ty: &Type) -> Value {
    let (hit, miss, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    let result = cx.b.new_vreg();
    cx.b.branch(CmpOp::Ne, Width::W64, found, 0, hit, miss, Likely::Then);
    cx.b.switch_to(hit);
    let scalar = ty.is_scalar() || *ty == Type::Unknown;
    let value = if scalar { cx.load_as(Addr::reg(found, 0), ty) } else { Value::Scalar(found.into()) };
    if let Value::Scalar(value) = value {
        cx.b.assign(result, value);
    }
    cx.b.jump(done);
    cx.b.switch_to(miss);
    let zero = if scalar {
        Operand::Imm(0)
    } else {
        let size_bytes = cx.layout(ty).size_bytes.next_multiple_of(8);
        let offset = cx.shared.zeros(size_bytes);
        cx.b.data_addr(Section::Rodata, offset).into()
    };
    cx.b.assign(result, zero);
    cx.b.jump(done);
    cx.b.switch_to(done);
    if scalar { Value::Scalar(result.into()) } else { Value::Memory(Addr::reg(result, 0)) }
}

fn plain_type(cx: &Body<'_, '_>, map: MapIndex) -> Type {
    match &cx.shared.program.maps[map.0].value {
        MapValue::Plain(ty) => ty.clone(),
        MapValue::Aggregate { .. } => Type::U64,
    }
}

pub(super) fn assign(cx: &mut Body<'_, '_>, map: MapIndex, key: Option<&Expr>, value: &Expr) {
    let ty = plain_type(cx, map);
    match storage(cx, map) {
        Storage::Global { offset_bytes, .. } => {
            let value = if ty.is_scalar() { Some(cx.scalar(value)) } else { None }.ok_or(value);
            let base = cx.b.data_addr(Section::Bss, offset_bytes);
            match value {
                Ok(scalar) => cx.store(Value::Scalar(scalar), &ty, Addr::reg(base, 8)),
                Err(value) => {
                    let reads_itself = value.any(&|part| matches!(part, ExprKind::Map(read, _) if *read == map));
                    memory::replace(cx, value, &ty, Addr::reg(base, 8), reads_itself);
                }
            }
            cx.b.store(Addr::reg(base, 0), 1, Size::B8);
        }
        Storage::Map { id, length_offset, .. } => {
            let to = cx.allocate_named(&ty, "value");
            cx.store_as(value, &ty, to);
            let key = key_address(cx, map, key);
            put(cx, Keyed { map, id, length: length_offset }, key, to, &ty);
        }
        Storage::Threads { .. } => {
            let from = cx.allocate_named(&ty, "value");
            cx.store_as(value, &ty, from);
            let (to, done) = value_place(cx, map, key);
            let size_bytes = cx.layout(&ty).size_bytes;
            cx.copy(to, from, size_bytes);
            cx.b.jump(done);
            cx.b.switch_to(done);
        }
    }
}

/// Inserts or replaces. If the script never deletes from the map, keys mostly exist already,
/// and a store into the old value is cheaper than a new element.
fn put(cx: &mut Body<'_, '_>, to: Keyed, key: Addr, value: Addr, ty: &Type) {
    let Keyed { map, id, length } = to;
    cx.function.lookups.forget(map);
    let done = cx.b.new_block();
    // The kernel may immediately reuse an evicted entry for another key, so a store could reach
    // the wrong one.
    let evicts = cx.shared.program.maps[map.0].declared.as_ref().is_some_and(|declared| declared.kind.evicts);
    let deleted = evicts || cx.shared.facts.deleted.contains(&map.0);
    if length.is_none() && !deleted && ty.is_scalar() {
        let found = look_up(cx, id, key);
        let (hit, miss) = (cx.b.new_block(), cx.b.new_block());
        cx.b.branch(CmpOp::Ne, Width::W64, found, 0, hit, miss, Likely::Then);
        cx.b.switch_to(hit);
        let size_bytes = cx.layout(ty).size_bytes;
        cx.copy(Addr::reg(found, 0), value, size_bytes);
        cx.b.jump(done);
        cx.b.switch_to(miss);
    }
    let result = match length {
        None => update(cx, id, key, value, ANY),
        Some(offset) => {
            let (new, old) = (cx.b.new_block(), cx.b.new_block());
            let inserted = update(cx, id, key, value, NOEXIST);
            cx.b.branch(CmpOp::Eq, Width::W32, inserted, 0, new, old, Likely::Otherwise);
            cx.b.switch_to(new);
            add_to_length(cx, offset, 1);
            cx.b.jump(done);
            cx.b.switch_to(old);
            update(cx, id, key, value, EXIST)
        }
    };
    count_refusal(cx, map, result, done);
    cx.b.switch_to(done);
}

/// Yields 0, or an error in the low 32 bits. Until 6.3 the kernel does not set the high 32
/// bits.
pub(super) fn update(cx: &mut Body<'_, '_>, id: MapId, key: Addr, value: Addr, flags: i64) -> VReg {
    let (key, value) = (cx.address_arg(key), cx.address_arg(value));
    cx.b.call(Helper::MapUpdateElem, &[Arg::Map(id), key, value, Arg::Value(flags.into())])
}

/// Counts an update that failed, then goes to `done`.
fn count_refusal(cx: &mut Body<'_, '_>, map: MapIndex, result: VReg, done: BlockId) {
    let refused = cx.b.new_block();
    cx.b.branch(CmpOp::Eq, Width::W32, result, 0, done, refused, Likely::Then);
    cx.b.switch_to(refused);
    cx.count_loss(Loss::MapFull { map: map.0 });
    cx.b.jump(done);
}

fn add_to_length(cx: &mut Body<'_, '_>, offset: u32, by: i64) {
    let counter = cx.b.data_addr(Section::Bss, offset);
    let by = cx.b.copy(by);
    cx.b.atomic_add(Addr::reg(counter, 0), by, Size::B8);
}

/// The address of the key's value, inserted as zeros if missing; jumps to `full` if the map is
/// full. If entries are never removed, an earlier look-up is reused. `page` is a key that has
/// been built already.
pub(super) fn find_or_insert(
    cx: &mut Body<'_, '_>,
    within: Keyed,
    key: Option<&Expr>,
    page: Option<Addr>,
    full: BlockId,
) -> VReg {
    let Keyed { map, id, length } = within;
    let stays = page.is_none() && entries_stay(cx, map);
    if let Some(inserted) = cx.function.lookups.inserted(map, key).filter(|_| stays) {
        let (done, refused) = (cx.b.new_block(), cx.b.new_block());
        cx.b.branch(CmpOp::Ne, Width::W64, inserted, 0, done, refused, Likely::Then);
        cx.b.switch_to(refused);
        cx.count_loss(Loss::MapFull { map: map.0 });
        cx.b.jump(full);
        cx.b.switch_to(done);
        return inserted;
    }
    let known = cx.function.lookups.known(map, key).filter(|_| stays);
    if stays {
        cx.function.lookups.forget_missing(map, known);
    } else {
        cx.function.lookups.forget(map);
    }
    let value_size_bytes = cx.shared.ir.maps[id.0 as usize].value_size_bytes;
    // An earlier look-up that found nothing gets the address too: so it stays valid where this code
    // and code that does not insert the key meet.
    let result = known.unwrap_or_else(|| cx.b.new_vreg());
    let (miss, found_block, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    let looked_up = match known {
        Some(_) => page,
        None => Some(page.unwrap_or_else(|| key_address(cx, map, key))),
    };
    let found = match (known, looked_up) {
        (None, Some(place)) => look_up(cx, id, place),
        (known, _) => known.unwrap_or(result),
    };
    cx.b.branch(CmpOp::Ne, Width::W64, found, 0, found_block, miss, Likely::Then);
    cx.b.switch_to(found_block);
    if known.is_none() {
        cx.b.assign(result, found);
    }
    cx.b.jump(done);
    cx.b.switch_to(miss);
    let place = match looked_up {
        Some(place) => place,
        None => key_address(cx, map, key),
    };
    let offset = cx.shared.zeros(value_size_bytes);
    let zeros = cx.b.data_addr(Section::Rodata, offset);
    let inserted = update(cx, id, place, Addr::reg(zeros, 0), NOEXIST);
    if let Some(offset) = length {
        let (new, old) = (cx.b.new_block(), cx.b.new_block());
        cx.b.branch(CmpOp::Eq, Width::W32, inserted, 0, new, old, Likely::Otherwise);
        cx.b.switch_to(new);
        add_to_length(cx, offset, 1);
        cx.b.jump(old);
        cx.b.switch_to(old);
    }
    // Another CPU may have inserted it first, so the second look-up decides.
    let again = look_up(cx, id, place);
    cx.b.assign(result, again);
    let refused = cx.b.new_block();
    cx.b.branch(CmpOp::Ne, Width::W64, again, 0, done, refused, Likely::Then);
    cx.b.switch_to(refused);
    cx.count_loss(Loss::MapFull { map: map.0 });
    cx.b.jump(full);
    cx.b.switch_to(done);
    if stays {
        cx.function.lookups.remember_inserted(cx.shared.catalogue, map, key, result);
    }
    result
}

/// Whether the address of a map's value belongs to the same key for the whole run of a program.
/// `false` in the first pass, where this is not known yet.
fn entries_stay(cx: &Body<'_, '_>, map: MapIndex) -> bool {
    let facts = &cx.shared.facts;
    let evicts = cx.shared.program.maps[map.0].declared.as_ref().is_some_and(|declared| declared.kind.evicts);
    !facts.writers.is_empty() && !evicts && !facts.deleted.contains(&map.0)
}

/// The address of a value that is about to be changed in place, and the block after the change.
/// The code jumps straight to that block if there is no space for a new key.
pub(super) fn value_place(cx: &mut Body<'_, '_>, map: MapIndex, key: Option<&Expr>) -> (Addr, BlockId) {
    let done = cx.b.new_block();
    let addr = match storage(cx, map) {
        Storage::Global { offset_bytes, .. } => {
            let base = cx.b.data_addr(Section::Bss, offset_bytes);
            cx.b.store(Addr::reg(base, 0), 1, Size::B8);
            Addr::reg(base, 8)
        }
        Storage::Map { id, length_offset, .. } => {
            Addr::reg(find_or_insert(cx, Keyed { map, id, length: length_offset }, key, None, done), 0)
        }
        Storage::Threads { id, .. } => Addr::reg(threads::value_for(cx, map, id, key, done), 0),
    };
    (addr, done)
}

pub(super) fn step(cx: &mut Body<'_, '_>, map: MapIndex, key: Option<&Expr>, by: i64, old: Option<VReg>) {
    if let Some(old) = old {
        cx.b.assign(old, 0);
    }
    let (addr, done) = value_place(cx, map, key);
    let by = cx.b.copy(by);
    cx.b.inst(Inst::Atomic { op: BinOp::Add, addr, src: by, fetch: old, size: Size::B8 });
    cx.b.jump(done);
    cx.b.switch_to(done);
}

pub(super) fn modify(cx: &mut Body<'_, '_>, map: MapIndex, key: Option<&Expr>, op: BinaryOp, value: &Expr) {
    let signed = value.ty.as_int().is_some_and(|int| int.signed);
    let value = cx.scalar(value);
    let (addr, done) = value_place(cx, map, key);
    let atomic = match op {
        BinaryOp::Add | BinaryOp::Sub => Some(BinOp::Add),
        BinaryOp::BitAnd => Some(BinOp::And),
        BinaryOp::BitOr => Some(BinOp::Or),
        BinaryOp::BitXor => Some(BinOp::Xor),
        _ => None,
    };
    if let Some(atomic) = atomic {
        let src = if op == BinaryOp::Sub { cx.b.bin(BinOp::Sub, Width::W64, 0, value) } else { cx.b.copy(value) };
        cx.b.inst(Inst::Atomic { op: atomic, addr, src, fetch: None, size: Size::B8 });
    } else {
        let old = cx.b.load(addr, Size::B8);
        let new = expr::arithmetic(cx, op, old.into(), value, signed);
        cx.b.store(addr, new, Size::B8);
    }
    cx.b.jump(done);
    cx.b.switch_to(done);
}

/// Whether a map has the key.
pub fn has(cx: &mut Body<'_, '_>, map: MapIndex, key: Option<&Expr>) -> Value {
    match storage(cx, map) {
        Storage::Global { offset_bytes, .. } => {
            let base = cx.b.data_addr(Section::Bss, offset_bytes);
            let written = cx.b.load(Addr::reg(base, 0), Size::B8);
            Value::Scalar(cx.b.set(CmpOp::Ne, Width::W64, written, 0).into())
        }
        Storage::Map { id, .. } => match pages::of_map(cx, map) {
            Some(pages) => pages::has_any(cx, map, id, key, pages),
            None => {
                let found = look_up_once(cx, map, id, key);
                Value::Scalar(cx.b.set(CmpOp::Ne, Width::W64, found, 0).into())
            }
        },
        Storage::Threads { id, .. } => {
            let found = threads::value_once(cx, map, id, key);
            Value::Scalar(cx.b.set(CmpOp::Ne, Width::W64, found, 0).into())
        }
    }
}

/// Removes a key; yields whether it existed.
pub fn delete(cx: &mut Body<'_, '_>, map: MapIndex, key: Option<&Expr>) -> Value {
    cx.shared.learned.deleted.insert(map.0);
    match storage(cx, map) {
        Storage::Global { offset_bytes, value_size_bytes, stride_bytes, copies } => {
            let base = cx.b.data_addr(Section::Bss, offset_bytes);
            let written = cx.b.load(Addr::reg(base, 0), Size::B8);
            for copy in 0..copies {
                let base = cx.b.data_addr(Section::Bss, offset_bytes + copy * stride_bytes);
                cx.zero(Addr::reg(base, 0), 8 + value_size_bytes);
            }
            Value::Scalar(cx.b.set(CmpOp::Ne, Width::W64, written, 0).into())
        }
        Storage::Map { id, length_offset, .. } => {
            if let Some(pages) = pages::of_map(cx, map) {
                return pages::delete(cx, map, id, key, pages);
            }
            let key = key_address(cx, map, key);
            cx.function.lookups.forget(map);
            let key = cx.address_arg(key);
            let result = cx.b.call(Helper::MapDeleteElem, &[Arg::Map(id), key]);
            let removed = cx.b.set(CmpOp::Eq, Width::W32, result, 0);
            if let Some(offset) = length_offset {
                let less = cx.b.bin(BinOp::Sub, Width::W64, 0, removed);
                let counter = cx.b.data_addr(Section::Bss, offset);
                cx.b.atomic_add(Addr::reg(counter, 0), less, Size::B8);
            }
            Value::Scalar(removed.into())
        }
        Storage::Threads { id, .. } => {
            cx.function.lookups.forget(map);
            let result = threads::delete(cx, id);
            Value::Scalar(cx.b.set(CmpOp::Eq, Width::W32, result, 0).into())
        }
    }
}

/// The number of entries of a map.
pub fn length(cx: &mut Body<'_, '_>, map: MapIndex) -> Value {
    cx.shared.learned.measured.insert(map.0);
    match storage(cx, map) {
        Storage::Global { .. } => has(cx, map, None),
        Storage::Threads { id, .. } => Value::Scalar(threads::count(cx, id).into()),
        Storage::Map { length_offset, .. } => {
            let offset = length_offset.unwrap_or(0);
            let counter = cx.b.data_addr(Section::Bss, offset);
            Value::Scalar(cx.b.load(Addr::reg(counter, 0), Size::B8).into())
        }
    }
}
