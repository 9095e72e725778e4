//! Tests of [`super`]: messages for an object that the kernel rejects.

use std::io::sink;
use std::process::Command as Process;

use profiler_compiler::source::Source;
use profiler_runtime::load::{LoadOptions, load};

use super::super::args::{Command, parse};
use super::{Failure, Program, compile, run};
use crate::commands::args::choices::Stage;

#[path = "../../../runtime/tests/refusal/breaker.rs"]
#[expect(dead_code, reason = "the other tests break more")]
mod breaker;

const SCRIPT: &str = "BEGIN {\n  @a[pid, tid]++;\n  exit();\n}\n";

/// Runs [`SCRIPT`] with its null check removed from the compiled code; `None` if nothing can be
/// loaded here.
fn run_broken(options: &[&str]) -> Option<Failure> {
    let words = ["profiler", "run", "-e", SCRIPT].iter().chain(options).map(Into::into);
    let Ok(Command::Run(arguments)) = parse(words) else { panic!("it is a run") };
    let source = Source::new("s.prof", SCRIPT);
    let mut object = compile(&source, &arguments.script, None).expect("it compiles").object;
    if let Err(error) = load(&object.elf, LoadOptions::default()) {
        println!("SKIPPED: {error}");
        return None;
    }
    let program = object.programs[0].name.clone();
    breaker::break_object(&mut object.elf, &program, breaker::Break::NullCheck);
    let program = Program { source: &source, object: &object, values: None };
    Some(run(program, &arguments, None, Box::new(sink())).expect_err("the verifier refuses it"))
}

#[test]
fn a_refusal_is_shown_at_its_expression_as_our_bug_with_the_end_of_the_log() {
    let Some(failure) = run_broken(&[]) else { return };
    let text = failure.render(false);
    println!("{text}");
    let lines: Vec<&str> = text.trim_end().lines().collect();
    assert_eq!(
        lines[..4],
        [
            "error[E0690]: the kernel's verifier rejected the program that the compiler generated for this",
            " --> s.prof:2:3",
            "  |",
            "2 |   @a[pid, tid]++;",
        ]
    );
    let reason = lines[4].strip_prefix("  |   ^^^^^^^^^^^^^^ ").expect("exactly the expression is underlined");
    assert!(reason.starts_with("R0 invalid mem access"), "{text}");
    let (advice, path) = lines[6].split_once(" and the log in ").expect("where the log is");
    assert_eq!(advice, "  = help: this is a bug in profiler, not in the script; please report it with the script");
    assert!(lines[7].ends_with("the log of program p0 ends with:"), "{text}");
    assert!((3..=6).contains(&(lines.len() - 8)) && lines.last().is_some_and(|last| last.trim() == reason), "{text}");
    assert_eq!(failure.code(), 3, "the machine refuses, the script is right");
    let log = std::fs::read_to_string(path).expect("the log is kept");
    assert!(log.starts_with("profiler ") && log.contains(reason) && log.contains("\nprocessed "), "{log}");
    std::fs::remove_file(path).expect("our own");
}

#[test]
fn the_whole_log_is_shown_when_more_is_asked_for() {
    const CHILD: &str = "PROFILER_TEST_VERBOSE";
    if std::env::var_os(CHILD).is_some() {
        let directory = std::env::temp_dir();
        assert!(directory.ends_with("profiler-no-such-directory"));
        if let Some(failure) = run_broken(&["-v"]) {
            eprintln!("{}", failure.render(false));
        }
        return;
    }
    let own = std::env::current_exe().expect("a path");
    let this = "commands::engine::tests::the_whole_log_is_shown_when_more_is_asked_for";
    let mut process = Process::new(own);
    process.args([this, "--exact", "--nocapture"]).env(CHILD, "1").env("TMPDIR", "/tmp/profiler-no-such-directory");
    let ended = process.output().expect("it runs");
    let (out, text) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{out}{text}");
    if let Some(reason) = out.lines().find(|line| line.starts_with("SKIPPED: ")) {
        println!("{reason}");
        return;
    }
    let (log, told) = text.split_once("error[E0690]").expect("the diagnostic comes last");
    assert!(log.starts_with("the verifier's log of program p0:\n"), "{text}");
    assert!(log.contains("\n0: ") && log.contains("\nprocessed "), "{text}");
    // Without a saved log, the message names another way to get one.
    assert!(told.contains("please report it with the script and the output of `-d verifier`"), "{text}");
}

#[test]
fn every_stage_has_its_name() {
    for (name, stage) in Stage::NAMES.iter().zip(["Ast", "Typed", "Ir", "Bpf", "Elf", "Verifier"]) {
        assert_eq!(Stage::named(name).map(|s| format!("{s:?}")).as_deref(), Some(stage));
    }
    assert_eq!(Stage::named("llvm"), None);
}
