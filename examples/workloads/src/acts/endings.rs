//! Processes whose main thread is not what ends them.
//!
//! In: how many. Out: lines of a name and a number.
//! Guarantee: the counts are exact; each process has ended before they are printed.

use std::io::{Error, Result};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio, abort, exit};
use std::sync::{Arc, Barrier};
use std::thread;

use crate::{number, sys};

/// The usage text of these acts.
pub const USAGE: &str = "\
workload act ends N              runs N processes each that end in unusual ways
";

/// Exit codes of processes that one thread ends while others live, and that a thread ends after the
/// main one.
const OF_MANY: i32 = 7;
const OF_OTHER: i32 = 5;
/// SIGABRT.
const FAULT: i32 = 6;
/// Threads that live when their process ends.
const MANY: usize = 16;

/// Performs an act of this file; `None` if it has no act of this name.
pub fn act(name: &str, rest: &[String]) -> Option<Result<()>> {
    Some(match name {
        "ends" => number(rest, 0).and_then(ends),
        "ending" => ending(rest.first().map(String::as_str).unwrap_or_default()),
        _ => return None,
    })
}

/// Every kind of process, N times. `executed` is a process that goes on as another program, which
/// ends like `many`.
fn ends(times: u64) -> Result<()> {
    let own = std::env::current_exe()?;
    for _ in 0..times {
        for (kind, expected) in [
            ("many", (Some(OF_MANY), None)),
            ("executed", (Some(OF_MANY), None)),
            ("other", (Some(OF_OTHER), None)),
            ("fault", (None, Some(FAULT))),
        ] {
            let status = Command::new(&own).args(["act", "ending", kind]).stdout(Stdio::null()).status()?;
            if (status.code(), status.signal()) != expected {
                return Err(Error::other(format!("{kind} ended with {status}")));
            }
        }
    }
    println!("many {}\nother {times}\nfault {times}", 2 * times);
    Ok(())
}

/// One of these processes.
fn ending(kind: &str) -> Result<()> {
    match kind {
        "many" => {
            let begun = Arc::new(Barrier::new(MANY + 1));
            for _ in 0..MANY {
                let begun = Arc::clone(&begun);
                thread::spawn(move || {
                    begun.wait();
                    loop {
                        std::hint::spin_loop();
                    }
                });
            }
            begun.wait();
            exit(OF_MANY)
        }
        "executed" => {
            let other = thread::spawn(|| {
                let own = std::env::current_exe()?;
                Err(Command::new(own).args(["act", "ending", "many"]).exec())
            });
            other.join().map_err(|_| Error::other("the thread failed"))?
        }
        "other" | "fault" => {
            let is_fault = kind == "fault";
            thread::spawn(move || {
                while !has_main_ended() {
                    thread::yield_now();
                }
                if is_fault { abort() } else { exit(OF_OTHER) }
            });
            sys::end_thread()
        }
        _ => Err(Error::other("there is no such end")),
    }
}

/// Whether the main thread is a zombie, as it is until its process ends.
fn has_main_ended() -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", std::process::id()));
    stat.is_ok_and(|stat| stat.contains(") Z "))
}
