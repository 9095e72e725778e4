//! Files of speedscope.
//!
//! In: samples and the facts of a run. Out: a JSON document.
//! Guarantee: it follows <https://www.speedscope.app/file-format-schema.json>; the same input gives
//! the same file.

use std::collections::BTreeMap;

use super::Recorded;
use super::fold::suffix;
use super::groups::groups;
use super::samples::{Frame, SECTOR_BYTES, Samples, UnitName};
use crate::json::{put, write_list, write_string};

pub(super) fn write(samples: &Samples, recorded: &Recorded) -> Vec<u8> {
    let mut frames = Frames::default();
    let mut profiles = Vec::new();
    for (unit, group) in groups(samples) {
        let (unit, scale) = match unit {
            UnitName::Count => ("none", 1),
            UnitName::Nanoseconds => ("nanoseconds", 1),
            UnitName::Bytes => ("bytes", 1),
            UnitName::Sectors => ("bytes", SECTOR_BYTES),
        };
        let weights: Vec<u64> = group.rows.iter().map(|(_, number)| number.saturating_mul(scale)).collect();
        let stacks: Vec<Vec<usize>> =
            group.rows.iter().map(|(stack, _)| stack.iter().map(|frame| frames.index(frame)).collect()).collect();
        let mut profile = br#"{"type": "sampled", "name": "#.to_vec();
        write_string(group.name.as_bytes(), &mut profile);
        let total = weights.iter().fold(0, |sum: u64, weight| sum.saturating_add(*weight));
        put(&mut profile, format_args!(r#", "unit": "{unit}", "startValue": 0, "endValue": {total}, "samples": "#));
        write_list(&stacks, &mut profile, |stack, out| {
            write_list(stack, out, |index, out| put(out, format_args!("{index}")));
        });
        profile.extend_from_slice(br#", "weights": "#);
        write_list(&weights, &mut profile, |weight, out| put(out, format_args!("{weight}")));
        profile.push(b'}');
        profiles.push(profile);
    }
    let mut out = br#"{"$schema": "https://www.speedscope.app/file-format-schema.json", "name": "#.to_vec();
    write_string(recorded.title.as_bytes(), &mut out);
    put(&mut out, format_args!(r#", "exporter": "profiler@{}", "shared": {{"frames": "#, env!("CARGO_PKG_VERSION")));
    write_list(&frames.texts, &mut out, |frame, out| out.extend_from_slice(frame));
    out.extend_from_slice(br#"}, "profiles": "#);
    write_list(&profiles, &mut out, |profile, out| out.extend_from_slice(profile));
    out.extend_from_slice(b"}\n");
    out
}

/// Frames as the file has them, each once.
#[derive(Default)]
struct Frames {
    indexes: BTreeMap<Vec<u8>, usize>,
    texts: Vec<Vec<u8>>,
}

impl Frames {
    fn index(&mut self, frame: &Frame) -> usize {
        let mut text = br#"{"name": "#.to_vec();
        write_string((frame.name.clone() + suffix(frame.kind)).as_bytes(), &mut text);
        if let Some((file, line)) = &frame.source {
            text.extend_from_slice(br#", "file": "#);
            write_string(file.as_bytes(), &mut text);
            put(&mut text, format_args!(r#", "line": {line}"#));
        }
        text.push(b'}');
        let texts = &mut self.texts;
        *self.indexes.entry(text).or_insert_with_key(|text| {
            texts.push(text.clone());
            texts.len() - 1
        })
    }
}
