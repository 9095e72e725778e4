//! How the kernel's verifier types a load through a typed pointer.
//!
//! Follows `btf_struct_walk` in `kernel/bpf/btf.c`.
//!
//! In: a struct, an offset, a size. Out: [`Step`], or `None` where some kernel rejects the load.
//! Guarantee: the answer holds from 6.1 on; where versions differ, it is `None`.

use super::record::Kind;
use super::shape::{Member, members_from};
use super::{Btf, BtfId, MAX_DEPTH};

/// The result of a load, as the verifier tracks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A number.
    Number,
    /// A pointer to a struct; it may be null.
    Pointer(BtfId),
    /// Another address. Kernels differ in what they know about it: it can only be made a number.
    Address,
}

/// Tags of pointers that the verifier never follows.
const REFUSED_TAGS: [&str; 2] = ["user", "percpu"];

/// The kernel's types as the verifier sees them.
#[derive(Clone, Copy)]
pub struct Verifier<'a> {
    btf: &'a Btf,
}

impl Btf {
    /// The types as the kernel's verifier sees them.
    pub fn verifier(&self) -> Verifier<'_> {
        Verifier { btf: self }
    }
}

impl<'a> Verifier<'a> {
    /// The result of a load of `size_bytes` bytes at `offset_bytes` from a typed pointer to a
    /// struct.
    pub fn walk(self, owner: BtfId, offset_bytes: u32, size_bytes: u32) -> Option<Step> {
        let (mut owner, mut offset) = (owner, offset_bytes);
        for _ in 0..MAX_DEPTH {
            owner = self.btf.strip(owner);
            if !self.is_followed(owner) || offset.checked_add(size_bytes)? > self.btf.size_bytes(owner) {
                return None;
            }
            let (member, start) = self.member_of_load(owner, offset, size_bytes)?;
            if member.bitfield_width.is_some() {
                return Some(Step::Number);
            }
            let (element, element_start) = self.element_at(&member, start, offset)?;
            let end = start.checked_add(self.btf.size_bytes(member.ty))?;
            match self.btf.kind(element)? {
                Kind::Struct | Kind::Union => (owner, offset) = (element, offset - element_start),
                Kind::Pointer if size_bytes == 8 && offset == element_start => {
                    return Some(self.followed_pointee(element).map_or(Step::Address, Step::Pointer));
                }
                Kind::Int | Kind::Enum | Kind::Enum64 if offset + size_bytes <= end => return Some(Step::Number),
                _ => return None,
            }
        }
        None
    }

    /// The struct that a pointer points to, if the verifier follows the pointer.
    pub fn followed_pointee(self, pointer: BtfId) -> Option<BtfId> {
        let mut to = self.btf.pointee(pointer)?;
        for _ in 0..MAX_DEPTH {
            match self.btf.kind(to)? {
                Kind::TypeTag if REFUSED_TAGS.contains(&self.btf.name(to)?) => return None,
                Kind::Struct | Kind::Union => return self.is_followed(to).then_some(to),
                _ => {}
            }
            to = self.btf.transparent_target(to)?;
        }
        None
    }

    /// The member to which the verifier attributes a load, and its offset: the first match, in
    /// declaration order.
    fn member_of_load(self, owner: BtfId, offset: u32, size_bytes: u32) -> Option<(Member<'a>, u32)> {
        for member in members_from(self.btf, owner, offset) {
            let start = member.byte_offset();
            if offset + size_bytes <= start {
                return None;
            }
            if let Some(width) = member.bitfield_width {
                let end = (member.bit_offset + u32::from(width)).div_ceil(8);
                if offset <= start && end <= offset + size_bytes {
                    return Some((member, start));
                }
                continue;
            }
            if offset < start {
                return None;
            }
            if offset < start.checked_add(self.btf.size_bytes(member.ty))? {
                return Some((member, start));
            }
        }
        None
    }

    /// The type of a member, or for an array the type of the element at an offset, and its offset.
    fn element_at(self, member: &Member<'_>, start: u32, offset: u32) -> Option<(BtfId, u32)> {
        let mut element = self.btf.strip(member.ty);
        for _ in 0..MAX_DEPTH {
            let Some((inner, _)) = self.btf.array(element) else { break };
            element = self.btf.strip(inner);
        }
        let size = self.btf.size_bytes(element);
        Some((element, start + (offset - start).checked_div(size)? * size))
    }

    /// Whether a type is a struct or union of the kernel itself. To the verifier, those of scripts
    /// and of modules are different types.
    fn is_followed(self, id: BtfId) -> bool {
        !self.btf.is_added(id)
            && !self.btf.is_of_module(id)
            && matches!(self.btf.kind(id), Some(Kind::Struct | Kind::Union))
    }
}

#[cfg(test)]
mod tests {
    use super::Step;
    use crate::btf::fixture::BlobBuilder;

    #[test]
    fn only_what_the_verifier_takes_for_a_number_or_a_struct_is_followed() {
        let mut blob = BlobBuilder::new();
        let (int, long) = (blob.int("int", 4, 1), blob.int("long", 8, 0));
        let inner = blob.record(4, "inner", 16, &[("a", int, 0), ("b", long, 64)]);
        let pointer = blob.pointer(inner);
        let constant = blob.add("", 10, 0, inner.0, &[]);
        let const_pointer = blob.pointer(constant);
        let user = blob.add("user", 18, 0, inner.0, &[]);
        let user_pointer = blob.pointer(user);
        let rcu = blob.add("rcu", 18, 0, inner.0, &[]);
        let rcu_pointer = blob.pointer(rcu);
        let number_pointer = blob.pointer(long);
        let forward = blob.add("elsewhere", 7, 0, 0, &[]);
        let forward_pointer = blob.pointer(forward);
        let either = blob.record(5, "", 8, &[("pointer", pointer, 0), ("number", long, 0)]);
        let other = blob.record(5, "", 8, &[("number", long, 0), ("pointer", pointer, 0)]);
        let many = blob.array(inner, 3);
        let pointers = blob.array(pointer, 2);
        let members = [
            ("n", int, 0),
            ("next", pointer, 64),
            ("constant", const_pointer, 128),
            ("user", user_pointer, 192),
            ("rcu", rcu_pointer, 256),
            ("numbers", number_pointer, 320),
            ("forward", forward_pointer, 384),
            ("", either, 448),
            ("", other, 512),
            ("many", many, 576),
            ("pointers", pointers, 960),
        ];
        let outer = blob.record(4, "outer", 136, &members);
        let bits = [blob.string("low"), int.0, 3 << 24, blob.string("high"), int.0, (5 << 24) | 3];
        let flags = blob.add("flags", 4, (1 << 31) | 2, 4, &bits);
        let tail = blob.array(int, 0);
        let open = blob.record(4, "open", 8, &[("n", long, 0), ("tail", tail, 64)]);
        let btf = blob.open();
        let (number, inner, address) = (Some(Step::Number), Some(Step::Pointer(inner)), Some(Step::Address));
        let cases = [
            (0, 4, number),
            (1, 1, number),
            // A hole, and a load across the end of a member.
            (4, 4, None),
            (0, 8, None),
            (8, 8, inner),
            // Part of a pointer.
            (8, 4, None),
            (12, 4, None),
            (16, 8, inner),
            (24, 8, address),
            (24, 4, None),
            (32, 8, inner),
            (40, 8, address),
            (48, 8, address),
            // The first member of a union decides.
            (56, 8, inner),
            (56, 4, None),
            (64, 8, number),
            (64, 4, number),
            (72, 4, number),
            (88 + 8, 8, number),
            (88 + 4, 4, None),
            (120, 8, inner),
            (128, 8, inner),
            (136, 4, None),
            (u32::MAX, 8, None),
        ];
        for (offset, size, expected) in cases {
            assert_eq!(btf.verifier().walk(outer, offset, size), expected, "{size} bytes at {offset}");
        }
        assert_eq!((btf.verifier().walk(flags, 0, 4), btf.verifier().walk(flags, 0, 1)), (number, number));
        assert_eq!((btf.verifier().walk(open, 0, 8), btf.verifier().walk(open, 8, 4)), (number, None));
        assert_eq!(btf.verifier().walk(int, 0, 4), None);
    }
}
