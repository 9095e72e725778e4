//! Times a tool from outside, for `scripts/bench`.
//!
//! In: the tool's command line. Out: lines of a name and a number on standard output.
//! Guarantee: the clock runs from just before the tool is started, or interrupted, to the event;
//! nothing is printed meanwhile.

use std::io::{BufRead, BufReader, Error, Result};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::sys;

fn tool(words: &[String]) -> Result<Command> {
    let (program, arguments) = words.split_first().ok_or_else(|| Error::other("no command to measure"))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// Runs a command to its end and prints its exit code, wall time and peak memory.
pub fn rss(words: &[String]) -> Result<()> {
    let mut command = tool(words)?;
    command.stdout(Stdio::null());
    let start = Instant::now();
    let child = command.spawn()?;
    let ended = sys::wait(child.id())?;
    let wall_ns = start.elapsed().as_nanos();
    println!("exit {}\nwall_ns {wall_ns}\npeak_rss_kb {}", ended.code, ended.peak_rss_kb);
    Ok(())
}

/// Starts a command and calls `getppid` continuously until the command prints a line `x`; prints
/// the time to that line.
pub fn first_event(words: &[String]) -> Result<()> {
    let mut command = tool(words)?;
    command.stdout(Stdio::piped());
    let is_over = AtomicBool::new(false);
    let first_event_ns = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                sys::getppid();
            }
        });
        let timed = start_to_line(&mut command);
        is_over.store(true, Ordering::Relaxed);
        timed
    })?;
    println!("first_event_ns {first_event_ns}");
    Ok(())
}

fn start_to_line(command: &mut Command) -> Result<u128> {
    let start = Instant::now();
    let mut child = command.spawn()?;
    let lines = BufReader::new(child.stdout.take().ok_or_else(|| Error::other("no pipe"))?).lines();
    let mut seen = None;
    for line in lines {
        if line? == "x" && seen.is_none() {
            seen = Some(start.elapsed().as_nanos());
        }
    }
    sys::wait(child.id())?;
    seen.ok_or_else(|| Error::other("the command never printed a line `x`"))
}

/// Starts a command, interrupts it after `settle_ms` and measures the time until it exits.
pub fn interrupt(settle_ms: u64, words: &[String]) -> Result<()> {
    let mut command = tool(words)?;
    sys::accept_interrupts();
    let child: Child = command.stdout(Stdio::null()).spawn()?;
    std::thread::sleep(Duration::from_millis(settle_ms));
    let start = Instant::now();
    sys::interrupt(child.id());
    let ended = sys::wait(child.id())?;
    println!("exit {}\ninterrupt_to_end_ns {}", ended.code, start.elapsed().as_nanos());
    Ok(())
}
