//! What values refer to: stacks, probe names, strings, enumerators.
//!
//! In: the object and its stack tables in the kernel. Out: [`Lookup`] for decoding.
//! Guarantee: an id that is not in its table is `None`, never another's frames.

use std::cell::Cell;
use std::fmt;

use profiler_compiler::btf::BtfId;
use profiler_compiler::decode::Lookup;
use profiler_compiler::object::{IN_COLLISION_TABLE, Object};
use profiler_compiler::statistics::{Number, Statistic};
use profiler_compiler::types::StackType;

use crate::cgroups;
use crate::load::Loaded;
use crate::maps;

/// The tables of a running object.
pub struct Tables<'a> {
    /// What was compiled.
    pub object: &'a Object,
    /// Where its maps are.
    pub loaded: &'a Loaded,
    /// Strings so far that were longer than their room.
    pub cut_strings: Cell<u64>,
}

impl Tables<'_> {
    /// Into which place programs that start now put what they find.
    pub fn generation(&self) -> u64 {
        let offset = self.object.generation_offset;
        offset.and_then(|offset| self.loaded.globals().bss_u64(offset)).unwrap_or(0)
    }
}

impl Lookup for Tables<'_> {
    fn stack(&self, ty: StackType, id: i64) -> Option<Vec<u64>> {
        let table = self.object.stack_tables.iter().find(|table| table.limit == ty.limit)?;
        let (map, id) =
            if id < IN_COLLISION_TABLE { (&table.map, id) } else { (&table.collisions, id - IN_COLLISION_TABLE) };
        let key = u32::try_from(id).ok()?.to_ne_bytes();
        Some(frames(&self.loaded.map(map)?.lookup(&key).ok()??, ty.limit))
    }

    fn probe_name(&self, index: u64) -> Option<&str> {
        self.object.probe_names.get(usize::try_from(index).ok()?).map(String::as_str)
    }

    fn string(&self, index: u64) -> Option<&str> {
        self.object.strings.get(usize::try_from(index).ok()?).map(String::as_str)
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
        let map = self.object.maps.get(map)?;
        let snapshot = match &map.key {
            Some(_) => maps::snapshot_entry(map, self.generation(), key, self.loaded, self),
            None => maps::snapshot_or_zero(map, self.generation(), self.loaded, self),
        };
        snapshot.ok()?.entries.first()?.1.statistic(&statistic)
    }

    fn enumerator(&self, id: BtfId, number: i64) -> Option<String> {
        let names = self.object.enums.get(&id)?;
        names.iter().find(|(value, _)| *value == number).map(|(_, name)| name.clone())
    }
}

/// The addresses of an entry: those before the first zero.
fn frames(bytes: &[u8], limit: u8) -> Vec<u64> {
    let words = bytes.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_ne_bytes));
    words.take_while(|address| *address != 0).take(usize::from(limit)).collect()
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
    fn frames_end_at_zero_or_at_the_limit() {
        let bytes: Vec<u8> = [5u64, 6, 7, 0, 9].iter().flat_map(|n| n.to_ne_bytes()).collect();
        assert_eq!(frames(&bytes, 127), [5, 6, 7]);
        assert_eq!(frames(&bytes, 2), [5, 6]);
        assert_eq!(frames(&bytes[..12], 127), [5]);
        assert_eq!(frames(&[], 127), [0; 0]);
    }
}
