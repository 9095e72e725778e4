//! Decodes the bytes that programs wrote into values.
//!
//! In: a type and bytes laid out as in [`crate::layout`]. Out: a [`Value`].
//! Guarantee: never panics; bytes that are too short decode as [`Value::Missing`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::layout;
use crate::results::Vocabulary;
use crate::statistics::{Number, Statistic};
use crate::types::{Int, MOST_FRAMES, Member, NAMED_SYMBOL, NoRecords, Space, StackType, Type, Walk};
use crate::unwind::{End, interrupted};
use crate::value::{Stack, Value};

/// Lookup of what encoded values refer to.
pub trait Lookup: std::fmt::Debug {
    /// The entries of a stack by its id, without the zeros after them; `None` if it is not in the
    /// table.
    fn stack(&self, ty: StackType, id: i64) -> Option<Vec<u64>>;
    /// A probe name by index.
    fn probe_name(&self, index: u64) -> Option<&str>;
    /// A string of the object by index.
    fn string(&self, index: u64) -> Option<&str>;
    /// The path of a cgroup in the hierarchies that match a pattern; empty if the cgroup no longer
    /// exists.
    fn cgroup_path(&self, _id: u64, _hierarchies: &str) -> String {
        String::new()
    }
    /// A statistic of a map's current value for the key with these bytes.
    fn statistic(&self, _map: usize, _key: &[u8], _statistic: Statistic) -> Option<Number> {
        None
    }
    /// The name of an enum value.
    fn enumerator(&self, id: crate::types::BtfId, number: i64) -> Option<String>;
    /// The words that the object refers to.
    fn vocabulary(&self) -> &dyn Vocabulary;
    /// What to append to a string that fills this capacity without a NUL. For a string without an
    /// explicit size it marks truncation; an array of `char` may legitimately have no NUL.
    #[expect(clippy::unnecessary_literal_bound, reason = "implementations answer from the script's settings")]
    fn truncation_trailer(&self, _capacity_bytes: u32) -> &str {
        ".."
    }
}

/// `AF_INET`, the family of an IPv4 address.
const FAMILY_INET: u64 = 2;
/// `AF_INET6`, the family of an IPv6 address.
const FAMILY_INET6: u64 = 10;

/// Decodes `bytes` as a value of a type.
pub fn decode(ty: &Type, bytes: &[u8], lookup: &dyn Lookup) -> Value {
    decode_present(ty, bytes, lookup).unwrap_or(Value::Missing)
}

fn decode_present(ty: &Type, bytes: &[u8], lookup: &dyn Lookup) -> Option<Value> {
    Some(match ty {
        Type::Unknown | Type::None | Type::Struct { .. } => return None,
        Type::Members(members) => {
            let bytes = bytes.get(..members.size_bytes as usize)?;
            let value = |member: &Member| (member.name.clone(), self::member(member, bytes, lookup));
            Value::Record(members.list.iter().map(value).collect())
        }
        Type::Bool => Value::Bool(*bytes.first()? != 0),
        Type::Int(int) if int.signed => Value::Int(integer(*int, bytes)?),
        Type::Int(int) => Value::Uint(integer(*int, bytes)? as u64),
        Type::Float { size_bytes: 4 } => Value::Float(widened(f32::from_ne_bytes(first(bytes)?)).to_bits()),
        Type::Float { .. } => Value::Float(f64::from_ne_bytes(first(bytes)?).to_bits()),
        Type::Str { capacity_bytes } => Value::Str(owned_string(bytes, *capacity_bytes, lookup)),
        Type::Buf { capacity_bytes } => {
            let len = word32(bytes, 0)?.min(*capacity_bytes) as usize;
            let room = bytes.get(4..)?;
            Value::Buf(room[..len.min(room.len())].to_vec())
        }
        Type::Pointer { .. } => Value::Pointer(word64(bytes, 0)?),
        Type::Enum { id, int } => {
            let number = integer(*int, bytes)?;
            Value::Enum { number, name: lookup.enumerator(*id, number) }
        }
        Type::Array { of, len } => array(of, *len, bytes, lookup)?,
        Type::Tuple(parts) => Value::Tuple(tuple(&parts.iter().collect::<Vec<_>>(), bytes, lookup)?),
        Type::Record(parts) => {
            let types: Vec<&Type> = parts.iter().map(|(_, ty)| ty).collect();
            let values = tuple(&types, bytes, lookup)?;
            Value::Record(parts.iter().map(|(name, _)| name.clone()).zip(values).collect())
        }
        Type::Stack(stack) => Value::Stack(stack_value(*stack, bytes, lookup)?),
        Type::KernelSymbol | Type::UserSymbol if word64(bytes, 0)? >> 32 == NAMED_SYMBOL => {
            let index = word64(bytes, 0)? & u64::from(u32::MAX);
            Value::Str(lookup.probe_name(index)?.as_bytes().to_vec())
        }
        Type::KernelSymbol => Value::Symbol { space: Space::Kernel, address: word64(bytes, 0)?, pid: 0 },
        Type::UserSymbol => {
            Value::Symbol { space: Space::User, address: word64(bytes, 0)?, pid: word64(bytes, 8)? as u32 }
        }
        Type::Inet => Value::Inet(inet(bytes)?),
        Type::Timestamp => {
            Value::Timestamp { since_boot_ns: word64(bytes, 0)?, format: lookup.string(word64(bytes, 8)?)?.to_string() }
        }
        Type::Username => Value::Username(word64(bytes, 0)? as u32),
        Type::MacAddress => Value::Str(mac_address(first(bytes)?)),
        Type::Statistic { map, statistic, .. } => lookup.statistic(*map, bytes, *statistic).map(whole)?,
        Type::CgroupPath => {
            Value::Str(lookup.cgroup_path(word64(bytes, 0)?, lookup.string(word64(bytes, 8)?)?).into_bytes())
        }
        Type::ProbeName => Value::Str(lookup.probe_name(word64(bytes, 0)?)?.as_bytes().to_vec()),
    })
}

/// The number of 64 bits that is printed as this one is: 0.1, not 0.10000000149011612.
fn widened(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| number.into())
}

/// An integer of `int`'s size, sign- or zero-extended to 64 bits.
pub fn integer(int: Int, bytes: &[u8]) -> Option<i64> {
    Some(match (int.size_bytes, int.signed) {
        (1, true) => i64::from(*bytes.first()? as i8),
        (1, false) => i64::from(*bytes.first()?),
        (2, true) => i64::from(i16::from_ne_bytes(first(bytes)?)),
        (2, false) => i64::from(u16::from_ne_bytes(first(bytes)?)),
        (4, true) => i64::from(i32::from_ne_bytes(first(bytes)?)),
        (4, false) => i64::from(u32::from_ne_bytes(first(bytes)?)),
        (8, _) => i64::from_ne_bytes(first(bytes)?),
        _ => return None,
    })
}

/// The bytes of a string up to its NUL, and whether it fills its capacity, which means that it was
/// truncated.
pub fn string(bytes: &[u8], capacity_bytes: u32) -> (&[u8], bool) {
    let bytes = &bytes[..bytes.len().min(capacity_bytes as usize)];
    match bytes.iter().position(|&byte| byte == 0) {
        Some(len) => (&bytes[..len], false),
        None => (bytes, !bytes.is_empty() && bytes.len() == capacity_bytes as usize),
    }
}

fn owned_string(bytes: &[u8], capacity_bytes: u32, lookup: &dyn Lookup) -> Vec<u8> {
    let (text, cut) = string(bytes, capacity_bytes);
    let mut text = text.to_vec();
    if cut {
        text.extend_from_slice(lookup.truncation_trailer(capacity_bytes).as_bytes());
    }
    text
}

fn array(of: &Type, len: u32, bytes: &[u8], lookup: &dyn Lookup) -> Option<Value> {
    let size = layout::of(of, &NoRecords).size_bytes as usize;
    let total = size.checked_mul(len as usize)?;
    let bytes = bytes.get(..total)?;
    if size == 0 {
        return None;
    }
    Some(Value::Array(bytes.chunks_exact(size).map(|element| decode(of, element, lookup)).collect()))
}

fn tuple(parts: &[&Type], bytes: &[u8], lookup: &dyn Lookup) -> Option<Vec<Value>> {
    let (whole, offsets) = layout::tuple(parts.iter().copied(), &NoRecords);
    let bytes = bytes.get(..whole.size_bytes as usize)?;
    let part = |(ty, &offset): (&&Type, &u32)| part(ty, offset, bytes, lookup);
    Some(parts.iter().zip(&offsets).map(part).collect())
}

fn part(ty: &Type, offset_bytes: u32, bytes: &[u8], lookup: &dyn Lookup) -> Value {
    let start = offset_bytes as usize;
    let size = layout::of(ty, &NoRecords).size_bytes as usize;
    decode(ty, bytes.get(start..start + size).unwrap_or_default(), lookup)
}

fn member(member: &Member, bytes: &[u8], lookup: &dyn Lookup) -> Value {
    let (Some((first, width)), Some(int)) = (member.bits, member.ty.as_int()) else {
        return part(&member.ty, member.offset_bytes, bytes, lookup);
    };
    let start = member.offset_bytes as usize;
    // The integer may extend past the end of a packed struct; those bytes are not part of the
    // field.
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes.get(start..).unwrap_or_default()) {
        *to = *from;
    }
    let down = 64_u32.saturating_sub(width.into()).min(63);
    let up = u64::from_le_bytes(word) << down.saturating_sub(first.into());
    let number = if int.signed { (up as i64 >> down) as u64 } else { up >> down };
    decode(&member.ty, &number.to_le_bytes(), lookup)
}

fn stack_value(ty: StackType, bytes: &[u8], lookup: &dyn Lookup) -> Option<Stack> {
    let id = (word64(bytes, 0)? as i64).wrapping_sub(1);
    let pid = match ty.space {
        Space::Kernel => 0,
        Space::User => word32(bytes, 8)?,
    };
    let mut frames = if id < 0 { Vec::new() } else { lookup.stack(ty, id).unwrap_or_default() };
    let end = end_of(ty, &mut frames);
    let interrupted = if ty.walk == Walk::Tables { take_marks(&mut frames) } else { Vec::new() };
    Some(Stack { space: ty.space, mode: ty.mode, pid, frames, interrupted, end })
}

/// Takes the marks off the frames that a signal interrupted, and returns their indexes.
fn take_marks(frames: &mut [u64]) -> Vec<usize> {
    let mut marked = Vec::new();
    for (index, frame) in frames.iter_mut().enumerate() {
        if let Some(address) = interrupted(*frame) {
            *frame = address;
            marked.push(index);
        }
    }
    marked
}

/// Takes the mark off the frames, if they end with one, and what follows a return address of 0: a
/// frame pointer that led nowhere. A stack with the most frames that can be asked for has more
/// callers.
fn end_of(ty: StackType, frames: &mut Vec<u64>) -> Option<End> {
    let is_full = ty.walk == Walk::Tables && frames.len() == usize::from(MOST_FRAMES);
    let mark = frames.last().copied().and_then(End::of).filter(|_| ty.walk == Walk::Tables);
    let len = frames.iter().position(|frame| *frame == 0).unwrap_or(frames.len() - usize::from(mark.is_some()));
    frames.truncate(len);
    mark.or(is_full.then_some(End::Depth))
}

/// A statistic, rounded to an integer.
fn whole(number: Number) -> Value {
    let n = match number {
        Number::Integer(n) | Number::Below(n) => n,
        Number::Real(n) => n.round() as i128,
    };
    match (i64::try_from(n), u64::try_from(n)) {
        (Ok(n), _) => Value::Int(n),
        (_, Ok(n)) => Value::Uint(n),
        _ => Value::Int(if n < 0 { i64::MIN } else { i64::MAX }),
    }
}

/// `AA:BB:CC:DD:EE:FF`.
fn mac_address(bytes: [u8; 6]) -> Vec<u8> {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    digits.join(":").into_bytes()
}

fn inet(bytes: &[u8]) -> Option<IpAddr> {
    match word64(bytes, 0)? {
        FAMILY_INET => Some(Ipv4Addr::from(first::<4>(bytes.get(8..)?)?).into()),
        FAMILY_INET6 => Some(Ipv6Addr::from(first::<16>(bytes.get(8..)?)?).into()),
        _ => None,
    }
}

fn first<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.get(..N)?.try_into().ok()
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(first(bytes.get(at..)?)?))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(first(bytes.get(at..)?)?))
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
