//! Types that a script defines, in BTF format, in addition to those of a blob.
//!
//! In: records, added one by one. An id may be reserved before its record is known, for types that
//! refer to themselves.
//! Out: types with ids of their own, which may refer to types of the blob. Guarantee: their ids and
//! string offsets have the top bit set, which no blob uses, so they are recognised without reading
//! the blob.

use super::BtfId;
use super::record::{Kind, Record};

/// The bit that marks the id or string offset of an added type.
const MARK: u32 = 1 << 31;

/// The flag of a record: signed values in an enum, bit-fields in a struct.
const FLAG: u32 = 1 << 31;

/// The index of an added type or the offset of an added string; `None` for an id or offset of the
/// blob.
pub(super) fn place(number: u32) -> Option<usize> {
    (number & MARK != 0).then_some((number & !MARK) as usize)
}

/// The added types.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Added {
    /// One record per type, as in a blob; empty while its id is only reserved.
    records: Vec<Vec<u8>>,
    /// The strings; each ends with a NUL.
    strings: Vec<u8>,
    /// The number of types, from the first, that lookups by name find; `None` for all.
    named: Option<u32>,
}

/// A member of a struct or union to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMember {
    /// The name; empty when anonymous.
    pub name: String,
    /// Its type.
    pub ty: BtfId,
    /// Offset in bits from the start of the struct.
    pub bit_offset: u32,
    /// Width in bits of a bit-field; `None` for other members.
    pub width: Option<u8>,
}

/// The information word of a record: its kind, and what depends on the kind (a number of members).
fn of_kind(kind: u32, rest: u32) -> u32 {
    (kind << 24) | rest
}

impl Added {
    /// Whether there are no added types.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Reserves an id whose record comes later.
    pub fn reserve(&mut self) -> BtfId {
        self.records.push(Vec::new());
        BtfId(MARK | (self.records.len() as u32 - 1))
    }

    /// Hides all types that are added from now on from lookups by name.
    pub fn hide_what_follows(&mut self) {
        self.named.get_or_insert(self.records.len() as u32);
    }

    /// Whether a reserved id has its record.
    pub fn is_complete(&self, id: BtfId) -> bool {
        place(id.0).and_then(|at| self.records.get(at)).is_some_and(|record| !record.is_empty())
    }

    /// Adds a forward declaration of a struct or union.
    pub fn forward(&mut self, id: BtfId, name: &str, is_union: bool) {
        self.put(id, name, of_kind(7, if is_union { FLAG } else { 0 }), 0, &[]);
    }

    /// Adds an integer; `char` is recognised by its name, as in a blob.
    pub fn int(&mut self, name: &str, size_bytes: u32, signed: bool) -> BtfId {
        let id = self.reserve();
        self.put(id, name, of_kind(1, 0), size_bytes, &[(u32::from(signed) << 24) | (size_bytes * 8)]);
        id
    }

    /// Adds `bool`.
    pub fn boolean(&mut self) -> BtfId {
        let id = self.reserve();
        self.put(id, "_Bool", of_kind(1, 0), 1, &[(4 << 24) | 8]);
        id
    }

    /// Adds a floating-point number, which has no type in the language.
    pub fn float(&mut self, name: &str, size_bytes: u32) -> BtfId {
        let id = self.reserve();
        self.put(id, name, of_kind(16, 0), size_bytes, &[]);
        id
    }

    /// Adds a pointer.
    pub fn pointer(&mut self, to: BtfId) -> BtfId {
        let id = self.reserve();
        self.pointer_type(id, to);
        id
    }

    /// Adds an array.
    pub fn array(&mut self, of: BtfId, len: u32) -> BtfId {
        let id = self.reserve();
        self.array_type(id, of, len);
        id
    }

    /// Adds the record of an array.
    pub fn array_type(&mut self, id: BtfId, of: BtfId, len: u32) {
        self.put(id, "", of_kind(3, 0), 0, &[of.0, of.0, len]);
    }

    /// Adds the record of a pointer.
    pub fn pointer_type(&mut self, id: BtfId, to: BtfId) {
        self.put(id, "", of_kind(2, 0), to.0, &[]);
    }

    /// Adds the record of a typedef.
    pub fn typedef_type(&mut self, id: BtfId, name: &str, of: BtfId) {
        self.put(id, name, of_kind(8, 0), of.0, &[]);
    }

    /// Adds a typedef.
    pub fn typedef(&mut self, name: &str, of: BtfId) -> BtfId {
        let id = self.reserve();
        self.typedef_type(id, name, of);
        id
    }

    /// Adds the members of a struct or union.
    pub fn record_type(&mut self, id: BtfId, name: &str, is_union: bool, size_bytes: u32, members: &[NewMember]) {
        let has_bits = members.iter().any(|member| member.width.is_some());
        let mut tail = Vec::with_capacity(members.len() * 3);
        for member in members {
            let width = u32::from(member.width.unwrap_or(0)) << 24;
            tail.extend([self.text(&member.name), member.ty.0, member.bit_offset | width]);
        }
        let (kind, flag) = (if is_union { 5 } else { 4 }, if has_bits { FLAG } else { 0 });
        self.put(id, name, of_kind(kind, flag | members.len() as u32), size_bytes, &tail);
    }

    /// Adds an enum and returns its size: 4 bytes, or 8 if a value needs it.
    pub fn enumeration(&mut self, id: BtfId, name: &str, values: &[(String, i64)]) -> u32 {
        let is_signed = values.iter().any(|(_, value)| *value < 0);
        let most = if is_signed { i64::from(i32::MAX) } else { i64::from(u32::MAX) };
        let is_wide = values.iter().any(|(_, value)| *value > most || *value < i64::from(i32::MIN));
        let size_bytes = if is_wide { 8 } else { 4 };
        self.enumeration_type(id, name, (size_bytes, is_signed), values);
        size_bytes
    }

    /// Adds an enum of this size and signedness.
    pub fn enumeration_type(
        &mut self,
        id: BtfId,
        name: &str,
        (size_bytes, is_signed): (u32, bool),
        values: &[(String, i64)],
    ) {
        let is_wide = size_bytes > 4;
        let mut tail = Vec::with_capacity(values.len() * 3);
        for (name, value) in values {
            tail.extend([self.text(name), *value as u32]);
            if is_wide {
                tail.push((*value >> 32) as u32);
            }
        }
        let kind = if is_wide { 19 } else { 6 };
        let flag = if is_signed { FLAG } else { 0 };
        self.put(id, name, of_kind(kind, flag | values.len() as u32), size_bytes, &tail);
    }

    fn put(&mut self, id: BtfId, name: &str, info: u32, size_or_type: u32, tail: &[u32]) {
        let name = self.text(name);
        let words = [name, info, size_or_type];
        let bytes = words.iter().chain(tail).flat_map(|word| word.to_le_bytes()).collect();
        if let Some(record) = place(id.0).and_then(|at| self.records.get_mut(at)) {
            *record = bytes;
        }
    }

    fn text(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend_from_slice(text.as_bytes());
        self.strings.push(0);
        MARK | at
    }

    /// The ids that have names, last one first, because a later definition hides an earlier one.
    pub(super) fn ids(&self) -> impl Iterator<Item = BtfId> + use<> {
        (0..self.named.unwrap_or(self.records.len() as u32)).rev().map(|at| BtfId(MARK | at))
    }

    pub(super) fn record(&self, place: usize) -> Option<Record<'_>> {
        Record::parse(self.records.get(place)?, 0).map(|(record, _)| record)
    }

    pub(super) fn string(&self, place: usize) -> Option<&str> {
        let rest = self.strings.get(place..)?;
        std::str::from_utf8(rest.split(|byte| *byte == 0).next()?).ok()
    }

    pub(super) fn find(&self, kind: Kind, name: &str) -> Option<BtfId> {
        self.ids().find(|id| {
            let record = place(id.0).and_then(|at| self.record(at));
            let named = |record: Record<'_>| place(record.name_offset).and_then(|at| self.string(at)) == Some(name);
            record.is_some_and(|record| record.kind == kind && named(record))
        })
    }
}
