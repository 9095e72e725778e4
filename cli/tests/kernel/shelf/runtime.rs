//! `runtime/…`: interpreters and virtual machines, compared with what they know about themselves.
//!
//! In: the programs of `tests/runtimes`. Out: the same numbers of collections, and times between
//! two that are known. Without an interpreter, its test prints `SKIPPED: reason`.

use std::process::Command;

use serde_json::Value;

use super::super::machine::{Directory, attached, run, skip};
use super::super::recipes::Outcome;
use super::bystanders::breakpoints;
use super::programs::{PROGRAMS, Process, beside};
use super::{NOBODY, says_nothing};

/// The only row of a view.
fn only<'a>(outcome: &'a Outcome, view: &str) -> &'a Value {
    let rows = outcome.rows(view);
    assert_eq!(rows.len(), 1, "{view}: {}", outcome.text);
    &rows[0]
}

/// An interpreter that the distribution built, and a program for it.
fn python(program: &str) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.arg(format!("{PROGRAMS}/{program}"));
    command
}

/// The longest time of a view.
fn longest(outcome: &Outcome, view: &str) -> f64 {
    outcome.rows(view).iter().filter_map(|row| row["max"].as_f64()).fold(0.0, f64::max)
}

#[test]
fn python_s_lock_and_collector_are_those_that_it_measures() {
    if skip() {
        return;
    }
    let views = ["waits for the GIL", "holds of the GIL", "garbage collections"];
    if let Some(outcome) = beside(&mut python("gil.py"), &["runtime/python", "--pid", "PID"]) {
        let run_ns = outcome.truth("run_ns");
        assert!(views.iter().all(|view| (1.0..=run_ns).contains(&longest(&outcome, view))), "{}", outcome.text);
        let collected = only(&outcome, views[2]);
        // The interpreter collects again at its end.
        assert!(collected["collections"].as_f64() >= Some(outcome.truth("collections")), "{}", outcome.text);
        let sum = |view: &str, column: &str, is_it: &dyn Fn(&Value) -> bool| -> f64 {
            outcome.rows(view).iter().filter(|row| is_it(row)).filter_map(|row| row[column].as_f64()).sum()
        };
        // The main thread has the lock for each of its calls, but may have to get it back after it
        // has read its clock. When it collects, it is alone, so all collections are in one hold.
        let waited = sum(views[0], "waited", &|row| row["tid"] == row["pid"]);
        let call = (outcome.truth("longest_ns") - waited) / 2.0;
        let least = call.max(outcome.truth("collected_ns"));
        outcome.expect_between(longest(&outcome, views[1]), least, run_ns, "the longest hold");
        // One thread has it at a time.
        outcome.expect_between(sum(views[1], "held", &|_| true), least, run_ns, "all holds");
    }
    says_nothing("runtime/python", NOBODY, &views);
}

#[test]
fn node_s_event_loop_and_collector_are_those_that_it_measures() {
    if skip() {
        return;
    }
    let mut program = Command::new("node");
    program.args(["--expose-gc", &format!("{PROGRAMS}/loop.js")]);
    if let Some(outcome) = beside(&mut program, &["runtime/node", "--pid", "PID"]) {
        let pauses = only(&outcome, "garbage collections");
        assert_eq!(pauses["pauses"].as_f64(), Some(outcome.truth("pauses")), "{}", outcome.text);
        let rounds = only(&outcome, "rounds of the event loop");
        assert!(rounds["max"].as_f64() >= Some(outcome.truth("busy_ns") / 10.0), "{}", outcome.text);
        // All collections are in one round of the event loop. The interpreter's clock begins and
        // ends in the same callbacks as the probes, before or after them.
        let (sum, longest) = (pauses["paused"].as_f64(), rounds["max"].as_f64());
        let (sum, longest) = sum.zip(longest).expect("times");
        outcome.expect_between(sum, 0.8 * outcome.truth("paused_ns"), longest, "pauses");
    }
    says_nothing("runtime/node", NOBODY, &["rounds of the event loop", "garbage collections"]);
}

#[test]
fn goroutines_wait_for_the_only_processor_and_collections_are_counted() {
    if skip() {
        return;
    }
    let directory = Directory::new("go");
    let program = directory.path("pauses");
    let source = format!("{PROGRAMS}/pauses.go");
    let compiled =
        Command::new("go").args(["build", "-o", &program, &source]).env("GOCACHE", directory.path("cache")).output();
    let Ok(built) = compiled else {
        println!("SKIPPED: go is not here");
        return;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let (wanted, _) = Process::start_ready(&mut Command::new(&program)).expect("it was compiled");
    let (other, _) = Process::start_ready(&mut Command::new(&program)).expect("it was compiled");
    let running = attached(&["-q", "runtime/go", "--go", &program, "--pid", &wanted.pid()]);
    assert_ne!(breakpoints(&wanted.pid()), Vec::<String>::new());
    assert_eq!(breakpoints(&other.pid()), Vec::<String>::new());
    running.signal("INT");
    assert_eq!(running.end().code(), 0);
    // It finds the program itself.
    let recipe = ["runtime/go", "--pid", "PID"];
    if let Some(outcome) = beside(&mut Command::new(&program), &recipe) {
        let marked = only(&outcome, "marking");
        assert_eq!(marked["collections"].as_f64(), Some(outcome.truth("collections")), "{}", outcome.text);
        // A collection stops the world twice; reading the statistics does it once, two times. The
        // program's clock begins and ends a little later.
        let stops = only(&outcome, "stops of the world");
        assert_eq!(stops["stops"].as_f64(), Some(2.0 * outcome.truth("collections") + 2.0), "{}", outcome.text);
        let stopped = stops["stopped"].as_f64().expect("a time");
        outcome.expect_between(stopped, stops["max"].as_f64().expect("a time"), outcome.truth("run_ns"), "stops");
        // Four goroutines work for 5 ms each, one after another.
        let waits = only(&outcome, "scheduler latency");
        assert!((14e6..=outcome.truth("run_ns")).contains(&waits["max"].as_f64().expect("a time")), "{waits}");
    }
    let quiet = [NOBODY, &["--go", &program]].concat();
    says_nothing("runtime/go", &quiet, &["scheduler latency", "stops of the world", "marking"]);
}

/// The sum of the times for which full collections stopped all threads, in the JVM's log.
fn at_safepoints_ns(outcome: &Outcome) -> f64 {
    let lines = outcome.text.lines().filter(|line| line.contains("Safepoint \"GenCollectFull\""));
    let at = |line: &str| line.split_once("At safepoint: ")?.1.split(' ').next()?.parse::<f64>().ok();
    lines.filter_map(at).sum()
}

#[test]
fn the_jvm_stops_for_collections_and_threads_wait_for_a_monitor() {
    if skip() {
        return;
    }
    let directory = Directory::new("jvm");
    let built = Command::new("javac").args(["-d", &directory.path(""), &format!("{PROGRAMS}/Pauses.java")]).output();
    let Ok(built) = built else {
        println!("SKIPPED: there is no JDK");
        return;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut program = Command::new("java");
    program.args(["-Xmx64m", "-XX:+UseSerialGC", "-Xlog:safepoint", "-cp", &directory.path(""), "Pauses"]);
    if let Some(outcome) = beside(&mut program, &["runtime/jvm", "--pid", "PID"]) {
        let collected = only(&outcome, "garbage collections");
        assert_eq!(
            (&collected["kind"], collected["pauses"].as_f64()),
            (&"full".into(), Some(outcome.truth("collections"))),
            "{}",
            outcome.text
        );
        // The JVM's own times begin after the first probe and end before the last.
        let stopped = only(&outcome, "safepoints")["stopped"].as_f64().expect("a time");
        let (collected, at) = (collected["paused"].as_f64().expect("a time"), at_safepoints_ns(&outcome));
        assert!(at > 0.0, "{}", outcome.text);
        outcome.expect_between(stopped, collected.max(at), outcome.truth("run_ns"), "stops");
        let rows = outcome.rows("waits for monitors");
        let waited: f64 = rows.iter().filter_map(|row| row["waited"].as_f64()).sum();
        // A thread that loses its CPU between its clock and the wait waits for less: each has some
        // microseconds in which it can.
        outcome.expect_between(waited, 0.5 * outcome.truth("waited_ns"), outcome.truth("waited_ns"), "waits");
    }
    says_nothing("runtime/jvm", NOBODY, &["safepoints", "garbage collections", "waits for monitors"]);
}

/// Runs the recipe on a program that waits for its first line; `None` if the program is not here.
fn identified(program: &mut Command) -> Option<Outcome> {
    let (process, _said) = Process::start_ready(program)?;
    let ended = run(&["-q", "-f", "json", "runtime/identify", "--pid", &process.pid()]);
    Some(Outcome::read(ended.stdout))
}

#[test]
fn runtimes_are_found_with_their_evidence() {
    if skip() {
        return;
    }
    let own = std::process::id().to_string();
    let ended = run(&["-q", "-f", "json", "runtime/identify", "--pid", &own]);
    let outcome = Outcome::read(ended.stdout);
    assert_eq!(only(&outcome, "runtimes of processes")["runtime"], "native", "{}", outcome.text);
    let directory = Directory::new("identify");
    let go = directory.path("pauses");
    let build = Command::new("go")
        .args(["build", "-o", &go, &format!("{PROGRAMS}/pauses.go")])
        .env("GOCACHE", directory.path("cache"))
        .output();
    let mut node = Command::new("node");
    node.args(["--expose-gc", &format!("{PROGRAMS}/loop.js")]);
    let mut java = Command::new("java");
    java.args(["-Xmx64m", &format!("{PROGRAMS}/Pauses.java")]);
    let mut programs =
        vec![(python("gil.py"), "Python", "python3"), (node, "Node.js", "node"), (java, "JVM", "libjvm.so")];
    if build.is_ok_and(|output| output.status.success()) {
        programs.push((Command::new(&go), "Go", "heap at"));
    }
    // .NET is not in Debian. What it is known by is the name of a library.
    let coreclr = directory.path("libcoreclr.so");
    std::fs::copy("/lib/x86_64-linux-gnu/libm.so.6", &coreclr).expect("a library");
    let mut dotnet = Command::new("sh");
    dotnet.args(["-c", "echo ready; read _; exit 0"]).env("LD_PRELOAD", &coreclr);
    programs.push((dotnet, ".NET", "libcoreclr.so"));
    for (mut program, runtime, evidence) in programs {
        let Some(outcome) = identified(&mut program) else { continue };
        let row = only(&outcome, "runtimes of processes");
        assert_eq!(row["runtime"], runtime, "{}", outcome.text);
        assert!(row["evidence"].as_str().is_some_and(|text| text.starts_with(evidence)), "{}", outcome.text);
    }
    says_nothing("runtime/identify", NOBODY, &["runtimes of processes"]);
}
