//! Raw tracepoints: the kernel declares `typedef void (*btf_trace_NAME)(void *__data, ARGUMENTS)` for each.
//! A function's type has no names for its parameters; those are in the function `__traceiter_NAME`, which runs the
//! attached programs and has the same parameters.
//!
//! In: names. Out: tracepoints with their arguments. Guarantee: only typedefs of exactly this shape are taken.

use super::record::Kind;
use super::shape::Parameter;
use super::{Btf, BtfId};

const PREFIX: &str = "btf_trace_";

// Since 5.10.
const ITERATOR_PREFIX: &str = "__traceiter_";

/// A tracepoint with the arguments that the kernel passes to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawTracepoint<'a> {
    /// Its name: that of `raw_tp` and `tp_btf` programs.
    pub name: &'a str,
    /// The typedef that declares it; what a `tp_btf` program attaches to.
    pub typedef: BtfId,
    /// Arguments, in order.
    pub args: Vec<Parameter<'a>>,
}

impl Btf {
    /// All raw tracepoints, in the order of the blob; their arguments without names.
    pub fn raw_tracepoints(&self) -> impl Iterator<Item = RawTracepoint<'_>> {
        self.names(Kind::Typedef)
            .filter(|(_, name)| name.starts_with(PREFIX))
            .filter_map(|(typedef, _)| self.raw_tracepoint_at(typedef))
    }

    /// Whether there is a raw tracepoint with a name; much cheaper than its arguments, which need the table of types.
    pub fn has_raw_tracepoint(&self, name: &str) -> bool {
        self.find(Kind::Typedef, &format!("{PREFIX}{name}")).is_some()
    }

    /// The raw tracepoint with a name; its arguments with their names where the kernel has them.
    pub fn raw_tracepoint(&self, name: &str) -> Option<RawTracepoint<'_>> {
        let mut found = self.raw_tracepoint_at(self.find(Kind::Typedef, &format!("{PREFIX}{name}"))?)?;
        let iterator = self.find(Kind::Function, &format!("{ITERATOR_PREFIX}{name}"));
        if let Some(proto) = iterator.and_then(|id| self.func_proto(id)) {
            let named = proto.params.get(1..).unwrap_or_default();
            if named.iter().map(|arg| arg.ty).eq(found.args.iter().map(|arg| arg.ty)) {
                found.args = named.to_vec();
            }
        }
        Some(found)
    }

    fn raw_tracepoint_at(&self, typedef: BtfId) -> Option<RawTracepoint<'_>> {
        let name = self.name(typedef)?.strip_prefix(PREFIX)?;
        let mut args = self.func_proto(self.pointee(typedef)?)?.params;
        if args.is_empty() || self.strip(self.pointee(args.remove(0).ty)?) != BtfId::VOID {
            return None;
        }
        Some(RawTracepoint { name, typedef, args })
    }
}
