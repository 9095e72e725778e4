//! Entries of a map as samples: a stack of frames, the other parts of the key, a number.
//!
//! In: snapshots of maps. Out: [`Samples`], from which all files are made.
//! Guarantee: frames are kept once each. Entries without a stack are left out, and so are values
//! that do not add up, such as averages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use profiler_model::output::MapSnapshot;
use profiler_model::statistics::{Number, Statistic};
use profiler_model::text::write_value;
use profiler_model::types::Space;
use profiler_model::units::Unit;
use profiler_model::value::{FilePosition, Location, Origin, Source, Stack, SymbolName, Symbols, Value};

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Native,
    Kernel,
    Jit,
    /// A function that the compiler inlined into the next frame further out.
    Inlined,
    /// Code without a name.
    Unnamed,
    /// A remark that callers are missing.
    End,
}

/// Where the code of a frame is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The file, kernel module or list of a just-in-time compiler, if known.
    pub file: Option<String>,
    pub build_id: Option<Arc<str>>,
    /// The offset in the file, or the address if the position in the file is not known.
    pub address: u64,
    pub is_in_file: bool,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Frame {
    pub name: String,
    pub kind: Kind,
    /// File and line of the source.
    pub source: Option<(String, u32)>,
    /// `None` for inlined functions, which are at the place of the frame that contains them.
    pub place: Option<Place>,
}

/// What distinguishes samples.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Site {
    /// The index of the map.
    pub map: usize,
    /// The parts of the key that are not stacks.
    pub labels: Vec<String>,
    /// Indexes of frames, from the outermost one, user frames first.
    pub frames: Vec<u32>,
    /// The unit of the number.
    pub unit: UnitName,
    /// The id of the thread, if it is a part of the key.
    pub thread: Option<u64>,
}

/// The size of a sector, for formats that have bytes only.
pub(super) const SECTOR_BYTES: u64 = 512;

/// The unit of a sample's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UnitName {
    Count,
    Nanoseconds,
    Bytes,
    Sectors,
}

impl UnitName {
    fn of(unit: Unit) -> UnitName {
        match unit {
            Unit::Time | Unit::Duration => UnitName::Nanoseconds,
            Unit::Bytes => UnitName::Bytes,
            Unit::Sectors => UnitName::Sectors,
            Unit::None | Unit::Percent => UnitName::Count,
        }
    }
}

/// The stacks of maps with their numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Samples {
    pub maps: Vec<String>,
    pub frames: Vec<Frame>,
    indexes: BTreeMap<Frame, u32>,
    pub rows: BTreeMap<Site, u64>,
    /// Names of maps whose keys have the id of a thread beside its name.
    with_threads: BTreeSet<String>,
}

impl Samples {
    /// Adds the stacks of a map whose values have this unit, and this part of whose key is the id
    /// of a thread. If that is 0 in all entries, threads are not kept apart, and it is left out.
    pub(super) fn add(&mut self, map: &MapSnapshot, unit: Unit, thread: Option<usize>, symbols: &dyn Symbols) {
        // The windows of a view come one by one.
        let index = self.maps.iter().position(|name| *name == map.name).unwrap_or(self.maps.len());
        let before = self.rows.len();
        let keeps_apart = map.entries.iter().any(|(key, _)| thread_of(key.as_ref(), thread).is_some_and(|id| id != 0));
        for (key, value) in &map.entries {
            let Some((key, (number, of_value))) = key.as_ref().zip(weight(value)) else { continue };
            let mut parts = Parts::default();
            match (key, thread) {
                (Value::Tuple(of_key), Some(thread)) if !keeps_apart => {
                    let others = of_key.iter().enumerate().filter(|(index, _)| *index != thread);
                    others.for_each(|(_, part)| parts.add(part, symbols));
                }
                _ => parts.add(key, symbols),
            }
            let thread = thread_of(Some(key), thread).filter(|_| keeps_apart);
            if parts.has_stack && number > 0 {
                let frames = parts.user.into_iter().chain(parts.kernel).map(|frame| self.frame(frame)).collect();
                let unit = if of_value { UnitName::of(unit) } else { UnitName::Count };
                let sum = self.rows.entry(Site { map: index, labels: parts.labels, frames, unit, thread }).or_default();
                *sum = sum.saturating_add(number);
            }
        }
        if self.rows.len() > before && index == self.maps.len() {
            self.maps.push(map.name.clone());
        }
        if thread.is_some() {
            self.with_threads.insert(map.name.clone());
        }
    }

    fn frame(&mut self, frame: Frame) -> u32 {
        // A run has fewer frames than that: each takes more than a byte.
        let next = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        let frames = &mut self.frames;
        *self.indexes.entry(frame).or_insert_with_key(|frame| {
            frames.push(frame.clone());
            next
        })
    }

    /// The part of a key that is the name of the thread: the one before the state, if that is a
    /// part, or the first one beside the id of a thread. `None` if a number keeps the threads of a
    /// name apart.
    pub(super) fn name_part(&self, site: &Site, state: Option<usize>) -> Option<usize> {
        let is_apart = site.thread.is_some() || site.labels.iter().any(|label| is_number(label));
        let has_thread = || self.maps.get(site.map).is_some_and(|map| self.with_threads.contains(map));
        let first = || (has_thread() && !site.labels.is_empty()).then_some(0);
        if is_apart { None } else { state.map_or_else(first, |state| state.checked_sub(1)) }
    }

    /// The frames of a sample, from the outermost one.
    pub(super) fn stack<'a>(&'a self, site: &'a Site) -> impl Iterator<Item = &'a Frame> + 'a {
        site.frames.iter().filter_map(|index| self.frames.get(*index as usize))
    }
}

/// Whether a part of a key is a number.
pub(super) fn is_number(label: &str) -> bool {
    label.bytes().all(|byte| byte.is_ascii_digit())
}

/// The id of the thread in this part of a key.
fn thread_of(key: Option<&Value>, part: Option<usize>) -> Option<u64> {
    let Some(Value::Tuple(parts)) = key else { return None };
    match parts.get(part?)? {
        Value::Uint(id) => Some(*id),
        Value::Int(id) => u64::try_from(*id).ok(),
        _ => None,
    }
}

/// What a value adds to the width of its stack, and whether that is in the unit of the values.
fn weight(value: &Value) -> Option<(u64, bool)> {
    let of = |statistic| match value.statistic(&statistic) {
        Some(Number::Integer(number)) => u64::try_from(number).ok(),
        _ => None,
    };
    match value {
        Value::Uint(number) => Some((*number, true)),
        Value::Int(number) => u64::try_from(*number).ok().map(|number| (number, true)),
        Value::Stats { .. } | Value::Distribution(_) => of(Statistic::Sum).map(|number| (number, true)),
        Value::Histogram(_) => of(Statistic::Count).map(|number| (number, false)),
        _ => None,
    }
}

/// The parts of a key.
#[derive(Default)]
struct Parts {
    labels: Vec<String>,
    user: Vec<Frame>,
    kernel: Vec<Frame>,
    has_stack: bool,
}

impl Parts {
    fn add(&mut self, part: &Value, symbols: &dyn Symbols) {
        match part {
            Value::Stack(stack) => {
                self.has_stack = true;
                let frames = frames(stack, symbols);
                let into = if stack.space == Space::User { &mut self.user } else { &mut self.kernel };
                into.extend(frames);
            }
            Value::Tuple(parts) | Value::Array(parts) => parts.iter().for_each(|part| self.add(part, symbols)),
            Value::Record(fields) => fields.iter().for_each(|(_, part)| self.add(part, symbols)),
            other => {
                let mut text = Vec::new();
                write_value(other, symbols, &mut text);
                self.labels.push(String::from_utf8_lossy(&text).into_owned());
            }
        }
    }
}

/// The frames of a stack, outermost first.
fn frames(stack: &Stack, symbols: &dyn Symbols) -> Vec<Frame> {
    let mut frames = Vec::new();
    for (index, (location, address)) in symbols.locate_stack(stack).into_iter().zip(stack.call_sites()).enumerate() {
        // The call, not the instruction after it.
        let offset = |position: &FilePosition| position.offset.saturating_sub(stack.bytes_back(index));
        let place = |file: Option<String>, position: Option<FilePosition>| match position {
            Some(position) => {
                let address = offset(&position);
                Place { file, build_id: position.build_id, address, is_in_file: true }
            }
            None => Place { file, build_id: None, address, is_in_file: false },
        };
        match location {
            Location::Symbol(symbol, origin) => {
                let at = place(symbol.module.clone(), origin.position.clone());
                frames.extend(named(stack.space, symbol, origin, at));
            }
            Location::Module(path, position) => {
                let file = path.rsplit('/').next().unwrap_or(&path).to_owned();
                let function = position.function;
                let place = place(Some(path), Some(position));
                let name = format!("[{file}+{:#x}]", function.unwrap_or(place.address));
                frames.push(Frame { name, kind: Kind::Unnamed, source: None, place: Some(place) });
            }
            Location::NoCode => {
                let address = stack.frames.get(index).copied().unwrap_or_default();
                frames.push(Frame::end(&format!("{address:#x} is not code")));
                break;
            }
            Location::Unknown => {
                let place = Some(place(None, None));
                frames.push(Frame { name: "[unknown]".into(), kind: Kind::Unnamed, source: None, place });
            }
        }
    }
    frames.extend(stack.end.map(|end| Frame::end(end.reason())));
    frames.reverse();
    frames
}

/// The frames of an instruction, innermost first.
fn named(space: Space, symbol: SymbolName, origin: Origin, place: Place) -> Vec<Frame> {
    let line = |source: Option<Source>| source.map(|source| (source.file, source.line));
    let kind = match (space, symbol.module.as_deref()) {
        (Space::Kernel, _) => Kind::Kernel,
        (Space::User, Some(module)) if is_jit(module) => Kind::Jit,
        (Space::User, _) => Kind::Native,
    };
    let inlined = origin.inlined.into_iter().map(|inlined| Frame {
        name: inlined.name,
        kind: Kind::Inlined,
        source: line(inlined.source),
        place: None,
    });
    let outer = Frame { name: symbol.name, kind, source: line(origin.source), place: Some(place) };
    inlined.chain([outer]).collect()
}

impl Frame {
    fn end(reason: &str) -> Frame {
        Frame { name: format!("[stack ends here: {reason}]"), kind: Kind::End, source: None, place: None }
    }
}

/// Whether a symbol is from a list that a just-in-time compiler writes.
fn is_jit(module: &str) -> bool {
    let name = module.rsplit('/').next().unwrap_or(module);
    let is = |prefix, suffix| name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix)).is_some();
    is("perf-", ".map") || is("jit-", ".dump")
}
