//! Shared by the renderers' tests: a writer that can be read back, symbols, aggregations, maps with
//! every kind of value.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use profiler_model::histogram::{divide, linear_histogram, linear_index, log2_buckets, log2_histogram, log2_index};
use profiler_model::output::{MapPrint, MapSnapshot, Output};
use profiler_model::results::Merge;
use profiler_model::types::{Space, StackMode};
use profiler_model::value::{Stack, SymbolName, Symbols, Value};

/// A writer whose contents a test can read.
#[derive(Debug, Clone, Default)]
pub(super) struct Paper(Rc<RefCell<Vec<u8>>>);

impl Paper {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.borrow().clone()).unwrap()
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Resolves one kernel function, one user function and root.
pub(super) struct Names;

impl Symbols for Names {
    fn kernel(&self, address: u64) -> Option<SymbolName> {
        (address >= 0xf000).then(|| SymbolName { name: "do_idle".into(), offset: address - 0xf000, module: None })
    }
    fn user(&self, _: u32, address: u64) -> Option<SymbolName> {
        (address < 0x100).then(|| SymbolName { name: "main".into(), offset: address, module: None })
    }
    fn username(&self, uid: u32) -> Option<String> {
        (uid == 0).then(|| "root".into())
    }
    fn boot_time_ns(&self) -> u64 {
        0
    }
}

/// An aggregation that only has a JSON type and a division.
#[derive(Debug)]
pub(super) struct Word(&'static str);

pub(super) static COUNT: Word = Word("map");
pub(super) static STATS: Word = Word("stats");
pub(super) static HIST: Word = Word("hist");

impl Merge for Word {
    fn merge(&self, _: &[i64], _: bool, _: &[&[u8]]) -> Value {
        Value::Missing
    }
    fn json_type(&self) -> &'static str {
        self.0
    }
    fn divide(&self, value: Value, by: i64) -> Value {
        match value {
            Value::Average { average } => Value::Average { average: average / i128::from(by) },
            Value::Histogram(histogram) => Value::Histogram(divide(histogram, by)),
            value => value,
        }
    }
}

pub(super) fn string(text: &str) -> Value {
    Value::Str(text.into())
}

pub(super) fn stack(frames: &[u64]) -> Value {
    Value::Stack(Stack {
        space: Space::Kernel,
        mode: StackMode::Bpftrace,
        pid: 0,
        frames: frames.to_vec(),
        interrupted: Vec::new(),
        end: None,
    })
}

pub(super) fn hist(values: &[i64]) -> Value {
    let mut counts = vec![0; log2_buckets(0)];
    for &value in values {
        counts[log2_index(value, 0)] += 1;
    }
    Value::Histogram(log2_histogram(&counts, 0))
}

pub(super) fn lhist(values: &[i64]) -> Value {
    let mut counts = vec![0; 12];
    for &value in values {
        counts[linear_index(value, 0, 100, 10)] += 1;
    }
    Value::Histogram(linear_histogram(&counts, 0, 100, 10))
}

/// Renders a map without keys.
pub(super) fn scalar(render: &mut dyn Output, aggregation: Option<&'static dyn Merge>, value: Value) {
    let entries = vec![(None, value)];
    render.map(
        &MapSnapshot { name: "@".into(), keyed: false, aggregation, entries, processes: Vec::new() },
        MapPrint::default(),
        &Names,
    );
}

/// Renders a map with keys.
pub(super) fn keyed(
    render: &mut dyn Output,
    aggregation: Option<&'static dyn Merge>,
    print: MapPrint,
    entries: &[(Value, Value)],
) {
    let entries = entries.iter().map(|(key, value)| (Some(key.clone()), value.clone())).collect();
    render.map(
        &MapSnapshot { name: "@x".into(), keyed: true, aggregation, entries, processes: Vec::new() },
        print,
        &Names,
    );
}
