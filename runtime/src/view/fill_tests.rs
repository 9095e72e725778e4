use std::collections::BTreeMap;

use profiler_compiler::btf::BtfId;
use profiler_compiler::object::{Storage, UserMap};
use profiler_compiler::source::Span;
use profiler_compiler::types::{StackType, Type};
use profiler_compiler::view::{Column, Order, Top};
use profiler_compiler::words::Aggregation;

use super::*;
use crate::maps::{Contents, Entry, Page};

/// Values refer to nothing.
#[derive(Debug)]
struct NoTables;

impl Lookup for NoTables {
    fn stack(&self, _ty: StackType, _id: i64) -> Option<Vec<u64>> {
        None
    }
    fn probe_name(&self, _index: u64) -> Option<&str> {
        None
    }
    fn string(&self, _index: u64) -> Option<&str> {
        None
    }
    fn enumerator(&self, _id: BtfId, _number: i64) -> Option<String> {
        None
    }
}

fn word(name: &str) -> &'static dyn Aggregation {
    let all = profiler_compiler::CATALOGUE.aggregations.iter();
    *all.into_iter().find(|word| word.name() == name).expect("an aggregation")
}

fn map(name: &str, value: MapValue) -> UserMap {
    let storage = Storage::Global { offset_bytes: 0, stride_bytes: 64, copies: 1, value_size_bytes: 8 };
    UserMap {
        name: name.into(),
        key: Some(Type::U32),
        value,
        unit: Unit::None,
        storage,
        alternate: None,
        span: Span::default(),
    }
}

fn aggregate(name: &str, of: &str, params: Vec<i64>) -> UserMap {
    map(name, MapValue::Aggregate { word: word(of), params, signed: false })
}

/// Entries by key, each with the words of its CPUs.
fn held(entries: &[(u32, &[&[u64]])]) -> Contents {
    let bytes = |words: &&[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let entry = |(key, copies): &(u32, &[&[u64]])| Entry {
        key: key.to_ne_bytes().to_vec(),
        pages: vec![Page { number: 0, copies: copies.iter().map(bytes).collect() }],
    };
    Contents { entries: entries.iter().map(entry).collect(), is_paged: false }
}

fn measure(map: usize, name: &str) -> Source {
    Source::Measure { map, measure: Measure::named(name).expect(name) }
}

fn view(maps: usize, columns: &[Source], order: Source, ascending: bool, top: Option<Top>) -> View {
    let columns = columns.iter().map(|source| Column { header: String::new(), source: *source }).collect();
    let order = Some(Order { by: order, ascending });
    View { title: "t".into(), maps: (0..maps).collect(), columns, order, top, every: None }
}

/// Numbers of a row, those that are none as -1.
fn numbers(cells: &[Cell]) -> Vec<f64> {
    let number = |cell: &Cell| match cell {
        Cell::Number(number) => number.as_f64(),
        Cell::Value(Value::Uint(n)) => Number::Integer(i128::from(*n)).as_f64(),
        _ => -1.0,
    };
    cells.iter().map(number).collect()
}

#[test]
fn rows_and_the_rest_are_everything() {
    let map = aggregate("@s", "stats", Vec::new());
    let held = held(&[(1, &[&[1, 10], &[1, 30]]), (2, &[&[4, 400]]), (3, &[&[1, 7]]), (4, &[&[3, 53]])]);
    let columns = [Source::Key(0), measure(0, "count"), measure(0, "mean"), measure(0, "rate"), measure(0, "share")];
    let top = Some(Top { rows: 1, rest: true });
    let table = fill(&view(1, &columns, columns[1], false, top), &[(&map, &held)], 2.0, &NoTables);
    assert_eq!(table.rows.iter().map(|row| numbers(row)).collect::<Vec<_>>(), [[2.0, 4.0, 100.0, 2.0, 80.0]]);
    let rest = table.rest.expect("others");
    assert_eq!(rest.others, 3);
    let mean = 100.0 / 6.0;
    assert_eq!(numbers(&rest.cells), [-1.0, 6.0, mean, 3.0, 20.0], "the mean of all their values, not of their means");
}

#[test]
fn buckets_of_the_others_are_merged() {
    let map = aggregate("@l", "lhist", vec![0, 40, 10]);
    // Buckets: below 0, four of ten, from 40 on.
    let held = held(&[
        (1, &[&[0, 9, 0, 0, 0, 0]]),
        (2, &[&[0, 0, 0, 0, 1, 0]]),
        (3, &[&[0, 1, 1, 0, 0, 0], &[0, 0, 0, 7, 0, 0]]),
    ]);
    let columns = [measure(0, "count"), measure(0, "p50"), measure(0, "p90"), measure(0, "p100")];
    let top = Some(Top { rows: 1, rest: true });
    let table = fill(&view(1, &columns, Source::Key(0), true, top), &[(&map, &held)], 1.0, &NoTables);
    assert_eq!(numbers(&table.rows[0]), [9.0, 10.0, 10.0, 10.0]);
    assert_eq!(numbers(&table.rest.expect("others").cells), [10.0, 30.0, 30.0, 40.0]);
}

#[test]
fn maps_are_joined_and_what_is_missing_comes_last() {
    let maps = [aggregate("@n", "count", Vec::new()), map("@v", MapValue::Plain(Type::U64))];
    let (counts, values) = (held(&[(5, &[&[2]]), (6, &[&[9]])]), held(&[(6, &[&[70]]), (7, &[&[80]])]));
    let held = [(&maps[0], &counts), (&maps[1], &values)];
    let columns = [Source::Key(0), measure(0, "count"), measure(1, "value"), measure(1, "sum")];
    for (ascending, keys) in [(false, [7.0, 6.0, 5.0]), (true, [6.0, 7.0, 5.0])] {
        let table = fill(&view(2, &columns, columns[2], ascending, None), &held, 1.0, &NoTables);
        let rows: Vec<_> = table.rows.iter().map(|row| numbers(row)).collect();
        assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), keys);
        let by_key: BTreeMap<_, _> = rows.iter().map(|row| (row[0] as u64, row[1..].to_vec())).collect();
        assert_eq!(by_key[&6], [9.0, 70.0, 70.0]);
        assert_eq!((by_key[&5].as_slice(), by_key[&7].as_slice()), (&[2.0, -1.0, -1.0][..], &[-1.0, 80.0, 80.0][..]));
    }
    let top = Some(Top { rows: 1, rest: true });
    let table = fill(&view(2, &columns, columns[1], false, top), &held, 1.0, &NoTables);
    assert_eq!(
        numbers(&table.rest.expect("others").cells),
        [-1.0, 2.0, -1.0, 80.0],
        "values of different keys are no value"
    );
}
