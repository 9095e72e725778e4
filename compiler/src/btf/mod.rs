//! Reads the kernel's type information (BTF) in place.
//!
//! In: the bytes of a BTF blob (`/sys/kernel/btf/vmlinux`). Out: types by name and id.
//! Guarantee: nothing is copied or parsed beyond what a query needs. Malformed bytes yield "not
//! found" and never cause a panic or an endless loop. Opening reads only the header. A search by
//! name is one pass that stops at the first match. The table from ids to offsets is built in one
//! pass when an id is first looked up.
//!
//! `blob` has the bytes and `record` splits them into records; `search` finds types by name;
//! `shape` reads the parts of a type; `tracepoint` reads raw tracepoints; `event_record` reads the
//! records of tracepoint events; `iterator` reads iterators; `split` joins the types of modules;
//! `walk` predicts how the kernel's verifier treats a load through a typed pointer; `language`
//! converts types to those of the probe language; `added` holds the types that a script defines
//! itself.

mod added;
mod blob;
mod declaration;
mod event_record;
#[cfg(test)]
pub(crate) mod fixture;
mod iterator;
mod language;
mod record;
mod search;
mod shape;
mod split;
#[cfg(test)]
mod test_malformed;
#[cfg(test)]
mod test_vmlinux;
mod tracepoint;
mod walk;

pub use added::{Added, NewMember};
pub use event_record::EventRecords;
pub use iterator::Iterators;
pub use language::describe_in_c;
pub use record::Kind;
pub use shape::{BitUnit, FunctionProto, IntEncoding, Member, Parameter};
pub use tracepoint::{RawTracepoint, RawTracepoints};
pub use walk::{Step, Verifier};

pub use crate::types::BtfId;
use blob::Blob;
use record::Record;

/// The longest chain of types that is followed. Real chains are shorter than ten; malformed ones
/// may be circular.
const MAX_DEPTH: u32 = 32;

/// A BTF blob, with the types of modules and of the script.
#[derive(Debug)]
pub struct Btf {
    blob: Blob,
    /// The types of the script.
    added: Added,
    /// The modules whose types follow the kernel's in the blob.
    modules: Vec<split::Module>,
}

impl Btf {
    /// Opens a blob. `None` when the header is not that of little-endian BTF or a section lies
    /// outside the bytes.
    pub fn new(bytes: Box<dyn AsRef<[u8]> + Send + Sync>) -> Option<Btf> {
        Some(Btf { blob: Blob::new(bytes)?, added: Added::default(), modules: Vec::new() })
    }

    /// The types of a blob, if any, and added ones. Added types take precedence in lookups by name.
    pub fn with(base: Option<&Btf>, added: Added) -> Btf {
        let blob = base.map_or_else(Blob::default, |base| base.blob.clone());
        let modules = base.map_or_else(Vec::new, |base| base.modules.clone());
        Btf { blob, added, modules }
    }

    /// The added types.
    pub fn added(&self) -> &Added {
        &self.added
    }

    /// Whether a type is an added one.
    pub fn is_added(&self, id: BtfId) -> bool {
        added::place(id.0).is_some()
    }

    /// The kind of a type; `None` for an id that is not in the blob.
    pub fn kind(&self, id: BtfId) -> Option<Kind> {
        if id == BtfId::VOID {
            return Some(Kind::Void);
        }
        Some(self.record(id)?.kind)
    }

    /// The name of a type; `None` when it is anonymous.
    pub fn name(&self, id: BtfId) -> Option<&str> {
        let name = self.string(self.record(id)?.name_offset)?;
        (!name.is_empty()).then_some(name)
    }

    /// The record of a type; `None` for `void`.
    fn record(&self, id: BtfId) -> Option<Record<'_>> {
        match added::place(id.0) {
            Some(place) => self.added.record(place),
            None => self.blob.record(id),
        }
    }

    /// The string at an offset of the strings section.
    fn string(&self, offset: u32) -> Option<&str> {
        match added::place(offset) {
            Some(place) => self.added.string(place),
            None => self.blob.string(offset),
        }
    }
}
