//! What to print when there is nothing to run.
//!
//! In: help that was asked for, or what is wrong with the command line. Out: text, and an exit code.
//! Guarantee: help goes to standard output and complaints to standard error.

use std::io::Write as _;

use crate::cli::exit::{MISTAKE, OK, USAGE};

/// What to print when there is nothing to run.
#[derive(Debug)]
pub struct Notice {
    pub(super) text: String,
    pub(super) code: u8,
}

impl Notice {
    /// What it says.
    #[cfg(test)]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A complaint about the command line, with bpftrace's exit code for one.
    pub fn mistake(text: impl Into<String>) -> Notice {
        Notice { text: text.into(), code: MISTAKE }
    }

    /// Prints it: help to standard output, complaints to standard error. Returns the exit code.
    pub fn print(&self) -> u8 {
        let written = match self.code {
            OK => std::io::stdout().write_all(self.text.as_bytes()),
            _ => std::io::stderr().write_all(self.text.as_bytes()),
        };
        match written {
            // A reader that went away has seen enough.
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
