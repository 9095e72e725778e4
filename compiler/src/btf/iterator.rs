//! Iterators: the kernel declares `struct bpf_iter__NAME` for each, which is what a program sees at an object.
//!
//! In: names. Out: iterators with their fields. Guarantee: only structs of exactly this name are taken.

use super::record::Kind;
use super::{Btf, BtfId};

const PREFIX: &str = "bpf_iter__";

/// What all iterators have: not part of the object.
const COMMON: &str = "meta";

impl Btf {
    /// Whether programs can walk over all tasks. Since 6.7.
    pub fn has_task_walk(&self) -> bool {
        self.find(Kind::Function, "bpf_iter_task_new").is_some()
    }

    /// The struct that the iterator of a name hands over.
    pub fn iterator(&self, name: &str) -> Option<BtfId> {
        self.find(Kind::Struct, &format!("{PREFIX}{name}")).filter(|_| is_iterator(name))
    }

    /// All iterators, in the order of the blob.
    pub fn iterators(&self) -> impl Iterator<Item = &str> {
        self.names(Kind::Struct).filter_map(|(_, name)| name.strip_prefix(PREFIX)).filter(|name| is_iterator(name))
    }

    /// Name and type of each field that an iterator has for itself. The kernel wraps pointers in unions without a name.
    pub fn iterator_fields(&self, iterator: BtfId) -> Vec<(&str, BtfId)> {
        let inner = |ty: BtfId| self.members(ty).next().map(|member| (member.name, member.ty));
        let fields = self.members(iterator).filter_map(|member| match member.name {
            "" => inner(member.ty),
            name => Some((name, member.ty)),
        });
        fields.filter(|(name, _)| *name != COMMON).collect()
    }
}

/// Whether a name is an iterator's: `task__safe_trusted` is what the verifier knows of `task`.
fn is_iterator(name: &str) -> bool {
    !name.contains("__")
}
