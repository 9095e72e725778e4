use std::time::Duration;

use profiler_model::output::{Cell, Flush as _, Header, SnapshotSink as _, Table, ViewSnapshot, Window};
use profiler_model::statistics::Number;
use profiler_model::units::Unit;
use profiler_model::view::Quantity;

use super::super::fixtures::*;
use super::super::screen::Terminal;
use super::super::text::Text;

fn table(title: &str, empty: Option<&str>) -> Table {
    let headers = vec![Header { name: "n".into(), quantity: Some(Quantity::Of(Unit::None)) }];
    Table { title: title.into(), headers, empty: empty.map(str::to_owned), ..Table::default() }
}

fn full(title: &str) -> Table {
    Table { rows: vec![vec![Cell::Number(Number::Integer(7))]], ..table(title, None) }
}

fn snapshot(table: &Table, view: usize, second: u64, is_live: bool, is_periodic: bool) -> ViewSnapshot<'_> {
    let start_ns = second * 1_000_000_000;
    let window = Window { start_ns, end_ns: start_ns + 1_000_000_000, length: Duration::from_secs(1) };
    ViewSnapshot { table, view, window, is_live, is_periodic, is_remainder: false, quality: &[] }
}

/// The text of tables in windows of these numbers, each window flushed as a session does.
fn windows(shown: &[&[Table]]) -> String {
    let paper = Paper::default();
    let mut text = Text::new(Box::new(paper.clone()), Box::new(Vec::new()), true);
    for (second, tables) in (0..).zip(shown) {
        for table in *tables {
            text.view(&snapshot(table, 0, second, true, true), &Names);
        }
        text.flush().unwrap();
    }
    paper.text()
}

/// The text of tables at the end of a run.
fn end(tables: &[Table]) -> String {
    let paper = Paper::default();
    let mut text = Text::new(Box::new(paper.clone()), Box::new(Vec::new()), true);
    for table in tables {
        text.view(&snapshot(table, 0, 0, false, false), &Names);
    }
    text.flush().unwrap();
    paper.text()
}

/// Text without the times of windows.
fn timeless(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(" to ") {
        Some((start, end)) => {
            let title = start.rfind(", ").map_or("", |at| &start[..at]);
            format!("{title}|{}", end.split_once(" (1 s)").map_or("", |(_, rest)| rest))
        }
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn an_empty_window_is_one_line() {
    let nothing = [table("a", None), table("b", None), table("c", None)];
    assert_eq!(timeless(&windows(&[&nothing, &nothing])), "|: a, b, c (no rows)\n|: a, b, c (no rows)");
    let said = [table("a", Some("no call")), table("b", Some("no call")), table("c", Some("no wait"))];
    assert_eq!(timeless(&windows(&[&said])), "|: no call; no wait");
    let mixed = [table("a", Some("no call")), table("b", None), table("c", Some(""))];
    assert_eq!(timeless(&windows(&[&mixed])), "|: no call; b (no rows)");
    assert_eq!(windows(&[&[table("a", Some(""))]]), "");
}

#[test]
fn empty_tables_are_a_line_beside_others() {
    let expected = "a|\nn\n7\n\n|: b (no rows)\n\nc|\nn\n7\n";
    assert_eq!(timeless(&windows(&[&[full("a"), table("b", None), full("c")]])), expected);
    let busy_then_idle = windows(&[&[full("a")], &[table("a", None)], &[full("a")]]);
    assert_eq!(timeless(&busy_then_idle), "a|\nn\n7\n\n|: a (no rows)\n\na|\nn\n7\n");
}

#[test]
fn at_the_end_a_sentence_replaces_heading_and_table() {
    assert_eq!(end(&[table("a", Some("no call")), table("b", Some("no call"))]), "no call\n");
    assert_eq!(end(&[table("a", Some("no call")), table("b", Some("")), table("c", Some("x"))]), "no call\nx\n");
    assert_eq!(end(&[table("a", Some("no call")), full("b")]), "no call\n\nb\nn\n7\n\n");
    assert_eq!(end(&[table("a", None)]), "a\n(no rows)\n\n");
    // Notes about the numbers need the heading.
    let noted = Table { notes: vec!["a note".into()], ..table("a", Some("no call")) };
    assert_eq!(end(&[noted]), "a\nno call\na note\n\n");
}

#[test]
fn on_a_terminal_a_sentence_is_drawn_once_and_replaced_by_rows() {
    const SIZE: fn() -> Option<(usize, usize)> = || Some((80, 24));
    let paper = Paper::default();
    let terminal = Terminal { has_codes: true, has_colour: false, size: SIZE };
    let mut text = Text::new(Box::new(paper.clone()), Box::new(Vec::new()), true).on_terminal(Some(terminal));
    let (a, b) = (table("a", Some("no call")), table("b", Some("no call")));
    text.view(&snapshot(&a, 0, 0, true, true), &Names);
    text.view(&snapshot(&b, 1, 0, true, true), &Names);
    text.flush().unwrap();
    assert_eq!(timeless(&paper.text()), "|: no call\n");
    let drawn = paper.text().len();
    let rows = full("b");
    text.view(&snapshot(&a, 0, 1, true, true), &Names);
    text.view(&snapshot(&rows, 1, 1, true, true), &Names);
    text.flush().unwrap();
    let after = paper.text()[drawn..].to_owned();
    assert!(after.starts_with(&format!("\r\x1b[2K{}", "\x1b[1A\x1b[2K".repeat(2))), "{after}");
    assert!(after.contains("no call\n\nb, ") && after.ends_with("\nn\n7\n\n"), "{after}");
}
