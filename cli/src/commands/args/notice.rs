//! Text to print when there is nothing to run.
//!
//! In: requested help, or an error in the command line. Out: text, and an exit code.
//! Guarantee: help goes to standard output and errors to standard error.

use std::io::Write as _;

use crate::commands::exit::{MISTAKE, OK, USAGE};

/// Help or a usage error.
#[derive(Debug)]
pub(crate) struct Notice {
    pub(super) text: String,
    pub(super) code: u8,
}

impl Notice {
    /// The text to print.
    #[cfg(test)]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A command-line error, with bpftrace's exit code for one.
    pub(crate) fn mistake(text: impl Into<String>) -> Notice {
        Notice { text: text.into(), code: MISTAKE }
    }

    /// Prints the text: help to standard output, errors to standard error. Returns the exit code.
    pub(crate) fn print(&self) -> u8 {
        let written = match self.code {
            OK => std::io::stdout().write_all(self.text.as_bytes()),
            _ => std::io::stderr().write_all(self.text.as_bytes()),
        };
        match written {
            // A closed pipe is not an error: the reader has seen enough.
            Err(error) if self.code == OK && error.kind() != std::io::ErrorKind::BrokenPipe => MISTAKE,
            _ => self.code,
        }
    }
}

impl From<clap::Error> for Notice {
    fn from(error: clap::Error) -> Notice {
        Notice { text: error.to_string(), code: if error.use_stderr() { USAGE } else { OK } }
    }
}
