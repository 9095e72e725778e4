//! Programs of other languages as loads.
//!
//! In: a command that prints `ready`, works after a line of input, prints what it knows, and waits
//! for a second line or the end of the input. Out: its report with that of a recipe.
//! Guarantee: the program runs before the recipe starts, and until it has ended.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use super::super::machine::attached;
use super::super::recipes::Outcome;

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

    /// Starts a program that waits for its first line of input, and reads its output until it says
    /// that it is ready.
    pub fn start_ready(program: &mut Command) -> Option<(Process, BufReader<ChildStdout>)> {
        Process::start_until("ready", program)
    }

    /// The same for a program that begins another line with these words when it is ready.
    pub fn start_until(words: &str, program: &mut Command) -> Option<(Process, BufReader<ChildStdout>)> {
        let mut process = Process::start(program.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let mut said = BufReader::new(process.0.stdout.take().expect("a pipe"));
        let mut line = String::new();
        while !line.starts_with(words) {
            line.clear();
            assert!(said.read_line(&mut line).expect("text") > 0, "{program:?} ended before it was ready");
        }
        Some((process, said))
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
    let (mut process, mut said) = Process::start_ready(program)?;
    let mut text = String::new();
    let pid = process.pid();
    let arguments = recipe.iter().map(|argument| if *argument == "PID" { &pid } else { *argument });
    let running = attached(&["-q", "-f", "json"].into_iter().chain(arguments).collect::<Vec<_>>());
    let start = Instant::now();
    // The end of the input is the second line.
    process.0.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
    said.read_to_string(&mut text).expect("it says what it saw");
    assert!(process.0.wait().expect("it ends").success(), "{text}");
    // The program has done all of its work in this time.
    let run_ns = start.elapsed().as_nanos();
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    Some(Outcome::read(format!("{text}run_ns {run_ns}\n{}", ended.stdout)))
}
