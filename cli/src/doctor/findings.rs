//! Problems in a script's run, in plain words with advice.
//!
//! In: observations of a run. Out: [`Finding`]s, most serious first.
//! Guarantee: each says what was observed and what to do; a run without problems has none.

use std::time::Duration;

use profiler_compiler::CATALOGUE;
use profiler_compiler::catalogue::{Files, InFile};
use profiler_compiler::object::{Attach, Object, Program};
use profiler_compiler::source::{Source, Span};
use profiler_model::text::thousands;

use super::counted::Block;
use super::report::Probe;

/// The subject of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The kernel refused to load the programs.
    Refused,
    /// A probe could not be attached.
    NotAttached,
    /// The requested process does not exist, or is a different one.
    WrongProcess,
    /// The process did nothing.
    Asleep,
    /// A probe never fired.
    NeverFired,
    /// A probe fired, but its filter let nothing through.
    Filtered,
    /// Blocks ran but left no results.
    NoResults,
    /// Something was lost.
    Lost,
    /// Strings were cut.
    Cut,
    /// The script itself reported an error.
    ScriptError,
    /// The script ended itself.
    Ended,
    /// A probe traps in all processes.
    AllProcesses,
    /// The kernel does not measure run times.
    NotMeasured,
}

impl Kind {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Refused => "refused",
            Kind::NotAttached => "not-attached",
            Kind::WrongProcess => "wrong-process",
            Kind::Asleep => "asleep",
            Kind::NeverFired => "never-fired",
            Kind::Filtered => "filtered",
            Kind::NoResults => "no-results",
            Kind::Lost => "lost",
            Kind::Cut => "cut",
            Kind::ScriptError => "script-error",
            Kind::Ended => "ended",
            Kind::AllProcesses => "all-processes",
            Kind::NotMeasured => "not-measured",
        }
    }
}

/// An observation about a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub kind: Kind,
    /// Whether it is a problem, or only worth knowing.
    pub is_wrong: bool,
    /// What was observed.
    pub words: String,
    pub advice: String,
}

impl Finding {
    pub(super) fn wrong(kind: Kind, words: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { kind, is_wrong: true, words: words.into(), advice: advice.into() }
    }

    pub(super) fn note(kind: Kind, words: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { kind, is_wrong: false, words: words.into(), advice: advice.into() }
    }
}

/// System calls that glibc replaces by another one on x86-64.
const REPLACED: &[(&str, &str)] =
    &[("open", "openat"), ("stat", "newfstatat"), ("lstat", "newfstatat"), ("fork", "clone"), ("select", "pselect6")];

/// System calls that the vDSO answers without entering the kernel.
const WITHOUT_CALL: &[&str] = &["clock_gettime", "gettimeofday", "time", "getcpu"];

/// Why a probe never fired, as far as its kind explains it.
pub(super) fn never_fired(program: &Program, probe: &Probe, pids: &[u32], elapsed: Duration) -> Finding {
    let time = shown(elapsed);
    let name = &probe.name;
    let (words, advice) = match &program.attach {
        Attach::RawTracepoint { .. } | Attach::Tracepoint { .. } => match system_call(program) {
            Some(call) => of_system_call(name, call, pids, &time),
            None => (
                match pids {
                    [] => format!("{name} did not happen in {time}"),
                    pids => format!("{name} did not happen to {} in {time}", processes(pids)),
                },
                "look longer (`--duration 30s`), or trigger the event meanwhile".to_owned(),
            ),
        },
        Attach::Kprobe { .. } | Attach::Trampoline { .. } => (
            format!("{} called the function of {name} in {time}", someone(pids)),
            "look longer (`--duration 30s`); or it was inlined where it is called: probe a function that calls it, or a tracepoint".into(),
        ),
        Attach::Uprobe { path, .. } => {
            let who = someone(pids);
            let kind = name.split(':').next().and_then(|kind| CATALOGUE.probe(kind));
            let is_static = kind.is_some_and(|kind| kind.files() == Files::Always(InFile::StaticProbes));
            let which = if is_static { "passed" } else { "called the function of" };
            (
                format!("{who} {which} {name} in {time}"),
                format!(
                    "look longer (`--duration 30s`); only calls into {path} count: containers and programs linked statically have their own \
                     code; a function may also be inlined where it is called"
                ),
            )
        }
        Attach::PerfEvent { .. } => (
            format!("{name} never came in {time}"),
            match pids {
                [_, ..] => format!("{} used too little of a processor: look longer (`--duration 30s`)", processes(pids)),
                [] => "the event is rarer than its period: look longer (`--duration 30s`), or lower the period".into(),
            },
        ),
        Attach::Watchpoint { address, .. } => (
            format!("there was no access to the memory at {address:#x} in {time} ({name})"),
            "look longer (`--duration 30s`); is it the address in this run of the process?".into(),
        ),
        Attach::Iterator { .. } => {
            (format!("{name} visited no object"), "with `-p`, only those of that process are visited".into())
        }
        Attach::Timer { period_ns } | Attach::Visits { period_ns } => (
            format!("{name} was not due: its period is {}", shown(Duration::from_nanos(*period_ns))),
            "look longer than its period: `--duration`".into(),
        ),
        _ => (format!("{name} did not run"), "look longer: `--duration 30s`".into()),
    };
    Finding::wrong(Kind::NeverFired, words, advice)
}

/// The system call that a program probes.
fn system_call(program: &Program) -> Option<&str> {
    let [only] = program.probes.as_slice() else { return None };
    let event = only.strip_prefix("tracepoint:syscalls:sys_")?;
    event.strip_prefix("enter_").or_else(|| event.strip_prefix("exit_"))
}

/// The subject of a sentence about processes that did not do something.
fn someone(pids: &[u32]) -> String {
    if pids.is_empty() { "no process".to_owned() } else { format!("{} never", processes(pids)) }
}

/// `process 7`, `processes 7, 8`.
fn processes(pids: &[u32]) -> String {
    let numbers: Vec<String> = pids.iter().map(ToString::to_string).collect();
    format!("process{} {}", if pids.len() == 1 { "" } else { "es" }, numbers.join(", "))
}

fn of_system_call(name: &str, call: &str, pids: &[u32], time: &str) -> (String, String) {
    let words = format!("{} made the system call of {name} in {time}", someone(pids));
    if WITHOUT_CALL.contains(&call) {
        return (words, format!("programs get `{call}` from the vDSO, without a system call: probe libc's function"));
    }
    match REPLACED.iter().find(|(old, _)| *old == call) {
        Some((_, new)) => (words, format!("glibc makes `{new}` of it: probe sys_enter_{new} (or sys_exit_{new})")),
        None => (words, "look longer (`--duration 30s`), or trigger the event meanwhile".into()),
    }
}

/// A filter that let nothing through.
pub(super) fn filtered(block: &Block, name: &str, source: &Source, elapsed: Duration) -> Finding {
    let filter = block.filter.map(|span| shortened(text_of(source, span))).unwrap_or_default();
    let words =
        format!("{name} fired {}, and its filter let nothing through: / {filter} /", times(block.seen, elapsed));
    let leave_out = "the event is there, so the filter is too narrow: leave it out, and count what it compares, as in `@[pid, comm] = count()`";
    let advice = match source.name.as_str() {
        "-e" | "stdin" => leave_out.to_owned(),
        // The user may not know the parameter that narrows the filter.
        name if names_parameter(&filter) => {
            let recipe = name.strip_prefix("stdlib/").and_then(|name| name.strip_suffix(".prof")).unwrap_or(name);
            format!(
                "the event is there, so the filter is too narrow: `profiler help {recipe}` says what its parameters are"
            )
        }
        _ => leave_out.to_owned(),
    };
    Finding::wrong(Kind::Filtered, words, advice)
}

/// Whether it contains `$name`, which must be a parameter: variables have no value yet in filters.
fn names_parameter(filter: &str) -> bool {
    filter.split('$').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

/// Blocks that ran but left no results.
pub(super) fn no_results(passed: u64, elapsed: Duration) -> Finding {
    let words = format!("the script's blocks ran {}, printed nothing and left no map", times(passed, elapsed));
    Finding::wrong(Kind::NoResults, words, "an `if` in them may never hold, or `clear()` and `delete()` leave nothing")
}

/// Probes of a file that trap in every process that uses it.
pub(super) fn all_processes(first: &str, more: u32, path: &str) -> Finding {
    let (who, trap) = match more {
        0 => (first.to_owned(), "traps"),
        1 => (format!("{first} and one more probe"), "trap"),
        more => (format!("{first} and {more} more probes"), "trap"),
    };
    Finding::note(
        Kind::AllProcesses,
        format!("{who} {trap} in all processes that use {path}"),
        "a trap takes one to two microseconds: `-p PID`, `pid == PID` in the filter, or `--pid PID` of a recipe limits it to a process",
    )
}

/// Strings that were longer than their capacity.
pub(super) fn cut(strings: u64, object: &Object) -> Finding {
    let (what, room) = (if strings == 1 { "string was" } else { "strings were" }, object.config.max_strlen);
    let words = format!("{} {what} longer than the limit, and truncated", thousands(strings));
    Finding::note(
        Kind::Cut,
        words,
        format!("`str(POINTER, BYTES)` reads up to BYTES bytes; `max_strlen` is {room} now"),
    )
}

/// A text on one line, shortened if it is too long.
fn shortened(text: &str) -> String {
    const MOST_CHARS: usize = 120;
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MOST_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// The text of a span.
pub(super) fn text_of(source: &Source, span: Span) -> &str {
    source.text.get(span.start as usize..span.end as usize).unwrap_or_default()
}

/// `1,234 times in 1.5 s`.
pub(super) fn times(count: u64, elapsed: Duration) -> String {
    let word = if count == 1 { "once".to_owned() } else { format!("{} times", thousands(count)) };
    format!("{word} in {}", shown(elapsed))
}

/// A duration to the tenth of a second; shorter ones in finer units.
pub fn shown(time: Duration) -> String {
    let ms = time.as_millis();
    match ms {
        0 => format!("{} µs", time.as_micros()),
        1..1000 => format!("{ms} ms"),
        _ if ms % 1000 < 100 => format!("{} s", ms / 1000),
        _ => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
    }
}
