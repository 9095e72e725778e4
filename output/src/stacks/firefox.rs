//! Files of the Firefox Profiler: its processed profile format.
//!
//! In: samples and the facts of a run. Out: a JSON document.
//! Guarantee: it follows version 47 of the format, which later versions of the profiler read; the
//! same input gives the same file. Its times are no times of the run: samples follow each other,
//! each as long as its number.
//!
//! The format: <https://github.com/firefox-devtools/profiler/blob/main/docs-developer>.

use std::collections::BTreeMap;

use super::Recorded;
use super::groups::{Group, groups};
use super::samples::{Frame, Kind, SECTOR_BYTES, Samples, UnitName};
use crate::json::{put, write_list, write_string};

/// Nanoseconds of the unit of times.
const MILLISECOND: f64 = 1e6;

/// The categories and their colours, in the order of [`category`].
const CATEGORIES: &str = r#"[{"name":"Other","color":"grey","subcategories":["Other"]},{"name":"User","color":"yellow","subcategories":["Other"]},{"name":"Kernel","color":"orange","subcategories":["Other"]},{"name":"JIT","color":"green","subcategories":["Other"]}]"#;

/// The index of a frame's category.
fn category(kind: Kind) -> usize {
    match kind {
        Kind::Unnamed | Kind::End => 0,
        Kind::Native | Kind::Inlined => 1,
        Kind::Kernel => 2,
        Kind::Jit => 3,
    }
}

pub(super) fn write(samples: &Samples, recorded: &Recorded) -> Vec<u8> {
    let mut out = br#"{"meta": {"interval": 1, "startTime": "#.to_vec();
    put(&mut out, format_args!("{}", number(recorded.start_unix_ns) / MILLISECOND));
    out.extend_from_slice(br#", "product": "#);
    write_string(recorded.title.as_bytes(), &mut out);
    out.extend_from_slice(
        br#", "importedFrom": "profiler", "version": 27, "preprocessedProfileVersion": 47, "processType": 0, "stackwalk": 1, "symbolicated": true, "extensions": {"id": [], "name": [], "baseURL": [], "length": 0}, "markerSchema": [], "categories": "#,
    );
    out.extend_from_slice(CATEGORIES.as_bytes());
    out.extend_from_slice(br#"}, "libs": [], "pages": [], "counters": [], "threads": "#);
    let groups: Vec<(usize, (UnitName, Group))> = groups(samples).into_iter().enumerate().collect();
    write_list(&groups, &mut out, |(index, (unit, group)), out| write_thread(*index, *unit, group, out));
    out.extend_from_slice(b"}\n");
    out
}

/// JSON's readers have doubles only.
#[expect(clippy::cast_precision_loss, reason = "readers lose it")]
fn number(value: u64) -> f64 {
    value as f64
}

fn write_thread(index: usize, unit: UnitName, group: &Group, out: &mut Vec<u8>) {
    let mut tables = Tables::default();
    let mut stacks = Vec::new();
    let mut weights = Vec::new();
    for (frames, value) in &group.rows {
        stacks.push(tables.stack(frames));
        weights.push(match unit {
            UnitName::Nanoseconds => number(*value) / MILLISECOND,
            UnitName::Sectors => number(value.saturating_mul(SECTOR_BYTES)),
            UnitName::Count | UnitName::Bytes => number(*value),
        });
    }
    let times: Vec<f64> = weights
        .iter()
        .scan(0.0, |time, weight| {
            let start = *time;
            *time += weight;
            Some(start)
        })
        .collect();
    let kind = match unit {
        UnitName::Count => "samples",
        UnitName::Nanoseconds => "tracing-ms",
        UnitName::Bytes | UnitName::Sectors => "bytes",
    };
    out.extend_from_slice(br#"{"name": "#);
    write_string(group.name.as_bytes(), out);
    put(
        out,
        format_args!(
            r#", "pid": "{index}", "tid": {index}, "isMainThread": true, "processType": "default", "processName": "#
        ),
    );
    write_string(group.name.as_bytes(), out);
    out.extend_from_slice(
        br#", "processStartupTime": 0, "processShutdownTime": null, "registerTime": 0, "unregisterTime": null, "pausedRanges": [], "markers": {"data": [], "name": [], "startTime": [], "endTime": [], "phase": [], "category": [], "length": 0}, "samples": {"#,
    );
    column("stack", &stacks, out);
    column("time", &times, out);
    column("weight", &weights, out);
    put(out, format_args!(r#""weightType": "{kind}", "length": {}}}"#, stacks.len()));
    tables.write(out);
    out.push(b'}');
}

/// A column of a table, and the comma after it.
fn column<T: std::fmt::Display>(name: &str, values: &[T], out: &mut Vec<u8>) {
    put(out, format_args!(r#""{name}": "#));
    write_list(values, out, |value, out| put(out, format_args!("{value}")));
    out.extend_from_slice(b", ");
}

/// A column that has the same value in all rows.
fn constant(name: &str, value: &str, length: usize, out: &mut Vec<u8>) {
    column(name, &vec![value; length], out);
}

/// The tables of a thread.
#[derive(Default)]
struct Tables {
    strings: Vec<String>,
    string_indexes: BTreeMap<String, usize>,
    /// Name, and the file of the source.
    functions: Vec<(usize, Option<usize>)>,
    function_indexes: BTreeMap<(usize, Option<usize>), usize>,
    /// Function, line, category.
    frames: Vec<(usize, Option<u32>, usize)>,
    frame_indexes: BTreeMap<(usize, Option<u32>, usize), usize>,
    /// The calling stack, and the frame.
    stacks: Vec<(Option<usize>, usize)>,
    stack_indexes: BTreeMap<(Option<usize>, usize), usize>,
}

/// The index of a row, which is added if it is new.
fn index<T: Ord + Clone>(row: T, indexes: &mut BTreeMap<T, usize>, rows: &mut Vec<T>) -> usize {
    *indexes.entry(row).or_insert_with_key(|row| {
        rows.push(row.clone());
        rows.len() - 1
    })
}

impl Tables {
    /// The index of a stack, whose frames are given from the outermost one. A stack has a frame.
    fn stack(&mut self, frames: &[Frame]) -> usize {
        let mut caller = None;
        for frame in frames {
            let frame = self.frame(frame);
            caller = Some(index((caller, frame), &mut self.stack_indexes, &mut self.stacks));
        }
        caller.unwrap_or_default()
    }

    fn frame(&mut self, frame: &Frame) -> usize {
        let name = self.string(&frame.name);
        let file = frame.source.as_ref().map(|(file, _)| self.string(file));
        let function = index((name, file), &mut self.function_indexes, &mut self.functions);
        let line = frame.source.as_ref().map(|(_, line)| *line);
        index((function, line, category(frame.kind)), &mut self.frame_indexes, &mut self.frames)
    }

    fn string(&mut self, text: &str) -> usize {
        index(text.to_owned(), &mut self.string_indexes, &mut self.strings)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let optional = |value: Option<usize>| value.map_or("null".to_owned(), |value| value.to_string());
        let frames = self.frames.len();
        out.extend_from_slice(br#", "frameTable": {"#);
        constant("address", "-1", frames, out);
        constant("inlineDepth", "0", frames, out);
        column("category", &self.frames.iter().map(|frame| frame.2).collect::<Vec<_>>(), out);
        constant("subcategory", "0", frames, out);
        column("func", &self.frames.iter().map(|frame| frame.0).collect::<Vec<_>>(), out);
        let lines = self.frames.iter().map(|frame| optional(frame.1.map(|line| line as usize)));
        column("line", &lines.collect::<Vec<_>>(), out);
        for name in ["nativeSymbol", "innerWindowID", "implementation", "column"] {
            constant(name, "null", frames, out);
        }
        put(out, format_args!(r#""length": {frames}}}, "stackTable": {{"#));
        let categories = self.stacks.iter().filter_map(|stack| Some(self.frames.get(stack.1)?.2));
        column("frame", &self.stacks.iter().map(|stack| stack.1).collect::<Vec<_>>(), out);
        column("prefix", &self.stacks.iter().map(|stack| optional(stack.0)).collect::<Vec<_>>(), out);
        column("category", &categories.collect::<Vec<_>>(), out);
        constant("subcategory", "0", self.stacks.len(), out);
        let functions = self.functions.len();
        put(out, format_args!(r#""length": {}}}, "funcTable": {{"#, self.stacks.len()));
        column("name", &self.functions.iter().map(|function| function.0).collect::<Vec<_>>(), out);
        column("fileName", &self.functions.iter().map(|function| optional(function.1)).collect::<Vec<_>>(), out);
        constant("resource", "-1", functions, out);
        constant("isJS", "false", functions, out);
        constant("relevantForJS", "false", functions, out);
        constant("lineNumber", "null", functions, out);
        constant("columnNumber", "null", functions, out);
        put(out, format_args!(r#""length": {functions}}}, "#));
        out.extend_from_slice(
            br#""resourceTable": {"lib": [], "name": [], "host": [], "type": [], "length": 0}, "nativeSymbols": {"libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0}, "stringArray": "#,
        );
        write_list(&self.strings, out, |text, out| write_string(text.as_bytes(), out));
    }
}
