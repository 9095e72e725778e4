//! What is wrong with a script's run, in plain words, with what to do.
//!
//! In: what was seen of a run. Out: [`Finding`]s, the gravest first.
//! Guarantee: each says what was seen and what to do about it; a run that is as it should be has none.

use std::time::Duration;

use profiler_compiler::object::{Attach, Object, Program};
use profiler_compiler::source::{Source, Span};

use super::counted::Block;
use super::report::Probe;
use crate::spans::thousands;

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The kernel refused to load the programs.
    Refused,
    /// A probe could not be attached.
    NotAttached,
    /// The process that the script wants is not there, or is another.
    WrongProcess,
    /// The process did nothing.
    Asleep,
    /// A probe never fired.
    NeverFired,
    /// A probe fired, and its filter let nothing through.
    Filtered,
    /// Blocks ran, and left nothing.
    NoResults,
    /// Something was lost.
    Lost,
    /// Strings were cut.
    Cut,
    /// The script itself reported an error.
    ScriptError,
    /// The script ended itself.
    Ended,
    /// The kernel did not measure.
    NotMeasured,
}

impl Kind {
    /// What machines call it.
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
            Kind::NotMeasured => "not-measured",
        }
    }
}

/// Something that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub kind: Kind,
    /// Whether it is wrong, or only worth knowing.
    pub is_wrong: bool,
    /// What was seen.
    pub words: String,
    /// What to do.
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

/// System calls that glibc makes another one of on x86-64.
const REPLACED: &[(&str, &str)] =
    &[("open", "openat"), ("stat", "newfstatat"), ("lstat", "newfstatat"), ("fork", "clone"), ("select", "pselect6")];

/// The kernel's own clock page answers these without a system call.
const WITHOUT_CALL: &[&str] = &["clock_gettime", "gettimeofday", "time", "getcpu"];

/// Why a probe never fired, as far as its kind tells.
pub(super) fn never_fired(program: &Program, probe: &Probe, pid: Option<u32>, elapsed: Duration) -> Finding {
    let time = shown(elapsed);
    let name = &probe.name;
    let (words, advice) = match &program.attach {
        Attach::RawTracepoint { .. } | Attach::Tracepoint { .. } => match system_call(program) {
            Some(call) => of_system_call(name, call, pid, &time),
            None => (
                match pid {
                    Some(pid) => format!("{name} did not happen to process {pid} in {time}"),
                    None => format!("{name} happened to nobody in {time}"),
                },
                "look longer (`--duration 30s`), or do meanwhile what should cause it".to_owned(),
            ),
        },
        Attach::Kprobe { .. } | Attach::Trampoline { .. } => (
            format!("{} called the function of {name} in {time}", someone(pid)),
            "look longer (`--duration 30s`); or it was inlined where it is called: probe a function that calls it, or a tracepoint".into(),
        ),
        Attach::Uprobe { path, pid, .. } => {
            let who = someone(*pid);
            let which = if name.starts_with("usdt") { "passed" } else { "called the function of" };
            (
                format!("{who} {which} {name} in {time}"),
                format!(
                    "look longer (`--duration 30s`); only calls into {path} count: containers and programs linked statically have their own \
                     code; a function may also be inlined where it is called"
                ),
            )
        }
        Attach::PerfEvent { pid, .. } => (
            format!("{name} never came in {time}"),
            match pid {
                Some(pid) => format!("process {pid} used too little of a processor: look longer (`--duration 30s`)"),
                None => "the event is rarer than its period: look longer (`--duration 30s`), or lower the period".into(),
            },
        ),
        Attach::Watchpoint { address, .. } => (
            format!("nobody touched the memory at {address:#x} in {time} ({name})"),
            "look longer (`--duration 30s`); is it the address in this run of the process?".into(),
        ),
        Attach::Iterator { .. } => {
            (format!("{name} met no object"), "with `-p`, only those of that process are met".into())
        }
        Attach::Timer { period_ns } => (
            format!("{name} was not due: its period is {}", shown(Duration::from_nanos(*period_ns))),
            "look longer than its period: `--duration`".into(),
        ),
        _ => (format!("{name} did not run"), "look longer: `--duration 30s`".into()),
    };
    Finding::wrong(Kind::NeverFired, words, advice)
}

/// The system call that a program is for.
fn system_call(program: &Program) -> Option<&str> {
    let [only] = program.probes.as_slice() else { return None };
    let event = only.strip_prefix("tracepoint:syscalls:sys_")?;
    event.strip_prefix("enter_").or_else(|| event.strip_prefix("exit_"))
}

/// Who did not.
fn someone(pid: Option<u32>) -> String {
    pid.map_or_else(|| "no process".to_owned(), |pid| format!("process {pid} never"))
}

fn of_system_call(name: &str, call: &str, pid: Option<u32>, time: &str) -> (String, String) {
    let words = format!("{} made the system call of {name} in {time}", someone(pid));
    if WITHOUT_CALL.contains(&call) {
        return (words, format!("programs get `{call}` from the vDSO, without a system call: probe libc's function"));
    }
    match REPLACED.iter().find(|(old, _)| *old == call) {
        Some((_, new)) => (words, format!("glibc makes `{new}` of it: probe sys_enter_{new} (or sys_exit_{new})")),
        None => (words, "look longer (`--duration 30s`), or do meanwhile what should cause it".into()),
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
        // A parameter that its user does not know of may be what narrows it.
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

/// Whether `$name` is in it: a variable has no value yet where filters are.
fn names_parameter(filter: &str) -> bool {
    filter.split('$').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

/// Blocks that ran and left nothing.
pub(super) fn no_results(passed: u64, elapsed: Duration) -> Finding {
    let words = format!("the script's blocks ran {}, printed nothing and left no map", times(passed, elapsed));
    Finding::wrong(Kind::NoResults, words, "an `if` in them may never hold, or `clear()` and `delete()` leave nothing")
}

/// A failure of the script's own making, and strings that did not fit.
pub(super) fn cut(strings: u64, object: &Object) -> Finding {
    let (what, room) = (if strings == 1 { "string was" } else { "strings were" }, object.config.max_strlen);
    let words = format!("{} {what} longer than the room for them, and cut", thousands(strings));
    Finding::note(Kind::Cut, words, format!("`str(POINTER, BYTES)` reads so many bytes; `max_strlen` is {room} now"))
}

/// A text on one line, and not too long.
fn shortened(text: &str) -> String {
    const MOST_CHARS: usize = 120;
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MOST_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// The characters of a span.
pub(super) fn text_of(source: &Source, span: Span) -> &str {
    source.text.get(span.start as usize..span.end as usize).unwrap_or_default()
}

/// `1,234 times in 1.5 s`.
pub(super) fn times(count: u64, elapsed: Duration) -> String {
    let word = if count == 1 { "once".to_owned() } else { format!("{} times", thousands(count)) };
    format!("{word} in {}", shown(elapsed))
}

/// A time to the tenth of a second, or shorter ones as they are.
pub fn shown(time: Duration) -> String {
    let ms = time.as_millis();
    match ms {
        0 => format!("{} µs", time.as_micros()),
        1..1000 => format!("{ms} ms"),
        _ if ms % 1000 < 100 => format!("{} s", ms / 1000),
        _ => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
    }
}
