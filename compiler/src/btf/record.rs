//! The binary format: a header, then records of 12 bytes with a tail that depends on their kind.
//!
//! In: bytes. Out: [`Header`], [`Record`]s. Guarantee: a record that is cut off or of an unknown kind ends the walk.
//!
//! ```text
//! record: name_off u32 | info u32 (count 0..16, kind 24..29, flag 31) | size or type u32 | tail
//! ```

use super::BtfId;
use std::ops::Range;

const MAGIC: u16 = 0xeb9f;
const HEADER_SIZE_BYTES: usize = 24;
const RECORD_SIZE_BYTES: usize = 12;

/// What a type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `void`: number 0, no record.
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
    /// A `struct` or `union` whose content is not known.
    Forward,
    /// `typedef`.
    Typedef,
    /// `volatile`.
    Volatile,
    /// `const`.
    Const,
    /// `restrict`.
    Restrict,
    /// A function with its name.
    Function,
    /// The parameters and result of a function.
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
    /// By the number in the format.
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

    /// Bytes behind the 12 of the record. The count of a function is its linkage.
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

/// Where the sections are in the blob.
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

/// A type as the blob has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) kind: Kind,
    pub(super) name_offset: u32,
    /// Members are bit fields with their width (structs), values are signed (enums), is a union (forward declarations).
    pub(super) flag: bool,
    /// By kind: the size in bytes or the number of another type.
    pub(super) size_or_type: u32,
    pub(super) tail: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record at an offset of the types section and the offset of the next.
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

    /// The entries of the tail as words.
    pub(super) fn entries<const WORDS: usize>(&self) -> impl Iterator<Item = [u32; WORDS]> + use<'a, WORDS> {
        self.tail.chunks_exact(WORDS * 4).map(|entry| std::array::from_fn(|i| word(entry, i * 4).unwrap_or_default()))
    }
}

/// The walk over the types section.
pub(super) struct Records<'a> {
    types: &'a [u8],
    at: usize,
    id: u32,
}

impl<'a> Records<'a> {
    pub(super) fn new(types: &'a [u8]) -> Self {
        Records { types, at: 0, id: 0 }
    }

    /// Where the next record is in the types section.
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
