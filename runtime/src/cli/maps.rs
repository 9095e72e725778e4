//! What a script's maps take, as a table.
//!
//! In: an object. Out: text.
//! Guarantee: nothing is loaded for it.

use profiler_compiler::memory::{self, Memory};
use profiler_compiler::object::{Object, UserMap};
use profiler_compiler::statistics::Number;
use profiler_compiler::units::Unit;
use profiler_compiler::value::Value;
use profiler_runtime::render::table::{Layout, lines};
use profiler_runtime::symbols::HostSymbols;
use profiler_runtime::sys::map::possible_cpus;
use profiler_runtime::view::{Cell, Header, Quantity, Table};

/// The maps of an object, and what they take together; nothing without maps.
pub fn table(object: &Object) -> String {
    if object.maps.is_empty() {
        return String::new();
    }
    let cpus = possible_cpus().unwrap_or(1) as u64;
    let maps: Vec<(&UserMap, Memory)> = object.maps.iter().map(|map| (map, memory::of(map, cpus))).collect();
    let header = |name: &str, quantity| Header { name: name.into(), quantity };
    let (number, bytes) = (Some(Quantity::Of(Unit::None)), Some(Quantity::Of(Unit::Bytes)));
    let table = Table {
        title: String::new(),
        headers: vec![
            header("map", None),
            header("kind", None),
            header("keys", number),
            header("a key", bytes),
            header("memory", bytes),
            header("taken", None),
        ],
        rows: maps.iter().map(|(map, memory)| row(map, memory)).collect(),
        rest: None,
    };
    let mut text = String::new();
    // Without the title.
    for line in lines(&table, "", Layout::default(), &HostSymbols::new()).iter().skip(1) {
        text.push_str(&line.text);
        text.push('\n');
    }
    let sum = |of: &dyn Fn(&Memory) -> bool| -> u64 {
        maps.iter().map(|(_, memory)| memory).filter(|memory| of(memory)).map(|memory| memory.total_bytes).sum()
    };
    let shown = |bytes: u64| Unit::Bytes.text(Number::Integer(i128::from(bytes)).as_f64());
    let (first, all) = (sum(&|memory| !memory.on_demand), sum(&|_| true));
    let full = if first == all { String::new() } else { format!(", {} when all are full", shown(all)) };
    format!("{text}together: {} from the start{full}\n", shown(first))
}

fn row(map: &UserMap, memory: &Memory) -> Vec<Cell> {
    let text = |text: String| Cell::Value(Value::Str(text.into_bytes()));
    let bytes = |bytes: u64| Cell::Number(Number::Integer(i128::from(bytes)));
    let kind = if map.alternate.is_some() { format!("{}, twice", memory.kind) } else { memory.kind.into() };
    vec![
        text(map.name.clone()),
        text(kind),
        memory.keys.map_or(Cell::Missing, |keys| bytes(keys.into())),
        bytes(memory.bytes_per_key),
        bytes(memory.total_bytes),
        text(if memory.on_demand { "as keys come".into() } else { "from the start".into() }),
    ]
}
