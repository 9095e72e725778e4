//! `runtime/go` and `runtime/jvm` on programs that know how often their collector ran, and how long
//! their threads waited.
//!
//! In: tests/runtime, compiled or interpreted here. Out: the same numbers from the recipes. Without
//! Go or a JDK, a test prints `SKIPPED: reason`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::machine::{Directory, attached, run, skip};
use super::recipes::{Outcome, TRIES};

fn source(name: &str) -> String {
    format!("{}/../tests/runtime/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs a recipe on a program that is running already; `None` if the program cannot be started.
fn outcome(program: &mut Command, recipe: &str) -> Option<Outcome> {
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut program = program.spawn().ok()?;
    let mut said = BufReader::new(program.stdout.take().expect("a pipe"));
    let mut text = String::new();
    said.read_line(&mut text).expect("a line");
    if text != "ready\n" {
        let _ = program.wait();
        return None;
    }
    let running = attached(&["-q", "-f", "json", recipe, "--pid", &program.id().to_string()]);
    program.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
    said.read_to_string(&mut text).expect("it says what it did");
    assert!(program.wait().expect("it ends").success(), "{text}");
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    Some(Outcome::read(text + &ended.stdout))
}

/// The only row of a table.
fn row<'a>(outcome: &'a Outcome, view: &str) -> &'a Value {
    match outcome.document("view", "view", view)["rows"].as_array().map(Vec::as_slice) {
        Some([row]) => row,
        rows => panic!("{view}: {rows:?}\n{}", outcome.text),
    }
}

/// Whether a time is between these parts of what the program measured.
fn is_within(row: &Value, column: &str, truth: f64, parts: (f64, f64)) -> bool {
    let part = row[column].as_f64().unwrap_or_default() / truth;
    println!("{column}: {part:.3} of what the program measured");
    (parts.0..=parts.1).contains(&part)
}

fn is_count(outcome: &Outcome, row: &Value, column: &str, truth: &str) -> bool {
    row[column].as_f64() == Some(outcome.truth(truth))
}

#[test]
fn a_go_program_collects_and_waits_as_often_as_it_says() {
    let go = Command::new("go").arg("version").output();
    if skip() || !go.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: there is no Go");
        return;
    }
    let directory = Directory::new("runtime-go");
    let program = directory.path("held");
    let mut build = Command::new("go");
    build.args(["build", "-o", &program, &source("held.go")]).env("GOFLAGS", "-mod=mod");
    build.env("GOCACHE", directory.path("cache")).env("HOME", directory.path("home"));
    assert!(build.status().expect("it runs").success());
    for left in (0..TRIES).rev() {
        let outcome = outcome(&mut Command::new(&program), "runtime/go").expect("it runs");
        let garbage = row(&outcome, "garbage collection");
        assert!(is_count(&outcome, garbage, "collections", "collections"), "{}", outcome.text);
        assert!(is_count(&outcome, garbage, "stops", "stops"), "{}", outcome.text);
        let waits = row(&outcome, "goroutines");
        assert!(waits["waits to run"].as_f64() >= Some(outcome.truth("messages")), "{}", outcome.text);
        // Go's own account of a stop begins earlier and ends later.
        if is_within(garbage, "stopped", outcome.truth("stopped_ns"), (0.5, 1.05)) {
            return;
        }
        assert!(left > 0, "{}", outcome.text);
    }
}

#[test]
fn a_jvm_stops_and_waits_for_monitors_as_often_as_it_says() {
    if skip() {
        return;
    }
    for left in (0..TRIES).rev() {
        let mut java = Command::new("java");
        java.args(["-Xmx64m", "-XX:+UseSerialGC", &source("Held.java")]);
        let Some(outcome) = outcome(&mut java, "runtime/jvm") else {
            println!("SKIPPED: there is no JDK");
            return;
        };
        let collections = row(&outcome, "collections");
        assert!(is_count(&outcome, collections, "collections", "collections"), "{}", outcome.text);
        assert_eq!(collections["full"], collections["collections"], "{}", outcome.text);
        let pauses = outcome.row("pauses", "operation", &"GenCollectFull".into());
        assert!(is_count(&outcome, pauses, "pauses", "collections"), "{}", outcome.text);
        assert!(pauses["stopped"].as_f64() >= collections["stopped"].as_f64(), "{}", outcome.text);
        let waits = outcome.row("waits for monitors", "thread", &"waiter".into());
        assert!(is_count(&outcome, waits, "waits", "waits"), "{}", outcome.text);
        // A wait begins before the other thread sees it.
        if is_within(waits, "waited", outcome.truth("held_ns"), (1.0, 1.5)) {
            return;
        }
        assert!(left > 0, "{}", outcome.text);
    }
}

#[test]
fn without_a_runtime_the_recipes_say_so() {
    if skip() {
        return;
    }
    let pid = std::process::id().to_string();
    for (recipe, missing) in [("runtime/go", "runtime.gcStart"), ("runtime/jvm", "libjvm")] {
        let ended = run(&[recipe, "--pid", &pid, "--duration", "100ms"]);
        assert_eq!(ended.code(), 1, "{recipe}: {}", ended.stderr);
        assert!(ended.stderr.contains(missing), "{recipe}: {}", ended.stderr);
    }
}
