//! Reading and writing maps.
//!
//! In: a map's place, its key, a value. Out: code.
//! Guarantee: an update that a full map refuses is counted; `++`, `+=`, `-=`, `|=`, `&=`, `^=` and all aggregations
//! lose no update to another CPU or to an interrupt. Other compound assignments are a read and a write.

use crate::ast::BinaryOp;
use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Inst, Likely, MapId, Operand, Section, Size, VReg, Width};
use crate::lower::storage::Place;
use crate::lower::{Body, Value};
use crate::object::Loss;
use crate::typed::{Expr, ExprKind, MapIndex, MapValue};
use crate::types::Type;

/// `BPF_ANY`: insert or replace.
const ANY: i64 = 0;
/// `BPF_NOEXIST`: insert only.
pub(super) const NOEXIST: i64 = 1;
/// `BPF_EXIST`: replace only.
const EXIST: i64 = 2;

/// Where an aggregation's bytes for a key are.
#[derive(Debug, Clone)]
pub struct AggregateSlot {
    /// The first byte.
    pub addr: Addr,
    /// Whether another program or CPU may update the same bytes meanwhile.
    pub atomic: bool,
    /// Whether the values are signed.
    pub signed: bool,
    /// The constants of the use.
    pub params: Vec<i64>,
    /// How many bytes there are.
    pub size_bytes: u32,
    /// The bucket of the value among them, for words that tell it beforehand.
    pub bucket: Option<VReg>,
}

impl AggregateSlot {
    /// The `index`-th constant.
    pub fn param(&self, index: usize) -> i64 {
        self.params.get(index).copied().unwrap_or(0)
    }

    /// The bytes further on.
    #[must_use]
    pub fn plus(&self, offset_bytes: i32) -> AggregateSlot {
        AggregateSlot { addr: self.addr.plus(offset_bytes), ..self.clone() }
    }
}

impl Body<'_, '_> {
    pub(super) fn map_place(&mut self, map: MapIndex) -> Place {
        let Some(alternate) = &self.shared.alternates[map.0] else { return self.shared.places[map.0].clone() };
        self.shared.learned.windowed.insert(self.index);
        if self.generation == 0 { self.shared.places[map.0].clone() } else { alternate.clone() }
    }

    /// The key's bytes in memory.
    pub(super) fn key(&mut self, map: MapIndex, key: Option<&Expr>) -> Addr {
        let ty = self.shared.program.maps[map.0].key.clone().unwrap_or(Type::I64);
        match key.map(|k| (k, self.key_in_place(k, &ty))) {
            Some((_, Some(addr))) => addr,
            Some((key, None)) => {
                let addr = self.room_for(&ty, "key");
                self.store_as(key, &ty, addr);
                addr
            }
            None => self.memory(8, "key"),
        }
    }

    /// The bytes that name an entry to user space: its key, or zeros.
    fn entry_named(&mut self, map: MapIndex, key: Option<&Expr>, key_bytes: u32) -> Value {
        let addr = self.key(map, key);
        if key.is_none() {
            self.zero(addr, key_bytes);
        }
        Value::Memory(addr)
    }

    /// The address of a key that is in memory already (a variable).
    fn key_in_place(&mut self, key: &Expr, ty: &Type) -> Option<Addr> {
        if key.ty != *ty || ty.is_scalar() || !matches!(key.kind, ExprKind::Var(_)) {
            return None;
        }
        match self.expr(key) {
            Value::Memory(addr) => Some(addr),
            _ => None,
        }
    }

    /// The address of a map's value for the key, or 0.
    pub(super) fn look_up(&mut self, id: MapId, key: Addr) -> VReg {
        let key = self.address_arg(key);
        self.b.call(Helper::MapLookupElem, &[Arg::Map(id), key])
    }

    /// The same for a key that may have been looked up before.
    pub(super) fn look_up_once(&mut self, map: MapIndex, id: MapId, key: Option<&Expr>) -> VReg {
        if let Some(found) = self.known_lookup(map, key) {
            return found;
        }
        let place = self.key(map, key);
        let found = self.look_up(id, place);
        self.remember_lookup(map, key, found);
        found
    }

    /// The value of a map, zero when there is none.
    pub(super) fn read_map(&mut self, map: MapIndex, key: Option<&Expr>, ty: &Type) -> Value {
        self.wanted = None;
        if let Type::Statistic { key_bytes, .. } = ty {
            return self.entry_named(map, key, *key_bytes);
        }
        if let MapValue::Aggregate { .. } = self.shared.program.maps[map.0].value {
            return self.read_aggregate(map, key);
        }
        match self.map_place(map) {
            // What was never written or was deleted is zero there.
            Place::Global { offset_bytes, .. } => {
                let base = self.b.data_addr(Section::Bss, offset_bytes);
                self.load_as(Addr::reg(base, 8), ty)
            }
            Place::Map { id, .. } => {
                let found = self.look_up_once(map, id, key);
                self.report_missing_key(found);
                self.value_or_zero(found, ty)
            }
            Place::Threads { id, .. } => {
                let found = self.thread_value_once(map, id, key);
                self.value_or_zero(found, ty)
            }
        }
    }

    fn value_or_zero(&mut self, found: VReg, ty: &Type) -> Value {
        let (hit, miss, done) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        let result = self.b.new_vreg();
        self.b.branch(CmpOp::Ne, Width::W64, found, 0, hit, miss, Likely::Then);
        self.b.switch_to(hit);
        let scalar = ty.is_scalar() || *ty == Type::Unknown;
        let value = if scalar { self.load_as(Addr::reg(found, 0), ty) } else { Value::Scalar(found.into()) };
        if let Value::Scalar(value) = value {
            self.b.assign(result, value);
        }
        self.b.jump(done);
        self.b.switch_to(miss);
        let zero = if scalar {
            Operand::Imm(0)
        } else {
            let size_bytes = self.layout(ty).size_bytes.next_multiple_of(8);
            let offset = self.shared.zeros(size_bytes);
            self.b.data_addr(Section::Rodata, offset).into()
        };
        self.b.assign(result, zero);
        self.b.jump(done);
        self.b.switch_to(done);
        if scalar { Value::Scalar(result.into()) } else { Value::Memory(Addr::reg(result, 0)) }
    }

    pub(super) fn plain_type(&self, map: MapIndex) -> Type {
        match &self.shared.program.maps[map.0].value {
            MapValue::Plain(ty) => ty.clone(),
            MapValue::Aggregate { .. } => Type::U64,
        }
    }

    pub(super) fn assign_map(&mut self, map: MapIndex, key: Option<&Expr>, value: &Expr) {
        let ty = self.plain_type(map);
        match self.map_place(map) {
            Place::Global { offset_bytes, .. } => {
                let value = if ty.is_scalar() { Some(self.scalar(value)) } else { None }.ok_or(value);
                let base = self.b.data_addr(Section::Bss, offset_bytes);
                match value {
                    Ok(scalar) => self.store(Value::Scalar(scalar), &ty, Addr::reg(base, 8)),
                    Err(value) => {
                        let reads_itself = value.any(&|part| matches!(part, ExprKind::Map(read, _) if *read == map));
                        self.replace(value, &ty, Addr::reg(base, 8), reads_itself);
                    }
                }
                self.b.store(Addr::reg(base, 0), 1, Size::B8);
            }
            Place::Map { id, length_offset, .. } => {
                let to = self.room_for(&ty, "value");
                self.store_as(value, &ty, to);
                let key = self.key(map, key);
                self.put(map, id, length_offset, key, to, &ty);
            }
            Place::Threads { .. } => {
                let from = self.room_for(&ty, "value");
                self.store_as(value, &ty, from);
                let (to, done) = self.value_place(map, key);
                let size_bytes = self.layout(&ty).size_bytes;
                self.copy(to, from, size_bytes);
                self.b.jump(done);
                self.b.switch_to(done);
            }
        }
    }

    /// Inserts or replaces. Where nothing is ever deleted, keys are mostly there already, and a store into the old value
    /// is cheaper than a new element.
    fn put(&mut self, map: MapIndex, id: MapId, length: Option<u32>, key: Addr, value: Addr, ty: &Type) {
        self.forget_lookups(map);
        let done = self.b.new_block();
        // The kernel may give an entry that it drops to another key at once, so that a store could reach the wrong one.
        let evicts = self.shared.program.maps[map.0].declared.as_ref().is_some_and(|declared| declared.kind.evicts);
        let deleted = evicts || self.shared.facts.deleted.contains(&map.0);
        if length.is_none() && !deleted && ty.is_scalar() {
            let found = self.look_up(id, key);
            let (hit, miss) = (self.b.new_block(), self.b.new_block());
            self.b.branch(CmpOp::Ne, Width::W64, found, 0, hit, miss, Likely::Then);
            self.b.switch_to(hit);
            let size_bytes = self.layout(ty).size_bytes;
            self.copy(Addr::reg(found, 0), value, size_bytes);
            self.b.jump(done);
            self.b.switch_to(miss);
        }
        let result = match length {
            None => self.update(id, key, value, ANY),
            Some(offset) => {
                let (new, old) = (self.b.new_block(), self.b.new_block());
                let inserted = self.update(id, key, value, NOEXIST);
                self.b.branch(CmpOp::Eq, Width::W32, inserted, 0, new, old, Likely::Otherwise);
                self.b.switch_to(new);
                self.add_to_length(offset, 1);
                self.b.jump(done);
                self.b.switch_to(old);
                self.update(id, key, value, EXIST)
            }
        };
        self.count_refusal(map, result, done);
        self.b.switch_to(done);
    }

    /// Yields 0, or an error in the low 32 bits: until 6.3 the kernel leaves the others as they are.
    pub(super) fn update(&mut self, id: MapId, key: Addr, value: Addr, flags: i64) -> VReg {
        let (key, value) = (self.address_arg(key), self.address_arg(value));
        self.b.call(Helper::MapUpdateElem, &[Arg::Map(id), key, value, Arg::Value(flags.into())])
    }

    /// Counts an update that failed, then goes to `done`.
    fn count_refusal(&mut self, map: MapIndex, result: VReg, done: BlockId) {
        let refused = self.b.new_block();
        self.b.branch(CmpOp::Eq, Width::W32, result, 0, done, refused, Likely::Then);
        self.b.switch_to(refused);
        self.count_loss(Loss::MapFull { map: map.0 });
        self.b.jump(done);
    }

    fn add_to_length(&mut self, offset: u32, by: i64) {
        let counter = self.b.data_addr(Section::Bss, offset);
        let by = self.b.copy(by);
        self.b.atomic_add(Addr::reg(counter, 0), by, Size::B8);
    }

    /// The address of the key's value, made zero when it was not there; goes to `full` when there is no room. Where no entry ever
    /// goes away, what was looked up before is looked up no more. `page` is a key that was made already.
    fn find_or_insert(
        &mut self,
        map: MapIndex,
        (id, length): (MapId, Option<u32>),
        key: Option<&Expr>,
        page: Option<Addr>,
        full: BlockId,
    ) -> VReg {
        let stays = page.is_none() && self.entries_stay(map);
        let known = self.known_lookup(map, key).filter(|_| stays);
        self.forget_lookups(map);
        let value_size_bytes = self.shared.ir.maps[id.0 as usize].value_size_bytes;
        let result = self.b.new_vreg();
        let (miss, found_block, done) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        let looked_up = match known {
            Some(_) => page,
            None => Some(page.unwrap_or_else(|| self.key(map, key))),
        };
        let found = match (known, looked_up) {
            (None, Some(place)) => self.look_up(id, place),
            (known, _) => known.unwrap_or(result),
        };
        self.b.branch(CmpOp::Ne, Width::W64, found, 0, found_block, miss, Likely::Then);
        self.b.switch_to(found_block);
        self.b.assign(result, found);
        self.b.jump(done);
        self.b.switch_to(miss);
        let place = match looked_up {
            Some(place) => place,
            None => self.key(map, key),
        };
        let offset = self.shared.zeros(value_size_bytes);
        let zeros = self.b.data_addr(Section::Rodata, offset);
        let inserted = self.update(id, place, Addr::reg(zeros, 0), NOEXIST);
        if let Some(offset) = length {
            let (new, old) = (self.b.new_block(), self.b.new_block());
            self.b.branch(CmpOp::Eq, Width::W32, inserted, 0, new, old, Likely::Otherwise);
            self.b.switch_to(new);
            self.add_to_length(offset, 1);
            self.b.jump(old);
            self.b.switch_to(old);
        }
        // Another CPU may have inserted it first, so the second look decides.
        let again = self.look_up(id, place);
        self.b.assign(result, again);
        let refused = self.b.new_block();
        self.b.branch(CmpOp::Ne, Width::W64, again, 0, done, refused, Likely::Then);
        self.b.switch_to(refused);
        self.count_loss(Loss::MapFull { map: map.0 });
        self.b.jump(full);
        self.b.switch_to(done);
        if stays {
            self.remember_lookup(map, key, result);
        }
        result
    }

    /// Whether an address of a map's value stays the key's as long as a program runs. In the first round nobody knows.
    fn entries_stay(&self, map: MapIndex) -> bool {
        let facts = &self.shared.facts;
        let evicts = self.shared.program.maps[map.0].declared.as_ref().is_some_and(|declared| declared.kind.evicts);
        !facts.writers.is_empty() && !evicts && !facts.deleted.contains(&map.0)
    }

    /// The address of a value that is about to be changed in place; with the block behind it all, where the code goes on at once
    /// when there is no room for a new key.
    pub(super) fn value_place(&mut self, map: MapIndex, key: Option<&Expr>) -> (Addr, BlockId) {
        let done = self.b.new_block();
        let addr = match self.map_place(map) {
            Place::Global { offset_bytes, .. } => {
                let base = self.b.data_addr(Section::Bss, offset_bytes);
                self.b.store(Addr::reg(base, 0), 1, Size::B8);
                Addr::reg(base, 8)
            }
            Place::Map { id, length_offset, .. } => {
                Addr::reg(self.find_or_insert(map, (id, length_offset), key, None, done), 0)
            }
            Place::Threads { id, .. } => Addr::reg(self.thread_value_for(map, id, key, done), 0),
        };
        (addr, done)
    }

    pub(super) fn step_map(&mut self, map: MapIndex, key: Option<&Expr>, by: i64, old: Option<VReg>) {
        if let Some(old) = old {
            self.b.assign(old, 0);
        }
        let (addr, done) = self.value_place(map, key);
        let by = self.b.copy(by);
        self.b.inst(Inst::Atomic { op: BinOp::Add, addr, src: by, fetch: old, size: Size::B8 });
        self.b.jump(done);
        self.b.switch_to(done);
    }

    pub(super) fn update_map(&mut self, map: MapIndex, key: Option<&Expr>, op: BinaryOp, value: &Expr) {
        let signed = value.ty.as_int().is_some_and(|int| int.signed);
        let value = self.scalar(value);
        let (addr, done) = self.value_place(map, key);
        let atomic = match op {
            BinaryOp::Add | BinaryOp::Sub => Some(BinOp::Add),
            BinaryOp::BitAnd => Some(BinOp::And),
            BinaryOp::BitOr => Some(BinOp::Or),
            BinaryOp::BitXor => Some(BinOp::Xor),
            _ => None,
        };
        if let Some(atomic) = atomic {
            let src =
                if op == BinaryOp::Sub { self.b.bin(BinOp::Sub, Width::W64, 0, value) } else { self.b.copy(value) };
            self.b.inst(Inst::Atomic { op: atomic, addr, src, fetch: None, size: Size::B8 });
        } else {
            let old = self.b.load(addr, Size::B8);
            let new = self.arithmetic(op, old.into(), value, signed);
            self.b.store(addr, new, Size::B8);
        }
        self.b.jump(done);
        self.b.switch_to(done);
    }

    pub(super) fn aggregate(&mut self, map: MapIndex, key: Option<&Expr>, args: &[Expr]) {
        let MapValue::Aggregate { word, signed, params } = &self.shared.program.maps[map.0].value else { return };
        let (word, signed, params) = (*word, *signed, params.clone());
        let args: Vec<Operand> = args.iter().map(|a| self.scalar(a)).collect();
        self.shared.learned.writers[map.0].add(self.index, self.probe);
        let contended = self.shared.facts.writers.get(map.0).is_some_and(super::storage::Writers::need_atomics);
        let done = self.b.new_block();
        let bucket = word.bucket(self, &params, signed, &args);
        let slot = match self.map_place(map) {
            Place::Global { offset_bytes, stride_bytes, value_size_bytes: size_bytes, .. } => {
                let copy = self.cpu_copy(offset_bytes, stride_bytes);
                self.b.store(Addr::reg(copy, 0), 1, Size::B8);
                AggregateSlot { addr: Addr::reg(copy, 8), atomic: contended, signed, params, size_bytes, bucket }
            }
            Place::Map { id, per_cpu, length_offset } => {
                let (page, bucket) = match (word.pages(&params), bucket) {
                    (Some(pages), Some(bucket)) => {
                        let (page, bucket) = self.key_of_page(map, key, pages, bucket);
                        (Some(page), bucket)
                    }
                    _ => (None, bucket),
                };
                let found = self.find_or_insert(map, (id, length_offset), key, page, done);
                let size_bytes = self.shared.ir.maps[id.0 as usize].value_size_bytes;
                let atomic = contended || !per_cpu;
                AggregateSlot { addr: Addr::reg(found, 0), atomic, signed, params, size_bytes, bucket }
            }
            Place::Threads { id, .. } => {
                let found = self.thread_value_for(map, id, key, done);
                let size_bytes = self.shared.ir.maps[id.0 as usize].value_size_bytes;
                AggregateSlot { addr: Addr::reg(found, 0), atomic: contended, signed, params, size_bytes, bucket }
            }
        };
        word.lower(self, &slot, &args);
        self.b.jump(done);
        self.b.switch_to(done);
    }

    /// Adds to 8 bytes of an aggregation.
    pub fn aggregate_add(&mut self, slot: &AggregateSlot, offset: i32, value: Operand) {
        let addr = slot.addr.plus(offset);
        if slot.atomic {
            let value = self.b.copy(value);
            self.b.atomic_add(addr, value, Size::B8);
        } else {
            let old = self.b.load(addr, Size::B8);
            let new = self.b.bin(BinOp::Add, Width::W64, old, value);
            self.b.store(addr, new, Size::B8);
        }
    }

    /// Raises 8 bytes of an aggregation to at least this number (unsigned).
    pub fn aggregate_raise(&mut self, slot: &AggregateSlot, value: VReg) {
        /// Each failed try means that another CPU raised it, which it does less and less often.
        const TRIES: u32 = 8;
        let done = self.b.new_block();
        for _ in 0..if slot.atomic { TRIES } else { 1 } {
            let old = self.b.load(slot.addr, Size::B8);
            let raise = self.b.new_block();
            self.b.branch(CmpOp::Gt, Width::W64, value, old, raise, done, Likely::Unknown);
            self.b.switch_to(raise);
            if !slot.atomic {
                self.b.store(slot.addr, value, Size::B8);
                break;
            }
            let (seen, again) = (self.b.new_vreg(), self.b.new_block());
            self.b.inst(Inst::CompareExchange { dst: seen, addr: slot.addr, expected: old, new: value });
            self.branch(CmpOp::Eq, seen, old, done, again);
            self.b.switch_to(again);
        }
        self.b.jump(done);
        self.b.switch_to(done);
    }

    /// Adds 1 to the `index`-th `u64` of an aggregation of `len` of them.
    pub fn aggregate_bump(&mut self, slot: &AggregateSlot, index: VReg, len: u32) {
        // Verifier: the index has a bound by construction that it cannot see.
        let index = self.b.clamp(index, len - 1);
        let distance = self.b.bin(BinOp::Shl, Width::W64, index, 3);
        let base = self.address(slot.addr);
        let at = self.b.bin(BinOp::Add, Width::W64, base, distance);
        let bucket = AggregateSlot { addr: Addr::reg(at, 0), ..slot.clone() };
        self.aggregate_add(&bucket, 0, Operand::Imm(1));
    }

    /// Whether a map has the key.
    pub fn map_has(&mut self, map: MapIndex, key: Option<&Expr>) -> Value {
        match self.map_place(map) {
            Place::Global { offset_bytes, .. } => {
                let base = self.b.data_addr(Section::Bss, offset_bytes);
                let written = self.b.load(Addr::reg(base, 0), Size::B8);
                Value::Scalar(self.b.set(CmpOp::Ne, Width::W64, written, 0).into())
            }
            Place::Map { id, .. } => match self.pages_of(map) {
                Some(pages) => self.has_pages(map, id, key, pages),
                None => {
                    let found = self.look_up_once(map, id, key);
                    Value::Scalar(self.b.set(CmpOp::Ne, Width::W64, found, 0).into())
                }
            },
            Place::Threads { id, .. } => {
                let found = self.thread_value_once(map, id, key);
                Value::Scalar(self.b.set(CmpOp::Ne, Width::W64, found, 0).into())
            }
        }
    }

    /// Removes a key; whether it was there.
    pub fn map_delete(&mut self, map: MapIndex, key: Option<&Expr>) -> Value {
        self.shared.learned.deleted.insert(map.0);
        match self.map_place(map) {
            Place::Global { offset_bytes, value_size_bytes, stride_bytes, copies } => {
                let base = self.b.data_addr(Section::Bss, offset_bytes);
                let written = self.b.load(Addr::reg(base, 0), Size::B8);
                for copy in 0..copies {
                    let base = self.b.data_addr(Section::Bss, offset_bytes + copy * stride_bytes);
                    self.zero(Addr::reg(base, 0), 8 + value_size_bytes);
                }
                Value::Scalar(self.b.set(CmpOp::Ne, Width::W64, written, 0).into())
            }
            Place::Map { id, length_offset, .. } => {
                if let Some(pages) = self.pages_of(map) {
                    return self.delete_pages(map, id, key, pages);
                }
                let key = self.key(map, key);
                self.forget_lookups(map);
                let key = self.address_arg(key);
                let result = self.b.call(Helper::MapDeleteElem, &[Arg::Map(id), key]);
                let removed = self.b.set(CmpOp::Eq, Width::W32, result, 0);
                if let Some(offset) = length_offset {
                    let less = self.b.bin(BinOp::Sub, Width::W64, 0, removed);
                    let counter = self.b.data_addr(Section::Bss, offset);
                    self.b.atomic_add(Addr::reg(counter, 0), less, Size::B8);
                }
                Value::Scalar(removed.into())
            }
            Place::Threads { id, .. } => {
                self.forget_lookups(map);
                let result = self.thread_delete(id);
                Value::Scalar(self.b.set(CmpOp::Eq, Width::W32, result, 0).into())
            }
        }
    }

    /// The number of entries of a map.
    pub fn map_length(&mut self, map: MapIndex) -> Value {
        self.shared.learned.measured.insert(map.0);
        match self.map_place(map) {
            Place::Global { .. } => self.map_has(map, None),
            Place::Threads { id, .. } => Value::Scalar(self.count_threads(id).into()),
            Place::Map { length_offset, .. } => {
                let offset = length_offset.unwrap_or(0);
                let counter = self.b.data_addr(Section::Bss, offset);
                Value::Scalar(self.b.load(Addr::reg(counter, 0), Size::B8).into())
            }
        }
    }
}
