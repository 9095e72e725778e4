//! The user addresses in values that are about to be printed, for resolving them in one batch.
//!
//! In: values. Out: addresses by process.
//! Guarantee: at most a given number of addresses, each once; what is beyond is resolved when it is
//! printed.

use std::collections::{BTreeMap, BTreeSet};

use profiler_model::types::Space;
use profiler_model::value::Value;

/// Addresses by process.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expected {
    /// Those of stacks, where callers are looked up.
    pub frames: BTreeMap<u32, BTreeSet<u64>>,
    /// Those of single symbols.
    pub symbols: BTreeMap<u32, BTreeSet<u64>>,
}

impl Expected {
    /// Collects the addresses of values until there are `limit`.
    pub(super) fn of(values: &mut dyn Iterator<Item = &Value>, limit: usize) -> Expected {
        let mut expected = Expected::default();
        let mut left = limit;
        for value in values {
            if left == 0 {
                break;
            }
            expected.add(value, &mut left);
        }
        expected
    }

    fn add(&mut self, value: &Value, left: &mut usize) {
        match value {
            Value::Stack(stack) if stack.space == Space::User => {
                let frames = self.frames.entry(stack.pid).or_default();
                let call_sites = stack.call_sites();
                let new = call_sites.into_iter().filter(|address| frames.insert(*address)).count();
                *left = left.saturating_sub(new);
            }
            Value::Symbol { space: Space::User, address, pid } => {
                let is_new = self.symbols.entry(*pid).or_default().insert(*address);
                *left = left.saturating_sub(usize::from(is_new));
            }
            Value::Tuple(parts) | Value::Array(parts) => parts.iter().for_each(|part| self.add(part, left)),
            Value::Record(fields) => fields.iter().for_each(|(_, part)| self.add(part, left)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler_model::types::StackMode;
    use profiler_model::value::Stack;

    fn symbol(space: Space, address: u64) -> Value {
        Value::Symbol { space, address, pid: 7 }
    }

    #[test]
    fn all_parts_are_searched_for_user_addresses() {
        let frames = vec![10, 21, 31];
        let stack =
            Stack { space: Space::User, mode: StackMode::Perf, pid: 8, frames, interrupted: Vec::new(), end: None };
        let parts = vec![Value::Int(3), Value::Stack(stack), Value::Array(vec![symbol(Space::User, 5)])];
        let values = [Value::Tuple(parts), symbol(Space::Kernel, 6), symbol(Space::User, 5)];
        let expected = Expected::of(&mut values.iter(), 100);
        assert_eq!(expected.frames, BTreeMap::from([(8, BTreeSet::from([10, 20, 30]))]));
        assert_eq!(expected.symbols, BTreeMap::from([(7, BTreeSet::from([5]))]));
    }

    #[test]
    fn the_number_of_addresses_is_limited() {
        let values: Vec<Value> = (0..9).map(|address| symbol(Space::User, address / 2)).collect();
        let count = |limit| Expected::of(&mut values.iter(), limit).symbols.values().map(BTreeSet::len).sum::<usize>();
        assert_eq!((count(100), count(3), count(0)), (5, 3, 0));
    }
}
