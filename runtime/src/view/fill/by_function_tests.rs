use profiler_compiler::CATALOGUE;
use profiler_model::decode::Lookup;
use profiler_model::object::UserMap;
use profiler_model::output::Table;
use profiler_model::results::Vocabulary;
use profiler_model::types::{BtfId, Space, StackMode, StackType, Type, Walk};
use profiler_model::value::{SymbolName, Symbols};
use profiler_model::view::{Source, Top, View};

use super::super::tests::{aggregate, measure, numbers, view};
use super::super::{Names, fill};
use super::*;
use crate::maps::{Contents, Page};

/// Stacks of kernel code by id.
#[derive(Debug)]
struct Stacks;

impl Lookup for Stacks {
    fn stack(&self, _ty: StackType, id: i64) -> Option<Vec<u64>> {
        // `leaf` in `recursive` in `recursive` in `main`; `recursive` in `main`.
        Some([vec![16, 32, 32, 48], vec![32, 48]].get(id as usize)?.clone())
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

impl Symbols for Stacks {
    fn kernel(&self, address: u64) -> Option<SymbolName> {
        // A caller is looked up at the byte before its return address.
        let name = match address.div_ceil(16) {
            1 => "leaf",
            2 => "recursive",
            _ => "main",
        };
        Some(SymbolName { name: name.into(), offset: 0, module: None })
    }
    fn user(&self, _pid: u32, _address: u64) -> Option<SymbolName> {
        None
    }
    fn username(&self, _uid: u32) -> Option<String> {
        None
    }
    fn boot_time_ns(&self) -> u64 {
        0
    }
}

/// The rows of a view by function: the name, then numbers.
fn by_function(top: Option<Top>) -> Table {
    let stack = StackType { space: Space::Kernel, mode: StackMode::Bpftrace, limit: 127, walk: Walk::Kernel };
    let map = UserMap { key: Some(Type::Stack(stack)), ..aggregate("@n", "count", Vec::new()) };
    let entry = |(id, count): (u64, u64)| {
        Entry::of(id.to_ne_bytes().to_vec(), vec![Page { number: 0, copies: vec![count.to_ne_bytes().to_vec()] }])
    };
    let contents = Contents { entries: [(1, 10), (2, 5), (0, 1)].map(entry).into(), is_paged: false };
    let columns = [Source::Key(1), measure(1, "count"), measure(1, "share"), measure(0, "count"), measure(0, "share")];
    let view = View { by_function: true, maps: vec![0, 0], ..view(2, &columns, columns[3], false, top) };
    let names = Names { lookup: &Stacks, symbols: &Stacks };
    fill(&view, &[(&map, &contents), (&map, &contents)], 1.0, &[], names)
}

#[test]
fn a_stack_is_in_the_row_of_each_of_its_functions_once() {
    let table = by_function(None);
    let rows = table.rows.iter().map(|row| {
        let Cell::Value(Value::Str(name)) = &row[0] else { panic!("{row:?}") };
        (String::from_utf8_lossy(name).into_owned(), numbers(&row[1..]))
    });
    let expected = [
        ("main", [-1.0, -1.0, 15.0, 93.75]),
        ("recursive", [5.0, 31.25, 15.0, 93.75]),
        ("leaf", [10.0, 62.5, 10.0, 62.5]),
        ("[no stack]", [1.0, 6.25, 1.0, 6.25]),
    ];
    let expected = expected.map(|(name, numbers)| (name.to_owned(), numbers.to_vec()));
    assert_eq!(rows.collect::<Vec<_>>(), expected);
}

#[test]
fn the_rest_of_a_view_by_function_has_a_stack_once() {
    let rest = by_function(Some(Top { rows: 1, rest: true })).rest.expect("others");
    assert_eq!(rest.others, 3);
    assert_eq!(numbers(&rest.cells[1..]), [16.0, 100.0, 16.0, 100.0]);
}
