//! `:probe PATTERN`: what can be probed, how stable it is, what a block can read there, and what it
//! costs here.
//!
//! In: a probe or a pattern, the terminal's width. Out: lines. Guarantee: only a single matching
//! probe is measured, by attaching it for [`MOMENT`]; nothing stays attached. Of several probes the
//! first are listed, with the number of others.

use std::fmt::Write as _;
use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::complete::argument;
use crate::list;
use crate::repl::help;
use profiler_compiler::CATALOGUE;
use profiler_compiler::catalogue::{ProbeKind, Reads};
use profiler_compiler::source::Source;
use profiler_compiler::statistics::Number;
use profiler_compiler::units::Unit;
use profiler_runtime::control::{self, Status, Task};
use profiler_runtime::host::Host;

use super::super::args::ScriptArguments;
use super::super::engine;
use super::super::exit::Failure;
use super::super::script::Origin;

/// How long a probe is measured.
const MOMENT: Duration = Duration::from_millis(200);

/// Limit of listed probes.
const MOST: usize = 12;

/// Columns of the labels before the lines.
const MARGIN: usize = 13;

/// Describes the probes that match a pattern. `is_measured`: the kernel measures the cost of
/// programs.
pub(super) fn describe(pattern: &str, width: usize, is_measured: bool) -> Result<String, Failure> {
    let pattern = pattern.trim();
    let found = matching(pattern)?;
    let [probe] = &found[..] else { return Ok(several(&found, width)) };
    let (kind, name) = probe.split_once(':').unwrap_or((probe, ""));
    let mut text = format!("{probe}\n");
    if let Some(kind) = CATALOGUE.probe(kind) {
        let nature = kind.nature(name);
        text.push_str(&row("kind", nature.what, width));
        text.push_str(&row("stability", nature.lasts, width));
        text.push_str(&arguments(kind, probe, width));
        if !nature.way.is_empty() {
            let (cost, is_attached) = cost(probe, is_measured);
            text.push_str(&row("measured", &cost, width));
            if is_attached {
                text.push_str(&row("overhead", nature.way, width));
            }
        }
    }
    Ok(text)
}

/// The probes that match. A probe with a number that listings do not include, or with a quoted
/// name, stands for itself.
fn matching(pattern: &str) -> Result<Vec<String>, Failure> {
    if pattern.contains('"') {
        return Ok(vec![pattern.to_owned()]);
    }
    let (kind, rest) = pattern.split_once(':').unwrap_or((pattern, ""));
    let listed = |pattern: &str| {
        let mut text = Vec::new();
        engine::list(Some(pattern), None, false, &mut text)?;
        Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect::<Vec<_>>())
    };
    match listed(pattern) {
        // A single word may also be a kernel function.
        Ok(mut found) if rest.is_empty() && CATALOGUE.probe(kind).is_none() => {
            found.extend(listed(&format!("fn:{pattern}")).unwrap_or_default());
            Ok(found)
        }
        Ok(found) => Ok(found),
        Err(error) => {
            let with_number =
                rest.rsplit_once(':').filter(|(_, number)| number.starts_with(|c: char| c.is_ascii_digit()));
            let is_there = with_number.is_some_and(|(name, _)| listed(&format!("{kind}:{name}")).is_ok());
            if is_there {
                return Ok(vec![pattern.to_owned()]);
            }
            let function = rest.is_empty().then(|| listed(&format!("fn:{pattern}")).ok()).flatten();
            function.ok_or(error)
        }
    }
}

/// A list with the names of arguments, as far as they fit.
fn several(found: &[String], width: usize) -> String {
    let host = Host::new();
    let mut text = String::new();
    for probe in found.iter().take(MOST) {
        let names: Vec<String> =
            list::arguments(&host, probe).iter().filter_map(|line| argument(line)).map(|(_, name)| name).collect();
        let names = names.join(", ");
        let room = width.saturating_sub(probe.chars().count() + 2);
        let _ = match names.chars().count() {
            0 => writeln!(text, "{probe}"),
            length if length <= room => writeln!(text, "{probe}  {names}"),
            _ if room < MARGIN => writeln!(text, "{probe}"),
            _ => writeln!(text, "{probe}  {}…", names.chars().take(room - 1).collect::<String>()),
        };
    }
    let more = found.len().saturating_sub(MOST);
    if more > 0 {
        let _ = writeln!(text, "… and {more} more");
    }
    text
}

/// Names and types that a block can read.
fn arguments(kind: &dyn ProbeKind, probe: &str, width: usize) -> String {
    let members = match kind.reads() {
        Reads::Text(words) => return row("fields", words, width),
        Reads::Members(builtin) => builtin,
    };
    let lines = list::arguments(&Host::new(), probe);
    let named = |line: &String| match argument(line) {
        // Static probes list the locations of their arguments.
        Some(_) if line.contains('@') => (line.clone(), String::new()),
        Some((ty, name)) if name == "retval" => (name, ty),
        Some((ty, name)) => (format!("{members}.{name}"), ty),
        None => (line.clone(), String::new()),
    };
    let rows: Vec<(String, String)> = lines.iter().map(named).collect();
    let column = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (index, (name, ty)) in rows.iter().enumerate() {
        let line = format!("{name:<column$}  {ty}");
        text.push_str(&row(if index == 0 { "fields" } else { "" }, line.trim_end(), width));
    }
    text
}

/// Attaches a probe briefly; returns how often it fired and its cost as text, and whether it can be
/// attached.
fn cost(probe: &str, is_measured: bool) -> (String, bool) {
    if probe.ends_with(':') {
        return (format!("not measured: append the number of events per run, as in `{probe}100`"), true);
    }
    match watch(probe) {
        Ok(seen) => (seen.in_words(is_measured), true),
        Err(failure) => (format!("cannot be attached: {}", in_one_line(&failure)), false),
    }
}

/// The measurements of a probe.
struct Seen {
    fired: u64,
    status: Status,
}

impl Seen {
    fn in_words(&self, is_measured: bool) -> String {
        let milliseconds = MOMENT.as_millis();
        if self.fired == 0 {
            return format!("has not fired in {milliseconds} ms");
        }
        let times = if self.fired == 1 { "once".to_owned() } else { format!("{} times", self.fired) };
        let fired = format!("fired {times} in {milliseconds} ms");
        let Some((runs, time)) = self.status.cost.filter(|(runs, _)| is_measured && *runs > 0) else {
            return format!("{fired}; measuring the cost needs CAP_SYS_ADMIN");
        };
        let mean = Number::quotient(i128::try_from(time.as_nanos()).unwrap_or(i128::MAX), runs);
        let share = time.as_secs_f64() * 100.0 / self.status.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        let mean = Unit::Duration.text(mean.as_f64());
        format!("{fired}; mean {mean} per run including measurement overhead, {share:.3} % of one CPU")
    }
}

fn watch(probe: &str) -> Result<Seen, Failure> {
    let text = format!("{probe} {{ @fired = count(); }}");
    let (source, arguments) = (Source::new(":probe", &text), ScriptArguments::new(Origin::Inline(text.clone())));
    let failed = |error: io::Error| Failure::new(super::super::exit::MISTAKE, error.to_string());
    let (controller, requests) = control::pair().map_err(failed)?;
    let (printed, (attached, is_attached)) = (Arc::new(Mutex::new(Vec::new())), channel());
    thread::scope(|scope| {
        let out = || Box::new(Printed(Arc::clone(&printed))) as Box<dyn io::Write>;
        let life = scope.spawn(move || {
            let tell = |_: &_| {
                // The receiver may be gone if the prompt has ended.
                let _ = attached.send(());
            };
            let prompt = engine::Prompt { requests, loaded: &|_, _| Ok(()), attached: &tell };
            engine::run_at_prompt(&source, &arguments, prompt, out)
        });
        let mut status = None;
        // An error means that it could not be attached.
        if is_attached.recv().is_ok() {
            thread::sleep(MOMENT);
            let (sender, answer) = channel();
            controller.run(Task::Print("@fired".into()));
            controller.run(Task::Status(sender));
            status = answer.recv().ok();
        }
        controller.run(Task::Stop);
        let ended = life.join().unwrap_or_else(|_| Err(Failure::new(super::super::exit::MISTAKE, "it ended")));
        ended.map(|_| ())?;
        let printed = String::from_utf8_lossy(&printed.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
        let fired = printed.lines().find_map(|line| line.strip_prefix("@fired: ")?.trim().parse().ok());
        Ok(Seen { fired: fired.unwrap_or(0), status: status.unwrap_or_default() })
    })
}

/// Collects the output of a program.
struct Printed(Arc<Mutex<Vec<u8>>>);

impl io::Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn in_one_line(failure: &Failure) -> String {
    match failure {
        Failure::Script { diagnostics, .. } => {
            let first = diagnostics.iter().find(|diagnostic| diagnostic.is_error());
            first.map_or_else(String::new, |diagnostic| diagnostic.message.clone())
        }
        failure => {
            let text = failure.render(false);
            let line = text.lines().next().unwrap_or_default();
            line.split_once(": ").map_or(line, |(_, words)| words).to_owned()
        }
    }
}

/// A labelled line, wrapped at words to the width of the terminal.
fn row(label: &str, words: &str, width: usize) -> String {
    let label = format!("  {label:<width$}", width = MARGIN - 2);
    // Keep columns: only lines that are too long are wrapped.
    if MARGIN + words.chars().count() <= width {
        return format!("{}\n", format!("{label}{words}").trim_end());
    }
    format!("{label}{}", help::fitted(MARGIN, words, width).trim_start())
}

#[cfg(test)]
mod tests {
    use super::{MARGIN, row};
    use profiler_compiler::CATALOGUE;

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(row("kind", "tracepoint", 80), "  kind       tracepoint\n");
        assert_eq!(row("kind", "one two three four", 23), "  kind       one two\n             three four\n");
        let text = row("x", &"word ".repeat(40), 40);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert_eq!(MARGIN, 13);
    }

    #[test]
    fn every_kind_of_probe_is_something() {
        for probe in CATALOGUE.probes {
            assert!(!probe.nature("").what.is_empty(), "{}", probe.name());
        }
    }
}
