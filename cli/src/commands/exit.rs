//! Exit codes and failures.
//!
//! In: a failure of any command. Out: an exit code and the text for standard error.
//! Guarantee: the numbers are part of the interface, documented in `profiler help`, and never
//! change.

use profiler_compiler::diagnostic::{Code, Diagnostic};
use profiler_compiler::source::Source;

use super::diagnostics::{self, Look};

/// Success.
pub const OK: u8 = 0;
/// The script or the request is invalid.
pub const MISTAKE: u8 = 1;
/// The command line is invalid.
pub const USAGE: u8 = 2;
/// Insufficient privilege or unsupported kernel.
pub const REFUSED: u8 = 3;

/// Something was lost.
pub const LOSS: u8 = 4;
/// A watched script did nothing.
pub const SILENT: u8 = 5;

/// As bpftrace: nothing was attached.
pub const NOTHING_ATTACHED: u8 = 255;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// A message without a location in a script.
    Message(Message),
    /// The script does not compile.
    Script {
        /// Its text.
        source: Source,
        /// Its diagnostics, including warnings.
        diagnostics: Vec<Diagnostic>,
    },
    /// The reader of standard output is gone: nothing needs to be reported.
    ReaderGone,
}

/// A message without a location in a script.
#[derive(Debug)]
pub struct Message {
    /// Exit code.
    pub exit: u8,
    /// Stable diagnostic code, if any.
    pub code: Option<Code>,
    /// The problem: one sentence without a full stop.
    pub words: String,
    /// Advice.
    pub help: Option<String>,
}

impl Failure {
    /// A failure with an exit code and a message.
    pub fn new(exit: u8, words: impl Into<String>) -> Failure {
        Failure::Message(Message { exit, code: None, words: words.into(), help: None })
    }

    /// A failure with a diagnostic code that exits with [`MISTAKE`].
    pub fn coded(code: Code, words: impl Into<String>) -> Failure {
        Failure::Message(Message { exit: MISTAKE, code: Some(code), words: words.into(), help: None })
    }

    /// Adds advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Failure {
        if let Failure::Message(message) = &mut self {
            message.help = Some(help.into());
        }
        self
    }

    /// A failure to write results: silent if the reader is gone, as in `profiler … | head`.
    pub fn output(target: &str, error: &std::io::Error) -> Failure {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Failure::ReaderGone;
        }
        Failure::new(MISTAKE, format!("cannot write to {target}: {}", words_of(error)))
    }

    /// The exit code. Permissions and gates (06xx) mean that the machine refuses, other diagnostics
    /// that the script is invalid.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Message(message) => message.exit,
            Failure::ReaderGone => OK,
            Failure::Script { diagnostics, .. } => {
                let mut errors = diagnostics.iter().filter(|d| d.is_error());
                let refused = errors.clone().next().is_some() && errors.all(|d| (600..700).contains(&d.code.0));
                if refused { REFUSED } else { MISTAKE }
            }
        }
    }

    /// The text for standard error.
    pub fn render(&self, look: impl Into<Look>) -> String {
        let look = look.into();
        match self {
            Failure::Message(message) => {
                diagnostics::render_message(message.code, &message.words, message.help.as_deref(), look)
            }
            Failure::Script { source, diagnostics } => diagnostics::render(source, diagnostics, look),
            Failure::ReaderGone => String::new(),
        }
    }
}

/// An I/O error in plain words, without the number that `Display` adds.
pub fn words_of(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound => "there is no such file or directory".into(),
        ErrorKind::PermissionDenied if error.raw_os_error().is_some() => "permission denied".into(),
        ErrorKind::IsADirectory => "it is a directory".into(),
        ErrorKind::NotADirectory => "a part of the path is not a directory".into(),
        ErrorKind::TimedOut => "no process reads it, and the run is ending: unread output is lost".into(),
        ErrorKind::StorageFull => "no space is left".into(),
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only".into(),
        _ => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or_default().to_lowercase()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, LOSS, MISTAKE, OK, REFUSED, SILENT, USAGE};
    use profiler_compiler::diagnostic::{Code, Diagnostic};
    use profiler_compiler::source::{Source, Span};

    fn script(codes: &[u16]) -> Failure {
        let diagnostics = codes.iter().map(|code| Diagnostic::error(Code(*code), Span::default(), "x")).collect();
        Failure::Script { source: Source::new("x", "x"), diagnostics }
    }

    #[test]
    fn exit_codes_are_distinct() {
        let mut codes = vec![OK, MISTAKE, USAGE, REFUSED, LOSS, SILENT];
        codes.dedup();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn refusal_by_the_machine_is_told_from_a_mistake() {
        assert_eq!(script(&[601]).code(), REFUSED);
        assert_eq!(script(&[601, 201]).code(), MISTAKE);
        assert_eq!(script(&[]).code(), MISTAKE);
    }

    #[test]
    fn a_closed_pipe_is_quiet() {
        let gone = Failure::output("standard output", &std::io::ErrorKind::BrokenPipe.into());
        assert_eq!((gone.code(), gone.render(false)), (OK, String::new()));
        let full = Failure::output("`x`", &std::io::ErrorKind::StorageFull.into());
        assert_eq!(full.render(false), "error: cannot write to `x`: no space is left\n");
    }
}
