//! Types beside those of a blob: the definitions of a script, in the same format.
//!
//! In: records, added one by one; a number may be reserved before its record is known, for types that refer to themselves.
//! Out: types with numbers of their own, which may refer to those of the blob. Guarantee: their numbers and the offsets of
//! their strings have the top bit set, which no blob's have, so that they are told apart without looking at the blob.

use super::BtfId;
use super::record::{Kind, Record};

/// What tells an added type or string from one of the blob.
const MARK: u32 = 1 << 31;

/// The type's flag: signed values of an enum, bit-fields in a struct.
const FLAG: u32 = 1 << 31;

/// The position among the added types (or in their strings) that a number stands for; `None` for one of the blob.
pub(super) fn place(number: u32) -> Option<usize> {
    (number & MARK != 0).then_some((number & !MARK) as usize)
}

/// The added types.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Added {
    /// A record each, as in a blob; empty while it is only reserved.
    records: Vec<Vec<u8>>,
    /// Each ends with a NUL.
    strings: Vec<u8>,
}

/// A member of a struct or union to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMember {
    /// Its name; empty when anonymous.
    pub name: String,
    /// Its type.
    pub ty: BtfId,
    /// Bits from the start of the struct.
    pub bit_offset: u32,
    /// Width in bits of a bit field.
    pub width: Option<u8>,
}

impl Added {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// A number whose record comes later.
    pub fn reserve(&mut self) -> BtfId {
        self.records.push(Vec::new());
        BtfId(MARK | (self.records.len() as u32 - 1))
    }

    /// Whether a reserved number has its record.
    pub fn is_complete(&self, id: BtfId) -> bool {
        place(id.0).and_then(|at| self.records.get(at)).is_some_and(|record| !record.is_empty())
    }

    /// A struct or union whose content is not known (yet).
    pub fn forward(&mut self, id: BtfId, name: &str, is_union: bool) {
        self.put(id, name, 7, if is_union { FLAG } else { 0 }, 0, &[]);
    }

    /// An integer; `char` is told by its name, as in a blob.
    pub fn int(&mut self, name: &str, size_bytes: u32, signed: bool) -> BtfId {
        let id = self.reserve();
        self.put(id, name, 1, 0, size_bytes, &[(u32::from(signed) << 24) | (size_bytes * 8)]);
        id
    }

    /// `bool`.
    pub fn boolean(&mut self) -> BtfId {
        let id = self.reserve();
        self.put(id, "_Bool", 1, 0, 1, &[(4 << 24) | 8]);
        id
    }

    /// A pointer.
    pub fn pointer(&mut self, to: BtfId) -> BtfId {
        let id = self.reserve();
        self.put(id, "", 2, 0, to.0, &[]);
        id
    }

    /// An array.
    pub fn array(&mut self, of: BtfId, len: u32) -> BtfId {
        let id = self.reserve();
        self.put(id, "", 3, 0, 0, &[of.0, of.0, len]);
        id
    }

    /// Another name of a type.
    pub fn typedef(&mut self, name: &str, of: BtfId) -> BtfId {
        let id = self.reserve();
        self.put(id, name, 8, 0, of.0, &[]);
        id
    }

    /// The content of a struct or union.
    pub fn record_type(&mut self, id: BtfId, name: &str, is_union: bool, size_bytes: u32, members: &[NewMember]) {
        let has_bits = members.iter().any(|member| member.width.is_some());
        let mut tail = Vec::with_capacity(members.len() * 3);
        for member in members {
            let width = u32::from(member.width.unwrap_or(0)) << 24;
            tail.extend([self.text(&member.name), member.ty.0, member.bit_offset | width]);
        }
        let (kind, flag) = (if is_union { 5 } else { 4 }, if has_bits { FLAG } else { 0 });
        self.put(id, name, kind, flag | members.len() as u32, size_bytes, &tail);
    }

    /// An enum; its values take 4 bytes each unless one needs 8. Yields the size.
    pub fn enumeration(&mut self, id: BtfId, name: &str, values: &[(String, i64)]) -> u32 {
        let is_signed = values.iter().any(|(_, value)| *value < 0);
        let most = if is_signed { i64::from(i32::MAX) } else { i64::from(u32::MAX) };
        let is_wide = values.iter().any(|(_, value)| *value > most || *value < i64::from(i32::MIN));
        let mut tail = Vec::with_capacity(values.len() * 3);
        for (name, value) in values {
            tail.extend([self.text(name), *value as u32]);
            if is_wide {
                tail.push((*value >> 32) as u32);
            }
        }
        let (kind, size_bytes) = if is_wide { (19, 8) } else { (6, 4) };
        let flag = if is_signed { FLAG } else { 0 };
        self.put(id, name, kind, flag | values.len() as u32, size_bytes, &tail);
        size_bytes
    }

    fn put(&mut self, id: BtfId, name: &str, kind: u32, info: u32, size_or_type: u32, tail: &[u32]) {
        let name = self.text(name);
        let words = [name, (kind << 24) | info, size_or_type];
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

    /// The numbers, the last one first: a later definition hides an earlier one.
    pub(super) fn ids(&self) -> impl Iterator<Item = BtfId> + use<> {
        (0..self.records.len() as u32).rev().map(|at| BtfId(MARK | at))
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
