//! Tables that values refer to: stacks, probe names, strings, enumerators.
//!
//! In: the object and its stack tables in the kernel. Out: [`Lookup`] for decoding.
//! Guarantee: an id that is not in its table yields `None`, never another stack's frames.

use std::cell::Cell;
use std::fmt;
use std::io;

use profiler_model::decode::Lookup;
use profiler_model::object::{IN_OVERFLOW, Object};
use profiler_model::output::MapSnapshot;
use profiler_model::results::Vocabulary;
use profiler_model::statistics::{Number, Statistic};
use profiler_model::types::BtfId;
use profiler_model::types::StackType;

use crate::cgroups;
use crate::load::Loaded;
use crate::maps;
use crate::turns::{Held, Turns};

/// The tables of a running object.
pub(crate) struct Tables<'a> {
    /// The compiled object.
    pub object: &'a Object,
    /// The words that it refers to.
    pub vocabulary: &'a dyn Vocabulary,
    /// Its loaded maps.
    pub loaded: &'a Loaded,
    /// Number of strings so far that exceeded their capacity.
    pub cut_strings: Cell<u64>,
    /// Windows that have ended and are being printed.
    pub turns: Turns,
}

impl Tables<'_> {
    /// The generation word, which selects the buffers that programs starting now write to.
    pub(crate) fn generation(&self) -> u64 {
        let offset = self.object.generation_offset;
        offset.and_then(|offset| self.loaded.globals().bss_u64(offset)).unwrap_or(0)
    }

    /// The contents of a map to print now: those of the window that has ended, or of the present
    /// one.
    pub(crate) fn printed(&self, map: usize) -> io::Result<MapSnapshot> {
        let of = self.object.maps.get(map).ok_or(io::ErrorKind::NotFound)?;
        match self.turns.held(map) {
            Some(Held::Nothing) => Ok(maps::empty_or_zero(of, self)),
            Some(Held::Total(contents)) => Ok(maps::or_zero(of, maps::snapshot_of(of, &contents, self), self)),
            Some(Held::Place(generations)) => maps::snapshot_or_zero(of, generations, self.loaded, self),
            None => maps::snapshot_or_zero(of, self.generation(), self.loaded, self),
        }
    }

    /// As `printed`, for one entry.
    pub(crate) fn printed_entry(&self, map: usize, key: &[u8]) -> io::Result<MapSnapshot> {
        let of = self.object.maps.get(map).ok_or(io::ErrorKind::NotFound)?;
        match self.turns.held(map) {
            Some(Held::Nothing) => Ok(maps::empty(of, self)),
            Some(Held::Total(contents)) => Ok(maps::entry_of(of, &contents, key, self)),
            Some(Held::Place(generations)) => maps::snapshot_entry(of, generations, key, self.loaded, self),
            None => maps::snapshot_entry(of, self.generation(), key, self.loaded, self),
        }
    }
}

impl Lookup for Tables<'_> {
    fn stack(&self, ty: StackType, id: i64) -> Option<Vec<u64>> {
        let table = self.object.stack_tables.iter().find(|table| table.limit == ty.limit)?;
        let (map, key) = if id < IN_OVERFLOW {
            (table.map.as_ref()?, u32::try_from(id).ok()?.to_ne_bytes().to_vec())
        } else {
            (&table.overflow, id.to_ne_bytes().to_vec())
        };
        Some(frames(&self.loaded.map(map)?.lookup(&key).ok()??, ty.limit))
    }

    fn probe_name(&self, index: u64) -> Option<&str> {
        self.object.probe_names.get(usize::try_from(index).ok()?).map(String::as_str)
    }

    fn string(&self, index: u64) -> Option<&str> {
        self.object.strings.get(usize::try_from(index).ok()?).map(String::as_str)
    }

    fn vocabulary(&self) -> &dyn Vocabulary {
        self.vocabulary
    }

    fn truncation_trailer(&self, capacity_bytes: u32) -> &str {
        self.cut_strings.set(self.cut_strings.get() + 1);
        let config = &self.object.config;
        if capacity_bytes == config.max_strlen { &config.str_trunc_trailer } else { "" }
    }

    fn cgroup_path(&self, id: u64, hierarchies: &str) -> String {
        cgroups::path(id, hierarchies)
    }

    fn statistic(&self, map: usize, key: &[u8], statistic: Statistic) -> Option<Number> {
        let snapshot = match &self.object.maps.get(map)?.key {
            Some(_) => self.printed_entry(map, key),
            None => self.printed(map),
        };
        snapshot.ok()?.entries.first()?.1.statistic(&statistic)
    }

    fn enumerator(&self, id: BtfId, number: i64) -> Option<String> {
        let names = self.object.enums.get(&id)?;
        names.iter().find(|(value, _)| *value == number).map(|(_, name)| name.clone())
    }
}

/// The addresses of a stack entry, without the zeros after them.
fn frames(bytes: &[u8], limit: u8) -> Vec<u64> {
    let words = bytes.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_ne_bytes));
    let mut frames: Vec<u64> = words.take(usize::from(limit)).collect();
    while frames.last() == Some(&0) {
        frames.pop();
    }
    frames
}

impl fmt::Debug for Tables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_end_at_the_last_number_or_at_the_limit() {
        let bytes: Vec<u8> = [5u64, 6, 0, 7, 0, 0].iter().flat_map(|n| n.to_ne_bytes()).collect();
        assert_eq!(frames(&bytes, 127), [5, 6, 0, 7]);
        assert_eq!(frames(&bytes, 2), [5, 6]);
        assert_eq!(frames(&bytes[..12], 127), [5]);
        assert_eq!(frames(&[], 127), [0; 0]);
    }
}
