//! The script's maps in an object.
//!
//! In: what `check` inferred and where `lower` placed the maps. Out: what the runtime reads, prints
//! and clears.
//! Guarantee: storage is given as `.bss` offsets or as names of BPF maps.

use serde::{Deserialize, Serialize};

use crate::results::WordName;
use crate::source::Span;
use crate::types::Type;
use crate::units::Unit;

/// A map of the script.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct UserMap {
    /// The name with its sigil: `@`, `@start`.
    pub name: String,
    /// Key type; `None` for a scalar.
    pub key: Option<Type>,
    /// Value type.
    pub value: MapValue,
    /// Unit of its values.
    pub unit: Unit,
    /// Where it is stored.
    pub storage: Storage,
    /// Its second buffer, if the map is double-buffered.
    pub alternate: Option<Alternate>,
    /// The part of the key that is the id of a thread, if the script names one (`tid`).
    pub thread: Option<usize>,
    /// First use in the script.
    pub span: Span,
}

impl UserMap {
    /// The buffer that programs write while the generation word has this value.
    pub fn place(&self, generations: u64) -> &Storage {
        let second = self.alternate.as_ref().filter(|alternate| generations & (1 << alternate.bit) != 0);
        second.map_or(&self.storage, |alternate| &alternate.storage)
    }

    /// Whether its contents are the merged contents of both buffers.
    pub fn is_both_places(&self) -> bool {
        self.alternate.as_ref().is_some_and(|alternate| alternate.keeps)
    }

    /// Whether views clear it.
    pub fn is_cleared_by_views(&self) -> bool {
        self.alternate.as_ref().is_some_and(|alternate| alternate.bit == 0)
    }

    /// Whether it contains declared states, which are printed only where the script asks for it.
    pub fn is_state(&self) -> bool {
        !self.name.starts_with('@')
    }

    /// Whether it is private to a module and therefore not printed when the run ends.
    pub fn is_private(&self) -> bool {
        self.name.contains('\'')
    }
}

/// The second buffer of a double-buffered map.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Alternate {
    /// Where the buffer is stored.
    pub storage: Storage,
    /// The bit of the generation word that is set while programs write this buffer. Bit 0 belongs
    /// to the windows of views.
    pub bit: u32,
    /// Whether a buffer keeps its contents when programs switch to the other; the map is then both
    /// buffers merged.
    pub keeps: bool,
}

/// The value type of a map.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum MapValue {
    /// A value that was assigned.
    Plain(Type),
    /// An aggregation.
    Aggregate {
        /// The aggregation.
        word: WordName,
        /// Its constants (bounds, steps).
        params: Vec<i64>,
        /// Whether the aggregated values are signed.
        signed: bool,
        /// The page layout of a value that is stored in pages.
        pages: Option<Pages>,
    },
}

impl MapValue {
    /// The page layout of its value, if the aggregation stores its values in pages.
    pub fn pages(&self) -> Option<Pages> {
        match self {
            MapValue::Aggregate { pages, .. } => *pages,
            MapValue::Plain(_) => None,
        }
    }
}

/// Bytes of the page number in a key. With 8 bytes, the kernel's hash of a thread id key would take
/// one more round.
pub const PAGE_NUMBER_BYTES: u32 = 4;

/// Layout of a large, mostly empty value: each page is a map entry whose key is the script's key,
/// padded with zeros to a multiple of 4 bytes, followed by the page number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pages {
    /// A page has `1 << sub_bits` buckets; a bucket's number shifted right by `sub_bits` is its
    /// page number.
    pub sub_bits: u8,
    /// Maximum number of pages of a key.
    pub count: u32,
    /// Bytes of one page.
    pub size_bytes: u32,
}

/// Where a map is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Storage {
    /// In `.bss`: `copies` copies (one per CPU for aggregations), `stride_bytes` apart. Each copy
    /// is a `u64` that is nonzero once the map has been written, followed by the value.
    Global {
        /// Offset of the first copy in `.bss`.
        offset_bytes: u32,
        /// Distance between two copies.
        stride_bytes: u32,
        /// Number of copies.
        copies: u32,
        /// Size of the value, which follows the `u64`.
        value_size_bytes: u32,
    },
    /// A BPF map; an entry exists once it has been written.
    Map {
        /// Its name in the object.
        map: String,
        /// Whether each CPU has its own copy of the values, to be merged by the aggregation.
        per_cpu: bool,
        /// Size of a key in bytes.
        key_size_bytes: u32,
        /// Size of a value in bytes.
        value_size_bytes: u32,
        /// Capacity.
        max_entries: u32,
        /// Whether entries are allocated on demand, not preallocated.
        on_demand: bool,
        /// Whether a full map evicts the least recently used entry.
        evicts: bool,
        /// `.bss` offset of a `u64` with the number of entries, if the programs maintain one.
        /// Whoever removes entries from user space must subtract them here.
        length_offset: Option<u32>,
    },
    /// One value per thread, freed when the thread exits. The key is the thread id.
    Threads(ThreadMap),
}

/// A map with one value per thread, and the program that reads all values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadMap {
    /// Its name in the object.
    pub map: String,
    /// The name of an iterator program over tasks. For each thread with a value it writes the bytes
    /// of the value, then a `u64` with the thread id in the lower half and 1 in the upper half.
    pub reader: String,
    /// Offset in `.bss` of a `u64`: if nonzero, the program deletes the values instead of writing
    /// them.
    pub order_offset: u32,
    /// Size of a value, a multiple of 8.
    pub value_size_bytes: u32,
}
