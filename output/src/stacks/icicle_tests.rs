//! Icicle graphs of known stacks, line by line.

use super::{Folded, Look};

const LINES: &str = "\
server;main;serve;parse 30
server;main;serve;read_[k];copy_[k] 50
server;main;tick 2
server;main;log 2
client;main;a_function_with_a_long_name 18
";

fn icicle(lines: &str, look: Look) -> String {
    let mut out = Vec::new();
    Folded::read(&mut lines.as_bytes()).expect("lines").write_icicle("title", look, &mut out).expect("written");
    String::from_utf8(out).expect("text")
}

#[test]
fn functions_are_below_their_callers() {
    let expected = "\
title: 102 in 5 stacks
|all 100.0 %
|server 82.4 %                                   |client
|main 82.4 %                                     |main
|serve 78.4 %                                 |… |a_functio…
|read 49.0 %                |parse 29.4 %
|copy 49.0 %
";
    assert_eq!(icicle(LINES, Look { columns: 60, has_colour: false }), expected);
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for columns in 1..100 {
        let text = icicle(LINES, Look { columns, has_colour: false });
        assert!(text.lines().all(|line| line.chars().count() <= columns.max(20)), "{columns}\n{text}");
    }
}

#[test]
fn colours_are_those_of_the_kind_of_code() {
    let text = icicle("main;read_[k] 1\n", Look { columns: 20, has_colour: true });
    let line = |number: usize| text.lines().nth(number).expect("a line").to_owned();
    assert_eq!(line(2), " \x1b[30;48;5;209mmain 100.0 %       \x1b[0m");
    assert_eq!(line(3), " \x1b[30;48;5;214mread 100.0 %       \x1b[0m");
}

#[test]
fn what_waits_has_the_colour_of_its_state() {
    let lines = "main;running;a 2\nmain;lock;a 1\nmain;disk;a 1\n";
    let text = icicle(lines, Look { columns: 60, has_colour: true });
    let colours = |number: usize| -> Vec<String> {
        let line = text.lines().nth(number).expect("a line");
        line.split("\x1b[30;48;5;").skip(1).map(|cell| cell.split('m').next().expect("a number").to_owned()).collect()
    };
    assert_eq!(colours(2), ["250"]);
    for line in [3, 4] {
        assert_eq!(colours(line), ["209", "33", "63"], "{text}");
    }
}

#[test]
fn a_deep_stack_is_cut() {
    let deep = vec!["f"; 500].join(";") + " 1\n";
    assert_eq!(icicle(&deep, Look { columns: 40, has_colour: false }).lines().count(), 61);
}

#[test]
fn functions_that_are_all_too_narrow_are_counted() {
    let many = (0..100).map(|n| format!("main;f{n} 1\n")).collect::<Vec<_>>().concat();
    let expected = "title: 100 in 100 stacks\n|all 100.0 %\n|main 100.0 %\n|… 100 others\n";
    assert_eq!(icicle(&many, Look { columns: 60, has_colour: false }), expected);
}
