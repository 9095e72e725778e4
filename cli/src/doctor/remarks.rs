//! Findings about a run, without duplicates.
//!
//! In: observations of the run. Out: findings, in the order of the script's probes, then of its
//! results.
//! Guarantee: each problem is reported once.

use profiler_compiler::object::{Attach, Loss, Object, Program};
use profiler_compiler::source::Source;
use profiler_compiler::value::Shortfalls;

use super::counted::Block;
use super::findings::{self, Finding, Kind};
use super::report::Probe;
use super::watched::Watched;
use super::{machine, process};
use profiler_model::output::Field;
use profiler_model::text::thousands;
use profiler_runtime::attach::AttachError;
use profiler_runtime::ledger::{self, Inputs, Resolved};
use profiler_runtime::load::LoadError;
use profiler_runtime::session::{Outcome, RunError};

/// The finding for a run that ended with an error.
pub(super) fn refused(error: &RunError) -> Option<Finding> {
    let finding = |advice: &str| Some(Finding::wrong(Kind::Refused, error.to_string(), advice));
    match error {
        RunError::Load(LoadError::Privilege { reasons }) => {
            // The row of privileges tells how to get them.
            let reasons = reasons.iter().map(|reason| reason.split(": run it").next().unwrap_or_default());
            let words = format!("the kernel refused the programs: {}", reasons.collect::<Vec<_>>().join("; "));
            Some(Finding::wrong(Kind::Refused, words, "run it as root, or with the capabilities above"))
        }
        RunError::Load(LoadError::TooLarge { .. }) => {
            finding("lower the maps' capacity (`config = { max_map_keys = …; }`), or split the script")
        }
        RunError::Load(LoadError::Verifier(_)) => {
            finding("this is a bug in profiler, not in the script: `profiler run` says where, and keeps the log")
        }
        // Problems with the process are already reported.
        RunError::NoProcess(_) => None,
        _ => finding("`profiler doctor` alone says what this kernel and your rights allow"),
    }
}

/// Files with probes that their process has not mapped as code.
pub(super) fn unmapped(object: &Object) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for program in &object.programs {
        if let Attach::Uprobe { path, .. } = &program.attach {
            for pid in concerned(program, object, &[]) {
                found.extend(process::not_mapped(pid, path).filter(|finding| !found.contains(finding)));
            }
        }
    }
    found
}

/// Files with probes that are attached in all processes.
pub(super) fn of_all_processes(object: &Object) -> Vec<Finding> {
    let mut files: Vec<(&str, &str, u32)> = Vec::new();
    for program in &object.programs {
        let Attach::Uprobe { path, .. } = &program.attach else { continue };
        let Some(first) = program.probes.first().filter(|_| concerned(program, object, &[]).is_empty()) else {
            continue;
        };
        match files.iter_mut().find(|(known, ..)| known == path) {
            Some((_, _, points)) => *points += program.points,
            None => files.push((path, first, program.points)),
        }
    }
    files.iter().map(|(path, first, points)| findings::all_processes(first, points.saturating_sub(1), path)).collect()
}

/// The processes that a program concerns: those that it is attached to, otherwise those of `-p`.
/// Empty for all.
fn concerned(program: &Program, object: &Object, pids: &[u32]) -> Vec<u32> {
    match &program.attach {
        Attach::Uprobe { scope, .. } => {
            let value = |index: usize| object.params.get(index).map(|param| &param.value);
            scope.resolve(&value).into_iter().flatten().collect()
        }
        _ => pids.to_vec(),
    }
}

/// Findings about each probe.
pub(super) fn of_probes(
    object: &Object,
    source: &Source,
    watched: &Watched,
    probes: &[Probe],
    pids: &[u32],
) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, error) in &watched.refused {
        found.push(not_attached(error, object.programs.get(*index)));
    }
    let own: Vec<&Program> =
        object.programs.iter().filter(|program| !program.attach.is_trial() && !program.attach.is_of_span()).collect();
    for (program, probe) in own.into_iter().zip(probes) {
        if !probe.is_attached
            || !(probe.is_event || matches!(program.attach, Attach::Timer { .. } | Attach::Visits { .. }))
        {
            continue;
        }
        let block = watched.blocks.iter().find(|block| block.is_of(program));
        if !probe.has_fired {
            found.push(findings::never_fired(program, probe, &concerned(program, object, pids), watched.elapsed));
        } else if let Some(block) = block.filter(|block| block.seen > 0 && block.passed == 0) {
            let finding = findings::filtered(block, &probe.name, source, watched.elapsed);
            found.extend((!found.contains(&finding)).then_some(finding));
        }
    }
    // Handlers of span events are not separate programs.
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
            "the kernel refuses programs at function entry: kprobes or tracepoints may reach the same".into()
        }
        (Some(libc::EPERM | libc::EACCES), _) => machine::paranoia(),
        _ => "`profiler doctor` alone says which kinds of probes work here".into(),
    };
    let words = error.to_string();
    // The error number after the text adds nothing.
    let number = format!(" (os error {})", error.error.raw_os_error().unwrap_or(0));
    Finding::wrong(Kind::NotAttached, words.replace(&number, ""), advice)
}

/// Findings about the results of the run.
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
    let left =
        watched.renderer.prints + watched.renderer.entries + outcome.spans.iter().map(|span| span.started).sum::<u64>();
    if passed > 0 && left == 0 && object.config.print_maps_on_exit {
        found.push(findings::no_results(passed, watched.elapsed));
    }
    if outcome.cut_strings > 0 {
        found.push(findings::cut(outcome.cut_strings, object));
    }
    for ((line, words), count) in &watched.renderer.errors {
        let words = format!("line {line} of the script reported {}: {words}", findings::times(*count, watched.elapsed));
        found.push(Finding::wrong(Kind::ScriptError, words, ""));
    }
    if watched.ended_early {
        let words = format!("the script ended itself after {}", findings::shown(watched.elapsed));
        found.push(Finding::note(Kind::Ended, words, "its probes were observed for that time only"));
    }
    if watched.costs.is_none() {
        let words = "how often programs ran and for how long is not known: the kernel measures for CAP_SYS_ADMIN only";
        found.push(Finding::note(Kind::NotMeasured, words, "run it as root, or: sysctl kernel.bpf_stats_enabled=1"));
    }
    found
}

/// Advice for a loss that no setting fixes.
fn without(loss: &Loss) -> &'static str {
    match loss {
        Loss::Control { .. } => "`print`, `clear` and `zero` of maps came too fast: call them from an `interval`",
        Loss::MapFull { .. } => "the kernel was short of memory, or busy with the same value",
        Loss::Rounds { .. } => "the condition of a `while` remained true: bound the loop",
        Loss::Stacks => {
            "raise `max_stacks`, ask for fewer frames, `ustack(8)`, or filter: more different stacks came than are kept"
        }
        Loss::Callers { .. } => {
            "stacks of processes that have just started, or of code without unwind information, end early"
        }
        Loss::Scratch { .. } => "the probe fires within itself: filter it, or probe another function",
        Loss::Commands => "a command takes longer than the time between two calls: call `system` less often",
        Loss::Ticks { .. } => "the machine was busy, or a program was running on that CPU: ask for fewer ticks",
        Loss::MergedTicks { .. } => {
            "interrupts come late here, as on a virtual machine that waits for its host: ask for fewer ticks"
        }
        Loss::Skipped { .. } => {
            "it fired where a program was running on the same CPU: probe a place that is reached less often, or count that share as unknown"
        }
        Loss::Returns { .. } => {
            "the kernel follows 64 nested returns of a thread: probe a function that does not call itself, or its entry alone"
        }
        Loss::Events { .. } => "print less",
    }
}

/// The ledger entries about losses.
fn missing(object: &Object, outcome: &Outcome) -> Vec<Vec<(&'static str, Field)>> {
    let facts = Inputs {
        object,
        losses: &outcome.losses,
        resolved: Resolved::default(),
        names: Shortfalls::default(),
        costs: None,
        unwinding: None,
        visits: &[],
    };
    ledger::sections(&facts).into_iter().filter(|section| section.name == "missing").flat_map(|it| it.entries).collect()
}
