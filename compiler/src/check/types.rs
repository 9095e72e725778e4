//! Relations between types, and resolution of written types.
//!
//! In: two types, or a type's name. Out: the type that holds both, or the type of the name.
//! Guarantee: unifying never narrows.

use crate::ast::{TypeName, TypeTag};
use crate::btf::{Btf, BtfId, Kind};
use crate::typed;
use crate::types::{Int, PROBE_NAME_BYTES, Space, Type};

/// Maximum size of a value in bytes.
pub(super) const MAX_VALUE_BYTES: u32 = 16 << 10;

/// The narrowest integer type that holds the values of both; a signed type with an 8-byte unsigned
/// one gives `int64`.
pub fn widest(a: Int, b: Int) -> Int {
    if a.signed == b.signed {
        return Int { size_bytes: a.size_bytes.max(b.size_bytes), signed: a.signed };
    }
    let unsigned = if a.signed { b.size_bytes } else { a.size_bytes };
    let signed = if a.signed { a.size_bytes } else { b.size_bytes };
    Int { size_bytes: signed.max((unsigned * 2).min(8)), signed: true }
}

/// The type that holds the values of both, if there is one.
pub fn unify(a: &Type, b: &Type) -> Option<Type> {
    match (a, b) {
        (Type::Unknown, other) | (other, Type::Unknown) => Some(other.clone()),
        (a, b) if a == b => Some(a.clone()),
        (Type::Struct { id: known, .. }, Type::Struct { id, .. }) if known == id => Some(a.clone()),
        (Type::Int(a), Type::Int(b)) => Some(Type::Int(widest(*a, *b))),
        (Type::Int(int), Type::Bool | Type::Enum { .. }) | (Type::Bool | Type::Enum { .. }, Type::Int(int)) => {
            Some(Type::Int(*int))
        }
        (Type::Enum { int: a, .. }, Type::Enum { int: b, .. }) => Some(Type::Int(widest(*a, *b))),
        (Type::Str { capacity_bytes: a }, Type::Str { capacity_bytes: b }) => {
            Some(Type::Str { capacity_bytes: *a.max(b) })
        }
        (Type::Buf { capacity_bytes: a }, Type::Buf { capacity_bytes: b }) => {
            Some(Type::Buf { capacity_bytes: *a.max(b) })
        }
        (Type::Array { of: a, len: m }, Type::Array { of: b, len: n }) if m == n => {
            unify(a, b).filter(|of| **a == *of).map(|of| Type::Array { of: Box::new(of), len: *m })
        }
        (Type::Record(a), Type::Record(b)) if a.len() == b.len() => {
            // The order of the first record's fields is kept.
            let part = |(name, ty): &(String, Type)| {
                let (_, other) = b.iter().find(|(other, _)| other == name)?;
                Some((name.clone(), unify(ty, other)?))
            };
            a.iter().map(part).collect::<Option<Vec<_>>>().map(Type::Record)
        }
        (Type::Pointer { to: a, space }, Type::Pointer { to: b, .. }) => {
            let to = if **a == Type::None { b } else { a };
            let same = alike(a, b) || **a == Type::None || **b == Type::None;
            same.then(|| Type::Pointer { to: to.clone(), space: *space })
        }
        // An integer combined with a pointer is an address. The result stays a pointer: as an
        // integer it would change sign with the next integer, and change back with the next
        // pointer, so inference would not converge.
        (pointer @ Type::Pointer { .. }, Type::Int(_)) | (Type::Int(_), pointer @ Type::Pointer { .. }) => {
            Some(pointer.clone())
        }
        // A probe's name takes the type of what it is stored with.
        (symbol @ (Type::KernelSymbol | Type::UserSymbol), Type::ProbeName)
        | (Type::ProbeName, symbol @ (Type::KernelSymbol | Type::UserSymbol)) => Some(symbol.clone()),
        (Type::Str { capacity_bytes }, Type::ProbeName) | (Type::ProbeName, Type::Str { capacity_bytes }) => {
            Some(Type::Str { capacity_bytes: (*capacity_bytes).max(PROBE_NAME_BYTES) })
        }
        (Type::Tuple(a), Type::Tuple(b)) if a.len() == b.len() => {
            a.iter().zip(b).map(|(a, b)| unify(a, b)).collect::<Option<Vec<_>>>().map(Type::Tuple)
        }
        _ => None,
    }
}

/// The name of a probe as a string; other values are unchanged.
pub fn with_text(value: typed::Expr) -> typed::Expr {
    match value.ty {
        Type::ProbeName => value.convert(&Type::Str { capacity_bytes: PROBE_NAME_BYTES }),
        _ => value,
    }
}

/// Whether two types are equal except for address spaces.
fn alike(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Struct { id: a, .. }, Type::Struct { id: b, .. }) => a == b,
        (Type::Pointer { to: a, .. }, Type::Pointer { to: b, .. }) => alike(a, b),
        (a, b) => a == b,
    }
}

/// The smallest type that holds a literal.
pub(super) fn smallest_int(n: u64) -> Type {
    let size_bytes = match n {
        0..=0x7f => 1,
        0x80..=0x7fff => 2,
        0x8000..=0x7fff_ffff => 4,
        _ => 8,
    };
    Type::Int(Int { size_bytes, signed: i64::try_from(n).is_ok() })
}

/// The integer type of a C or bpftrace name.
pub fn named_int(name: &str) -> Option<Int> {
    let (size_bytes, signed) = match name {
        "int8" | "int8_t" | "s8" | "char" | "i8" => (1, true),
        "int16" | "int16_t" | "s16" | "short" | "i16" => (2, true),
        "int32" | "int32_t" | "s32" | "int" | "i32" => (4, true),
        "int64" | "int64_t" | "s64" | "long" | "long long" | "ssize_t" | "i64" => (8, true),
        "uint8" | "uint8_t" | "u8" | "unsigned char" => (1, false),
        "uint16" | "uint16_t" | "u16" | "unsigned short" => (2, false),
        "uint32" | "uint32_t" | "u32" | "unsigned int" | "unsigned" => (4, false),
        "uint64" | "uint64_t" | "u64" | "unsigned long" | "unsigned long long" | "size_t" | "uintptr_t" => (8, false),
        _ => return None,
    };
    Some(Int { size_bytes, signed })
}

pub(super) fn find_type(btf: &Btf, name: &TypeName) -> Option<Type> {
    find_id(btf, name).map(|id| btf.to_type(id))
}

/// The type of a script or of the kernel with this name.
pub(super) fn find_id(btf: &Btf, name: &TypeName) -> Option<BtfId> {
    let kinds: &[Kind] = match name.tag {
        TypeTag::Struct => &[Kind::Struct, Kind::Forward],
        TypeTag::Union => &[Kind::Union, Kind::Forward],
        TypeTag::Enum => &[Kind::Enum, Kind::Enum64],
        TypeTag::None => &[Kind::Typedef, Kind::Struct, Kind::Union, Kind::Enum],
    };
    kinds.iter().find_map(|kind| btf.find(*kind, &name.name))
}

/// The address space of a pointer type, or the default for other types.
pub(super) fn space_of(ty: &Type, default: Space) -> Space {
    match ty {
        Type::Pointer { space, .. } => *space,
        _ => default,
    }
}
