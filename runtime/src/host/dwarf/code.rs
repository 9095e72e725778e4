//! Which functions an instruction belongs to.
//!
//! In: addresses in a unit. Out: the function that contains each, and the inlined ones in it.

use std::collections::{BTreeMap, BTreeSet};

use gimli::constants;

use super::entries::{Entries, Position};

/// Limit of addresses.
const MAX_ADDRESSES: usize = 20_000;

/// Limit of inlined functions within each other.
const MAX_DEPTH: usize = 200;

/// A function, or an inlined copy of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scope {
    pub at: Position,
    /// File and line of the call that was inlined.
    pub call: Option<(u64, u64)>,
}

/// The functions of a unit that contain these addresses, each within those before it.
pub(super) fn of_addresses(
    entries: &Entries<'_, '_>,
    unit_start: usize,
    addresses: &BTreeSet<u64>,
) -> BTreeMap<u64, Vec<Scope>> {
    let mut found: BTreeMap<u64, Vec<Scope>> = BTreeMap::new();
    if addresses.len() > MAX_ADDRESSES {
        return found;
    }
    // Entries are visited from the outer ones to the inner ones.
    entries.visit(unit_start, |unit, entry, at| {
        let is_inlined = entry.tag() == constants::DW_TAG_inlined_subroutine;
        if !is_inlined && entry.tag() != constants::DW_TAG_subprogram {
            return;
        }
        let number = |name| entry.attr_value(name)?.udata_value();
        let file = entry.attr_value(constants::DW_AT_call_file).and_then(|value| match value {
            gimli::AttributeValue::FileIndex(index) => Some(index),
            other => other.udata_value(),
        });
        let call = file.zip(number(constants::DW_AT_call_line)).filter(|_| is_inlined);
        for (start, end) in entries.ranges(unit, entry) {
            if start >= end {
                continue;
            }
            for address in addresses.range(start..end) {
                if entries.step().is_none() {
                    return;
                }
                let scopes = found.entry(*address).or_default();
                if !is_inlined {
                    scopes.clear();
                }
                if scopes.len() < MAX_DEPTH && (!is_inlined || !scopes.is_empty()) {
                    scopes.push(Scope { at, call });
                }
            }
        }
    });
    found
}

/// The functions that contain an address, in whatever unit.
pub(super) fn at_address(entries: &Entries<'_, '_>, address: u64) -> Vec<Scope> {
    let addresses = BTreeSet::from([address]);
    let scopes = |unit| of_addresses(entries, unit, &addresses).remove(&address);
    entries.units_with(address).into_iter().find_map(scopes).unwrap_or_default()
}
