//! Tests of [`super`].

use super::described::{duration, profiler};
use super::{Command, Notice, RunArguments, parse};
use crate::commands::args::choices::{Format, Stage};
use crate::commands::script::Origin;
use std::time::Duration;

fn parsed(line: &[&str]) -> Result<Command, Notice> {
    parse(std::iter::once("profiler").chain(line.iter().copied()).map(Into::into))
}

fn run(line: &[&str]) -> RunArguments {
    match parsed(line) {
        Ok(Command::Run(arguments)) => *arguments,
        other => panic!("{line:?} is {other:?}"),
    }
}

#[test]
fn a_clap_command_without_contradictions() {
    profiler().debug_assert();
}

#[test]
fn words_after_the_script_are_its_parameters() {
    let arguments = run(&["run", "x.prof", "1", "-2", "-q", "two words"]);
    assert_eq!(arguments.script.origin, Origin::File("x.prof".into()));
    assert_eq!(arguments.script.parameters, ["1", "-2", "two words"]);
    assert!(arguments.quiet);
    let arguments = run(&["run", "-e", "BEGIN { }", "1", "--", "-q"]);
    assert_eq!(arguments.script.origin, Origin::Inline("BEGIN { }".into()));
    assert_eq!(arguments.script.parameters, ["1", "-q"]);
    assert!(!arguments.quiet);
    let arguments = run(&["run", "x", "--slow", "5ms", "--duration", "2s", "--pid=7"]);
    assert_eq!(arguments.duration, Some(Duration::from_secs(2)));
    let behind: Vec<&str> = arguments.script.script_words.iter().map(|word| word.text.as_str()).collect();
    assert_eq!(behind, ["--slow", "5ms", "--pid=7"]);
}

#[test]
fn the_word_run_may_be_left_out() {
    for line in [
        ["./x"].as_slice(),
        &["x.bt"],
        &["/usr/bin/x.prof", "-v"],
        &["-"],
        &["-e", "BEGIN { }"],
        &["-q", "-e", "BEGIN { }"],
    ] {
        run(line);
    }
    assert!(parsed(&["chekc", "x"]).is_err());
}

#[test]
fn options_of_run() {
    let arguments = run(&["run", "x", "-p", "7", "-f", "json", "-d", "ast,elf", "-d", "ir", "--duration", "2m"]);
    assert_eq!(arguments.script.processes.pids, [7]);
    assert_eq!(arguments.format, Format::Json);
    assert_eq!(arguments.dump, [Stage::Ast, Stage::Elf, Stage::Ir]);
    assert_eq!(arguments.duration, Some(Duration::from_secs(120)));
    assert_eq!(run(&["run", "x", "-c", "sleep 1"]).command.as_deref(), Some("sleep 1"));
}

#[test]
fn mistakes_end_with_the_usage_code() {
    for line in [
        ["run"].as_slice(),
        &["run", "x", "-p", "0"],
        &["run", "x", "-p", "me"],
        &["run", "x", "-f", "xml"],
        &["run", "x", "-d", "llvm"],
        &["run", "x", "-c", "a", "-p", "1"],
        &["run", "x", "--duration", "soon"],
        &["list", "a", "b"],
        &["frobnicate"],
    ] {
        assert_eq!(parsed(line).expect_err("a mistake").code, 2, "{line:?}");
    }
    for line in [["--help"].as_slice(), &["--version"], &["run", "--help"], &["run", "-h"]] {
        assert_eq!(parsed(line).expect_err("help").code, 0, "{line:?}");
    }
    assert!(matches!(parsed(&[]), Ok(Command::Help(None))));
}

#[test]
fn durations_are_of_seconds_or_have_units() {
    assert_eq!(duration("1500us"), Ok(Duration::from_micros(1500)));
    assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
    assert_eq!([duration("30"), duration("1.5")], [30_000, 1500].map(|ms| Ok(Duration::from_millis(ms))));
    for wrong in ["", "s", "0s", "0", "-1s", "1w", "99999999999999999999s", "9999999999h"] {
        assert!(duration(wrong).is_err(), "{wrong}");
    }
}
