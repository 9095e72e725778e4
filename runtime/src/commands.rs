//! Runs the commands of a script.
//!
//! In: a line for the shell, or the words of a program. Out: its standard output, and how it ended.
//! Guarantee: a signal that ends profiler ends the wait and the command.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};

use crate::sys::{poll, process, signal};

/// What a command that has ended leaves.
#[derive(Debug)]
pub(crate) struct Ended {
    pub output: Vec<u8>,
    /// `None` if profiler was asked to end first.
    status: Option<ExitStatus>,
}

impl Ended {
    /// What went wrong, as bpftrace says it.
    pub(crate) fn failure(&self) -> Option<String> {
        let status = self.status.filter(|status| !status.success())?;
        Some(match (status.code(), status.signal()) {
            (Some(code), _) => format!("command exited with code {code}"),
            (None, signal) => format!("command was ended by signal {}", signal.unwrap_or_default()),
        })
    }
}

/// Runs a line of the shell.
pub(crate) fn shell(line: &str) -> io::Result<Ended> {
    output(Command::new("/bin/sh").args(["-c", line]))
}

/// Runs a program with its arguments.
pub(crate) fn program(words: &[&[u8]]) -> io::Result<Ended> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    output(Command::new(OsStr::from_bytes(program)).args(arguments.iter().map(|word| OsStr::from_bytes(word))))
}

/// Runs a command and waits until it ends or a signal arrives.
fn output(command: &mut Command) -> io::Result<Ended> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let ended = poll::pidfd(child.id())?;
    let mut output = Vec::new();
    let mut part = [0; 4096];
    if let Some(pipe) = &mut child.stdout {
        while signal::readable(pipe.as_fd())? {
            match pipe.read(&mut part) {
                Ok(0) => break,
                Ok(read) => output.extend_from_slice(&part[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    if signal::readable(ended.as_fd())? {
        return Ok(Ended { output, status: Some(child.wait()?) });
    }
    process::kill(child.id(), libc::SIGTERM);
    Ok(Ended { output, status: None })
}
