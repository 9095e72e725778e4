//! Runs the shell commands of a script.
//!
//! In: a shell command line. Out: its standard output.
//! Guarantee: a signal that ends profiler ends the wait and the command.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};

use crate::sys::{poll, process, signal};

/// Runs a command and waits until it ends or a signal arrives.
pub(crate) fn output(command: &str) -> io::Result<Vec<u8>> {
    let mut shell = Command::new("/bin/sh");
    let mut child = shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
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
        child.wait()?;
    } else {
        process::kill(child.id(), libc::SIGTERM);
    }
    Ok(output)
}
