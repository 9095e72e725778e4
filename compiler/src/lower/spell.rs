//! Types as the runtime needs them: without BTF.
//!
//! In: types of events, keys and values. Out: the same with the members of structs spelled out, and the names of their enums.
//! Guarantee: a spelled type has the layout of the original.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::btf::{Btf, BtfId};
use crate::target::Target;
use crate::types::{Member, Members, Space, Type};

/// Structs in structs that are spelled; real ones are below twenty, malformed ones contain themselves.
const MAX_DEPTH: u32 = 32;

/// Members of one type that are spelled, those of its parts counted.
const MAX_MEMBERS: usize = 20_000;

/// Spells types and collects the enums that occur in them.
#[derive(Debug)]
pub(super) struct Speller<'a> {
    target: &'a dyn Target,
    pub enums: BTreeMap<BtfId, Vec<(i64, String)>>,
    members: usize,
}

impl<'a> Speller<'a> {
    pub fn new(target: &'a dyn Target) -> Speller<'a> {
        Speller { target, enums: BTreeMap::new(), members: 0 }
    }

    /// The type without anything that only BTF could tell.
    pub fn spell(&mut self, ty: &Type) -> Type {
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
            // What is behind a pointer is not printed.
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
        self.collect(btf, id, space, 0, depth, &mut list);
        Type::Members(Arc::new(Members { size_bytes: btf.size_bytes(id), list }))
    }

    /// The members of a struct that begins at an offset; those of anonymous parts are its own.
    fn collect(&mut self, btf: &Btf, id: BtfId, space: Space, start_bytes: u32, depth: u32, list: &mut Vec<Member>) {
        let Some(depth) = depth.checked_sub(1) else { return };
        for member in btf.members(id) {
            self.members += 1;
            if self.members > MAX_MEMBERS {
                return;
            }
            let mut ty = btf.to_type(member.ty);
            if member.name.is_empty() {
                if let Type::Struct { id, .. } = ty {
                    self.collect(btf, id, space, start_bytes + member.byte_offset(), depth, list);
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
