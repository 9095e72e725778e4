//! The layout of values in memory shared by programs and the profiler: map keys, map values, event
//! records.
//!
//! In: a [`Type`]. Out: size, alignment and offsets of parts.
//! Guarantee: padding is zero, so equal values have equal bytes; all numbers are in host byte
//! order.
//!
//! | type | bytes |
//! |---|---|
//! | `bool`, integers, enums, pointers | their size |
//! | string | its capacity, NUL-padded |
//! | buffer | `u32` length, then its capacity |
//! | array | the elements |
//! | tuple, record | the parts at C offsets |
//! | struct, union | as in the memory it was read from; aligned to 8 bytes |
//! | kernel stack | `i64`: id in the stack table plus 1; 0 or negative: no stack |
//! | user stack | the same, then `u32` process id, `u32` zero |
//! | kernel symbol, user name, probe name | `u64` address, user id, index into the object's probe names |
//! | user symbol | `u64` address, `u64` process |
//! | inet | `u64` family (2 or 10), 16 bytes of address |
//! | hardware address | 6 bytes, 2 zero bytes |
//! | cgroup path | `u64` id, `u64` index into the object's strings |
//! | timestamp | `u64` ns since boot, `u64` index into the object's strings |

use crate::types::{Records, Space, Type};

/// Size and alignment in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Size in bytes, a multiple of the alignment.
    pub size_bytes: u32,
    /// 1, 2, 4 or 8.
    pub align_bytes: u32,
}

/// The layout of a type.
pub fn of(ty: &Type, records: &dyn Records) -> Layout {
    let plain = |size_bytes: u32| Layout { size_bytes, align_bytes: size_bytes.clamp(1, 8) };
    match ty {
        Type::Unknown | Type::None => Layout { size_bytes: 0, align_bytes: 1 },
        Type::Bool => plain(1),
        Type::Int(int) | Type::Enum { int, .. } => plain(u32::from(int.size_bytes)),
        Type::Float { size_bytes } => plain(u32::from(*size_bytes)),
        Type::Pointer { .. } | Type::KernelSymbol | Type::Username | Type::ProbeName | Type::MacAddress => plain(8),
        Type::Str { capacity_bytes } => Layout { size_bytes: *capacity_bytes, align_bytes: 1 },
        Type::Buf { capacity_bytes } => Layout { size_bytes: 4 + capacity_bytes.next_multiple_of(4), align_bytes: 4 },
        Type::Struct { id, .. } => Layout { size_bytes: records.size_bytes(*id), align_bytes: 8 },
        Type::Members(members) => Layout { size_bytes: members.size_bytes, align_bytes: 8 },
        Type::Array { of: element, len } => {
            let element = of(element, records);
            Layout { size_bytes: element.size_bytes * len, align_bytes: element.align_bytes }
        }
        Type::Tuple(parts) => tuple(parts, records).0,
        Type::Record(parts) => tuple(parts.iter().map(|(_, ty)| ty), records).0,
        Type::Stack(stack) => match stack.space {
            Space::Kernel => plain(8),
            Space::User => Layout { size_bytes: 16, align_bytes: 8 },
        },
        Type::Statistic { key_bytes, .. } => Layout { size_bytes: *key_bytes, align_bytes: 8 },
        Type::UserSymbol | Type::Timestamp | Type::CgroupPath => Layout { size_bytes: 16, align_bytes: 8 },
        Type::Inet => Layout { size_bytes: 24, align_bytes: 8 },
    }
}

/// The layout of a tuple and the offset of each part.
pub fn tuple<'a>(parts: impl IntoIterator<Item = &'a Type>, records: &dyn Records) -> (Layout, Vec<u32>) {
    let mut end = 0u32;
    let mut align = 1;
    let mut offsets = Vec::new();
    for part in parts {
        let part = of(part, records);
        end = end.next_multiple_of(part.align_bytes);
        offsets.push(end);
        end += part.size_bytes;
        align = align.max(part.align_bytes);
    }
    (Layout { size_bytes: end.next_multiple_of(align), align_bytes: align }, offsets)
}
