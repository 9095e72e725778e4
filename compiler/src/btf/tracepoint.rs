//! Raw tracepoints: the kernel declares `typedef void (*btf_trace_NAME)(void *__data, ARGUMENTS)`.
//! A function type has no parameter names. Those are in the function `__traceiter_NAME`, which runs
//! the attached programs and has the same parameters.
//!
//! In: names. Out: tracepoints with their arguments. Guarantee: only typedefs of exactly this form
//! are used.

use std::collections::HashMap;

use super::record::Kind;
use super::shape::Parameter;
use super::{Btf, BtfId};

const PREFIX: &str = "btf_trace_";

// Since 5.10.
const ITERATOR_PREFIX: &str = "__traceiter_";

/// A raw tracepoint with the arguments that the kernel passes to programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawTracepoint<'a> {
    /// The name, as used by `raw_tp` and `tp_btf` programs.
    pub name: &'a str,
    /// The typedef that declares it, to which a `tp_btf` program attaches.
    pub typedef: BtfId,
    /// The arguments, in order.
    pub args: Vec<Parameter<'a>>,
}

impl Btf {
    /// The raw tracepoints of the kernel.
    pub fn raw_tracepoints(&self) -> RawTracepoints<'_> {
        RawTracepoints { btf: self }
    }
}

/// The kernel's raw tracepoints.
#[derive(Clone, Copy)]
pub struct RawTracepoints<'a> {
    btf: &'a Btf,
}

impl<'a> RawTracepoints<'a> {
    /// All raw tracepoints, in blob order, without argument names.
    pub fn all(self) -> impl Iterator<Item = RawTracepoint<'a>> + use<'a> {
        self.btf
            .names(Kind::Typedef)
            .filter(|(_, name)| name.starts_with(PREFIX))
            .filter_map(move |(typedef, _)| self.declared_by(typedef))
    }

    /// The names of all raw tracepoints, in blob order. This is much cheaper than reading their
    /// arguments.
    pub fn names(self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.btf.names(Kind::Typedef).filter_map(|(_, name)| name.strip_prefix(PREFIX))
    }

    /// Whether a raw tracepoint with that name exists. This is much cheaper than reading its
    /// arguments, which needs the table of types.
    pub fn contains(self, name: &str) -> bool {
        self.btf.find(Kind::Typedef, &format!("{PREFIX}{name}")).is_some()
    }

    /// The raw tracepoint with that name, with argument names if the kernel has them.
    pub fn find(self, name: &str) -> Option<RawTracepoint<'a>> {
        let found = self.declared_by(self.btf.find(Kind::Typedef, &format!("{PREFIX}{name}"))?)?;
        Some(self.with_argument_names(found, self.btf.find(Kind::Function, &format!("{ITERATOR_PREFIX}{name}"))))
    }

    /// The raw tracepoints whose names are `wanted`, as [`RawTracepoints::find`] returns each. For
    /// many tracepoints this takes two passes over the types instead of two searches for each.
    pub fn named(self, wanted: impl Fn(&str) -> bool) -> Vec<RawTracepoint<'a>> {
        let iterators: HashMap<&str, BtfId> =
            self.btf.functions().filter_map(|(id, name)| Some((name.strip_prefix(ITERATOR_PREFIX)?, id))).collect();
        let found = self.all().filter(|tracepoint| wanted(tracepoint.name));
        let named = found.map(|tracepoint| {
            let iterator = iterators.get(tracepoint.name).copied();
            self.with_argument_names(tracepoint, iterator)
        });
        named.collect()
    }

    /// Takes the argument names from the `__traceiter_` function if its parameters have the same
    /// types.
    fn with_argument_names(self, mut found: RawTracepoint<'a>, iterator: Option<BtfId>) -> RawTracepoint<'a> {
        if let Some(proto) = iterator.and_then(|id| self.btf.func_proto(id)) {
            let named = proto.params.get(1..).unwrap_or_default();
            if named.iter().map(|arg| arg.ty).eq(found.args.iter().map(|arg| arg.ty)) {
                found.args = named.to_vec();
            }
        }
        found
    }

    fn declared_by(self, typedef: BtfId) -> Option<RawTracepoint<'a>> {
        let name = self.btf.name(typedef)?.strip_prefix(PREFIX)?;
        let mut args = self.btf.func_proto(self.btf.pointee(typedef)?)?.params;
        if args.is_empty() || self.btf.strip(self.btf.pointee(args.remove(0).ty)?) != BtfId::VOID {
            return None;
        }
        Some(RawTracepoint { name, typedef, args })
    }
}
