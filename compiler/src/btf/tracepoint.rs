//! Raw tracepoints: the kernel declares `typedef void (*btf_trace_NAME)(void *__data, ARGUMENTS)` for each.
//!
//! In: names. Out: tracepoints with their arguments. Guarantee: only typedefs of exactly this shape are taken.

use super::record::Kind;
use super::shape::Parameter;
use super::{Btf, BtfId};

const PREFIX: &str = "btf_trace_";

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
    /// All raw tracepoints, in the order of the blob.
    pub fn raw_tracepoints(&self) -> impl Iterator<Item = RawTracepoint<'_>> {
        self.names(Kind::Typedef)
            .filter(|(_, name)| name.starts_with(PREFIX))
            .filter_map(|(typedef, _)| self.raw_tracepoint_at(typedef))
    }

    /// The raw tracepoint with a name.
    pub fn raw_tracepoint(&self, name: &str) -> Option<RawTracepoint<'_>> {
        self.raw_tracepoint_at(self.find(Kind::Typedef, &format!("{PREFIX}{name}"))?)
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
