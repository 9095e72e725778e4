//! What the verifier says of a program that it refuses.
//!
//! In: libbpf's messages with the verifier's log. Out: the instruction and line at fault, the reason, a [`Diagnostic`], and a
//! file with the whole log for a report.
//! Guarantee: any text is taken; the file is new, and its owner's alone.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use profiler_compiler::diagnostic::{Code, Diagnostic};
use profiler_compiler::source::{Source, Span};

const TOO_LARGE: Code = Code(510);
const REFUSED: Code = Code(690);

/// So many of the log's last lines are shown; the rest is in the file.
const SHOWN_LINES: usize = 6;

/// Lines beyond this are cut where they are shown: states of registers can be of thousands of characters.
const SHOWN_CHARS: usize = 100;

/// Files of one process that are kept side by side.
const MOST_FILES: u32 = 10;

/// What the verifier said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The program.
    pub program: String,
    /// The instruction at which it gave up, counted from the program's start; absent when it looked at none.
    pub instruction: Option<usize>,
    /// The line of the script, when the log cites one. Since 6.8.
    pub line: Option<u32>,
    /// Its last words: why.
    pub reason: String,
    /// All of it.
    pub log: String,
}

impl Refusal {
    /// The verifier's log in what libbpf reports: libbpf itself loads a refused program a second time, with a log.
    pub fn in_messages(messages: &str) -> Option<Refusal> {
        let (before, rest) = messages.split_once("': -- BEGIN PROG LOAD LOG --\n")?;
        let program = before.rsplit_once('\'').map_or(before, |(_, name)| name).to_owned();
        let log = rest.split_once("-- END PROG LOAD LOG --").map_or(rest, |(log, _)| log);
        let reason = words(log).next_back()?.to_owned();
        let line = log.lines().rev().find_map(cited_line);
        let instruction = named_instruction(&reason).or_else(|| log.lines().rev().find_map(shown_instruction));
        Some(Refusal { program, instruction, line, reason, log: log.to_owned() })
    }

    /// The helper that the kernel does not have, when that is why.
    pub fn missing_helper(&self) -> Option<u32> {
        self.reason.strip_prefix("invalid func unknown#")?.trim().parse().ok()
    }

    /// Whether only the verifier's patience ended.
    pub fn is_too_complex(&self) -> bool {
        ["BPF program is too large", "jumps is too complex"].iter().any(|words| self.reason.contains(words))
    }

    /// Writes the whole log to a new file in a folder, for a report.
    pub fn keep(&self, folder: &Path) -> io::Result<PathBuf> {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let (version, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
        let text =
            format!("profiler {version}, Linux {} on {arch}, program {}\n\n{}", release.trim(), self.program, self.log);
        for number in 0..MOST_FILES {
            let suffix = if number == 0 { String::new() } else { format!("-{number}") };
            let path = folder.join(format!("profiler-verifier-{}{suffix}.log", std::process::id()));
            // Never through a link that somebody else laid there.
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(mut file) => return file.write_all(text.as_bytes()).map(|()| path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// What a user is told. `span` is where the instruction at fault came from, `kept` what became of the log.
    ///
    /// A refusal is a bug of ours. Only what is too much for the verifier is the script's.
    pub fn diagnostic(&self, source: &Source, span: Option<Span>, kept: &io::Result<PathBuf>) -> Diagnostic {
        let span = span.or_else(|| Some(line_span(source, self.line?))).unwrap_or(Span { start: 0, end: 0 });
        if self.is_too_complex() {
            return Diagnostic::error(TOO_LARGE, span, "program too large")
                .label("the kernel's verifier gave up here: there are too many paths to follow")
                .help(
                    "split the block into several probes, or look values up in a map instead of comparing one by one",
                );
        }
        if let Some(helper) = self.withheld_helper() {
            let words = format!("this kernel does not let this probe use `{helper}`, which something here needs");
            let help = match helper {
                "bpf_probe_write_user" => {
                    "kernels in lockdown let nobody write into processes: see /sys/kernel/security/lockdown"
                }
                _ => "another kind of probe, or a newer kernel, may let it",
            };
            return Diagnostic::error(Code(604), span, words).help(help);
        }
        let report = match kept {
            Ok(path) => format!("please report it with the script and the log in {}", path.display()),
            Err(error) => format!("please report it with the script and the output of `-d verifier` ({error})"),
        };
        let excerpt: Vec<String> = self.excerpt().iter().map(|line| format!("\n  {line}")).collect();
        Diagnostic::error(REFUSED, span, "the kernel's verifier refused what the compiler made of this")
            .label(cut(&self.reason))
            .help(format!(
                "this is a bug in profiler, not in the script; {report}\nthe log of program {} ends with:{}",
                self.program,
                excerpt.concat()
            ))
    }

    /// The helper that the kernel keeps from this kind of probe.
    fn withheld_helper(&self) -> Option<&str> {
        let (_, rest) = ["cannot use helper ", "unknown func "].iter().find_map(|w| self.reason.split_once(w))?;
        rest.split(['#', ' ']).next()
    }

    /// The log's last lines that say something, in their order.
    fn excerpt(&self) -> Vec<String> {
        let mut lines: Vec<String> = words(&self.log).rev().take(SHOWN_LINES).map(cut).collect();
        lines.reverse();
        lines
    }
}

/// The lines of a log, without those that cite the script or count what was done.
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

/// The number in `; text @ file:line`. Since 6.8; kernels before write `; text` alone.
fn cited_line(line: &str) -> Option<u32> {
    let (_, place) = line.strip_prefix("; ")?.rsplit_once(" @ ")?;
    place.rsplit_once(':')?.1.parse().ok()
}

/// The number in `unreachable insn 3` and `jump out of range from insn 3 to 99`, which come before any instruction is shown.
fn named_instruction(reason: &str) -> Option<usize> {
    let (_, rest) = reason.split_once("insn ")?;
    rest.split(' ').next()?.parse().ok()
}

/// The number in `5: (85) call bpf_map_lookup_elem#1`.
fn shown_instruction(line: &str) -> Option<usize> {
    let (number, rest) = line.split_once(": (")?;
    let is_code = rest.as_bytes().get(2) == Some(&b')');
    number.parse().ok().filter(|_| is_code)
}

/// A line without its indentation.
fn line_span(source: &Source, line: u32) -> Span {
    let start: usize = source.text.split_inclusive('\n').take(line.saturating_sub(1) as usize).map(str::len).sum();
    let text = source.line(line);
    let indent = text.len() - text.trim_start().len();
    Span::new(start + indent, start + text.trim_end().len().max(indent))
}

#[cfg(test)]
#[path = "refusal_tests.rs"]
mod tests;
