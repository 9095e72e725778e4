//! Reads the parts of a type.
//!
//! In: a type id. Out: members, elements, parameters, values, sizes.
//! Guarantee: a query about a type of another kind, or about an unknown id, returns `None` or
//! nothing.

use super::record::{Kind, Record, word};
use super::{Btf, BtfId, MAX_DEPTH};

/// The maximum number of structs that a member search enters. Real structs have a few dozen
/// anonymous parts; malformed ones may contain themselves.
const MAX_STRUCTS_SEARCHED: u32 = 4096;

/// An integer type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntEncoding {
    /// Storage size in bytes.
    pub size_bytes: u32,
    /// Whether it is signed (two's complement). `char` counts as signed, however the kernel was
    /// compiled.
    pub signed: bool,
    /// Whether it is `bool`.
    pub is_bool: bool,
    /// Whether it is plain `char`, which is text; `unsigned char` is a number.
    pub is_char: bool,
}

/// A member of a struct or union.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// The name; empty when anonymous.
    pub name: &'a str,
    /// Its type.
    pub ty: BtfId,
    /// Offset in bits from the start of the struct.
    pub bit_offset: u32,
    /// Width in bits of a bit-field; `None` for other members.
    pub bitfield_width: Option<u8>,
}

impl Member<'_> {
    /// Offset in bytes from the start of the struct; for a bit-field, the offset of the byte that
    /// holds its first bit.
    pub fn byte_offset(&self) -> u32 {
        self.bit_offset / 8
    }

    /// The integer that contains a bit-field of a type of this size; `None` for other members, and
    /// for a field that spans nine bytes.
    pub fn bit_unit(&self, size_bytes: u32) -> Option<BitUnit> {
        let width = self.bitfield_width?;
        let unit_bits = size_bytes.clamp(1, 8).next_power_of_two() * 8;
        let first = self.bit_offset % unit_bits;
        if first + u32::from(width) <= unit_bits {
            let offset_bytes = (self.bit_offset - first) / 8;
            return Some(BitUnit { offset_bytes, size_bytes: (unit_bits / 8) as u8, first: first as u8, width });
        }
        // In a packed struct a bit-field may cross the boundary of its own type.
        let first = self.bit_offset % 8;
        let bytes = (first + u32::from(width)).div_ceil(8).next_power_of_two();
        let size_bytes = u8::try_from(bytes).ok().filter(|bytes| *bytes <= 8)?;
        Some(BitUnit { offset_bytes: self.byte_offset(), size_bytes, first: first as u8, width })
    }
}

/// The integer to load in order to read a bit-field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitUnit {
    /// Offset in bytes from the start of the struct.
    pub offset_bytes: u32,
    /// Size in bytes: 1, 2, 4 or 8.
    pub size_bytes: u8,
    /// Index of the field's first bit, from the least significant.
    pub first: u8,
    /// Width in bits.
    pub width: u8,
}

/// A parameter of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// The name; empty when the kernel gives none.
    pub name: &'a str,
    /// Its type.
    pub ty: BtfId,
}

/// A function prototype.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionProto<'a> {
    /// The parameters in order, without `...`.
    pub params: Vec<Parameter<'a>>,
    /// Whether `...` follows.
    pub variadic: bool,
    /// The result type; [`BtfId::VOID`] for none.
    pub ret: BtfId,
}

impl Btf {
    /// The underlying type, without typedefs, `const`, `volatile`, `restrict` and type tags.
    pub fn strip(&self, id: BtfId) -> BtfId {
        let mut id = id;
        for _ in 0..MAX_DEPTH {
            match self.record(id) {
                Some(record) if is_transparent(record.kind) => id = record.target(),
                _ => break,
            }
        }
        id
    }

    /// The type that a pointer points to; `None` when the type (after typedefs) is not a pointer.
    pub fn pointee(&self, id: BtfId) -> Option<BtfId> {
        Some(self.stripped(id, Kind::Pointer)?.target())
    }

    /// Element type and length of an array.
    pub fn array(&self, id: BtfId) -> Option<(BtfId, u32)> {
        let [element, _index, len] = self.stripped(id, Kind::Array)?.entries::<3>().next()?;
        Some((BtfId(element), len))
    }

    /// An integer type.
    pub fn int(&self, id: BtfId) -> Option<IntEncoding> {
        let record = self.stripped(id, Kind::Int)?;
        let encoding = word(record.tail, 0)? >> 24;
        let is_char = encoding & 2 != 0 || self.string(record.name_offset) == Some("char");
        Some(IntEncoding {
            size_bytes: record.size_or_type,
            signed: encoding & 1 != 0 || is_char,
            is_bool: encoding & 4 != 0,
            is_char,
        })
    }

    /// The members of a struct or union (after typedefs), in order.
    pub fn members(&self, id: BtfId) -> impl Iterator<Item = Member<'_>> {
        members_from(self, id, 0)
    }

    /// The names of the members of a struct or union, including those in anonymous structs and
    /// unions, in order.
    pub fn member_names(&self, id: BtfId) -> Vec<&str> {
        let mut names = Vec::new();
        StructWalk::new(self).names(id, MAX_DEPTH, &mut names);
        names
    }

    /// The member with that name, including those in anonymous structs and unions; its offset
    /// counts from the start of `id`.
    pub fn find_member(&self, id: BtfId, name: &str) -> Option<Member<'_>> {
        if name.is_empty() {
            return None;
        }
        StructWalk::new(self).find(id, name, MAX_DEPTH)
    }

    /// Names and values of the enumerators of an enum, in order.
    pub fn enumerators(&self, id: BtfId) -> impl Iterator<Item = (&str, i64)> {
        let record = self.record(self.strip(id));
        let narrow = record.filter(|record| record.kind == Kind::Enum).into_iter().flat_map(|record| {
            let value = move |bits: u32| if record.flag { i64::from(bits as i32) } else { i64::from(bits) };
            record.entries::<2>().map(move |[name, bits]| (name, value(bits)))
        });
        let wide = record.filter(|record| record.kind == Kind::Enum64).into_iter().flat_map(|record| {
            record.entries::<3>().map(|[name, low, high]| (name, (i64::from(high) << 32) | i64::from(low)))
        });
        narrow.chain(wide).map(|(name, value)| (self.string(name).unwrap_or_default(), value))
    }

    /// Whether the values of an enum are signed; `None` when it is not an enum.
    pub fn enum_signed(&self, id: BtfId) -> Option<bool> {
        let record = self.record(self.strip(id))?;
        matches!(record.kind, Kind::Enum | Kind::Enum64).then_some(record.flag)
    }

    /// Parameters and result of a function or a function prototype.
    pub fn func_proto(&self, id: BtfId) -> Option<FunctionProto<'_>> {
        let mut record = self.record(self.strip(id))?;
        if record.kind == Kind::Function {
            record = self.record(record.target())?;
        }
        if record.kind != Kind::FunctionProto {
            return None;
        }
        let mut params: Vec<Parameter<'_>> = record
            .entries::<2>()
            .map(|[name, ty]| Parameter { name: self.string(name).unwrap_or_default(), ty: BtfId(ty) })
            .collect();
        // The format encodes `...` as a last parameter without name and type.
        let variadic = params.pop_if(|last| last.name.is_empty() && last.ty == BtfId::VOID).is_some();
        Some(FunctionProto { params, variadic, ret: record.target() })
    }

    /// Size of a type in bytes; 0 when it has none (`void`, functions, forward declarations).
    pub fn size_bytes(&self, id: BtfId) -> u32 {
        let mut elements = 1_u32;
        let mut id = id;
        for _ in 0..MAX_DEPTH {
            id = self.strip(id);
            let Some(record) = self.record(id) else { return 0 };
            let size = match record.kind {
                Kind::Array => {
                    let Some((element, len)) = self.array(id) else { return 0 };
                    elements = elements.saturating_mul(len);
                    id = element;
                    continue;
                }
                Kind::Variable => {
                    id = record.target();
                    continue;
                }
                Kind::Int
                | Kind::Struct
                | Kind::Union
                | Kind::Enum
                | Kind::Enum64
                | Kind::Float
                | Kind::DataSection => record.size_or_type,
                Kind::Pointer => 8,
                _ => 0,
            };
            return elements.saturating_mul(size);
        }
        0
    }

    /// Alignment of a type in bytes, inferred from sizes and offsets, because BTF does not record
    /// packed or aligned attributes.
    pub fn align_bytes(&self, id: BtfId) -> u32 {
        StructWalk::new(self).align_bytes(id, MAX_DEPTH)
    }

    /// The type that a typedef, a qualifier or a type tag refers to; `None` for other types.
    pub(super) fn transparent_target(&self, id: BtfId) -> Option<BtfId> {
        self.record(id).filter(|record| is_transparent(record.kind)).map(|record| record.target())
    }

    /// The record after typedefs and qualifiers, if it has that kind.
    fn stripped(&self, id: BtfId, kind: Kind) -> Option<Record<'_>> {
        self.record(self.strip(id)).filter(|record| record.kind == kind)
    }
}

/// As [`Btf::members`], but without those of a struct that end before an offset, except the
/// last of them: to read the names and types of all takes long in a struct with hundreds.
pub(super) fn members_from(btf: &Btf, id: BtfId, offset_bytes: u32) -> impl Iterator<Item = Member<'_>> {
    let record = btf.record(btf.strip(id)).filter(|record| matches!(record.kind, Kind::Struct | Kind::Union));
    record.into_iter().flat_map(move |record| {
        let bit_offset = move |offset| if record.flag { offset & 0x00ff_ffff } else { offset };
        let starts_before = |[_, _, offset]: &[u32; 3]| bit_offset(*offset) / 8 < offset_bytes;
        let before = match record.kind {
            Kind::Struct => record.entries::<3>().take_while(starts_before).count(),
            _ => 0,
        };
        record.entries::<3>().skip(before.saturating_sub(1)).map(move |[name, ty, offset]| Member {
            name: btf.string(name).unwrap_or_default(),
            ty: BtfId(ty),
            bit_offset: bit_offset(offset),
            bitfield_width: Some((offset >> 24) as u8).filter(|width| record.flag && *width != 0),
        })
    })
}

/// A search through structs and the structs in them, which ends when it has entered too many.
struct StructWalk<'a> {
    btf: &'a Btf,
    /// How many more structs it may enter.
    budget: u32,
}

impl<'a> StructWalk<'a> {
    fn new(btf: &'a Btf) -> StructWalk<'a> {
        StructWalk { btf, budget: MAX_STRUCTS_SEARCHED }
    }

    /// Enters a struct with `depth` levels left; returns the levels that are left within it.
    fn enter(&mut self, depth: u32) -> Option<u32> {
        self.budget = self.budget.checked_sub(1)?;
        depth.checked_sub(1)
    }

    fn names(&mut self, id: BtfId, depth: u32, names: &mut Vec<&'a str>) {
        let Some(depth) = self.enter(depth) else { return };
        for member in self.btf.members(id) {
            match member.name {
                "" => self.names(member.ty, depth, names),
                name => names.push(name),
            }
        }
    }

    fn find(&mut self, id: BtfId, name: &str, depth: u32) -> Option<Member<'a>> {
        let depth = self.enter(depth)?;
        for member in self.btf.members(id) {
            if member.name == name {
                return Some(member);
            }
            if member.name.is_empty()
                && let Some(inner) = self.find(member.ty, name, depth)
            {
                return Some(Member { bit_offset: member.bit_offset.checked_add(inner.bit_offset)?, ..inner });
            }
        }
        None
    }

    fn align_bytes(&mut self, id: BtfId, depth: u32) -> u32 {
        let Some(depth) = self.enter(depth) else { return 1 };
        let id = self.btf.strip(id);
        match self.btf.kind(id) {
            Some(Kind::Array) => self.btf.array(id).map_or(1, |(element, _)| self.align_bytes(element, depth)),
            Some(Kind::Struct | Kind::Union) => {
                let mut align = 1;
                for member in self.btf.members(id) {
                    let wanted = self.align_bytes(member.ty, depth);
                    if member.bitfield_width.is_some() || member.bit_offset.is_multiple_of(wanted * 8) {
                        align = align.max(wanted);
                    }
                }
                while !self.btf.size_bytes(id).is_multiple_of(align) {
                    align /= 2;
                }
                align
            }
            _ => self.btf.size_bytes(id).next_power_of_two().clamp(1, 16),
        }
    }
}

/// Whether a kind only names or qualifies another type.
fn is_transparent(kind: Kind) -> bool {
    matches!(kind, Kind::Typedef | Kind::Const | Kind::Volatile | Kind::Restrict | Kind::TypeTag)
}
