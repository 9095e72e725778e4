//! Memory use of a script's maps, spans and stacks, as a table.
//!
//! In: an object. Out: text.
//! Guarantee: nothing is loaded for this.

use profiler_compiler::memory::{self, Memory};
use profiler_compiler::object::{Object, StackTable, TimeSpan, UserMap};
use profiler_compiler::statistics::Number;
use profiler_compiler::units::Unit;
use profiler_compiler::value::Value;
use profiler_model::output::{Cell, Header, Table};
use profiler_model::view::Quantity;
use profiler_output::table::{Layout, lines};
use profiler_runtime::symbols::HostSymbols;
use profiler_runtime::sys::map::possible_cpus;

/// A table of the maps, spans and stacks of an object and their total memory; empty without any.
pub(super) fn table(object: &Object) -> String {
    let places = places(object);
    if places.is_empty() {
        return String::new();
    }
    let header = |name: &str, quantity| Header { name: name.into(), quantity };
    let (number, bytes) = (Some(Quantity::Of(Unit::None)), Some(Quantity::Of(Unit::Bytes)));
    let table = Table {
        title: String::new(),
        headers: vec![
            header(if object.maps.is_empty() { "span" } else { "map" }, None),
            header("kind", None),
            header("keys", number),
            header("a key", bytes),
            header("memory", bytes),
            header("taken", None),
        ],
        rows: places.iter().map(row).collect(),
        ..Table::default()
    };
    let mut text = String::new();
    // Skip the title.
    for line in lines(&table, "", Layout::default(), &HostSymbols::new()).iter().skip(1) {
        text.push_str(&line.text);
        text.push('\n');
    }
    let sum = |of: &dyn Fn(&Memory) -> bool| -> u64 {
        places.iter().map(|place| &place.memory).filter(|memory| of(memory)).map(|memory| memory.total_bytes).sum()
    };
    let shown = |bytes: u64| Unit::Bytes.text(Number::Integer(i128::from(bytes)).as_f64());
    let (first, all) = (sum(&|memory| !memory.on_demand), sum(&|_| true));
    let full = if first == all { String::new() } else { format!(", {} when all are full", shown(all)) };
    format!("{text}together: {} from the start{full}\n", shown(first))
}

/// A map or span with its memory use.
struct MapMemory {
    name: String,
    memory: Memory,
    twice: bool,
}

fn places(object: &Object) -> Vec<MapMemory> {
    let cpus = possible_cpus().unwrap_or(1) as u64;
    let of_map = |map: &UserMap| MapMemory {
        name: map.name.clone(),
        memory: memory::of(map, cpus),
        twice: map.alternate.is_some(),
    };
    let of_span = |span: &TimeSpan| {
        let [open, ledger] = memory::of_span(span);
        let place = |name: String, memory| MapMemory { name, memory, twice: false };
        [place(format!("span {}", span.name), open), place(format!("ledger of {}", span.name), ledger)]
    };
    let of_stacks = |table: &StackTable| {
        let name = format!("stacks of {} frames", table.limit);
        memory::of_stacks(table).into_iter().map(move |memory| MapMemory { name: name.clone(), memory, twice: false })
    };
    let unwinding = object.unwinding.iter().flat_map(|_| memory::of_unwinding());
    let of_unwinding = |memory| MapMemory { name: "unwind tables".into(), memory, twice: false };
    let of_script = object.maps.iter().map(of_map).chain(object.spans.iter().flat_map(of_span));
    let of_stacks = object.stack_tables.iter().flat_map(of_stacks);
    of_script.chain(of_stacks).chain(unwinding.map(of_unwinding)).collect()
}

fn row(place: &MapMemory) -> Vec<Cell> {
    let text = |text: String| Cell::Value(Value::Str(text.into_bytes()));
    let bytes = |bytes: u64| Cell::Number(Number::Integer(i128::from(bytes)));
    let memory = &place.memory;
    let is_of_threads = memory.on_demand && memory.keys.is_none();
    vec![
        text(place.name.clone()),
        text(if place.twice { format!("{}, twice", memory.kind) } else { memory.kind.into() }),
        memory.keys.map_or(Cell::Missing, |keys| bytes(keys.into())),
        if memory.bytes_per_key == 0 { Cell::Missing } else { bytes(memory.bytes_per_key) },
        if is_of_threads { Cell::Missing } else { bytes(memory.total_bytes) },
        text(match memory.on_demand {
            false => "from the start".into(),
            true if is_of_threads => "as threads come".into(),
            true => "as keys come".into(),
        }),
    ]
}
