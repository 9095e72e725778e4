//! Probes at lines of source files.
//!
//! In: the sources in tests/dwarf, a C compiler. Out: a line runs as often as the source says, with
//! the parameters of its function.

use std::fs;

use super::{PROFILER, checked, succeeds};
use crate::machine::{Directory, run, skip};

/// The directory of the sources.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/dwarf");

/// Ways to compile the sources.
const WAYS: [&[&str]; 5] = [
    &["-g", "-O0"],
    &["-g", "-O2"],
    &["-gdwarf-4", "-O1", "-fno-pie", "-no-pie"],
    &["-g", "-O2", "-flto"],
    &["-gdwarf-3", "-O0", "-fomit-frame-pointer", "-static"],
];

fn compiled(directory: &Directory, options: &[&str], name: &str) -> Option<String> {
    super::compiled_from(directory, options, &["lines.c", "first/same.c", "second/same.c"], name)
}

/// The number of the line of a source that has this comment.
fn line(file: &str, comment: &str) -> usize {
    let source = fs::read_to_string(format!("{SOURCES}/{file}")).expect("the source");
    let at = source.lines().position(|line| line.contains(&format!("// {comment}")));
    at.expect(comment) + 1
}

#[test]
fn a_line_runs_as_often_as_the_source_says() {
    if skip() {
        return;
    }
    let directory = Directory::new("debug-info-lines");
    let script = format!(
        "uprobe:BIN:lines.c:{0} {{ @body[probe, func] = count(); @fd[args.conn->fd] = count(); }}
        uprobe:BIN:dwarf/lines.c:{1} {{ @call[func] = count(); @len[args.len] = count(); }}
        uprobe:BIN:{SOURCES}/lines.c:{2} {{ @again[func] = count(); }}
        uprobe:BIN:lines.h:{3} {{ @inlined[func] = count(); }}
        uprobe:BIN@second/same.c:{4} {{ @second[func, args.value] = count(); }}",
        line("lines.c", "body"),
        line("lines.c", "first call"),
        line("lines.c", "second call"),
        line("lines.h", "inlined"),
        line("second/same.c", "same"),
    );
    for (number, way) in WAYS.iter().enumerate() {
        let Some(program) = compiled(&directory, way, &format!("lines{number}")) else { return };
        let ended = run(&["-q", "-e", &script.replace("BIN", &program), "-c", &program]);
        assert_eq!(ended.code(), 0, "{way:?}: {}", ended.stderr);
        let body = format!("@body[uprobe:{program}:lines.c:{}, work]: 10", line("lines.c", "body"));
        let others = [
            "@fd[7]: 10",
            "@call[work]: 5",
            "@len[0]: 1",
            "@len[4]: 1",
            "@again[work]: 5",
            "@inlined[tripled]: 10",
            "@second[second, 2]: 1",
            "@second[second, 3]: 1",
        ];
        for expected in others.into_iter().chain([body.as_str()]) {
            assert!(ended.stdout.lines().any(|line| line == expected), "{way:?}: {expected}\n{}", ended.stdout);
        }
    }
}

#[test]
fn a_line_that_cannot_be_probed_says_why() {
    if skip() {
        return;
    }
    let directory = Directory::new("debug-info-no-line");
    let Some(program) = compiled(&directory, &["-g", "-O2"], "lines") else { return };
    let empty = line("lines.c", "no code");
    let near = format!("no code for this line; the nearest lines with code are {} and {}", empty - 2, empty + 2);
    let same = line("first/same.c", "same");
    let cases = [
        (format!("uprobe:BIN:lines.c:{empty} {{ exit(); }}"), "E0406", near.as_str()),
        ("uprobe:BIN:lines.c:9999 { exit(); }".into(), "E0406", "the nearest line with code is"),
        (format!("uprobe:BIN:same.c:{same} {{ exit(); }}"), "E0406", "dwarf/first/same.c`, `"),
        ("uprobe:BIN:line.c:10 { exit(); }".into(), "E0405", "near names: lines.c"),
        ("uretprobe:BIN:lines.c:10 { exit(); }".into(), "E0407", "a line has no return"),
    ];
    for (script, code, words) in cases {
        let ended = checked(&script, &program);
        assert!(ended.code() != 0, "{script}");
        assert!(ended.stderr.contains(code) && ended.stderr.contains(words), "{script}: {}", ended.stderr);
    }
    assert!(succeeds("strip", &["-g", &program]));
    let ended = checked("uprobe:BIN:lines.c:10 { exit(); }", &program);
    assert!(ended.stderr.contains("E0406") && ended.stderr.contains("-dbgsym"), "{}", ended.stderr);
}

#[test]
fn an_object_knows_its_lines() {
    if skip() {
        return;
    }
    let directory = Directory::new("debug-info-built-lines");
    let Some(program) = compiled(&directory, &["-g", "-O0"], "lines") else { return };
    let (script, object) = (directory.path("script.prof"), directory.path("script.o"));
    let text = format!("uprobe:{program}:lines.c:{} {{ @[args.len] = count(); }}", line("lines.c", "first call"));
    fs::write(&script, text).expect("a file of ours");
    assert!(succeeds(PROFILER, &["build", &script, "-o", &object]));
    let ended = run(&["-q", &object, "-c", &program]);
    assert_eq!((ended.code(), ended.lines("@[3]: 1")), (0, 1), "{}{}", ended.stdout, ended.stderr);
    // The line is elsewhere in another build.
    assert!(compiled(&directory, &["-g", "-O2"], "lines").is_some());
    let ended = run(&["-q", &object, "-c", &program]);
    assert!(ended.code() != 0 && ended.stderr.contains("changed"), "{}", ended.stderr);
}
