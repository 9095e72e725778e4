use std::time::Duration;

use profiler_model::output::{Rest, Table, Window};
use profiler_model::units::Unit;

use super::*;
use crate::fixtures::{Names, Paper};

#[test]
fn fields_are_quoted_where_they_must_be_and_numbers_are_bare() {
    let (out, notes) = (Paper::default(), Paper::default());
    let mut csv = Csv::new(Box::new(out.clone()), Box::new(notes.clone()), Box::new(notes.clone()), true);
    let text = |text: &str| Cell::Value(Value::Str(text.as_bytes().to_vec()));
    let head = |name: &str, quantity| Header { name: name.into(), quantity };
    let mut table = Table {
        title: "t".into(),
        headers: vec![
            head("who", None),
            head("@x.p99", Some(Quantity::Of(Unit::Duration))),
            head("share", Some(Quantity::Share)),
        ],
        rows: vec![vec![
            text("a, \"b\"\nc"),
            Cell::Number(Number::Below(2_000_000)),
            Cell::Number(Number::Real(200.0 / 3.0)),
        ]],
        rest: Some(Rest { others: 3, cells: vec![Cell::Missing, Cell::Missing, Cell::Number(Number::Integer(4))] }),
        ..Table::default()
    };
    let window = Window { start_ns: 1_000_000_000, end_ns: 1_000_000_000, length: Duration::ZERO };
    for _ in 0..2 {
        let shown = ViewSnapshot {
            table: &table,
            view: 0,
            window,
            is_live: false,
            is_periodic: false,
            is_remainder: false,
            quality: &[],
        };
        csv.view(&shown, &Names);
        table.headers.truncate(2);
        table.rows[0].truncate(2);
        table.rest = None;
    }
    csv.text("printf", b"apart\n");
    csv.flush().unwrap();
    let at = "1970-01-01T00:00:01.000000Z";
    let expected = format!(
        "view,start,end,others,who,x.p99_ns,share_percent\n\
         t,{at},{at},0,\"a, \"\"b\"\"\nc\",2000000,66.667\n\
         t,{at},{at},3,,,4\n\
         \n\
         view,start,end,others,who,x.p99_ns\n\
         t,{at},{at},0,\"a, \"\"b\"\"\nc\",2000000\n"
    );
    assert_eq!((out.text(), notes.text().as_str()), (expected, "apart\n"));
}

#[test]
fn what_readers_of_lines_would_change_is_quoted() {
    let line = |field: &str| {
        let mut out = Vec::new();
        write_line([field.as_bytes(), b"x"].into_iter(), &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(line("a b"), "a b,x\n");
    for quoted in [" a", "a\rb", "a\nb", "a,b"] {
        assert_eq!(line(quoted), format!("\"{quoted}\",x\n"), "{quoted:?}");
    }
    assert_eq!(line("a\"b"), "\"a\"\"b\",x\n");
}
