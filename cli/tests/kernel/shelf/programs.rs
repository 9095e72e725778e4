//! Programs of other languages as loads.
//!
//! In: a command that prints `ready`, works after a line of input, prints what it knows, and waits
//! for a second line or the end of the input. Out: its report with that of a recipe.
//! Guarantee: the program runs before the recipe starts, and until it has ended.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use super::super::machine::attached;
use super::super::recipes::{Outcome, TRIES, tolerance};

/// The directory of the programs.
pub const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/runtimes");

/// A process that is killed at the end of its test.
pub struct Process(pub Child);

impl Process {
    /// `None` if the program is not here.
    pub fn start(command: &mut Command) -> Option<Process> {
        let process = command.spawn().ok().map(Process);
        if process.is_none() {
            println!("SKIPPED: {} is not here", command.get_program().display());
        }
        process
    }

    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a recipe and a program say; `None` if the program is not here. `PID` stands for its
/// process in the arguments.
pub fn beside(program: &mut Command, recipe: &[&str]) -> Option<Outcome> {
    let mut process = Process::start(program.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
    let mut said = BufReader::new(process.0.stdout.take().expect("a pipe"));
    let mut text = String::new();
    while text != "ready\n" {
        text.clear();
        assert!(said.read_line(&mut text).expect("text") > 0, "{program:?} ended before it was ready");
    }
    let pid = process.pid();
    let arguments = recipe.iter().map(|argument| if *argument == "PID" { &pid } else { *argument });
    let running = attached(&["-q", "-f", "json"].into_iter().chain(arguments).collect::<Vec<_>>());
    // The end of the input is the second line.
    process.0.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
    said.read_to_string(&mut text).expect("it says what it saw");
    assert!(process.0.wait().expect("it ends").success(), "{text}");
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    Some(Outcome::read(text + &ended.stdout))
}

/// Repeats a comparison of times until it finds no fault.
pub fn in_one_of_several_runs(run: impl Fn() -> Option<String>) {
    for left in (0..TRIES).rev() {
        let Some(fault) = run() else { return };
        assert!(left > 0, "{fault}");
    }
}

/// What is wrong with a time, if it is not within the tolerance and one percent.
pub fn off(measured: &serde_json::Value, truth: f64) -> Option<String> {
    let measured = measured.as_f64().expect("a number");
    let is_near = (measured - truth).abs() <= truth * (1.0 + tolerance()) / 100.0;
    (!is_near).then(|| format!("{measured} for {truth}"))
}
