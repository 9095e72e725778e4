//! `:probe PATTERN`: what can be probed, how long it will be there, what a block can read there, and what it costs here.
//!
//! In: a probe or a pattern, the terminal's width. Out: lines. Guarantee: only a probe that is alone is measured, by attaching it for [`MOMENT`]; nothing stays
//! attached. Of many probes the first are listed, and how many there are besides.

use std::fmt::Write as _;
use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use profiler_compiler::CATALOGUE;
use profiler_compiler::source::Source;
use profiler_compiler::statistics::Number;
use profiler_compiler::units::Unit;
use profiler_runtime::complete::argument;
use profiler_runtime::host::Host;
use profiler_runtime::list;
use profiler_runtime::orders::{self, Task};
use profiler_runtime::repl::help;
use profiler_runtime::repl::status::Status;

use super::super::args::ScriptArguments;
use super::super::engine;
use super::super::exit::Failure;
use super::super::script::Origin;

/// How long a probe is watched.
const MOMENT: Duration = Duration::from_millis(200);

/// How many of several probes are listed.
const MOST: usize = 12;

/// Width of the words in front of the lines.
const MARGIN: usize = 10;

/// What a kind of probe is.
struct Nature {
    what: &'static str,
    lasts: &'static str,
    /// What the kernel does before a block runs; nothing for what is not measured.
    way: &'static str,
}

/// Says what a pattern means. `is_measured`: the kernel measures what programs cost.
pub fn describe(pattern: &str, width: usize, is_measured: bool) -> Result<String, Failure> {
    let pattern = pattern.trim();
    let found = matching(pattern)?;
    let [probe] = &found[..] else { return Ok(several(&found, width)) };
    let (kind, name) = probe.split_once(':').unwrap_or((probe, ""));
    let mut text = format!("{probe}\n");
    if let Some(nature) = nature(kind, name) {
        text.push_str(&row("what", nature.what, width));
        text.push_str(&row("lasts", nature.lasts, width));
        text.push_str(&arguments(kind, probe, width));
        if !nature.way.is_empty() {
            let (cost, is_attached) = cost(probe, is_measured);
            text.push_str(&row("here", &cost, width));
            if is_attached {
                text.push_str(&row("way", nature.way, width));
            }
        }
    }
    Ok(text)
}

/// The probes that match. What has a number behind it that lists do not have, and names in quotes, are themselves.
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
        // A word alone may also be a function of the kernel.
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

/// What a kind of probe is, how long what it names will be there, and what the way to a block costs: as measured on x86-64 under Linux 6.18.
fn nature(kind: &str, name: &str) -> Option<Nature> {
    let of = |what, lasts, way| Some(Nature { what, lasts, way });
    match CATALOGUE.probe(kind)?.name() {
        "tracepoint" if name.starts_with("syscalls:") => of(
            "a system call, as programs make it",
            "for good: programs rely on it",
            "some 20 ns to come to the block; all system calls pass by a program that tells them apart",
        ),
        "tracepoint" => of(
            "a tracepoint: a place in the kernel that has a name on purpose",
            "name and fields seldom change between versions",
            "some 20 ns to come to the block; with `args` also what the kernel's record takes",
        ),
        "rawtracepoint" => of(
            "a tracepoint with the kernel's own arguments",
            "the name seldom changes; the structs that it hands over change between versions",
            "some 20 ns to come to the block",
        ),
        "kprobe" | "kretprobe" | "fentry" | "fexit" | "fn" => of(
            "a function of the kernel",
            "until the next version, which may rename, change or inline it; calls that the compiler inlined are not seen",
            match kind {
                "fentry" | "fexit" => "a call that the kernel patches in: the cheapest way to a function",
                _ => "a call that the kernel patches in, or a breakpoint where it cannot",
            },
        ),
        "uprobe" => of(
            "a function of a program, by its symbol",
            "as long as the program is not built anew; calls that the compiler inlined are not seen",
            "a trap into the kernel: some 170 ns a call of the program, microseconds on other machines",
        ),
        "uretprobe" => of(
            "the return of a function of a program, by its symbol",
            "as long as the program is not built anew; calls that the compiler inlined are not seen",
            "two traps into the kernel: some 270 ns a call of the program, microseconds on other machines",
        ),
        "usdt" => of(
            "a static probe, which the program's author has put there",
            "name and arguments are meant to stay when the code around them changes",
            "a trap into the kernel, some 170 ns in the program, microseconds on other machines; nearly nothing while nobody listens",
        ),
        "software" | "hardware" => of(
            "an event that the kernel or the processor counts",
            "for good",
            "an interrupt a run; the number behind the last colon is how many events make one",
        ),
        "iter" => {
            of("the objects of a kind that the kernel has now", "the name stays; fields are those of this kernel", "")
        }
        "watchpoint" => of("reads or writes of an address", "as long as the address means the same", ""),
        _ => of("an event of profiler's own", "for good", ""),
    }
}

/// What a block can read: names and types.
fn arguments(kind: &str, probe: &str, width: usize) -> String {
    let plain = |words: &str| row("reads", words, width);
    match kind {
        "uprobe" | "u" => return plain("arg0 … arg5: the arguments, as numbers"),
        "uretprobe" | "ur" => return plain("retval: what it returns, as a number"),
        "kretprobe" | "kr" => return plain("retval: what it returns, as a number; `fexit` has the arguments as well"),
        _ => {}
    }
    let lines = list::arguments(&Host::new(), probe);
    let prefix = if matches!(kind, "iter" | "it") { "ctx." } else { "args." };
    let named = |line: &String| match argument(line) {
        // Static probes say where their arguments are.
        Some(_) if line.contains('@') => (line.clone(), String::new()),
        Some((ty, name)) if name == "retval" => (name, ty),
        Some((ty, name)) => (format!("{prefix}{name}"), ty),
        None => (line.clone(), String::new()),
    };
    let rows: Vec<(String, String)> = lines.iter().map(named).collect();
    let column = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (index, (name, ty)) in rows.iter().enumerate() {
        let line = format!("{name:<column$}  {ty}");
        text.push_str(&row(if index == 0 { "reads" } else { "" }, line.trim_end(), width));
    }
    text
}

/// Attaches a probe for a moment, and says how often it fired and what that took; and whether it can be attached.
fn cost(probe: &str, is_measured: bool) -> (String, bool) {
    if probe.ends_with(':') {
        return (format!("not measured: write how many events make one run, as in `{probe}100`"), true);
    }
    match watch(probe) {
        Ok(seen) => (seen.in_words(is_measured), true),
        Err(failure) => (format!("cannot be attached: {}", in_one_line(&failure)), false),
    }
}

/// What was seen of a probe.
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
            return format!("{fired}; what that took is not known without CAP_SYS_ADMIN");
        };
        let mean = Number::quotient(i128::try_from(time.as_nanos()).unwrap_or(i128::MAX), runs);
        let share = time.as_secs_f64() * 100.0 / self.status.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        let mean = Unit::Duration.text(mean.as_f64());
        format!("{fired}; counting that took {mean} a run with what measuring takes, {share:.3} % of a CPU")
    }
}

fn watch(probe: &str) -> Result<Seen, Failure> {
    let text = format!("{probe} {{ @fired = count(); }}");
    let (source, arguments) = (Source::new(":probe", &text), ScriptArguments::new(Origin::Inline(text.clone())));
    let failed = |error: io::Error| Failure::new(super::super::exit::MISTAKE, error.to_string());
    let (giver, orders) = orders::pair().map_err(failed)?;
    let (printed, (attached, is_attached)) = (Arc::new(Mutex::new(Vec::new())), channel());
    thread::scope(|scope| {
        let out = || Box::new(Printed(Arc::clone(&printed))) as Box<dyn io::Write>;
        let life = scope.spawn(move || {
            let tell = |_: &_| {
                // Nobody waits any more when the prompt has ended.
                let _ = attached.send(());
            };
            engine::run_at_prompt(&source, &arguments, orders, &|_, _| Ok(()), &tell, out)
        });
        let mut status = None;
        // An error means that it could not be attached.
        if is_attached.recv().is_ok() {
            thread::sleep(MOMENT);
            let (sender, answer) = channel();
            giver.give(Task::Print { map: "@fired".into(), view: None });
            giver.give(Task::Status(sender));
            status = answer.recv().ok();
        }
        giver.give(Task::Stop);
        let ended = life.join().unwrap_or_else(|_| Err(Failure::new(super::super::exit::MISTAKE, "it ended")));
        ended.map(|_| ())?;
        let printed = String::from_utf8_lossy(&printed.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
        let fired = printed.lines().find_map(|line| line.strip_prefix("@fired: ")?.trim().parse().ok());
        Ok(Seen { fired: fired.unwrap_or(0), status: status.unwrap_or_default() })
    })
}

/// What a program prints.
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

/// A line with a word in front, broken between words where the terminal ends.
fn row(label: &str, words: &str, width: usize) -> String {
    let label = format!("  {label:<width$}", width = MARGIN - 2);
    // Columns are kept: only what is too long is taken apart.
    if MARGIN + words.chars().count() <= width {
        return format!("{}\n", format!("{label}{words}").trim_end());
    }
    format!("{label}{}", help::fitted(MARGIN, words, width).trim_start())
}

#[cfg(test)]
mod tests {
    use super::{MARGIN, nature, row};
    use profiler_compiler::CATALOGUE;

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(row("what", "a tracepoint", 80), "  what    a tracepoint\n");
        assert_eq!(row("what", "one two three four", 20), "  what    one two\n          three four\n");
        let text = row("x", &"word ".repeat(40), 40);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert_eq!(MARGIN, 10);
    }

    #[test]
    fn every_kind_of_probe_is_something() {
        for probe in CATALOGUE.probes {
            assert!(nature(probe.name(), "").is_some_and(|nature| !nature.what.is_empty()), "{}", probe.name());
        }
    }
}
