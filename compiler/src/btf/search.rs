//! Finds types by name.
//!
//! In: a name. Out: the first type with that name. Guarantee: a name that is not in the strings
//! section is rejected without reading any type. Otherwise types are compared by string offset, and
//! no string is read.

use super::record::Kind;
use super::{Btf, BtfId};

impl Btf {
    /// The first type of that kind and name; added types take precedence.
    pub fn find(&self, kind: Kind, name: &str) -> Option<BtfId> {
        if let Some(id) = self.added.find(kind, name) {
            return Some(id);
        }
        self.blob.find(kind, name)
    }

    /// The type that a user writes as `struct x`, `union x`, `enum x`, or as the name of a typedef
    /// or integer type.
    pub fn find_named(&self, text: &str) -> Option<BtfId> {
        let text = text.trim();
        match text.split_once(char::is_whitespace) {
            Some(("struct", name)) => self.find(Kind::Struct, name.trim_start()),
            Some(("union", name)) => self.find(Kind::Union, name.trim_start()),
            Some(("enum", name)) => {
                let name = name.trim_start();
                self.find(Kind::Enum, name).or_else(|| self.find(Kind::Enum64, name))
            }
            _ => self.find(Kind::Typedef, text).or_else(|| self.find(Kind::Int, text)),
        }
    }

    /// The first enumerator with that name in any enum, with its enum and value.
    pub fn find_enumerator(&self, name: &str) -> Option<(BtfId, i64)> {
        let value_in =
            |id| self.enumerators(id).find(|(candidate, _)| *candidate == name).map(|(_, value)| (id, value));
        if let Some(found) = self.added.ids().find_map(value_in) {
            return Some(found);
        }
        let id = self.blob.name_offsets(name).find_map(|offset| {
            self.blob.first(|record| match record.kind {
                Kind::Enum => record.entries::<2>().any(|[name, _]| name == offset),
                Kind::Enum64 => record.entries::<3>().any(|[name, ..]| name == offset),
                _ => false,
            })
        })?;
        value_in(id)
    }

    /// All kernel functions in BTF with their names, in blob order.
    pub fn functions(&self) -> impl Iterator<Item = (BtfId, &str)> {
        self.blob
            .records()
            .filter(|(_, record)| record.kind == Kind::Function)
            .filter_map(|(id, record)| Some((id, self.string(record.name_offset)?)))
    }

    /// All named types of a kind, in blob order.
    pub fn names(&self, kind: Kind) -> impl Iterator<Item = (BtfId, &str)> {
        self.blob
            .records()
            .filter(move |(_, record)| record.kind == kind && record.name_offset != 0)
            .filter_map(|(id, record)| Some((id, self.string(record.name_offset)?)))
    }
}
