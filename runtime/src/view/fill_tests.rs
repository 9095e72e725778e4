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
    let columns = [Source::Key(0), measure(0, "count"), measure(0, "p50"), measure(0, "p90"), measure(0, "p100")];
    let top = Some(Top { rows: 1, rest: true });
    let table = fill(&view(1, &columns, Source::Key(0), true, top), &[(&map, &held)], 1.0, &NoTables);
    assert_eq!(numbers(&table.rows[0]), [1.0, 9.0, 10.0, 10.0, 10.0]);
    assert_eq!(numbers(&table.rest.expect("others").cells), [-1.0, 10.0, 30.0, 30.0, 40.0]);
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

/// A key of two numbers, of which the first is shown.
fn pairs(map: UserMap) -> UserMap {
    UserMap { key: Some(Type::Tuple(vec![Type::U32, Type::U32])), ..map }
}

/// The same entries by two numbers instead of one: the key's tens, and its ones.
fn by_pairs(held: Contents) -> Contents {
    let key = |key: &[u8]| {
        let number = u32::from_ne_bytes(key.try_into().expect("a number"));
        [number / 10, number % 10].iter().flat_map(|part| part.to_ne_bytes()).collect()
    };
    let entries = held.entries.into_iter().map(|entry| Entry { key: key(&entry.key), ..entry }).collect();
    Contents { entries, ..held }
}

#[test]
fn keys_that_are_alike_in_what_is_shown_are_one_row() {
    let names = ["stats", "avg", "max", "min"];
    let maps: Vec<UserMap> = names.iter().map(|name| pairs(aggregate("@m", name, Vec::new()))).collect();
    let plain = pairs(map("@v", MapValue::Plain(Type::I64)));
    let entries: &[(u32, &[&[u64]])] =
        &[(11, &[&[1, 10], &[1, 30]]), (12, &[&[4, 400]]), (21, &[&[1, 7]]), (13, &[&[3, 50]])];
    let contents = by_pairs(held(entries));
    let row = |map: &UserMap, column: Source| {
        let table =
            fill(&view(1, &[Source::Key(0), column], Source::Key(0), true, None), &[(map, &contents)], 1.0, &NoTables);
        table.rows.iter().map(|row| numbers(row)).collect::<Vec<_>>()
    };
    assert_eq!(row(&maps[0], measure(0, "count")), [[1.0, 9.0], [2.0, 1.0]]);
    assert_eq!(row(&maps[0], measure(0, "sum")), [[1.0, 490.0], [2.0, 7.0]]);
    assert_eq!(row(&maps[0], measure(0, "mean")), [[1.0, 490.0 / 9.0], [2.0, 7.0]]);
    assert_eq!(row(&maps[1], measure(0, "mean")), [[1.0, 54.0], [2.0, 7.0]], "avg() is truncated, as it is printed");
    assert_eq!(row(&maps[2], measure(0, "max")), [[1.0, 4.0], [2.0, 1.0]]);
    // Kept is the complement, so that what nobody wrote is no minimum.
    let complement = |n: u64| Number::Integer(i128::from(!n)).as_f64();
    assert_eq!(row(&maps[3], measure(0, "min")), [[1.0, complement(4)], [2.0, complement(1)]]);
    assert_eq!(row(&plain, measure(0, "sum")), [[1.0, 8.0], [2.0, 1.0]]);
    assert_eq!(row(&plain, measure(0, "value")), [[1.0, -1.0], [2.0, 1.0]], "values of several keys are no value");
}

#[test]
fn shares_the_order_and_the_others_are_those_of_rows() {
    let map = pairs(aggregate("@n", "count", Vec::new()));
    let contents =
        by_pairs(held(&[(11, &[&[3]]), (12, &[&[4]]), (21, &[&[5]]), (31, &[&[1]]), (32, &[&[2]]), (33, &[&[1]])]));
    let columns = [Source::Key(0), measure(0, "count"), measure(0, "share")];
    let top = Some(Top { rows: 1, rest: true });
    let table = fill(&view(1, &columns, columns[1], false, top), &[(&map, &contents)], 1.0, &NoTables);
    assert_eq!(table.rows.iter().map(|row| numbers(row)).collect::<Vec<_>>(), [[1.0, 7.0, 43.75]]);
    let rest = table.rest.expect("others");
    assert_eq!((rest.others, numbers(&rest.cells)), (2, vec![-1.0, 9.0, 56.25]), "rows, not keys");
    let none = fill(&view(1, &columns[1..], columns[1], false, None), &[(&map, &contents)], 1.0, &NoTables);
    assert_eq!(none.rows.iter().map(|row| numbers(row)).collect::<Vec<_>>(), [[16.0, 100.0]]);
}

#[test]
fn integers_of_several_keys_add_up_beyond_their_width() {
    let largest = map("@v", MapValue::Plain(Type::U64));
    let contents = held(&[(1, &[&[u64::MAX]]), (2, &[&[u64::MAX]])]);
    let table =
        fill(&view(1, &[measure(0, "sum")], measure(0, "sum"), false, None), &[(&largest, &contents)], 1.0, &NoTables);
    assert_eq!(table.rows, [[Cell::Number(Number::Integer(2 * i128::from(u64::MAX)))]]);
}

#[test]
fn keys_of_joined_maps_are_alike_by_value() {
    let one = aggregate("@a", "count", Vec::new());
    let other = UserMap { key: Some(Type::I64), ..map("@b", MapValue::Plain(Type::I64)) };
    let counts = held(&[(7, &[&[2]])]);
    let entries = vec![Entry { key: 7i64.to_ne_bytes().to_vec(), ..held(&[(7, &[&[70]])]).entries[0].clone() }];
    let values = Contents { entries, is_paged: false };
    let columns = [Source::Key(0), measure(0, "count"), measure(1, "value")];
    let table =
        fill(&view(2, &columns, columns[1], false, None), &[(&one, &counts), (&other, &values)], 1.0, &NoTables);
    assert_eq!(table.rows.iter().map(|row| numbers(row)).collect::<Vec<_>>(), [[7.0, 2.0, 70.0]]);
}

#[test]
fn fields_of_records_are_columns() {
    let fields = vec![("calls".to_owned(), Type::U64), ("since".to_owned(), Type::U64)];
    let map = map("@r", MapValue::Plain(Type::Record(fields)));
    let contents = held(&[(1, &[&[4, 900]]), (2, &[&[7, 100]])]);
    let field = |field: usize, unit| Source::Field { map: 0, field, number: Some(unit) };
    let columns = [Source::Key(0), field(0, Unit::None), field(1, Unit::Duration)];
    let top = Some(Top { rows: 1, rest: true });
    let table = fill(&view(1, &columns, columns[2], false, top), &[(&map, &contents)], 1.0, &NoTables);
    assert_eq!(table.rows.iter().map(|row| numbers(row)).collect::<Vec<_>>(), [[1.0, 4.0, 900.0]]);
    assert_eq!(table.headers[2].quantity, Some(Quantity::Of(Unit::Duration)));
    assert_eq!(
        numbers(&table.rest.expect("others").cells),
        [-1.0, -1.0, -1.0],
        "fields of different keys are no field"
    );
}
