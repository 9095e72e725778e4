//! Stacks by thread: their files, an analysis in words, a table of all.
//!
//! In: samples. Out: [`OfThread`], and text.
//! Guarantee: each sample is in one of them, so that they add up to the whole. No two have the same
//! name, and names can be names of files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use profiler_model::text::controls::escaped;
use profiler_model::units::Unit;

use super::samples::{Kind, Samples, is_number};
use super::{Folded, fold};

/// Rows of the table of functions.
const MOST_FUNCTIONS: usize = 10;
/// What has no thread in its key.
const OTHER: &str = "other";
/// Characters of a name in a file's name; the kernel's names of threads are shorter.
const MAX_NAME_CHARS: usize = 64;

/// The stacks of one thread.
#[derive(Debug, Clone)]
pub struct OfThread {
    /// The name that most of its samples have.
    name: String,
    /// `None` if the key has no thread.
    id: Option<u64>,
    folded: Folded,
    functions: Vec<Function>,
}

/// A function with what it has itself, and with what it calls.
#[derive(Debug, Clone)]
struct Function {
    name: String,
    own: u128,
    total: u128,
}

/// The samples by thread, the largest first, and last those without a thread.
pub(super) fn of(samples: &Samples, notes: &[String]) -> Vec<OfThread> {
    let mut parts: BTreeMap<Option<u64>, BTreeMap<_, u64>> = BTreeMap::new();
    for (site, number) in &samples.rows {
        parts.entry(site.thread).or_default().insert(site.clone(), *number);
    }
    // All threads decide: one of them may have the name of a state.
    let states = fold::state_parts(samples);
    // With the frames of all threads, once.
    let mut samples = samples.clone();
    let of_thread = |(id, rows): (Option<u64>, _)| {
        samples.rows = rows;
        let name = if id.is_some() { name(&samples) } else { OTHER.to_owned() };
        let folded = Folded { notes: notes.to_vec(), ..fold::fold_with(&samples, &states) };
        OfThread { name, id, folded, functions: functions(&samples) }
    };
    let mut threads: Vec<OfThread> = parts.into_iter().map(of_thread).collect();
    threads.sort_by_key(|thread| (thread.id.is_none(), std::cmp::Reverse(thread.folded.total())));
    threads
}

/// The name of the thread: the first part of the key that is no number, of most of the samples.
fn name(samples: &Samples) -> String {
    let mut names: BTreeMap<&str, u128> = BTreeMap::new();
    for (site, number) in &samples.rows {
        if let Some(name) = site.labels.iter().find(|label| !is_number(label)) {
            *names.entry(name).or_default() += u128::from(*number);
        }
    }
    names.into_iter().max_by_key(|(_, number)| *number).map_or_else(|| "thread".into(), |(name, _)| name.to_owned())
}

impl OfThread {
    /// The beginning of the names of its files: `NAME-ID`.
    pub fn file_name(&self) -> String {
        let allowed = |c: char| if c.is_alphanumeric() || "._-+@=".contains(c) { c } else { '_' };
        let name: String = self.name.chars().take(MAX_NAME_CHARS).map(allowed).collect();
        // A file whose name begins with a dot is hidden, and with a hyphen looks like an option.
        let name = if name.starts_with(['.', '-']) { format!("_{}", &name[1..]) } else { name };
        self.id.map_or_else(|| name.clone(), |id| format!("{name}-{id}"))
    }

    /// Its stacks.
    pub fn folded(&self) -> &Folded {
        &self.folded
    }

    /// Writes its total, the share of each state if the key has one, and its largest functions.
    pub fn write_analysis(&self, title: &str, out: &mut dyn Write) -> io::Result<()> {
        let (all, unit) = (self.folded.total(), self.folded.unit);
        writeln!(out, "{}: {}", escaped(&self.label()), title)?;
        writeln!(out, "total {}", number(all, unit))?;
        let states = self.states();
        if !states.is_empty() {
            writeln!(out, "\n{:<16} {:>14} {:>8}", "state", "total", "share")?;
        }
        for (state, total) in states {
            writeln!(out, "{state:<16} {:>14} {:>8}", number(total, unit), share(total, all))?;
        }
        writeln!(out, "\n{:>14} {:>8} {:>14} {:>8}  function", "self", "share", "total", "share")?;
        for Function { name, own, total } in &self.functions {
            let (own_text, total_text) = (number(*own, unit), number(*total, unit));
            let (own, total) = (share(*own, all), share(*total, all));
            writeln!(out, "{own_text:>14} {own:>8} {total_text:>14} {total:>8}  {}", escaped(name))?;
        }
        for note in &self.folded.notes {
            writeln!(out, "{}", note.trim_end())?;
        }
        Ok(())
    }

    fn label(&self) -> String {
        self.id.map_or_else(|| self.name.clone(), |id| format!("{} {id}", self.name))
    }

    /// The states, the largest first.
    fn states(&self) -> Vec<(&'static str, u128)> {
        let mut states: BTreeMap<&'static str, u128> = BTreeMap::new();
        for (stack, number) in &self.folded.rows {
            if let Some(placed) = self.folded.states.get(stack) {
                *states.entry(placed.state.name()).or_default() += u128::from(*number);
            }
        }
        let mut states: Vec<_> = states.into_iter().collect();
        states.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
        states
    }
}

/// The functions, without remarks that callers are missing, with the largest numbers of their own.
fn functions(samples: &Samples) -> Vec<Function> {
    let mut functions: BTreeMap<String, (u128, u128)> = BTreeMap::new();
    for (site, number) in &samples.rows {
        let frames: Vec<String> =
            samples.stack(site).filter(|frame| frame.kind != Kind::End).map(fold::frame).collect();
        if let Some(innermost) = frames.last() {
            functions.entry(innermost.clone()).or_default().0 += u128::from(*number);
        }
        // A function that calls itself counts once.
        for frame in frames.into_iter().collect::<BTreeSet<_>>() {
            functions.entry(frame).or_default().1 += u128::from(*number);
        }
    }
    let function = |(name, (own, total))| Function { name, own, total };
    let mut functions: Vec<Function> = functions.into_iter().map(function).collect();
    functions.sort_by_key(|function| std::cmp::Reverse((function.own, function.total)));
    functions.truncate(MOST_FUNCTIONS);
    functions
}

/// Writes a table of threads with their sum.
pub fn write_summary(threads: &[OfThread], title: &str, out: &mut dyn Write) -> io::Result<()> {
    let all: u128 = threads.iter().map(|thread| thread.folded.total()).sum();
    let first = threads.first().map(|thread| thread.folded.unit).unwrap_or_default();
    let is_one = threads.iter().all(|thread| thread.folded.unit == first);
    let unit = if is_one { first } else { Unit::None };
    writeln!(out, "{title}\n\n{:<20} {:>10} {:>14} {:>8}", "thread", "tid", "total", "share")?;
    for thread in threads {
        let (name, total) = (escaped(&thread.name), thread.folded.total());
        let id = thread.id.map_or_else(|| "-".into(), |id| id.to_string());
        writeln!(out, "{name:<20} {id:>10} {:>14} {:>8}", number(total, unit), share(total, all))?;
    }
    writeln!(out, "{:<20} {:>10} {:>14} {:>8}", "all", "", number(all, unit), share(all, all))
}

/// A number as people read it; folded lines have all digits.
#[expect(clippy::cast_precision_loss, reason = "three digits of a time are shown")]
fn number(number: u128, unit: Unit) -> String {
    if unit == Unit::Duration { unit.text(number as f64) } else { number.to_string() }
}

#[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
fn share(number: u128, all: u128) -> String {
    format!("{:.1} %", number as f64 * 100.0 / all.max(1) as f64)
}
