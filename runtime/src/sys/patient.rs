//! Standard output and error with a timeout for stalled readers.
//!
//! In: bytes. Out: the same bytes in a file, pipe, socket or terminal.
//! Guarantee: a write blocks for its reader, as usual, until a signal has asked the process to end.
//! After that it waits for `PATIENCE` and fails with `TimedOut`, so one signal ends a run whose
//! reader has stalled. Lines of up to `PIPE_BUF` bytes are written whole, so output of a command
//! that writes to the same pipe appears between lines and not inside them.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::signal;

/// How long a stalled reader may delay the end of the process.
const PATIENCE: Duration = Duration::from_secs(1);

/// `PIPE_BUF`: a writable pipe has space for this much.
const PIECE_BYTES: usize = 4096;

/// An output stream whose reader may stall.
#[derive(Debug)]
pub struct Patient {
    file: File,
    may_stall: bool,
}

impl Patient {
    /// Standard output.
    pub fn standard_output() -> io::Result<Patient> {
        Patient::of(io::stdout().as_fd())
    }

    /// Standard error.
    pub fn standard_error() -> io::Result<Patient> {
        Patient::of(io::stderr().as_fd())
    }

    fn of(fd: BorrowedFd<'_>) -> io::Result<Patient> {
        let file = File::from(fd.try_clone_to_owned()?);
        let may_stall = !file.metadata()?.is_file();
        Ok(Patient { file, may_stall })
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.may_stall {
            return self.file.write(bytes);
        }
        if !signal::writable(self.file.as_fd(), PATIENCE)? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.write(piece(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes to write next: as many whole lines as a pipe accepts at once, or part of a longer
/// line.
fn piece(bytes: &[u8]) -> &[u8] {
    let most = &bytes[..bytes.len().min(PIECE_BYTES)];
    if most.len() == bytes.len() {
        return most;
    }
    most.iter().rposition(|byte| *byte == b'\n').map_or(most, |end| &most[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_with_lines() {
        let line = [[b'x'; 999].as_slice(), b"\n"].concat();
        let lines = line.repeat(5);
        assert_eq!(piece(&lines).len(), 4000);
        assert_eq!(piece(&lines[4000..]).len(), 1000);
        assert_eq!(piece(b"no end of a line").len(), 16);
        assert_eq!(piece(&[b'x'; 10_000]).len(), PIECE_BYTES);
    }
}
