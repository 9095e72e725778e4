use profiler_model::statistics::Number;
use profiler_model::types::{Space, StackMode};
use profiler_model::units::Unit;
use profiler_model::value::{Stack, Value};
use profiler_model::view::Quantity;

use super::*;
use crate::fixtures::Names;
use profiler_model::output::{Cell, Header, Rest};

fn head(name: &str, quantity: Option<Quantity>) -> Header {
    Header { name: name.into(), quantity }
}

fn text(text: &str) -> Cell {
    Cell::Value(Value::Str(text.as_bytes().to_vec()))
}

fn number(n: i128) -> Cell {
    Cell::Number(Number::Integer(n))
}

fn mutexes() -> Table {
    let nanoseconds = Some(Quantity::Of(Unit::Duration));
    let row = |comm: &str, mutex: &str, count, p99, share| {
        vec![text(comm), text(mutex), number(count), Cell::Number(p99), Cell::Number(Number::Real(share))]
    };
    let rest = vec![Cell::Missing, Cell::Missing, number(7), Cell::Missing, Cell::Number(Number::Real(0.25))];
    Table {
        title: "slowest mutexes".into(),
        headers: vec![
            head("comm", None),
            head("mutex", None),
            head("count", Some(Quantity::Of(Unit::None))),
            head("p99", nanoseconds),
            head("share", Some(Quantity::Share)),
        ],
        rows: vec![
            row("postgres", "0x55d0a0c3f040", 1000, Number::Integer(1_250_000), 62.125),
            row("a\tb", "接続プール", 30, Number::Below(4096), 37.5),
        ],
        rest: Some(Rest { others: 12, cells: rest }),
        ..Table::default()
    }
}

fn shown(table: &Table, layout: Layout) -> String {
    lines(table, &table.title, layout, &Names).into_iter().map(|line| line.text + "\n").collect()
}

#[test]
fn shares_have_bars_where_a_terminal_has_room() {
    let at = |width| shown(&mutexes(), Layout { width: Some(width), ..Layout::default() });
    let expected = "\
slowest mutexes
comm         mutex           count      p99   share
postgres     0x55d0a0c3f040   1000  1.25 ms  62.1 %  ████████████████████
a\\tb         接続プール         30  <4.1 µs  37.5 %  ████████████▏
… 12 others                      7        -   0.2 %
";
    assert_eq!(at(200), expected);
    assert!(!at(58).contains('█'), "{}", at(58));
    assert!(at(62).lines().all(|line| line.width() <= 62), "{}", at(62));
}

#[test]
fn columns_are_aligned_and_numbers_have_units_of_their_magnitude() {
    let expected = "\
slowest mutexes
comm         mutex           count      p99   share
postgres     0x55d0a0c3f040   1000  1.25 ms  62.1 %
a\\tb         接続プール         30  <4.1 µs  37.5 %
… 12 others                      7        -   0.2 %
";
    assert_eq!(shown(&mutexes(), Layout::default()), expected);
}

#[test]
fn a_narrow_terminal_cuts_text_in_the_middle_and_never_numbers() {
    let narrow = shown(&mutexes(), Layout { width: Some(45), ..Layout::default() });
    let expected = "\
slowest mutexes
comm         mutex     count      p99   share
postgres     0x55…040   1000  1.25 ms  62.1 %
a\\tb         接続…ル      30  <4.1 µs  37.5 %
… 12 others                7        -   0.2 %
";
    assert_eq!(narrow, expected);
}

#[test]
fn columns_that_do_not_fit_are_left_out_and_said() {
    let expected = "\
slowest mutexes
comm         mutex       count      p99
postgres     0x55d…f040   1000  1.25 ms
a\\tb         接続プール     30  <4.1 µs
… 12 others                  7        -
… 1 more column does not fit: share
";
    assert_eq!(shown(&mutexes(), Layout { width: Some(39), ..Layout::default() }), expected);
    let expected = "\
slowest mutexes
comm         count
postgres      1000
a\\tb            30
… 12 others      7
… 3 more columns
";
    assert_eq!(shown(&mutexes(), Layout { width: Some(20), ..Layout::default() }), expected);
    for width in 1..60 {
        let layout = Layout { width: Some(width), ..Layout::default() };
        let lines = lines(&mutexes(), "a title that is far too long for it", layout, &Names);
        assert!(lines.iter().all(|line| line.width <= width.max(2)), "{width}: {lines:?}");
    }
}

#[test]
fn the_first_column_is_left_alone_where_no_other_fits() {
    let expected = "\
slowest mutexes
comm
postgres
a\\tb
… 12 others
… 4 more columns
";
    assert_eq!(shown(&mutexes(), Layout { width: Some(16), ..Layout::default() }), expected);
    // One column more than fits is the last one.
    let mut table = mutexes();
    table.headers.truncate(3);
    table.rows.iter_mut().for_each(|row| row.truncate(3));
    table.rest.iter_mut().for_each(|rest| rest.cells.truncate(3));
    table.headers.swap(1, 2);
    table.rows.iter_mut().for_each(|row| row.swap(1, 2));
    table.rest.iter_mut().for_each(|rest| rest.cells.swap(1, 2));
    let narrow = shown(&table, Layout { width: Some(27), ..Layout::default() });
    assert!(narrow.contains("\ncomm         count\n") && narrow.contains("… 1 more column"), "{narrow}");
}

#[test]
fn a_cell_is_one_line_that_reads_as_it_is_written() {
    let mut table = mutexes();
    table.rows[0][0] = text("a\nb\u{1b}[2J\u{202e}c\u{2069}");
    let shown = shown(&table, Layout::default());
    assert!(shown.contains("a\\nb\\u{1b}[2J\\u{202e}c\\u{2069}"), "{shown}");
}

#[test]
fn a_low_and_narrow_terminal_is_not_exceeded() {
    let layout = Layout { width: Some(20), height: Some(6), ..Layout::default() };
    let low = shown(&mutexes(), layout);
    assert_eq!(
        low,
        "slowest mutexes\ncomm         count\npostgres      1000\n… 1 more row\n… 12 others      7\n… 3 more columns\n"
    );
}

#[test]
fn a_low_terminal_says_how_many_rows_it_leaves_out() {
    let low = shown(&mutexes(), Layout { height: Some(5), ..Layout::default() });
    assert!(low.contains("postgres") && low.contains("… 1 more row does not fit on the screen\n… 12 others"), "{low}");
    assert_eq!(low.lines().count(), 5);
}

#[test]
fn the_others_have_a_column_of_their_own_where_no_text_is() {
    let mut table = mutexes();
    table.headers.drain(..2);
    table.rows.iter_mut().for_each(|row| drop(row.drain(..2)));
    table.rest.iter_mut().for_each(|rest| drop(rest.cells.drain(..2)));
    let expected = "\
slowest mutexes
             count      p99   share
              1000  1.25 ms  62.1 %
                30  <4.1 µs  37.5 %
… 12 others      7        -   0.2 %
";
    assert_eq!(shown(&table, Layout::default()), expected);
}

#[test]
fn colour_adds_no_width() {
    let colour = lines(&mutexes(), "t", Layout { colour: true, ..Layout::default() }, &Names);
    assert_eq!((colour[0].text.as_str(), colour[0].width), ("\x1b[1mt\x1b[0m", 1));
    assert_eq!(colour[1].width, 51);
}

#[test]
fn a_table_without_rows_says_so() {
    let table = Table { rows: Vec::new(), rest: None, ..mutexes() };
    assert_eq!(shown(&table, Layout::default()), "slowest mutexes\n(no rows)\n");
}

fn stacks(frames: u64) -> Table {
    let stack = Stack {
        space: Space::Kernel,
        mode: StackMode::Bpftrace,
        pid: 0,
        frames: (0..frames).map(|at| 0x1000 + at).collect(),
        interrupted: Vec::new(),
        end: None,
    };
    let row = |n| vec![Cell::Value(Value::Stack(stack.clone())), number(n)];
    Table {
        title: "stacks".into(),
        headers: vec![head("kstack", None), head("count", Some(Quantity::Of(Unit::None)))],
        rows: vec![row(7), row(5)],
        ..Table::default()
    }
}

#[test]
fn a_stack_has_a_line_for_each_frame_and_its_numbers_stand_beside_the_first() {
    let text = shown(&stacks(3), Layout::default());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 + 2 * 3, "{text}");
    assert!(lines[2].ends_with('7') && lines[5].ends_with('5'), "{text}");
    assert!(!lines[3].ends_with('7') && !text.contains(" < "), "{text}");
}

#[test]
fn stacks_share_the_height_of_a_terminal_and_say_how_many_frames_are_left_out() {
    let text = shown(&stacks(20), Layout { height: Some(11), width: Some(40), ..Layout::default() });
    assert!(text.lines().count() <= 11, "{text}");
    assert_eq!(text.matches("… 17 more frames").count(), 2, "{text}");
    assert!(!text.contains("more row"), "both rows are there: {text}");
    let low = shown(&stacks(20), Layout { height: Some(5), ..Layout::default() });
    assert!(low.lines().count() <= 5 && low.contains("… 1 more row does not fit"), "{low}");
}

#[test]
fn what_is_to_be_known_of_the_numbers_stands_below_them_and_fits_the_terminal() {
    let mut table = mutexes();
    table.notes.push("most starts of span request broke: no rate is shown".into());
    assert!(shown(&table, Layout::default()).ends_with("\nmost starts of span request broke: no rate is shown\n"));
    let narrow = lines(&table, "t", Layout { width: Some(20), height: Some(12), ..Layout::default() }, &Names);
    assert!(narrow.len() <= 12 && narrow.iter().all(|line| line.width <= 20), "{narrow:?}");
    let withheld = Table { rows: Vec::new(), rest: None, withheld: Some("not shown".into()), ..mutexes() };
    assert_eq!(shown(&withheld, Layout::default()), "slowest mutexes\n(not shown)\n");
}
