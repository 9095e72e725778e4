//! The binary format: a header, then records of 12 bytes with a tail that depends on their kind.
//!
//! In: bytes. Out: [`Header`], [`Record`]s. Guarantee: iteration stops at a truncated record or one
//! of unknown kind.
//!
//! ```text
//! record: name_off u32 | info u32 (count 0..16, kind 24..29, flag 31) | size or type u32 | tail
//! ```

use super::BtfId;
use std::ops::Range;

const MAGIC: u16 = 0xeb9f;
const HEADER_SIZE_BYTES: usize = 24;
const RECORD_SIZE_BYTES: usize = 12;

/// The kind of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `void`: id 0, no record.
    Void,
    /// An integer, `bool` or `char`.
    Int,
    /// A pointer.
    Pointer,
    /// A fixed number of elements.
    Array,
    /// `struct`.
    Struct,
    /// `union`.
    Union,
    /// `enum` of at most 32 bits.
    Enum,
    /// A forward declaration of a `struct` or `union`.
    Forward,
    /// `typedef`.
    Typedef,
    /// `volatile`.
    Volatile,
    /// `const`.
    Const,
    /// `restrict`.
    Restrict,
    /// A named function.
    Function,
    /// A function prototype: parameters and result.
    FunctionProto,
    /// A global variable.
    Variable,
    /// An ELF section of variables.
    DataSection,
    /// A floating-point number.
    Float,
    /// A tag on a declaration.
    DeclTag,
    /// A tag on a type (`__user`, `__rcu`).
    TypeTag,
    /// `enum` of 64 bits.
    Enum64,
}

impl Kind {
    /// The kind with that number in the format.
    fn from_number(number: u32) -> Option<Kind> {
        const KINDS: [Kind; 20] = [
            Kind::Void,
            Kind::Int,
            Kind::Pointer,
            Kind::Array,
            Kind::Struct,
            Kind::Union,
            Kind::Enum,
            Kind::Forward,
            Kind::Typedef,
            Kind::Volatile,
            Kind::Const,
            Kind::Restrict,
            Kind::Function,
            Kind::FunctionProto,
            Kind::Variable,
            Kind::DataSection,
            Kind::Float,
            Kind::DeclTag,
            Kind::TypeTag,
            Kind::Enum64,
        ];
        KINDS.get(number as usize).copied().filter(|kind| *kind != Kind::Void)
    }

    /// Size of the tail after the 12 bytes of the record. For a function, `count` is its linkage.
    fn tail_size_bytes(self, count: usize) -> usize {
        match self {
            Kind::Int | Kind::Variable | Kind::DeclTag => 4,
            Kind::Array => 12,
            Kind::Struct | Kind::Union | Kind::DataSection | Kind::Enum64 => count * 12,
            Kind::Enum | Kind::FunctionProto => count * 8,
            _ => 0,
        }
    }
}

/// The byte ranges of the sections in the blob.
pub(super) struct Header {
    pub(super) types: Range<usize>,
    pub(super) strings: Range<usize>,
}

impl Header {
    /// `None` unless both sections lie within the bytes.
    pub(super) fn parse(bytes: &[u8]) -> Option<Header> {
        if bytes.len() < HEADER_SIZE_BYTES || u16::from_le_bytes([bytes[0], bytes[1]]) != MAGIC || bytes[2] != 1 {
            return None;
        }
        let header_size = word(bytes, 4)? as usize;
        let section = |offset_at: usize| -> Option<Range<usize>> {
            let start = header_size.checked_add(word(bytes, offset_at)? as usize)?;
            let end = start.checked_add(word(bytes, offset_at + 4)? as usize)?;
            (end <= bytes.len()).then_some(start..end)
        };
        Some(Header { types: section(8)?, strings: section(16)? })
    }
}

/// A type as stored in the blob.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) kind: Kind,
    pub(super) name_offset: u32,
    /// Struct or union: members encode a bit-field width. Enum: values are signed. Forward
    /// declaration: a union.
    pub(super) flag: bool,
    /// Depending on the kind, the size in bytes or the id of another type.
    pub(super) size_or_type: u32,
    pub(super) tail: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record at an offset in the types section, and the offset of the next one.
    #[inline]
    pub(super) fn parse(types: &'a [u8], at: usize) -> Option<(Record<'a>, usize)> {
        let fixed: &[u8; RECORD_SIZE_BYTES] = types.get(at..)?.first_chunk()?;
        let info = u32::from_le_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
        let kind = Kind::from_number((info >> 24) & 0x1f)?;
        let tail_at = at + RECORD_SIZE_BYTES;
        let next = tail_at + kind.tail_size_bytes((info & 0xffff) as usize);
        let record = Record {
            kind,
            name_offset: u32::from_le_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]),
            flag: info >> 31 == 1,
            size_or_type: u32::from_le_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
            tail: types.get(tail_at..next)?,
        };
        Some((record, next))
    }

    /// The type that this one refers to.
    pub(super) fn target(&self) -> BtfId {
        BtfId(self.size_or_type)
    }

    /// The entries of the tail as arrays of words.
    pub(super) fn entries<const WORDS: usize>(&self) -> impl Iterator<Item = [u32; WORDS]> + use<'a, WORDS> {
        self.tail.chunks_exact(WORDS * 4).map(|entry| std::array::from_fn(|i| word(entry, i * 4).unwrap_or_default()))
    }
}

/// An iterator over the types section.
pub(super) struct Records<'a> {
    types: &'a [u8],
    at: usize,
    id: u32,
}

impl<'a> Records<'a> {
    pub(super) fn new(types: &'a [u8]) -> Self {
        Records { types, at: 0, id: 0 }
    }

    /// The offset of the next record in the types section.
    pub(super) fn position(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = (BtfId, Record<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (record, next) = Record::parse(self.types, self.at)?;
        self.at = next;
        self.id += 1;
        Some((BtfId(self.id), record))
    }
}

/// The little-endian word at an offset.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
