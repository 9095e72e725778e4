//! Structs, unions and enums.
//!
//! In: entries of such types. Out: their members and values, and what makes two of them the same.

use std::fmt::Write as _;

use gimli::{AttributeValue, Operation, constants};
use profiler_compiler::btf::{BtfId, NewMember};

use super::super::entries::Found;
use super::{Types, plain};

/// Offsets of members in bits, in a struct with bit-fields: BTF has 24 bits for them.
const MAX_BITS_WITH_FIELDS: u64 = 1 << 24;

impl<'data> Types<'_, 'data, '_> {
    /// What a struct, union or enum consists of, one level deep: the same for the same type in
    /// several units.
    pub(super) fn shape(&self, found: &Found<'data>) -> Vec<u8> {
        let mut shape = format!(
            "{:?} {} {:?} {:?}",
            found.tag(),
            self.name(found),
            found.number(constants::DW_AT_byte_size),
            found.number(constants::DW_AT_decl_line)
        );
        let parts = [constants::DW_TAG_member, constants::DW_TAG_inheritance, constants::DW_TAG_enumerator];
        for part in self.entries.children(found, &parts) {
            let ty = self.entries.target(&part, constants::DW_AT_type);
            let of = plain(self.entries, ty, false).map(|of| (of.tag(), self.name(&of)));
            let value = part.entry.attr_value(constants::DW_AT_const_value).and_then(number);
            let _ = write!(shape, "\n{} {of:?} {value:?} {:?}", self.name(&part), placed(self, &part));
        }
        shape.into_bytes()
    }

    pub(super) fn record(&mut self, found: &Found<'data>, id: BtfId) {
        let (name, is_union) = (self.name(found), found.tag() == constants::DW_TAG_union_type);
        let size_bytes = found.number(constants::DW_AT_byte_size).and_then(|size| u32::try_from(size).ok());
        let (Some(size_bytes), false) = (size_bytes, found.flag(constants::DW_AT_declaration)) else {
            return self.added.forward(id, &name, is_union);
        };
        let parts = self.entries.children(found, &[constants::DW_TAG_member, constants::DW_TAG_inheritance]);
        let has_bits = parts.iter().any(|part| part.entry.has_attr(constants::DW_AT_bit_size));
        let most_bits = if has_bits { MAX_BITS_WITH_FIELDS } else { u64::from(u32::MAX) };
        let mut members = Vec::new();
        for part in &parts {
            // A static member is not in the struct.
            let is_static = part.flag(constants::DW_AT_external) || part.flag(constants::DW_AT_declaration);
            let place = placed(self, part).filter(|(offset, _)| *offset < most_bits && !is_static);
            let Some((bit_offset, width)) = place else { continue };
            let ty = self.id(self.entries.target(part, constants::DW_AT_type));
            // A base class is a part without a name: its members are found in it.
            let is_base = part.tag() == constants::DW_TAG_inheritance;
            let name = if is_base { String::new() } else { self.name(part) };
            members.push(NewMember { name, ty, bit_offset: bit_offset as u32, width });
        }
        self.added.record_type(id, &name, is_union, size_bytes, &members);
    }

    pub(super) fn enumeration(&mut self, found: &Found<'data>, id: BtfId) {
        let name = self.name(found);
        let parts = self.entries.children(found, &[constants::DW_TAG_enumerator]);
        let values: Vec<(String, i64)> = parts
            .iter()
            .filter_map(|part| Some((self.name(part), number(part.entry.attr_value(constants::DW_AT_const_value)?)?)))
            .collect();
        let size_bytes = found.number(constants::DW_AT_byte_size).filter(|size| matches!(size, 1 | 2 | 4 | 8));
        let is_signed = values.iter().any(|(_, value)| *value < 0);
        self.added.enumeration_type(id, &name, (size_bytes.unwrap_or(4) as u32, is_signed), &values);
    }
}

/// The value of an enumerator. A form without a sign is positive.
fn number<R: gimli::Reader>(value: AttributeValue<R>) -> Option<i64> {
    match value {
        AttributeValue::Sdata(value) => Some(value),
        other => other.udata_value().map(|value| value as i64),
    }
}

/// The offset of a member in bits, and its width if it is a bit-field.
fn placed<'data>(types: &Types<'_, 'data, '_>, part: &Found<'data>) -> Option<(u64, Option<u8>)> {
    let bytes = match part.entry.attr_value(constants::DW_AT_data_member_location) {
        None => 0,
        Some(AttributeValue::Exprloc(expression)) => {
            let mut operations = expression.operations(part.unit.encoding());
            match (operations.next(), operations.next()) {
                (Ok(Some(Operation::PlusConstant { value })), Ok(None)) => value,
                _ => return None,
            }
        }
        Some(value) => value.udata_value()?,
    };
    let bits = bytes.checked_mul(8)?;
    let Some(width) = part.number(constants::DW_AT_bit_size) else { return Some((bits, None)) };
    let width = u8::try_from(width).ok().filter(|width| *width <= 64)?;
    if let Some(offset) = part.number(constants::DW_AT_data_bit_offset) {
        return Some((bits.checked_add(offset)?, Some(width)));
    }
    // Before DWARF 4: the distance from the most significant bit of the integer that has the field.
    let Some(from_top) = part.number(constants::DW_AT_bit_offset) else { return Some((bits, Some(width))) };
    let size = part.number(constants::DW_AT_byte_size).or_else(|| {
        let ty = types.entries.target(part, constants::DW_AT_type);
        plain(types.entries, ty, true)?.number(constants::DW_AT_byte_size)
    })?;
    let offset = bits.checked_add(size.checked_mul(8)?)?;
    Some((offset.checked_sub(from_top)?.checked_sub(u64::from(width))?, Some(width)))
}
