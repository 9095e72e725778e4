//! Explains why the verifier rejected a program.
//!
//! In: libbpf's messages with the verifier's log. Out: the failing instruction and line, the
//! reason, a [`Diagnostic`], and a file with the whole log for a bug report.
//! Guarantee: any text is accepted; the file is new and accessible only to its owner.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use profiler_compiler::diagnostic::{Code, Diagnostic};
use profiler_model::source::{Source, Span};

const TOO_LARGE: Code = Code(510);
const REFUSED: Code = Code(690);

/// The number of log lines shown, from its end; the file contains the rest.
const SHOWN_LINES: usize = 6;

/// Longer lines are cut where they are shown: register states can have thousands of characters.
const SHOWN_CHARS: usize = 100;

/// The most log files that one process keeps.
const MOST_FILES: u32 = 10;

/// The verifier's rejection of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The program's name.
    pub program: String,
    /// The instruction at which the verifier gave up, counted from the program's start; `None` if
    /// it examined none.
    pub instruction: Option<usize>,
    /// The line of the script, if the log cites one. Since 6.8.
    pub line: Option<u32>,
    /// The reason: the log's last message.
    pub reason: String,
    /// The whole log.
    pub log: String,
}

impl Refusal {
    /// Finds the verifier's log in libbpf's messages: libbpf loads a rejected program a second
    /// time, with a log.
    pub fn in_messages(messages: &str) -> Option<Refusal> {
        let (before, rest) = messages.split_once("': -- BEGIN PROG LOAD LOG --\n")?;
        let program = before.rsplit_once('\'').map_or(before, |(_, name)| name).to_owned();
        let log = rest.split_once("-- END PROG LOAD LOG --").map_or(rest, |(log, _)| log);
        let reason = words(log).next_back()?.to_owned();
        let line = log.lines().rev().find_map(cited_line);
        let instruction = named_instruction(&reason).or_else(|| log.lines().rev().find_map(shown_instruction));
        Some(Refusal { program, instruction, line, reason, log: log.to_owned() })
    }

    /// The number of the helper that the kernel lacks, if that is the reason.
    pub fn missing_helper(&self) -> Option<u32> {
        self.reason.strip_prefix("invalid func unknown#")?.trim().parse().ok()
    }

    /// Whether the program only exceeds the kernel's limits: too many paths, or jumps that are too
    /// far after the kernel's rewriting.
    pub fn is_too_complex(&self) -> bool {
        const REASONS: [&str; 3] =
            ["BPF program is too large", "jumps is too complex", "cannot be patched due to 16-bit range"];
        REASONS.iter().any(|words| self.reason.contains(words))
    }

    /// Writes the whole log to a new file in a directory, for a bug report.
    pub fn keep(&self, directory: &Path) -> io::Result<PathBuf> {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let (version, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
        let text =
            format!("profiler {version}, Linux {} on {arch}, program {}\n\n{}", release.trim(), self.program, self.log);
        for number in 0..MOST_FILES {
            let suffix = if number == 0 { String::new() } else { format!("-{number}") };
            let path = directory.join(format!("profiler-verifier-{}{suffix}.log", std::process::id()));
            // Never follows a symbolic link that another user placed there.
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(mut file) => return file.write_all(text.as_bytes()).map(|()| path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The diagnostic for the user. `span` is the source of the failing instruction, `kept` the
    /// file with the log or why it could not be written.
    ///
    /// A rejection is a bug of ours, unless the program is too complex for the verifier or the
    /// kernel withholds a helper.
    pub fn diagnostic(&self, source: &Source, span: Option<Span>, kept: &io::Result<PathBuf>) -> Diagnostic {
        let span = span.or_else(|| Some(line_span(source, self.line?))).unwrap_or(Span { start: 0, end: 0 });
        if self.is_too_complex() {
            return Diagnostic::error(TOO_LARGE, span, "program too large")
                .label("the kernel's verifier gave up here: there are too many paths to explore")
                .help(
                    "split the block into several probes, or look values up in a map instead of comparing one by one",
                );
        }
        if let Some(helper) = self.withheld_helper() {
            let words = format!("this kernel does not allow this probe to use `{helper}`, which this code needs");
            let help = match helper {
                "bpf_probe_write_user" => {
                    "a kernel in lockdown allows no writes to the memory of processes: see /sys/kernel/security/lockdown"
                }
                _ => "another kind of probe, or a newer kernel, may allow it",
            };
            return Diagnostic::error(Code(604), span, words).help(help);
        }
        let report = match kept {
            Ok(path) => format!("please report it with the script and the log in {}", path.display()),
            Err(error) => format!("please report it with the script and the output of `-d verifier` ({error})"),
        };
        let excerpt: Vec<String> = self.excerpt().iter().map(|line| format!("\n  {line}")).collect();
        Diagnostic::error(
            REFUSED,
            span,
            "the kernel's verifier rejected the program that the compiler generated for this",
        )
        .label(cut(&self.reason))
        .help(format!(
            "this is a bug in profiler, not in the script; {report}\nthe log of program {} ends with:{}",
            self.program,
            excerpt.concat()
        ))
    }

    /// The helper that the kernel denies to this kind of probe.
    fn withheld_helper(&self) -> Option<&str> {
        let (_, rest) = ["cannot use helper ", "unknown func "].iter().find_map(|w| self.reason.split_once(w))?;
        rest.split(['#', ' ']).next()
    }

    /// The last meaningful lines of the log, in order.
    fn excerpt(&self) -> Vec<String> {
        let mut lines: Vec<String> = words(&self.log).rev().take(SHOWN_LINES).map(cut).collect();
        lines.reverse();
        lines
    }
}

/// The lines of a log, without those that cite the script or contain statistics.
fn words(log: &str) -> impl DoubleEndedIterator<Item = &str> {
    let says_something = |line: &&str| {
        let counts = ["processed ", "verification time", "stack depth", ";"];
        !line.trim().is_empty() && !counts.iter().any(|start| line.starts_with(start))
    };
    log.lines().filter(says_something)
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

/// The line number in `; text @ file:line`. Since 6.8; older kernels write `; text` alone.
fn cited_line(line: &str) -> Option<u32> {
    let (_, place) = line.strip_prefix("; ")?.rsplit_once(" @ ")?;
    place.rsplit_once(':')?.1.parse().ok()
}

/// The instruction number in `unreachable insn 3` and `jump out of range from insn 3 to 99`, which
/// are logged before any instruction is shown.
fn named_instruction(reason: &str) -> Option<usize> {
    let (_, rest) = reason.split_once("insn ")?;
    rest.split(' ').next()?.parse().ok()
}

/// The instruction number in `5: (85) call bpf_map_lookup_elem#1`.
fn shown_instruction(line: &str) -> Option<usize> {
    let (number, rest) = line.split_once(": (")?;
    let is_code = rest.as_bytes().get(2) == Some(&b')');
    number.parse().ok().filter(|_| is_code)
}

/// The span of a line without its indentation.
fn line_span(source: &Source, line: u32) -> Span {
    let start: usize = source.text.split_inclusive('\n').take(line.saturating_sub(1) as usize).map(str::len).sum();
    let text = source.line(line);
    let indent = text.len() - text.trim_start().len();
    Span::new(start + indent, start + text.trim_end().len().max(indent))
}

#[cfg(test)]
#[path = "refusal_tests.rs"]
mod tests;
