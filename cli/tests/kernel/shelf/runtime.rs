//! `runtime/…`: interpreters and virtual machines, compared with what they know about themselves.
//!
//! In: the programs of `tests/runtimes`. Out: the same numbers of collections, their times, and the
//! longest waits, within the tolerance. Without an interpreter, its test prints `SKIPPED: reason`.

use std::process::Command;

use serde_json::Value;

use super::super::machine::{Directory, skip};
use super::super::recipes::Outcome;
use super::programs::{PROGRAMS, beside, in_one_of_several_runs, off};
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

#[test]
fn python_s_lock_and_collector_are_those_that_it_measures() {
    if skip() {
        return;
    }
    in_one_of_several_runs(|| {
        let outcome = beside(&mut python("gil.py"), &["runtime/python", "--pid", "PID"])?;
        let collected = only(&outcome, "garbage collections");
        // The interpreter collects again at its end.
        assert!(collected["collections"].as_f64() >= Some(outcome.truth("collections")), "{}", outcome.text);
        let longest = |view: &str| outcome.rows(view).iter().filter_map(|row| row["max"].as_f64()).fold(0.0, f64::max);
        // The thread that waits wakes at some time of the call, which then is not the only one.
        let waited = longest("waits for the GIL");
        assert!(waited > 0.0 && waited < 2.0 * outcome.truth("longest_ns"), "{}", outcome.text);
        // The clock also measures a wait for the lock just before the call.
        let share = longest("holds of the GIL") / outcome.truth("longest_ns");
        (!(0.9..1.03).contains(&share)).then(|| format!("{share} of the longest call: {}", outcome.text))
    });
    let views = ["waits for the GIL", "holds of the GIL", "garbage collections"];
    says_nothing("runtime/python", NOBODY, &views);
}

#[test]
fn node_s_event_loop_and_collector_are_those_that_it_measures() {
    if skip() {
        return;
    }
    in_one_of_several_runs(|| {
        let mut program = Command::new("node");
        program.args(["--expose-gc", &format!("{PROGRAMS}/loop.js")]);
        let outcome = beside(&mut program, &["runtime/node", "--pid", "PID"])?;
        let pauses = only(&outcome, "garbage collections");
        assert_eq!(pauses["pauses"].as_f64(), Some(outcome.truth("pauses")), "{}", outcome.text);
        let rounds = only(&outcome, "rounds of the event loop");
        assert!(rounds["max"].as_f64() >= Some(outcome.truth("busy_ns") / 10.0), "{}", outcome.text);
        off(&pauses["paused"], outcome.truth("paused_ns"))
    });
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
    let recipe = ["runtime/go", "--go", &program, "--pid", "PID"];
    in_one_of_several_runs(|| {
        let outcome = beside(&mut Command::new(&program), &recipe)?;
        let marked = only(&outcome, "marking");
        assert_eq!(marked["collections"].as_f64(), Some(outcome.truth("collections")), "{}", outcome.text);
        // A collection stops the world twice; reading the statistics does it once, two times.
        let stops = only(&outcome, "stops of the world");
        assert_eq!(stops["stops"].as_f64(), Some(2.0 * outcome.truth("collections") + 2.0), "{}", outcome.text);
        assert!(stops["stopped"].as_f64() >= Some(outcome.truth("paused_ns") * 0.9), "{}", outcome.text);
        // Four goroutines work for 5 ms each.
        let waits = only(&outcome, "scheduler latency");
        (waits["max"].as_f64() < Some(14e6)).then(|| format!("{waits}"))
    });
    let quiet = [NOBODY, &["--go", &program]].concat();
    says_nothing("runtime/go", &quiet, &["scheduler latency", "stops of the world", "marking"]);
}

/// The sum of the times of safepoints in the JVM's log whose line has this text.
fn safepoints_ns(outcome: &Outcome, text: &str) -> f64 {
    let lines = outcome.text.lines().filter(|line| line.contains("Safepoint \"") && line.contains(text));
    let total = |line: &str| line.rsplit_once("Total: ")?.1.trim_end_matches(" ns").parse::<f64>().ok();
    lines.filter_map(total).sum()
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
    in_one_of_several_runs(|| {
        let mut program = Command::new("java");
        program.args(["-Xmx64m", "-XX:+UseSerialGC", "-Xlog:safepoint", "-cp", &directory.path(""), "Pauses"]);
        let outcome = beside(&mut program, &["runtime/jvm", "--pid", "PID"])?;
        let collected = only(&outcome, "garbage collections");
        assert_eq!(
            (&collected["kind"], collected["pauses"].as_f64()),
            (&"full".into(), Some(outcome.truth("collections"))),
            "{}",
            outcome.text
        );
        let stops = only(&outcome, "safepoints");
        assert!(stops["stopped"].as_f64() >= collected["paused"].as_f64(), "{}", outcome.text);
        let rows = outcome.rows("waits for monitors");
        let waited: f64 = rows.iter().filter_map(|row| row["waited"].as_f64()).sum();
        // The JVM may stop for other reasons before the recipe starts.
        let (least, most) = (safepoints_ns(&outcome, "\"GenCollectFull\""), safepoints_ns(&outcome, ""));
        let stopped = stops["stopped"].as_f64().expect("a time");
        // On a busy machine, the JVM's thread may lose its CPU between the probe and its clock.
        let slack = 4e6 * stops["stops"].as_f64().expect("a number");
        let is_stopped = (0.95 * least - slack..1.05 * most + slack).contains(&stopped);
        off(&waited.into(), outcome.truth("waited_ns")).or_else(|| (!is_stopped).then(|| outcome.text.clone()))
    });
    says_nothing("runtime/jvm", NOBODY, &["safepoints", "garbage collections", "waits for monitors"]);
}

/// Every load is asked for while it waits for its first line.
#[test]
fn runtimes_are_found_with_their_evidence() {
    if skip() {
        return;
    }
    let own = std::process::id().to_string();
    let ended = super::super::machine::run(&["-q", "-f", "json", "runtime/identify", "--pid", &own]);
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
    // It looks when it has attached, as it says.
    dotnet.args(["-c", "echo ready; read _; sleep 1; exit 0"]).env("LD_PRELOAD", &coreclr);
    programs.push((dotnet, ".NET", "libcoreclr.so"));
    for (mut program, runtime, evidence) in programs {
        let Some(outcome) = beside(&mut program, &["runtime/identify", "--pid", "PID"]) else { continue };
        let row = only(&outcome, "runtimes of processes");
        assert_eq!(row["runtime"], runtime, "{}", outcome.text);
        assert!(row["evidence"].as_str().is_some_and(|text| text.starts_with(evidence)), "{}", outcome.text);
    }
    says_nothing("runtime/identify", NOBODY, &["runtimes of processes"]);
}
