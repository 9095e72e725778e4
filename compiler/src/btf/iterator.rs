//! BPF iterators; the kernel declares the context of each as `struct bpf_iter__NAME`.
//!
//! In: names. Out: iterators with their fields. Guarantee: only structs with exactly this name
//! pattern are used.

use super::record::Kind;
use super::shape::Member;
use super::{Btf, BtfId};

const PREFIX: &str = "bpf_iter__";

/// The field that all iterators have; it is not part of the object.
const COMMON: &str = "meta";

impl Btf {
    /// Whether programs can iterate over all tasks with kfuncs. Since 6.7.
    pub fn has_task_walk(&self) -> bool {
        self.find(Kind::Function, "bpf_iter_task_new").is_some()
    }

    /// The BPF iterators of the kernel.
    pub fn iterators(&self) -> Iterators<'_> {
        Iterators { btf: self }
    }
}

/// The kernel's BPF iterators.
#[derive(Clone, Copy)]
pub struct Iterators<'a> {
    btf: &'a Btf,
}

impl<'a> Iterators<'a> {
    /// The context struct of an iterator.
    pub fn find(self, name: &str) -> Option<BtfId> {
        self.btf.find(Kind::Struct, &format!("{PREFIX}{name}")).filter(|_| is_iterator(name))
    }

    /// The names of all iterators, in blob order.
    pub fn names(self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.btf.names(Kind::Struct).filter_map(|(_, name)| name.strip_prefix(PREFIX)).filter(|name| is_iterator(name))
    }

    /// Name and type of each field except the common one. The kernel wraps pointers in anonymous
    /// unions.
    pub fn fields(self, iterator: BtfId) -> Vec<(&'a str, BtfId)> {
        let inner = |ty: BtfId| self.btf.members(ty).next().map(|member| (member.name, member.ty));
        let fields = self.btf.members(iterator).filter_map(|member| match member.name {
            "" => inner(member.ty),
            name => Some((name, member.ty)),
        });
        fields.filter(|(name, _)| *name != COMMON).collect()
    }

    /// The 8-byte words of an iterator's context that point to structs: the index of each word and
    /// the struct it points to.
    pub fn pointers(self, iterator: BtfId) -> Vec<(u32, BtfId)> {
        let pointer = |member: Member<'_>| {
            let wrapped = || self.btf.members(member.ty).next().map(|inner| inner.ty);
            let ty = if member.name.is_empty() { wrapped()? } else { member.ty };
            let word = member.byte_offset() / 8;
            (word > 0).then_some((word, self.btf.verifier().followed_pointee(ty)?))
        };
        self.btf.members(iterator).filter_map(pointer).collect()
    }
}

/// Whether a name is an iterator's; `task__safe_trusted` is a type that only the verifier uses.
fn is_iterator(name: &str) -> bool {
    !name.contains("__")
}
