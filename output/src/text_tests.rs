use std::time::Duration;

use profiler_model::output::{Header, Printed, Rest, Window};
use profiler_model::statistics::Number;
use profiler_model::types::{Space, StackMode};
use profiler_model::units::Unit;
use profiler_model::value::Stack;
use profiler_model::view::Quantity;

use super::super::fixtures::*;
use super::*;

const ALL: MapPrint = MapPrint { top: 0, div: 0, flame: None };

/// The output and the notes of a renderer.
fn written(quiet: bool, write: impl FnOnce(&mut Text)) -> (String, String) {
    let (out, notes) = (Paper::default(), Paper::default());
    let mut text = Text::new(Box::new(out.clone()), Box::new(notes.clone()), quiet);
    write(&mut text);
    text.flush().unwrap();
    (out.text(), notes.text())
}

fn results(write: impl FnOnce(&mut Text)) -> String {
    let (out, notes) = written(false, write);
    assert_eq!(notes, "");
    out
}

#[test]
fn text_is_copied_and_some_kinds_end_a_line() {
    let text = |kind, bytes: &'static [u8]| results(|text| text.text(kind, bytes));
    assert_eq!(text("printf", b"a\n"), "a\n");
    assert_eq!(text("time", b"12:00"), "12:00");
    assert_eq!(text("cat", b"x"), "x");
    assert_eq!(text("join", b"/bin/echo A"), "/bin/echo A\n");
    assert_eq!(text("syscall", b"a\n"), "a\n\n");
}

#[test]
fn printed_values_end_a_line() {
    let value = |value: Value| results(|text| text.value(&value, &Names));
    assert_eq!(value(Value::Int(5)), "5\n");
    assert_eq!(value(Value::Tuple(vec![Value::Int(1), string("x")])), "(1, x)\n");
    assert_eq!(value(stack(&[0xf001])), "\n        do_idle+1\n\n");
    assert_eq!(value(Value::Missing), "null\n");
}

#[test]
fn scalars_are_one_line_or_a_block() {
    let map = |aggregation, value| results(|text| scalar(text, aggregation, value));
    assert_eq!(map(None, Value::Int(5)), "@: 5\n");
    assert_eq!(map(Some(&COUNT), Value::Uint(5)), "@: 5\n");
    assert_eq!(map(None, string("a b")), "@: a b\n");
    assert_eq!(map(None, Value::Tuple(vec![Value::Int(1), Value::Int(2)])), "@: (1, 2)\n");
    assert_eq!(map(Some(&STATS), Value::Average { average: 7 }), "@: 7\n");
    let stats = Value::Stats { count: 3, average: 2, total: 6 };
    assert_eq!(map(Some(&STATS), stats), "@: { .count = 3, .average = 2, .total = 6 }\n");
    assert_eq!(
        map(Some(&HIST), hist(&[2, 16])),
        "@:\n\
         [2, 4)                 1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n\
         [4, 8)                 0 |                                                    |\n\
         [8, 16)                0 |                                                    |\n\
         [16, 32)               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n\
         \n"
    );
    assert_eq!(map(Some(&HIST), hist(&[])), "@:\n\n", "a histogram that was zeroed");
}

#[test]
fn keys_lose_the_parentheses_of_a_tuple() {
    let one = |key| results(|text| keyed(text, None, ALL, &[(key, Value::Int(1))]));
    assert_eq!(one(Value::Int(-3)), "@x[-3]: 1\n");
    assert_eq!(one(string("bash")), "@x[bash]: 1\n");
    assert_eq!(one(Value::Tuple(vec![string("bash"), Value::Int(12)])), "@x[bash, 12]: 1\n");
    assert_eq!(one(Value::Tuple(vec![Value::Tuple(vec![Value::Int(1)]), Value::Int(2)])), "@x[(1), 2]: 1\n");
    assert_eq!(one(string("(sd-pam)")), "@x[sd-pam]: 1\n", "as bpftrace does");
    assert_eq!(one(Value::Bool(true)), "@x[true]: 1\n");
    assert_eq!(one(Value::Pointer(0x1f)), "@x[0x1f]: 1\n");
    assert_eq!(one(Value::Username(0)), "@x[root]: 1\n");
    assert_eq!(one(Value::Inet("::1".parse().unwrap())), "@x[::1]: 1\n");
    assert_eq!(one(Value::Enum { number: 1, name: Some("ONE".into()) }), "@x[ONE]: 1\n");
    assert_eq!(one(Value::Symbol { space: Space::User, address: 3, pid: 1 }), "@x[main]: 1\n");
    assert_eq!(one(Value::Buf(vec![0, b'a'])), "@x[\\x00a]: 1\n");
    assert_eq!(one(stack(&[0xf001, 0x2])), "@x[\n        do_idle+1\n        0x2\n]: 1\n");
    let pair = Value::Tuple(vec![stack(&[0xf001]), string("sh")]);
    assert_eq!(one(pair), "@x[\n        do_idle+1\n, sh]: 1\n");
}

#[test]
fn numbers_sort_maps_by_value_and_ties_by_key() {
    let entries = [(string("b"), 3), (string("a"), 3), (string("c"), -1)].map(|(key, n)| (key, Value::Int(n)));
    assert_eq!(results(|text| keyed(text, None, ALL, &entries)), "@x[c]: -1\n@x[a]: 3\n@x[b]: 3\n");
    let averages = [("a", 40), ("b", 20)].map(|(key, average)| (string(key), Value::Average { average }));
    assert_eq!(results(|text| keyed(text, Some(&STATS), ALL, &averages)), "@x[b]: 20\n@x[a]: 40\n");
    let stats = [("a", 9, 1), ("b", 1, 9)];
    let stats = stats.map(|(key, count, average)| (string(key), Value::Stats { count, average, total: 9 }));
    assert_eq!(
        results(|text| keyed(text, Some(&STATS), ALL, &stats)),
        "@x[a]: { .count = 9, .average = 1, .total = 9 }\n@x[b]: { .count = 1, .average = 9, .total = 9 }\n"
    );
}

#[test]
fn other_values_sort_maps_by_key() {
    let entries = [(10, "a"), (-2, "c"), (9, "b")].map(|(key, value)| (Value::Int(key), string(value)));
    assert_eq!(results(|text| keyed(text, None, ALL, &entries)), "@x[-2]: c\n@x[9]: b\n@x[10]: a\n");
    let entries = [(2, false), (1, true)].map(|(key, value)| (Value::Int(key), Value::Bool(value)));
    assert_eq!(results(|text| keyed(text, None, ALL, &entries)), "@x[1]: true\n@x[2]: false\n");
    let pair = |a: &str, b| Value::Tuple(vec![string(a), Value::Int(b)]);
    let entries = [pair("b", 1), pair("a", 10), pair("a", 9)].map(|key| (key, string("v")));
    assert_eq!(results(|text| keyed(text, None, ALL, &entries)), "@x[a, 9]: v\n@x[a, 10]: v\n@x[b, 1]: v\n");
}

#[test]
fn histograms_sort_by_their_total() {
    let entries = [(string("many"), hist(&[1, 1, 1])), (string("few"), hist(&[1 << 40]))];
    let expected = "\
@x[few]:
[1T, 2T)               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

@x[many]:
[1]                    3 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

";
    assert_eq!(results(|text| keyed(text, Some(&HIST), ALL, &entries)), expected);
}

#[test]
fn top_keeps_the_last_and_div_divides() {
    let averages = [("a", 10), ("b", 20), ("c", 30), ("d", 40)];
    let averages = averages.map(|(key, average)| (string(key), Value::Average { average }));
    let map = |print| results(|text| keyed(text, Some(&STATS), print, &averages));
    assert_eq!(map(MapPrint { top: 2, div: 10, flame: None }), "@x[c]: 3\n@x[d]: 4\n");
    assert_eq!(map(MapPrint { top: 10, div: 10, flame: None }), "@x[a]: 1\n@x[b]: 2\n@x[c]: 3\n@x[d]: 4\n");
    assert_eq!(map(MapPrint { top: 1, div: u64::MAX, flame: None }), "@x[d]: 40\n");
    let plain = [(Value::Int(1), Value::Int(-7)), (Value::Int(2), Value::Uint(9))];
    assert_eq!(
        results(|text| keyed(text, None, MapPrint { top: 0, div: 2, flame: None }, &plain)),
        "@x[1]: -3\n@x[2]: 4\n"
    );
    let counts = [(Value::Int(1), hist(&[1, 1, 1, 1, 2]))];
    assert_eq!(
        results(|text| keyed(text, Some(&HIST), MapPrint { top: 0, div: 2, flame: None }, &counts)),
        "@x[1]:\n\
         [1]                    2 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n\
         [2, 4)                 0 |                                                    |\n\
         \n"
    );
}

#[test]
fn empty_maps_print_nothing() {
    assert_eq!(results(|text| keyed(text, None, ALL, &[])), "");
}

#[test]
fn the_end_is_two_empty_lines() {
    assert_eq!(results(Text::end_of_run), "\n\n");
}

#[test]
fn notes_stay_apart_from_results() {
    assert_eq!(written(false, |text| text.attached(1)), (String::new(), "Attached 1 probe\n".into()));
    assert_eq!(written(false, |text| text.attached(12)), (String::new(), "Attached 12 probes\n".into()));
    assert_eq!(written(true, |text| text.attached(1)), (String::new(), String::new()));
    assert_eq!(written(true, |text| text.lost(7)), (String::new(), "Lost 7 events\n".into()));
    let section = Section {
        name: "missing",
        title: "Missing from these results:".into(),
        lines: vec!["  events of interval:s:1: 7".into(), "  updates of @x: 2".into()],
        entries: Vec::new(),
    };
    let block = "Missing from these results:\n  events of interval:s:1: 7\n  updates of @x: 2\n";
    assert_eq!(written(false, |text| text.quality(&[section])), (String::new(), block.into()));
    assert_eq!(written(false, |text| text.quality(&[])), (String::new(), String::new()));
}

#[test]
fn a_live_view_is_laid_out_anew_when_the_terminal_has_another_size() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    static COLUMNS: AtomicUsize = AtomicUsize::new(80);
    let size = || Some((COLUMNS.load(Ordering::SeqCst), 24));
    let paper = Paper::default();
    let terminal = Terminal { has_codes: true, has_colour: false, size };
    let mut text = Text::new(Box::new(paper.clone()), Box::new(Paper::default()), true).on_terminal(Some(terminal));
    let number = |name: &str| Header { name: name.into(), quantity: Some(Quantity::Of(Unit::None)) };
    let table = Table {
        title: "a title that is long".into(),
        headers: vec![Header { name: "process".into(), quantity: None }, number("count"), number("sum")],
        rows: vec![vec![
            Cell::Value(string("a process")),
            Cell::Number(Number::Integer(1_000_000)),
            Cell::Number(Number::Integer(7)),
        ]],
        ..Table::default()
    };
    let window = Window { start_ns: 0, end_ns: 0, length: std::time::Duration::ZERO };
    let live = ViewSnapshot {
        table: &table,
        view: 0,
        window,
        is_live: true,
        is_periodic: false,
        is_remainder: false,
        quality: &[],
    };
    text.view(&live, &Names);
    text.flush().unwrap();
    let wide = "a title that is long\nprocess      count  sum\na process  1000000    7\n\n";
    assert_eq!(paper.text(), wide);
    COLUMNS.store(18, Ordering::SeqCst);
    assert!(text.follows_size());
    text.resized(&Names);
    text.flush().unwrap();
    // The title and both other wide lines now take two rows each.
    let narrow = "a title t… is long\nprocess      count\na process  1000000\n… 1 more column\n\n";
    let up = format!("\r\x1b[2K{}", "\x1b[1A\x1b[2K".repeat(7));
    assert_eq!(paper.text(), format!("{wide}{up}{narrow}"));
    text.view(&ViewSnapshot { is_live: false, ..live }, &Names);
    text.resized(&Names);
    text.flush().unwrap();
    let up_last = format!("\r\x1b[2K{}", "\x1b[1A\x1b[2K".repeat(5));
    assert_eq!(paper.text(), format!("{wide}{up}{narrow}{up_last}{narrow}"), "what stays is left alone");
}

/// Two windows of two views: what is on the terminal after the run, below what was drawn.
fn after_windows(full_ms: u64, rest_ms: u64) -> String {
    const SIZE: fn() -> Option<(usize, usize)> = || Some((80, 24));
    let paper = Paper::default();
    let terminal = Terminal { has_codes: true, has_colour: false, size: SIZE };
    let mut text = Text::new(Box::new(paper.clone()), Box::new(Vec::new()), true).on_terminal(Some(terminal));
    let window = |ms| Window { start_ns: 0, end_ns: 0, length: std::time::Duration::from_millis(ms) };
    let mut show = |title: &str, view, is_live| {
        let table = Table { title: title.into(), ..Table::default() };
        let window = window(if is_live { full_ms } else { rest_ms });
        let (is_periodic, is_remainder, quality) = (false, !is_live, &[]);
        text.view(&ViewSnapshot { table: &table, view, window, is_live, is_periodic, is_remainder, quality }, &Names);
        text.flush().unwrap();
    };
    show("full one", 0, true);
    show("full two", 1, true);
    let drawn = paper.text();
    show("rest one", 0, false);
    show("rest two", 1, false);
    paper.text()[drawn.len()..].to_owned()
}

#[test]
fn what_is_left_after_the_last_full_window_does_not_replace_it() {
    let titles = |text: &str| -> Vec<String> {
        // What is erased is not the last of its title.
        let last = |title: &&str| text.rfind(*title);
        let mut found: Vec<(usize, &str)> = ["full one", "full two", "rest one", "rest two"]
            .iter()
            .filter_map(|title| Some((last(title)?, *title)))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, title)| title.to_owned()).collect()
    };
    assert_eq!(titles(&after_windows(2000, 20)), ["full one", "full two"], "20 ms say nothing");
    assert_eq!(titles(&after_windows(2000, 1500)), ["full one", "rest one", "full two", "rest two"]);
}

#[test]
fn spans_of_which_nothing_is_missing_can_be_left_out() {
    let whole = SpanLedger { name: "whole".into(), started: 7, matched: 5, open: 2, ..SpanLedger::default() };
    let lossy = SpanLedger { name: "lossy".into(), dropped: 1, ..whole.clone() };
    let said = |omits: bool| {
        let notes = Paper::default();
        let text = Text::new(Box::new(Paper::default()), Box::new(notes.clone()), true);
        let mut text = text.omitting_whole_spans(omits);
        text.spans(&[whole.clone(), lossy.clone()]);
        notes.text().lines().filter_map(|line| line.split(':').next().map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(said(false), ["span whole", "span lossy"]);
    assert_eq!(said(true), ["span lossy"]);
}

#[test]
fn views_that_do_not_fit_are_named() {
    const SIZE: fn() -> Option<(usize, usize)> = || Some((80, 14));
    let paper = Paper::default();
    let terminal = Terminal { has_codes: true, has_colour: false, size: SIZE };
    let mut text = Text::new(Box::new(paper.clone()), Box::new(Vec::new()), true).on_terminal(Some(terminal));
    let window = Window { start_ns: 0, end_ns: 0, length: std::time::Duration::ZERO };
    let row = |number: i128| vec![Cell::Number(Number::Integer(number))];
    for (view, title) in ["first", "second", "third"].into_iter().enumerate() {
        let headers = vec![Header { name: "count".into(), quantity: Some(Quantity::Of(Unit::None)) }];
        let table = Table { title: title.into(), headers, rows: (0..20).map(row).collect(), ..Table::default() };
        let (is_live, is_periodic, is_remainder, quality) = (true, false, false, &[]);
        text.view(&ViewSnapshot { table: &table, view, window, is_live, is_periodic, is_remainder, quality }, &Names);
    }
    text.flush().unwrap();
    let shown = paper.text();
    assert_eq!(shown.lines().count(), 13, "it fits: {shown}");
    assert!(shown.starts_with("first\ncount\n    0\n    1\n    2\n    3\n    4\n    5\n    6\n    7\n"), "{shown}");
    assert!(
        shown.ends_with("… 12 more rows do not fit on the screen\n\n… no lines left for: second, third\n"),
        "{shown}"
    );
}

#[test]
fn nothing_that_a_terminal_obeys_is_shown_unless_the_script_wrote_it() {
    let hostile = "\x1b]0;x\x07\u{9b}2J\r";
    let shown = |escapes: bool| {
        let (out, notes) = (Paper::default(), Paper::default());
        let mut text = Text::new(Box::new(out.clone()), Box::new(notes.clone()), true).escaping(escapes, escapes);
        for kind in ["printf", "cat", "join", "syscall", "time"] {
            text.text(kind, hostile.as_bytes());
        }
        text.value(&string(hostile), &Names);
        let map = MapSnapshot {
            name: "@".into(),
            keyed: true,
            aggregation: None,
            entries: vec![(Some(string(hostile)), string(hostile))],
            processes: Vec::new(),
        };
        text.map(&map, ALL, &Names);
        EventSink::note(&mut text, "warnf", hostile.as_bytes(), &SourceLocation::default());
        let trial = Trial::Test {
            names: &[String::new()],
            passed: &[false],
            duration: std::time::Duration::ZERO,
            printed: &[Printed::Text { kind: "printf", bytes: hostile.into() }],
        };
        text.trial(&trial, &Names);
        text.flush().unwrap();
        (out.text(), notes.text())
    };
    let (out, notes) = shown(false);
    assert_eq!(
        (out.matches(hostile).count(), notes.matches(hostile).count()),
        (9, 1),
        "files and pipes get every byte"
    );
    let (out, notes) = shown(true);
    let written = r"\x1b]0;x\x07\xc2\x9b2J\x0d";
    assert_eq!((out.matches(written).count(), notes.matches(written).count()), (8, 1));
    assert_eq!(out.matches(hostile).count(), 1, "what is left of `printf` is the script's own");
}

/// Two stacks of `main` with 3 and 1.
fn stacks() -> Vec<(Value, u64)> {
    let stack = |frames: &[u64]| {
        let frames = frames.to_vec();
        Value::Stack(Stack {
            space: Space::User,
            mode: StackMode::Bpftrace,
            pid: 7,
            frames,
            interrupted: Vec::new(),
            end: None,
        })
    };
    let key = |name: &str, frames: &[u64]| Value::Tuple(vec![Value::Str(name.into()), stack(frames)]);
    vec![(key("a", &[1]), 3_000_000), (key("b\x1b[2J", &[1]), 1_000_000)]
}

#[test]
fn a_map_is_drawn_with_its_unit() {
    let draw = |entries: Vec<(Option<Value>, Value)>| {
        let map = MapSnapshot { name: "@s".into(), keyed: true, aggregation: None, entries, processes: Vec::new() };
        let print = MapPrint { flame: Some(Unit::Duration), ..ALL };
        results(|text| text.map(&map, print, &Names))
    };
    let picture = draw(stacks().into_iter().map(|(key, spent)| (Some(key), Value::Uint(spent))).collect());
    let lines: Vec<&str> = picture.lines().collect();
    assert_eq!(lines[..2], ["@s: 4 ms in 2 stacks", "|all 100.0 %"], "{picture}");
    assert!(lines[2].starts_with("|a 75.0 %") && lines[2][90..].starts_with("|b:[2J 25.0 %"), "{picture}");
    assert!(lines[3].starts_with("|main 75.0 %") && lines[4..] == [""], "{picture}");
    assert_eq!(draw(Vec::new()), "");
}

#[test]
fn a_view_is_drawn_with_the_rows_that_are_left_out() {
    let header = |name: &str, quantity| Header { name: name.into(), quantity };
    let row = |(key, count): (Value, u64)| {
        let Value::Tuple(parts) = key else { unreachable!("a tuple") };
        let cells = parts.into_iter().map(Cell::Value);
        cells.chain([Cell::Number(Number::Real(0.5)), Cell::Number(Number::Integer(count.into()))]).collect()
    };
    let number = Some(Quantity::Of(Unit::None));
    let others = vec![Cell::Missing, Cell::Missing, Cell::Missing, Cell::Number(Number::Integer(4_000_000))];
    let table = Table {
        title: "t".into(),
        headers: vec![header("name", None), header("s", None), header("share", number), header("count", number)],
        rows: stacks().into_iter().map(row).collect(),
        rest: Some(Rest { others: 7, cells: others }),
        notes: vec!["a note".into()],
        flame: Some(3),
        ..Table::default()
    };
    let window = Window { start_ns: 0, end_ns: 0, length: Duration::ZERO };
    let show = |table: &Table| {
        let view = ViewSnapshot {
            table,
            view: 0,
            window,
            is_live: false,
            is_periodic: false,
            is_remainder: false,
            quality: &[],
        };
        results(|text| text.view(&view, &Names))
    };
    let picture = show(&table);
    let lines: Vec<&str> = picture.lines().collect();
    assert_eq!(lines[..2], ["t: 8000000 in 3 stacks", "|all 100.0 %"], "{picture}");
    assert!(lines[2].starts_with("|[7 others] 50.0 %") && lines[2].contains("|a 37.5 %"), "{picture}");
    assert_eq!(lines[4..], ["a note", ""], "{picture}");
    let nothing = show(&Table { rows: Vec::new(), rest: None, ..table });
    assert!(nothing.starts_with("t\n(no rows)\n"), "{nothing}");
}
