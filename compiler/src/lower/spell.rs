//! Types as the runtime needs them: without BTF.
//!
//! In: types of events, keys and values. Out: the same types with struct members spelled out, and
//! the names of their enums.
//! Guarantee: a spelled-out type has the layout of the original.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::btf::{Btf, BtfId};
use crate::target::Target;
use crate::types::{Member, Members, Space, Type};

/// Maximum nesting of spelled-out structs. Real ones stay below twenty; malformed ones contain
/// themselves.
const MAX_DEPTH: u32 = 32;

/// Maximum number of spelled-out members of one type, including those of its parts.
const MAX_MEMBERS: usize = 20_000;

/// Spells out types and collects the enums that occur in them.
#[derive(Debug)]
pub(super) struct Speller<'a> {
    target: &'a dyn Target,
    pub enums: BTreeMap<BtfId, Vec<(i64, String)>>,
    members: usize,
}

/// A struct within the one whose members are collected.
#[derive(Debug, Clone, Copy)]
struct Part {
    id: BtfId,
    space: Space,
    /// Its offset in the whole.
    start_bytes: u32,
}

impl<'a> Speller<'a> {
    /// A speller without enums yet.
    pub(super) fn new(target: &'a dyn Target) -> Speller<'a> {
        Speller { target, enums: BTreeMap::new(), members: 0 }
    }

    /// The type with all information that is only in BTF spelled out.
    pub(super) fn spell(&mut self, ty: &Type) -> Type {
        self.members = 0;
        self.spell_within(ty, MAX_DEPTH)
    }

    fn spell_within(&mut self, ty: &Type, depth: u32) -> Type {
        let Some(depth) = depth.checked_sub(1) else { return Type::Unknown };
        match ty {
            Type::Struct { id, space } => self.members(*id, *space, depth),
            Type::Enum { id, .. } => {
                self.name_values(*id);
                ty.clone()
            }
            // The target of a pointer is not printed.
            Type::Pointer { space, .. } => Type::Pointer { to: Box::new(Type::None), space: *space },
            Type::Array { of, len } => Type::Array { of: Box::new(self.spell_within(of, depth)), len: *len },
            Type::Tuple(parts) => Type::Tuple(parts.iter().map(|part| self.spell_within(part, depth)).collect()),
            Type::Record(parts) => {
                Type::Record(parts.iter().map(|(name, part)| (name.clone(), self.spell_within(part, depth))).collect())
            }
            other => other.clone(),
        }
    }

    fn members(&mut self, id: BtfId, space: Space, depth: u32) -> Type {
        let Some(btf) = self.target.btf() else { return Type::Unknown };
        let mut list = Vec::new();
        self.collect(btf, Part { id, space, start_bytes: 0 }, depth, &mut list);
        Type::Members(Arc::new(Members { size_bytes: btf.size_bytes(id), list }))
    }

    /// Collects the members of a struct at an offset; members of anonymous parts count as its own.
    fn collect(&mut self, btf: &Btf, part: Part, depth: u32, list: &mut Vec<Member>) {
        let Part { id, space, start_bytes } = part;
        let Some(depth) = depth.checked_sub(1) else { return };
        for member in btf.members(id) {
            self.members += 1;
            if self.members > MAX_MEMBERS {
                return;
            }
            let mut ty = btf.to_type(member.ty);
            if member.name.is_empty() {
                if let Type::Struct { id, .. } = ty {
                    let part = Part { id, space, start_bytes: start_bytes + member.byte_offset() };
                    self.collect(btf, part, depth, list);
                }
                continue;
            }
            if let Type::Struct { space: its, .. } = &mut ty {
                *its = space;
            }
            let unit = member.bit_unit(btf.size_bytes(member.ty));
            let offset_bytes = start_bytes + unit.map_or(member.byte_offset(), |unit| unit.offset_bytes);
            let bits = unit.map(|unit| (unit.first, unit.width));
            list.push(Member { name: member.name.to_string(), ty: self.spell_within(&ty, depth), offset_bytes, bits });
        }
    }

    fn name_values(&mut self, id: BtfId) {
        let Some(btf) = self.target.btf().filter(|_| !self.enums.contains_key(&id)) else { return };
        let names = btf.enumerators(id).map(|(name, value)| (value, name.to_string())).collect();
        self.enums.insert(id, names);
    }
}
