//! Profiles of pprof: `profile.proto`, compressed.
//!
//! In: samples and the facts of a run. Out: the bytes of a file.
//! Guarantee: the same input gives the same file. Tables have each text, function, location and
//! file once.
//!
//! The format: <https://github.com/google/pprof/blob/main/proto/profile.proto>. The numbers of
//! fields below are from there.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Recorded;
use super::gzip::gzip;
use super::protobuf::Message;
use super::samples::{Frame, Kind, Place, Samples, Site, UnitName};

/// Mappings begin and end at pages.
const PAGE_BYTES: u64 = 4096;
/// The name that readers know of the kernel's code.
const KERNEL: &str = "[kernel.kallsyms]";

pub(super) fn write(samples: &Samples, notes: &[String], recorded: &Recorded) -> Vec<u8> {
    let mut tables = Tables::default();
    // The format's empty text.
    tables.strings.number("");
    let units: Vec<UnitName> =
        UNITS.into_iter().filter(|unit| samples.rows.keys().any(|site| site.unit == *unit)).collect();
    let mut profile = Message::default();
    for unit in &units {
        let (kind, unit) = names(*unit);
        profile = profile.message(1, &tables.value_type(kind, unit));
    }
    for (site, number) in &samples.rows {
        let sample = tables.sample(samples, site, *number, &units);
        profile = profile.message(2, &sample);
    }
    for (index, mapping) in (1..).zip(&tables.mappings) {
        profile = profile.message(3, &mapping.message(index, &mut tables.strings));
    }
    for location in &tables.location_messages {
        profile = profile.message(4, location);
    }
    for function in &tables.function_messages {
        profile = profile.message(5, function);
    }
    profile = profile
        .number(9, recorded.start_unix_ns)
        .number(10, u64::try_from(recorded.length.as_nanos()).unwrap_or(u64::MAX));
    if let Some(period_ns) = recorded.period_ns {
        profile = profile.message(11, &tables.value_type("cpu", "nanoseconds")).number(12, period_ns);
    }
    let comments: Vec<u64> =
        [&recorded.title].into_iter().chain(notes).map(|note| tables.strings.number(note.trim())).collect();
    profile = profile.numbers(13, comments);
    for text in tables.strings.in_order() {
        profile = profile.block(6, text.as_bytes());
    }
    gzip(&profile.bytes)
}

const UNITS: [UnitName; 4] = [UnitName::Count, UnitName::Nanoseconds, UnitName::Bytes, UnitName::Sectors];

/// The type and the unit of a column of numbers.
fn names(unit: UnitName) -> (&'static str, &'static str) {
    match unit {
        UnitName::Count => ("samples", "count"),
        UnitName::Nanoseconds => ("time", "nanoseconds"),
        UnitName::Bytes => ("space", "bytes"),
        UnitName::Sectors => ("space", "sectors"),
    }
}

/// Texts by number, in the order of their first use.
#[derive(Default)]
struct Strings {
    numbers: BTreeMap<String, u64>,
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.numbers.len() as u64;
        self.numbers.insert(text.to_owned(), number);
        number
    }

    fn in_order(&self) -> Vec<&str> {
        let mut texts: Vec<(u64, &str)> = self.numbers.iter().map(|(text, number)| (*number, text.as_str())).collect();
        texts.sort_unstable();
        texts.into_iter().map(|(_, text)| text).collect()
    }
}

/// A file of code, or the kernel.
#[expect(clippy::struct_excessive_bools, reason = "the format has them")]
struct Mapping {
    file: String,
    build_id: Option<Arc<str>>,
    /// Whether addresses are offsets in the file.
    is_in_file: bool,
    low: u64,
    high: u64,
    has_functions: bool,
    has_lines: bool,
    has_inlined: bool,
}

impl Mapping {
    fn message(&self, id: u64, strings: &mut Strings) -> Message {
        let start = if self.is_in_file { 0 } else { self.low / PAGE_BYTES * PAGE_BYTES };
        let limit = (self.high / PAGE_BYTES).saturating_add(1).saturating_mul(PAGE_BYTES);
        Message::default()
            .number(1, id)
            .number(2, start)
            .number(3, limit)
            .number(5, strings.number(&self.file))
            .number(6, self.build_id.as_ref().map_or(0, |build_id| strings.number(build_id)))
            .number(7, u64::from(self.has_functions))
            .number(8, u64::from(self.has_lines))
            .number(9, u64::from(self.has_lines))
            .number(10, u64::from(self.has_inlined))
    }
}

/// The tables of a profile; numbers in them start at 1.
#[derive(Default)]
struct Tables {
    strings: Strings,
    mappings: Vec<Mapping>,
    mapping_ids: BTreeMap<(String, Option<Arc<str>>, bool), u64>,
    functions: BTreeMap<(u64, u64), u64>,
    function_messages: Vec<Message>,
    locations: BTreeMap<Vec<u32>, u64>,
    location_messages: Vec<Message>,
}

impl Tables {
    fn value_type(&mut self, kind: &str, unit: &str) -> Message {
        Message::default().number(1, self.strings.number(kind)).number(2, self.strings.number(unit))
    }

    fn sample(&mut self, samples: &Samples, site: &Site, number: u64, units: &[UnitName]) -> Message {
        // A location is a frame with the functions that were inlined into it; the innermost
        // location comes first.
        let kind = |index: &u32| samples.frames.get(*index as usize).map(|frame| frame.kind);
        let mut locations: Vec<u64> = site
            .frames
            .chunk_by(|_, next| kind(next) == Some(Kind::Inlined))
            .map(|frames| self.location(samples, frames))
            .collect();
        locations.reverse();
        let values = units.iter().map(|unit| if *unit == site.unit { number.min(i64::MAX as u64) } else { 0 });
        let mut sample = Message::default().numbers(1, locations).numbers(2, values);
        if samples.maps.len() > 1 {
            let map = samples.maps.get(site.map).map_or("", String::as_str);
            sample = sample.message(3, &self.label("map", map));
        }
        for (index, label) in (1..).zip(&site.labels) {
            sample = sample.message(3, &self.label(&format!("key{index}"), label));
        }
        sample
    }

    fn label(&mut self, key: &str, text: &str) -> Message {
        Message::default().number(1, self.strings.number(key)).number(2, self.strings.number(text))
    }

    /// The number of a location, whose frames are given from the outermost one.
    fn location(&mut self, samples: &Samples, frames: &[u32]) -> u64 {
        if let Some(id) = self.locations.get(frames) {
            return *id;
        }
        let id = self.location_messages.len() as u64 + 1;
        let inner_first: Vec<&Frame> =
            frames.iter().rev().filter_map(|index| samples.frames.get(*index as usize)).collect();
        let mut location = Message::default().number(1, id);
        if let Some((outer, place)) = inner_first.last().and_then(|outer| Some((outer, outer.place.as_ref()?))) {
            let mapping = self.mapping(outer, place, inner_first.as_slice());
            location = location.number(2, mapping).number(3, place.address);
        }
        for frame in inner_first.iter().filter(|frame| frame.kind != Kind::Unnamed) {
            let line = frame.source.as_ref().map_or(0, |(_, line)| u64::from(*line));
            location = location.message(4, &Message::default().number(1, self.function(frame)).number(2, line));
        }
        self.location_messages.push(location);
        self.locations.insert(frames.to_vec(), id);
        id
    }

    /// The number of a frame's file, with what is known of its code; 0 without a file.
    fn mapping(&mut self, outer: &Frame, place: &Place, frames: &[&Frame]) -> u64 {
        let file = match (outer.kind, &place.file) {
            (Kind::Kernel, None) => KERNEL.to_owned(),
            (_, Some(file)) => file.clone(),
            (_, None) => return 0,
        };
        let key = (file.clone(), place.build_id.clone(), place.is_in_file);
        let next = self.mappings.len() as u64 + 1;
        let id = *self.mapping_ids.entry(key).or_insert(next);
        if id == next {
            self.mappings.push(Mapping {
                file,
                build_id: place.build_id.clone(),
                is_in_file: place.is_in_file,
                low: place.address,
                high: place.address,
                has_functions: true,
                has_lines: true,
                has_inlined: false,
            });
        }
        if let Some(mapping) = self.mappings.get_mut(id as usize - 1) {
            mapping.low = mapping.low.min(place.address);
            mapping.high = mapping.high.max(place.address);
            mapping.has_functions &= outer.kind != Kind::Unnamed;
            mapping.has_lines &= outer.source.is_some();
            mapping.has_inlined |= frames.len() > 1;
        }
        id
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let name = self.strings.number(&frame.name);
        let file = frame.source.as_ref().map_or(0, |(file, _)| self.strings.number(file));
        let next = self.function_messages.len() as u64 + 1;
        let id = *self.functions.entry((name, file)).or_insert(next);
        if id == next {
            let function = Message::default().number(1, id).number(2, name).number(3, name).number(4, file);
            self.function_messages.push(function);
        }
        id
    }
}
