//! The kernel's type information, read in place.
//!
//! In: the bytes of a BTF blob (`/sys/kernel/btf/vmlinux`). Out: types by name and number.
//! Guarantee: nothing is copied or parsed beyond what a question needs; malformed bytes answer "not found" and never panic or
//! loop. Opening reads the header only; a search by name is one pass that stops at the hit; the table from numbers to
//! places is built in one pass when a number is first looked up.
//!
//! `record` cuts the blob into records, `search` finds by name, `shape` reads what a type consists of, `tracepoint` the
//! raw tracepoints, `iterator` the iterators, `split` joins the types of modules, `language` says what a type is in the probe language, `added` holds the types that a
//! script defines itself.

mod added;
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

pub use added::{Added, NewMember};
pub use record::Kind;
pub use shape::{BitUnit, FunctionProto, IntInfo, Member, Parameter};
pub use tracepoint::RawTracepoint;

use record::{Header, Record, Records};
use std::ops::Range;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest chain of types that is followed: real ones are below ten, malformed ones may be circular.
const MAX_DEPTH: u32 = 32;

/// One in so many types is in the table of offsets: 32 KiB for a kernel, where the page faults of a full table cost more than
/// the few steps from one entry to the next type.
const INDEX_STRIDE: usize = 16;

/// The number of a type in a BTF blob. 0 is `void`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BtfId(pub u32);

impl BtfId {
    /// `void`.
    pub const VOID: BtfId = BtfId(0);
}

/// A BTF blob.
pub struct Btf {
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
    types: Range<usize>,
    strings: Range<usize>,
    /// Offset in the types section of every [`INDEX_STRIDE`]th type, from number 1 on.
    offsets: OnceLock<Vec<u32>>,
    /// Number (upper half) and offset of the type that was found by name last: questions about it need no table.
    latest: AtomicU64,
    /// Types beside those of the blob.
    added: Added,
    /// Whose types follow the kernel's in the blob.
    modules: Vec<split::Module>,
}

impl std::fmt::Debug for Btf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Btf")
            .field("types", &self.types)
            .field("strings", &self.strings)
            .field("indexed", &self.offsets.get().is_some())
            .finish_non_exhaustive()
    }
}

impl Btf {
    /// Opens a blob; `None` when the header is not that of little-endian BTF or its sections lie outside of the bytes.
    pub fn new(bytes: Box<dyn AsRef<[u8]> + Send + Sync>) -> Option<Btf> {
        let Header { types, strings } = Header::parse((*bytes).as_ref())?;
        let (offsets, latest, added) = (OnceLock::new(), AtomicU64::new(0), Added::default());
        Some(Btf { bytes: Arc::from(bytes), types, strings, offsets, latest, added, modules: Vec::new() })
    }

    /// The types of a blob (or of none) and others beside them; they come first where a name is looked up.
    pub fn with(base: Option<&Btf>, added: Added) -> Btf {
        let (bytes, types, strings) = match base {
            Some(base) => (Arc::clone(&base.bytes), base.types.clone(), base.strings.clone()),
            None => (Arc::new(Vec::new()) as Arc<dyn AsRef<[u8]> + Send + Sync>, 0..0, 0..0),
        };
        let modules = base.map_or_else(Vec::new, |base| base.modules.clone());
        Btf { bytes, types, strings, offsets: OnceLock::new(), latest: AtomicU64::new(0), added, modules }
    }

    /// Whether a type is beside those of the blob.
    pub fn is_added(&self, id: BtfId) -> bool {
        added::place(id.0).is_some()
    }

    /// The kind of a type; `None` for a number that is not in the blob.
    pub fn kind(&self, id: BtfId) -> Option<Kind> {
        if id == BtfId::VOID {
            return Some(Kind::Void);
        }
        Some(self.record(id)?.kind)
    }

    /// The name of a type; `None` when it has none.
    pub fn name(&self, id: BtfId) -> Option<&str> {
        let name = self.string(self.record(id)?.name_offset)?;
        (!name.is_empty()).then_some(name)
    }

    /// The record of a type; `void` has none.
    fn record(&self, id: BtfId) -> Option<Record<'_>> {
        if let Some(place) = added::place(id.0) {
            return self.added.record(place);
        }
        let index = (id.0 as usize).checked_sub(1)?;
        let latest = self.latest.load(Ordering::Relaxed);
        if latest >> 32 == u64::from(id.0) {
            return Record::parse(self.types(), latest as u32 as usize).map(|(record, _)| record);
        }
        let mut at = *self.offsets.get_or_init(|| self.index()).get(index / INDEX_STRIDE)? as usize;
        for _ in 0..index % INDEX_STRIDE {
            (_, at) = Record::parse(self.types(), at)?;
        }
        Record::parse(self.types(), at).map(|(record, _)| record)
    }

    fn remember(&self, id: BtfId, offset: usize) {
        self.latest.store((u64::from(id.0) << 32) | offset as u64, Ordering::Relaxed);
    }

    /// Where every [`INDEX_STRIDE`]th type starts.
    fn index(&self) -> Vec<u32> {
        let types = self.types();
        let mut offsets = Vec::new();
        let (mut at, mut count) = (0, 0_usize);
        while let Some((_, next)) = Record::parse(types, at) {
            if count.is_multiple_of(INDEX_STRIDE) {
                offsets.push(at as u32);
            }
            count += 1;
            at = next;
        }
        offsets
    }

    /// All records in the order of their numbers.
    fn records(&self) -> Records<'_> {
        Records::new(self.types())
    }

    fn types(&self) -> &[u8] {
        (*self.bytes).as_ref().get(self.types.clone()).unwrap_or_default()
    }

    fn strings(&self) -> &[u8] {
        (*self.bytes).as_ref().get(self.strings.clone()).unwrap_or_default()
    }

    /// The string at an offset of the strings section.
    fn string(&self, offset: u32) -> Option<&str> {
        if let Some(place) = added::place(offset) {
            return self.added.string(place);
        }
        let rest = self.strings().get(offset as usize..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    }
}
