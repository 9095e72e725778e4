use std::collections::BTreeMap;

use profiler_compiler::CATALOGUE;
use profiler_model::object::{Storage, UserMap};
use profiler_model::operator::BinaryOp;
use profiler_model::results::{Vocabulary, WordName};
use profiler_model::source::Span;
use profiler_model::types::BtfId;
use profiler_model::types::{StackType, Type};
use profiler_model::value::NoSymbols;
use profiler_model::view::{Column, Computed, Fed, Formula, Order, Top};

use super::*;
use crate::maps::{Contents, Entry, Page};

/// A lookup that resolves nothing.
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
    fn vocabulary(&self) -> &dyn Vocabulary {
        &CATALOGUE
    }
}

/// Nothing is resolved.
const NAMES: Names<'_> = Names { lookup: &NoTables, symbols: &NoSymbols };

fn map(name: &str, value: MapValue) -> UserMap {
    let storage = Storage::Global { offset_bytes: 0, stride_bytes: 64, copies: 1, value_size_bytes: 8 };
    UserMap {
        name: name.into(),
        key: Some(Type::U32),
        value,
        unit: Unit::None,
        storage,
        alternate: None,
        thread: None,
        span: Span::default(),
    }
}

pub(super) fn aggregate(name: &str, of: &'static str, params: Vec<i64>) -> UserMap {
    map(name, MapValue::Aggregate { word: WordName::new(of), params, signed: false, pages: None })
}

/// Entries by key, each with the words of every CPU.
fn held(entries: &[(u32, &[&[u64]])]) -> Contents {
    let bytes = |words: &&[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let entry = |(key, copies): &(u32, &[&[u64]])| {
        Entry::of(key.to_ne_bytes().to_vec(), vec![Page { number: 0, copies: copies.iter().map(bytes).collect() }])
    };
    Contents { entries: entries.iter().map(entry).collect(), is_paged: false }
}

pub(super) fn measure(map: usize, name: &str) -> Source {
    Source::Measure { map, measure: Measure::named(name).expect(name) }
}

pub(super) fn view(maps: usize, columns: &[Source], order: Source, ascending: bool, top: Option<Top>) -> View {
    let columns = columns.iter().map(|source| Column { header: String::new(), source: *source }).collect();
    let order = Some(Order { by: order, ascending });
    View { title: "t".into(), maps: (0..maps).collect(), columns, order, top, ..View::default() }
}

/// The numbers of a row, with -1 for cells that are not numbers.
pub(super) fn numbers(cells: &[Cell]) -> Vec<f64> {
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
    let table = fill(&view(1, &columns, columns[1], false, top), &[(&map, &held)], 2.0, &[], NAMES);
    assert_eq!(table.rows.iter().map(|row| numbers(row)).collect::<Vec<_>>(), [[2.0, 4.0, 100.0, 2.0, 80.0]]);
    let rest = table.rest.expect("others");
    assert_eq!(rest.others, 3);
    let mean = 100.0 / 6.0;
    assert_eq!(numbers(&rest.cells), [-1.0, 6.0, mean, 3.0, 20.0], "the mean of all their values, not of their means");
}

#[test]
fn buckets_of_the_others_are_merged() {
    let map = aggregate("@l", "lhist", vec![0, 40, 10]);
    // Buckets: below 0, four of width ten, and from 40 on.
    let held = held(&[
        (1, &[&[0, 9, 0, 0, 0, 0]]),
        (2, &[&[0, 0, 0, 0, 1, 0]]),
        (3, &[&[0, 1, 1, 0, 0, 0], &[0, 0, 0, 7, 0, 0]]),
    ]);
    let columns = [Source::Key(0), measure(0, "count"), measure(0, "p50"), measure(0, "p90"), measure(0, "p100")];
    let top = Some(Top { rows: 1, rest: true });
    let table = fill(&view(1, &columns, Source::Key(0), true, top), &[(&map, &held)], 1.0, &[], NAMES);
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
        let table = fill(&view(2, &columns, columns[2], ascending, None), &held, 1.0, &[], NAMES);
        let rows: Vec<_> = table.rows.iter().map(|row| numbers(row)).collect();
        assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), keys);
        let by_key: BTreeMap<_, _> = rows.iter().map(|row| (row[0] as u64, row[1..].to_vec())).collect();
        assert_eq!(by_key[&6], [9.0, 70.0, 70.0]);
        assert_eq!((by_key[&5].as_slice(), by_key[&7].as_slice()), (&[2.0, -1.0, -1.0][..], &[-1.0, 80.0, 80.0][..]));
    }
    let top = Some(Top { rows: 1, rest: true });
    let table = fill(&view(2, &columns, columns[1], false, top), &held, 1.0, &[], NAMES);
    assert_eq!(
        numbers(&table.rest.expect("others").cells),
        [-1.0, 2.0, -1.0, 80.0],
        "values of different keys are no value"
    );
}

/// A map with keys of two numbers, the first of which is shown.
fn pairs(map: UserMap) -> UserMap {
    UserMap { key: Some(Type::Tuple(vec![Type::U32, Type::U32])), ..map }
}

/// The same entries with two numbers as key: the tens and the ones of the original key.
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
            fill(&view(1, &[Source::Key(0), column], Source::Key(0), true, None), &[(map, &contents)], 1.0, &[], NAMES);
        table.rows.iter().map(|row| numbers(row)).collect::<Vec<_>>()
    };
    assert_eq!(row(&maps[0], measure(0, "count")), [[1.0, 9.0], [2.0, 1.0]]);
    assert_eq!(row(&maps[0], measure(0, "sum")), [[1.0, 490.0], [2.0, 7.0]]);
    assert_eq!(row(&maps[0], measure(0, "mean")), [[1.0, 490.0 / 9.0], [2.0, 7.0]]);
    assert_eq!(row(&maps[1], measure(0, "mean")), [[1.0, 54.0], [2.0, 7.0]], "avg() is truncated, as it is printed");
    assert_eq!(row(&maps[2], measure(0, "max")), [[1.0, 4.0], [2.0, 1.0]]);
    // The map stores the complement, so that zeroed memory is not a minimum.
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
    let table = fill(&view(1, &columns, columns[1], false, top), &[(&map, &contents)], 1.0, &[], NAMES);
    assert_eq!(table.rows.iter().map(|row| numbers(row)).collect::<Vec<_>>(), [[1.0, 7.0, 43.75]]);
    let rest = table.rest.expect("others");
    assert_eq!((rest.others, numbers(&rest.cells)), (2, vec![-1.0, 9.0, 56.25]), "rows, not keys");
    let errors = [Source::Key(0), measure(0, "share"), measure(0, "share_error")];
    let table = fill(&view(1, &errors, errors[1], false, top), &[(&map, &contents)], 1.0, &[], NAMES);
    let error = 100.0 * (1.96 * (0.4375_f64 * 0.5625 / 16.0).sqrt());
    assert_eq!(table.rows.iter().map(|row| numbers(row)).collect::<Vec<_>>(), [[1.0, 43.75, error]]);
    let none = fill(&view(1, &columns[1..], columns[1], false, None), &[(&map, &contents)], 1.0, &[], NAMES);
    assert_eq!(none.rows.iter().map(|row| numbers(row)).collect::<Vec<_>>(), [[16.0, 100.0]]);
}

#[test]
fn integers_of_several_keys_add_up_beyond_their_width() {
    let largest = map("@v", MapValue::Plain(Type::U64));
    let contents = held(&[(1, &[&[u64::MAX]]), (2, &[&[u64::MAX]])]);
    let table =
        fill(&view(1, &[measure(0, "sum")], measure(0, "sum"), false, None), &[(&largest, &contents)], 1.0, &[], NAMES);
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
        fill(&view(2, &columns, columns[1], false, None), &[(&one, &counts), (&other, &values)], 1.0, &[], NAMES);
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
    let table = fill(&view(1, &columns, columns[2], false, top), &[(&map, &contents)], 1.0, &[], NAMES);
    assert_eq!(table.rows.iter().map(|row| numbers(row)).collect::<Vec<_>>(), [[1.0, 4.0, 900.0]]);
    assert_eq!(table.headers[2].quantity, Some(Quantity::Of(Unit::Duration)));
    assert_eq!(
        numbers(&table.rest.expect("others").cells),
        [-1.0, -1.0, -1.0],
        "fields of different keys are no field"
    );
}

/// A view of one map with its key and these computed columns.
fn computed(formulas: Vec<Formula>, filter: Option<Formula>) -> View {
    let places = (0..formulas.len()).map(|place| Source::Computed { place, is_number: true });
    let columns: Vec<Source> = [Source::Key(0)].into_iter().chain(places).collect();
    let computed = formulas.into_iter().map(|formula| Computed { formula, quantity: None }).collect();
    View { computed, filter, ..view(1, &columns, Source::Key(0), true, None) }
}

fn of(op: BinaryOp, left: Formula, right: Formula) -> Formula {
    Formula::Binary(op, Box::new(left), Box::new(right))
}

fn constant(thousandths: i128) -> Formula {
    Formula::Number { thousandths }
}

#[test]
fn what_cannot_be_computed_is_missing_and_does_not_pass_a_condition() {
    let map = aggregate("@x", "count", vec![]);
    let contents = held(&[(1, &[&[6]]), (2, &[&[3]])]);
    let count = || Formula::Source(measure(0, "count"));
    let less = of(BinaryOp::Sub, count(), constant(3000));
    let quotient = || of(BinaryOp::Div, constant(1000), less.clone());
    let table = fill(&computed(vec![quotient()], None), &[(&map, &contents)], 1.0, &[], NAMES);
    assert_eq!(table.rows[1][1], Cell::Missing, "1 / 0");
    assert!(matches!(&table.rows[0][1], Cell::Number(Number::Real(n)) if (n - 1.0 / 3.0).abs() < 1e-9), "{table:?}");
    let known = of(BinaryOp::Less, quotient(), constant(1_000_000));
    for (filter, rows) in [(known.clone(), 1), (Formula::Not(Box::new(known)), 0)] {
        let table = fill(&computed(vec![count()], Some(filter)), &[(&map, &contents)], 1.0, &[], NAMES);
        assert_eq!(table.rows.len(), rows, "{table:?}");
    }
}

#[test]
fn a_row_of_several_keys_has_the_part_in_which_they_agree_or_its_number_of_values() {
    let key = Type::Tuple(vec![Type::U32, Type::U32]);
    let map = UserMap { key: Some(key), ..aggregate("@x", "count", vec![]) };
    let pair = |a: u32, b: u32| Entry {
        key: [a.to_ne_bytes(), b.to_ne_bytes()].concat(),
        ..held(&[(0, &[&[1]])]).entries.remove(0)
    };
    let contents = Contents { entries: vec![pair(1, 7), pair(2, 5), pair(1, 8), pair(1, 9)], ..held(&[]) };
    let columns = [Source::Key(0), Source::Computed { place: 0, is_number: false }, measure(0, "count")];
    let computed = vec![Computed { formula: Formula::OneOrCount(1), quantity: None }];
    let top = Some(Top { rows: 1, rest: true });
    let view = |top| View { computed: computed.clone(), ..view(1, &columns, Source::Key(0), true, top) };
    let table = fill(&view(None), &[(&map, &contents)], 1.0, &[], NAMES);
    let cells: Vec<&Cell> = table.rows.iter().map(|row| &row[1]).collect();
    assert_eq!(cells, [&Cell::Value(Value::Str("×3".into())), &Cell::Value(Value::Uint(5))]);
    let counts: Vec<f64> = table.rows.iter().map(|row| numbers(&row[2..])[0]).collect();
    assert_eq!(counts, [3.0, 1.0]);
    let rest = fill(&view(top), &[(&map, &contents)], 1.0, &[], NAMES).rest.expect("another");
    assert_eq!((rest.others, &rest.cells[1]), (1, &Cell::Missing));
}

#[test]
fn whole_numbers_stay_exact_and_a_rate_is_by_the_second() {
    let map = aggregate("@x", "sum", vec![]);
    let contents = held(&[(1, &[&[u64::MAX >> 1]])]);
    let sum = || Formula::Source(measure(0, "sum"));
    let twice = of(BinaryOp::Mul, sum(), constant(4000));
    let rate = Formula::PerSecond(Box::new(constant(5000)), Box::new(constant(2_000_000_000_000)));
    let table = fill(&computed(vec![twice, rate], None), &[(&map, &contents)], 1.0, &[], NAMES);
    assert_eq!(table.rows[0][1], Cell::Number(Number::Integer(i128::from(u64::MAX >> 1) * 4)));
    assert_eq!(table.rows[0][2], Cell::Number(Number::Real(2.5)));
}

#[test]
fn a_rate_is_left_out_when_more_starts_broke_than_matched_and_not_before() {
    let map = aggregate("@x", "count", vec![]);
    let contents = held(&[(1, &[&[6]])]);
    let rate = || view(1, &[Source::Key(0), measure(0, "rate")], Source::Key(0), true, None);
    let fed = |replaced_is_broken| View { fed: vec![Fed { map: 0, span: 0, replaced_is_broken }], ..rate() };
    let ledger = |replaced| SpanLedger {
        name: "s".into(),
        started: 10 + replaced,
        matched: 10,
        replaced,
        ..SpanLedger::default()
    };
    let shown = |view: &View, replaced| {
        let table = fill(view, &[(&map, &contents)], 2.0, &[ledger(replaced)], NAMES);
        (table.rows[0][1] != Cell::Missing, table.notes.len())
    };
    assert_eq!(shown(&fed(true), 10), (true, 0));
    assert_eq!(shown(&fed(true), 11), (false, 1));
    assert_eq!(shown(&fed(false), 11), (true, 0), "`restart replace` is written");
    assert_eq!(shown(&rate(), 11), (true, 0), "not of this span");
}
