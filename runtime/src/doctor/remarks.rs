//! What is to be said of a script's run.
//!
//! In: what was seen of it. Out: findings, in the order of the script's probes, then of its results.
//! Guarantee: of one thing it is said once.

use profiler_compiler::object::{Attach, Loss, Object, Program};
use profiler_compiler::source::Source;

use super::counted::Block;
use super::findings::{self, Finding, Kind};
use super::report::Probe;
use super::watched::Watched;
use super::{machine, process};
use crate::attach::AttachError;
use crate::ledger::{self, Facts, Field};
use crate::load::LoadError;
use crate::session::{Outcome, RunError};
use crate::spans::thousands;

/// What a run that ended with an error means.
pub(super) fn refused(error: &RunError) -> Option<Finding> {
    let finding = |advice: &str| Some(Finding::wrong(Kind::Refused, error.to_string(), advice));
    match error {
        RunError::Load(LoadError::Privilege { reasons }) => {
            // How to get them stands in the row of privileges.
            let reasons = reasons.iter().map(|reason| reason.split(": run it").next().unwrap_or_default());
            let words = format!("the kernel refused the programs: {}", reasons.collect::<Vec<_>>().join("; "));
            Some(Finding::wrong(Kind::Refused, words, "run it as root, or with the capabilities above"))
        }
        RunError::Load(LoadError::TooLarge { .. }) => {
            finding("let the maps hold less (`config = { max_map_keys = …; }`), or split the script")
        }
        RunError::Load(LoadError::Verifier(_)) => {
            finding("this is a bug in profiler, not in the script: `profiler run` says where, and keeps the log")
        }
        // What is wrong with the process is said already.
        RunError::NoProcess(_) => None,
        _ => finding("`profiler doctor` alone says what this kernel and your rights allow"),
    }
}

/// Files of probes that their process does not run code of.
pub(super) fn unmapped(object: &Object) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for program in &object.programs {
        if let Attach::Uprobe { path, pid: Some(pid), .. } = &program.attach {
            found.extend(process::not_mapped(*pid, path).filter(|finding| !found.contains(finding)));
        }
    }
    found
}

/// What is to be said of each probe.
pub(super) fn of_probes(
    object: &Object,
    source: &Source,
    watched: &Watched,
    probes: &[Probe],
    pid: Option<u32>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, error) in &watched.refused {
        found.push(not_attached(error, object.programs.get(*index)));
    }
    let own: Vec<&Program> = object
        .programs
        .iter()
        .filter(|program| !program.attach.is_trial() && !matches!(program.attach, Attach::Sweep { .. }))
        .collect();
    for (program, probe) in own.into_iter().zip(probes) {
        if !probe.is_attached || !(probe.is_event || matches!(program.attach, Attach::Timer { .. })) {
            continue;
        }
        let block = watched.blocks.iter().find(|block| block.is_of(program));
        if !probe.has_fired {
            found.push(findings::never_fired(program, probe, pid, watched.elapsed));
        } else if let Some(block) = block.filter(|block| block.seen > 0 && block.passed == 0) {
            let finding = findings::filtered(block, &probe.name, source, watched.elapsed);
            found.extend((!found.contains(&finding)).then_some(finding));
        }
    }
    // Handlers of a span's events are no programs of their own.
    let is_handler = |block: &&Block| !object.programs.iter().any(|program| block.is_of(program));
    for block in watched.blocks.iter().filter(is_handler).filter(|block| block.seen > 0 && block.passed == 0) {
        let name = findings::text_of(source, block.point);
        found.push(findings::filtered(block, name, source, watched.elapsed));
    }
    found
}

fn not_attached(error: &AttachError, program: Option<&Program>) -> Finding {
    let advice = match (error.error.raw_os_error(), program.and_then(|program| program.attach.function_mechanism())) {
        (Some(libc::EPERM | libc::EACCES), Some("fentry" | "fexit")) => {
            "the kernel refuses programs at the entries of functions: kprobes or tracepoints may reach the same".into()
        }
        (Some(libc::EPERM | libc::EACCES), _) => machine::paranoia(),
        _ => "`profiler doctor` alone says which kinds of probes work here".into(),
    };
    let words = error.to_string();
    // The kernel's number behind its words says nothing more.
    let number = format!(" (os error {})", error.error.raw_os_error().unwrap_or(0));
    Finding::wrong(Kind::NotAttached, words.replace(&number, ""), advice)
}

/// What is to be said of what the run left.
pub(super) fn of_results(object: &Object, watched: &Watched, probes: &[Probe]) -> Vec<Finding> {
    let Some(outcome) = &watched.outcome else { return Vec::new() };
    let mut found = Vec::new();
    let losses = outcome.losses.iter().filter(|(_, count)| *count > 0);
    for (entry, (loss, _)) in missing(object, outcome).into_iter().zip(losses) {
        let text = |name: &str| entry.iter().find(|(key, _)| *key == name).map(|(_, field)| field);
        let (Some(Field::Text(what)), Some(Field::Count(count))) = (text("what"), text("count")) else { continue };
        let advice = match text("help") {
            Some(Field::Text(help)) => help.clone(),
            _ => without(loss).to_owned(),
        };
        found.push(Finding::wrong(Kind::Lost, format!("{what}: {} lost", thousands(*count)), advice));
    }
    let spans = outcome.spans.iter().filter(|span| span.lost() > 0);
    found.extend(spans.map(|span| {
        let words = format!("span {}: {}", span.name, span.summary());
        Finding::wrong(Kind::Lost, words, "raise the span's `limit`, or filter its `start`")
    }));
    let passed: u64 =
        probes.iter().filter(|probe| probe.is_event).filter_map(|probe| probe.counted).map(|it| it.1).sum();
    let left = watched.ear.prints + watched.ear.entries + outcome.spans.iter().map(|span| span.started).sum::<u64>();
    if passed > 0 && left == 0 && object.config.print_maps_on_exit {
        found.push(findings::no_results(passed, watched.elapsed));
    }
    if outcome.cut_strings > 0 {
        found.push(findings::cut(outcome.cut_strings, object));
    }
    for ((line, words), count) in &watched.ear.errors {
        let words = format!("line {line} of the script reported {}: {words}", findings::times(*count, watched.elapsed));
        found.push(Finding::wrong(Kind::ScriptError, words, ""));
    }
    if watched.ended_early {
        let words = format!("the script ended itself after {}", findings::shown(watched.elapsed));
        found.push(Finding::note(Kind::Ended, words, "what is said of its probes is about that time only"));
    }
    if watched.costs.is_none() {
        let words = "how often programs ran and for how long is not known: the kernel measures for CAP_SYS_ADMIN only";
        found.push(Finding::note(Kind::NotMeasured, words, "run it as root, or: sysctl kernel.bpf_stats_enabled=1"));
    }
    found
}

/// What to do about a loss that no setting mends.
fn without(loss: &Loss) -> &'static str {
    match loss {
        Loss::Control { .. } => "`print`, `clear` and `zero` of maps came too fast: call them from an `interval`",
        Loss::MapFull { .. } => "the kernel was short of memory, or at work on the same value",
        Loss::Rounds { .. } => "the condition of a `while` went on to hold: bound it",
        Loss::Stacks => {
            "ask for fewer frames, `ustack(8)`, or filter: there are more different stacks than room for them"
        }
        Loss::Scratch { .. } => "the probe fires within itself: filter it, or probe another function",
        Loss::Skipped { .. } => {
            "it fired where a program was running on the same CPU: probe a place that is reached less often, or count that share as unknown"
        }
        Loss::Events { .. } => "print less",
    }
}

/// The entries of the ledger about what is missing.
fn missing(object: &Object, outcome: &Outcome) -> Vec<Vec<(&'static str, Field)>> {
    let facts = Facts { object, losses: &outcome.losses, unnamed: 0, costs: None };
    ledger::sections(&facts).into_iter().filter(|section| section.name == "missing").flat_map(|it| it.entries).collect()
}
