//! Struct layout.
//!
//! In: members as written. Out: members with offsets; size and alignment of the whole.
//! Guarantee: follows the System V ABI: natural alignment; a bit-field does not cross a boundary of
//! its type unless the struct is packed; a width of 0 ends the current unit.

use super::{Definer, Extent, MAX_SIZE_BYTES};
use crate::ast::{Attributes, CTypeKind, Declarator, RecordDefinition};
use crate::btf::{BtfId, NewMember};
use crate::diagnostic::Code;
use crate::source::Span;

/// Layout state of a struct.
struct Cursor {
    is_union: bool,
    packed: bool,
    /// Bit offset after the last member.
    end_bits: u64,
    /// End of the largest member in bits, for unions.
    most_bits: u64,
    align_bytes: u32,
}

impl Cursor {
    /// Allocates `bits` bits at an alignment; returns the first bit's offset.
    fn place(&mut self, bits: u64, align_bits: u64) -> u64 {
        let at = if self.is_union { 0 } else { self.end_bits.next_multiple_of(align_bits.max(1)) };
        self.end_bits = at + bits;
        self.most_bits = self.most_bits.max(self.end_bits);
        at
    }
}

impl Definer<'_> {
    pub(super) fn lay_out(&mut self, record: &RecordDefinition, span: Span) -> Option<(Vec<NewMember>, Extent)> {
        let (is_union, packed) = (record.is_union, record.attributes.packed);
        let mut cursor = Cursor { is_union, packed, end_bits: 0, most_bits: 0, align_bytes: 1 };
        let mut members: Vec<NewMember> = Vec::new();
        let mut places: Vec<(&str, Span)> = Vec::new();
        for member in &record.members {
            let base = self.base(&member.ty)?;
            if member.declarators.is_empty() {
                // Only an anonymous struct or union is a member without a name; otherwise this just
                // defines a type.
                if matches!(&member.ty.kind, CTypeKind::Record(inner) if inner.name.is_none()) {
                    let at = self.add(&mut cursor, base, &Attributes::default(), member.span)?;
                    members.push(NewMember { name: String::new(), ty: base, bit_offset: at, width: None });
                }
                continue;
            }
            for declarator in &member.declarators {
                let ty = self.declared(base, declarator)?;
                if let Some(name) = &declarator.name {
                    if let Some((_, first)) = places.iter().find(|(known, _)| *known == name.text) {
                        return self.twice(name, *first);
                    }
                    places.push((&name.text, name.span));
                }
                let (at, width) = match &declarator.bits {
                    None => (self.add(&mut cursor, ty, &declarator.attributes, declarator.span)?, None),
                    Some(_) => self.add_bits(&mut cursor, ty, declarator)?,
                };
                if let Some(name) = &declarator.name {
                    members.push(NewMember { name: name.text.clone(), ty, bit_offset: at, width });
                }
            }
        }
        if let Some(aligned) = &record.attributes.aligned {
            cursor.align_bytes = cursor.align_bytes.max(self.alignment(aligned)?);
        }
        let size = cursor.most_bits.div_ceil(8).next_multiple_of(u64::from(cursor.align_bytes));
        if size > MAX_SIZE_BYTES {
            return self.too_large(span, size);
        }
        Some((
            members,
            Extent { size_bytes: size as u32, align_bytes: cursor.align_bytes, complete: true, is_integer: false },
        ))
    }

    /// Places a member that is not a bit-field; returns its offset in bits.
    fn add(&mut self, cursor: &mut Cursor, ty: BtfId, attributes: &Attributes, span: Span) -> Option<u32> {
        let extent = self.extent(ty);
        self.must_be_complete(ty, extent, span)?;
        let mut align_bytes = if cursor.packed || attributes.packed { 1 } else { extent.align_bytes };
        if let Some(aligned) = &attributes.aligned {
            align_bytes = align_bytes.max(self.alignment(aligned)?);
        }
        let at = cursor.place(u64::from(extent.size_bytes) * 8, u64::from(align_bytes) * 8);
        cursor.align_bytes = cursor.align_bytes.max(align_bytes);
        if cursor.end_bits > MAX_SIZE_BYTES * 8 {
            return self.too_large(span, cursor.end_bits / 8);
        }
        Some(at as u32)
    }

    /// Places a bit-field; returns its offset in bits, and its width unless that is 0.
    fn add_bits(&mut self, cursor: &mut Cursor, ty: BtfId, declarator: &Declarator) -> Option<(u32, Option<u8>)> {
        let Some(bits) = &declarator.bits else { return None };
        let extent = self.extent(ty);
        let width = self.constant(bits)?;
        let unit_bits = u64::from(extent.size_bytes) * 8;
        if !extent.is_integer || !matches!(extent.size_bytes, 1 | 2 | 4 | 8) {
            return self.fail(Code(372), declarator.span, "only an integer can be a bit-field".into(), "");
        }
        let fits = u64::try_from(width).is_ok_and(|width| width <= unit_bits);
        if !fits || (width == 0 && declarator.name.is_some()) {
            let message = format!("a bit-field of this type has 1 to {unit_bits} bits, not {width}");
            return self.fail(Code(372), bits.span, message, "");
        }
        let width = width as u64;
        if width == 0 {
            cursor.place(0, unit_bits);
            return Some((0, None));
        }
        let start = if cursor.is_union { 0 } else { cursor.end_bits };
        let crosses = start / unit_bits != (start + width - 1) / unit_bits;
        let at = cursor.place(width, if crosses && !cursor.packed { unit_bits } else { 1 });
        if at % 8 + width > 64 {
            let message = "this bit-field lies across nine bytes, which cannot be read at once".to_string();
            return self.fail(
                Code(372),
                declarator.span,
                message,
                "begin it at a byte, with an unnamed field before it",
            );
        }
        if declarator.name.is_some() && !cursor.packed {
            cursor.align_bytes = cursor.align_bytes.max(extent.align_bytes);
        }
        Some((at as u32, Some(width as u8)))
    }

    fn alignment(&mut self, e: &crate::ast::Expr) -> Option<u32> {
        let bytes = self.constant(e)?;
        match u32::try_from(bytes) {
            Ok(bytes) if bytes.is_power_of_two() && bytes <= 4096 => Some(bytes),
            _ => self.fail(
                Code(374),
                e.span,
                format!("{bytes} is not an alignment: it must be a power of two up to 4096"),
                "",
            ),
        }
    }
}
