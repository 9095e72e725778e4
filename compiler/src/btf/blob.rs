//! The bytes of a blob: its records by id, and its strings.
//!
//! In: bytes. Out: records and strings.
//! Guarantee: opening reads only the header. The table from ids to offsets is built in one pass
//! when an id is first looked up. A name that is not in the strings section is rejected without
//! reading any type.

use super::BtfId;
use super::record::{Header, Kind, Record, Records};
use memchr::memmem::Finder;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Every `INDEX_STRIDE`th type's offset is indexed. That is 32 KiB for a kernel; the page faults of
/// a full table cost more than the few steps from an indexed type to the next.
const INDEX_STRIDE: usize = 16;

/// The maximum number of copies of a name in the strings section that are tried.
const MAX_COPIES_OF_NAME: usize = 4;

/// A BTF blob.
pub(super) struct Blob {
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
    types: Range<usize>,
    strings: Range<usize>,
    /// Offset in the types section of every [`INDEX_STRIDE`]th type, starting with id 1.
    offsets: OnceLock<Vec<u32>>,
    /// Id (upper half) and offset of the type last found by name, so that queries about it need no
    /// table.
    latest: AtomicU64,
    /// What was found by kind and name: each search is a pass over the types, which takes a
    /// millisecond, and scripts look for the same struct many times.
    named: Mutex<BTreeMap<(Kind, String), Option<BtfId>>>,
}

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blob")
            .field("types", &self.types)
            .field("strings", &self.strings)
            .field("indexed", &self.offsets.get().is_some())
            .finish_non_exhaustive()
    }
}

impl Default for Blob {
    fn default() -> Blob {
        Blob::with_sections(Arc::new(Vec::new()), Header { types: 0..0, strings: 0..0 })
    }
}

impl Clone for Blob {
    /// Shares the bytes.
    fn clone(&self) -> Blob {
        let header = Header { types: self.types.clone(), strings: self.strings.clone() };
        Blob::with_sections(Arc::clone(&self.bytes), header)
    }
}

impl Blob {
    /// Opens a blob. `None` when the header is not that of little-endian BTF or a section lies
    /// outside the bytes.
    pub(super) fn new(bytes: Box<dyn AsRef<[u8]> + Send + Sync>) -> Option<Blob> {
        let header = Header::parse((*bytes).as_ref())?;
        Some(Blob::with_sections(Arc::from(bytes), header))
    }

    /// A blob of the two sections.
    pub(super) fn of(mut types: Vec<u8>, mut strings: Vec<u8>) -> Blob {
        let header = Header { types: 0..types.len(), strings: types.len()..types.len() + strings.len() };
        types.append(&mut strings);
        Blob::with_sections(Arc::new(types), header)
    }

    fn with_sections(bytes: Arc<dyn AsRef<[u8]> + Send + Sync>, header: Header) -> Blob {
        let Header { types, strings } = header;
        let (offsets, latest, named) = (OnceLock::new(), AtomicU64::new(0), Mutex::default());
        Blob { bytes, types, strings, offsets, latest, named }
    }

    /// The record of a type; `None` for `void`.
    pub(super) fn record(&self, id: BtfId) -> Option<Record<'_>> {
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

    /// The offset of every [`INDEX_STRIDE`]th type.
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

    /// All records in id order.
    pub(super) fn records(&self) -> Records<'_> {
        Records::new(self.types())
    }

    pub(super) fn types(&self) -> &[u8] {
        (*self.bytes).as_ref().get(self.types.clone()).unwrap_or_default()
    }

    pub(super) fn strings(&self) -> &[u8] {
        (*self.bytes).as_ref().get(self.strings.clone()).unwrap_or_default()
    }

    /// The string at an offset of the strings section.
    pub(super) fn string(&self, offset: u32) -> Option<&str> {
        let rest = self.strings().get(offset as usize..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    }

    /// The first type of that kind and name.
    pub(super) fn find(&self, kind: Kind, name: &str) -> Option<BtfId> {
        let key = (kind, name.to_owned());
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        *named.entry(key).or_insert_with(|| {
            let mut offsets = self.name_offsets(name);
            offsets.find_map(|offset| self.first(|record| record.kind == kind && record.name_offset == offset))
        })
    }

    /// The first type that satisfies a predicate; remembered, because the next queries are usually
    /// about it.
    pub(super) fn first(&self, holds: impl Fn(&Record<'_>) -> bool) -> Option<BtfId> {
        let mut records = self.records();
        loop {
            let at = records.position();
            let (id, record) = records.next()?;
            if holds(&record) {
                self.remember(id, at);
                return Some(id);
            }
        }
    }

    /// The offsets of a name in the strings section. There is one in a kernel's blob, which
    /// contains each string once.
    pub(super) fn name_offsets(&self, name: &str) -> impl Iterator<Item = u32> + use<'_> {
        let strings = if name.is_empty() || name.contains('\0') { &[] } else { self.strings() };
        let needle = Finder::new(&format!("\0{name}\0")).into_owned();
        let mut next = 0;
        let positions = std::iter::from_fn(move || {
            next += needle.find(strings.get(next..)?)? + 1;
            Some(next as u32)
        });
        // More copies than this are malformed, and each costs a pass over the types.
        positions.take(MAX_COPIES_OF_NAME)
    }
}
