//! Samples by the first part of their key: of a thread, if that is what the script counts by.
//!
//! In: samples. Out: [`Group`]s with their rows.
//! Guarantee: every sample is in one group. The frames of a row include the other parts of the key,
//! and there is at least one.

use std::collections::BTreeMap;

use super::samples::{Frame, Kind, Samples, UnitName};

/// The frame of a stack that the kernel could not take.
const NO_STACK: &str = "[no stack]";

/// Samples of one map with the same first part of the key and the same unit.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub name: String,
    pub rows: Vec<(Vec<Frame>, u64)>,
}

/// The groups in the order of their maps and keys, with their units.
pub(super) fn groups(samples: &Samples) -> Vec<(UnitName, Group)> {
    let mut groups: BTreeMap<(usize, Option<&str>, UnitName), Group> = BTreeMap::new();
    for (site, number) in &samples.rows {
        let map = samples.maps.get(site.map).map_or("", String::as_str);
        let first = site.labels.first().map(String::as_str);
        let group = groups.entry((site.map, first, site.unit)).or_default();
        if group.rows.is_empty() {
            group.name = match first {
                Some(first) if samples.maps.len() > 1 => format!("{map} {first}"),
                Some(first) => first.to_owned(),
                None => map.to_owned(),
            };
        }
        let mut frames: Vec<Frame> = site.labels.iter().skip(1).map(|label| bare(label)).collect();
        frames.extend(samples.stack(site).cloned());
        if frames.is_empty() {
            frames.push(bare(NO_STACK));
        }
        group.rows.push((frames, *number));
    }
    groups.into_iter().map(|((.., unit), group)| (unit, group)).collect()
}

/// A frame that is no code.
fn bare(name: &str) -> Frame {
    Frame { name: name.to_owned(), kind: Kind::End, source: None, place: None }
}
