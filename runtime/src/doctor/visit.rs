//! One script: what it needs, and whether its probes fire.
//!
//! In: a script that compiles, and for how long it may be watched. Out: a [`Report`].
//! Guarantee: the script's own programs are loaded and attached as `run` does it, with counters added; nothing that it prints is
//! shown, no command of `system()` is run, and nothing stays attached.

use std::time::Duration;

use profiler_compiler::CATALOGUE;
use profiler_compiler::ast::Script;
use profiler_compiler::check::Options;
use profiler_compiler::compile::{Stages, stages_of, syntax};
use profiler_compiler::diagnostic::Diagnostic;
use profiler_compiler::object::{Attach, Loss, Object, Program};
use profiler_compiler::source::Source;

use super::counted::{self, Block};
use super::filters::{self, Wanted};
use super::findings::{self, Finding, Kind};
use super::report::{Probe, Report, Verdict};
use super::watched::Watched;
use super::{Row, State, needs, process, remarks};
use crate::child::Child;
use crate::host::Host;

/// How long others are watched, when a process did nothing of what it was watched for.
const COMPARISON: Duration = Duration::from_millis(200);

/// What to look at.
pub struct Subject<'a> {
    /// The script.
    pub source: &'a Source,
    /// What the command line says of it.
    pub options: &'a Options,
    /// The command of `-c`.
    pub child: Option<Child>,
    /// For how long.
    pub duration: Duration,
}

/// Looks at a script. What is wrong with the script itself comes back as diagnostics.
pub fn visit(subject: Subject<'_>) -> Result<Report, Vec<Diagnostic>> {
    let Subject { source, options, child, duration } = subject;
    let host = Host::new();
    let script = syntax(source)?;
    let plain = stages_of(script.clone(), source, &CATALOGUE, &host, options)?;
    let mut rows = needs::of_machine(&host, &plain.object);
    let wanted = filters::wanted(&script, &plain.object.params, options);
    let pids = processes(&wanted);
    let before: Vec<_> = pids.iter().map(|pid| process::activity(*pid)).collect();
    let (object, blocks) = with_counters(&script, source, &host, options)?;
    let watched = Watched::new(&object, source, blocks, options.pid, child, duration);
    rows.extend(needs::of_programs(&plain, watched.is_loaded));
    let probes: Vec<Probe> = (0..object.programs.len()).filter_map(|index| probe(index, &object, &watched)).collect();
    let verdict = verdict(&rows, &watched, &probes);
    // A name that a filter let through was there; looking for one reads all threads.
    let is_worth_it = |it: &&Wanted| verdict == Verdict::Silent || !matches!(it, Wanted::Name(_));
    let mut findings: Vec<Finding> = wanted.iter().filter(is_worth_it).filter_map(process::examine).collect();
    let is_known = findings.iter().any(|finding| finding.kind == Kind::WrongProcess);
    findings.extend(watched.error.as_ref().and_then(remarks::refused));
    if watched.outcome.is_some() {
        findings.extend(remarks::unmapped(&object));
        for (pid, before) in pids.iter().zip(before) {
            if !is_known && before.is_some() && process::activity(*pid) == before {
                findings.push(process::asleep(*pid));
            }
        }
        findings.extend(remarks::of_probes(&object, source, &watched, &probes, options.pid));
        let is_silent = !probes.iter().any(|probe| probe.is_event && probe.has_fired);
        if let Some(pid) = options.pid.filter(|_| is_silent && is_everybody_s(&object)) {
            findings.extend(compare(pid, &script, source, &host, options));
        }
        findings.extend(remarks::of_results(&object, &watched, &probes));
    }
    let spans = watched.outcome.iter().flat_map(|outcome| &outcome.spans);
    let spans = spans.map(|span| (span.name.clone(), span.summary())).collect();
    let elapsed = watched.outcome.as_ref().map(|_| watched.elapsed);
    // While the end is read, probes that take long to detach still see profiler itself; that is not what the script is about.
    let has_passed = watched.blocks.is_empty() || watched.blocks.iter().any(|block| block.passed > 0);
    let (prints, entries) = (watched.ear.prints, if has_passed { watched.ear.entries } else { 0 });
    let warnings = plain.warnings;
    Ok(Report { needs: rows, probes, spans, findings, elapsed, prints, entries, warnings, verdict })
}

/// Processes that are wanted by their numbers and are there.
fn processes(wanted: &[Wanted]) -> Vec<u32> {
    let number = |wanted: &Wanted| match wanted {
        Wanted::Process(pid, _) => Some(*pid),
        Wanted::Thread(..) | Wanted::Name(_) => None,
    };
    wanted.iter().filter_map(number).collect()
}

/// Compiles with counters in the blocks; without, where they are too much for a script that is near a limit.
fn with_counters(
    script: &Script,
    source: &Source,
    host: &Host,
    options: &Options,
) -> Result<(Object, Vec<Block>), Vec<Diagnostic>> {
    let mut counting = script.clone();
    let blocks = counted::count(&mut counting);
    let stages = stages_of(counting, source, &CATALOGUE, host, options).map(|stages| (stages, blocks));
    let stages = stages.or_else(|_| {
        let plain = stages_of(script.clone(), source, &CATALOGUE, host, options);
        plain.map(|stages| (stages, Vec::new()))
    });
    stages.map(|(Stages { mut object, emitted, .. }, blocks)| {
        object.elf = emitted.elf;
        (object, blocks)
    })
}

/// What became of a program; nothing of one that the script did not write, or that does not run here.
fn probe(index: usize, object: &Object, watched: &Watched) -> Option<Probe> {
    let program = object.programs.get(index)?;
    if program.attach.is_trial() || matches!(program.attach, Attach::Sweep { .. }) {
        return None;
    }
    let first = program.probes.first().unwrap_or(&program.name);
    let name = match program.probes.len() {
        0 | 1 => first.clone(),
        count => format!("{first} and {} more", count - 1),
    };
    let refusal = watched.refused.get(&index).map(ToString::to_string);
    let is_attached = refusal.is_none() && watched.outcome.is_some();
    let block = watched.blocks.iter().find(|block| block.is_of(program));
    // Several programs of one block count together.
    let of_block = |program: &Program| block.is_some_and(|block| block.is_of(program));
    let is_first = !object.programs[..index].iter().any(of_block);
    let cost = watched.costs.as_ref().and_then(|costs| costs.get(index)).filter(|_| is_event(&program.attach));
    let sends = object.events.iter().any(|event| event.program == index);
    let lost = |is_it: fn(&Loss) -> Option<usize>| {
        let losses = watched.outcome.iter().flat_map(|outcome| &outcome.losses);
        losses.filter(|(loss, _)| is_it(loss) == Some(index)).map(|(_, count)| count).sum()
    };
    let counted = block.filter(|_| is_first).map(|block| (block.seen, block.passed));
    Some(Probe {
        name,
        way: way(&program.attach),
        place: match &program.attach {
            Attach::Uprobe { path, .. } => Some(path.clone()),
            _ => None,
        },
        points: program.points,
        refusal,
        is_attached,
        is_event: is_event(&program.attach),
        has_fired: match (counted, cost) {
            (Some((seen, _)), _) => seen > 0,
            (None, cost) => cost.is_none_or(|cost| cost.runs > 0) && block.is_none_or(|block| block.seen > 0),
        },
        cost: cost.map(|cost| (cost.runs, Duration::from_nanos(cost.time_ns))),
        counted,
        is_counted_before: block.is_some() && !is_first,
        has_filter: block.is_some_and(|block| block.filter.is_some()),
        received: watched.outcome.as_ref().filter(|_| sends).and_then(|it| it.received.get(index).copied()),
        lost: lost(|loss| match loss {
            Loss::Events { program } | Loss::Control { program } | Loss::Rounds { program } => Some(*program),
            _ => None,
        }),
        skipped: lost(|loss| match loss {
            Loss::Skipped { program } | Loss::Scratch { program } => Some(*program),
            _ => None,
        }),
    })
}

/// Whether something else than profiler makes it run.
fn is_event(attach: &Attach) -> bool {
    !matches!(attach, Attach::Begin | Attach::End | Attach::Signal | Attach::Sweep { .. } | Attach::Timer { .. })
}

/// How a program is attached, in the kernel's words.
fn way(attach: &Attach) -> String {
    match attach {
        Attach::Begin | Attach::End => "run by profiler".into(),
        Attach::Timer { .. } => "timer".into(),
        Attach::Signal => "SIGUSR1".into(),
        Attach::RawTracepoint { .. } => "raw tracepoint".into(),
        Attach::Tracepoint { .. } => "perf tracepoint".into(),
        Attach::Iterator { .. } => "iterator".into(),
        Attach::Watchpoint { .. } => "breakpoint".into(),
        Attach::PerfEvent { .. } => "perf event".into(),
        attach => attach.function_mechanism().unwrap_or("program").into(),
    }
}

/// Whether its programs run for all processes anyway and `-p` only filters: to attach probes of one process to all of them would cost
/// those who were not asked.
fn is_everybody_s(object: &Object) -> bool {
    let of_one = |program: &Program| {
        matches!(
            program.attach,
            Attach::Uprobe { .. } | Attach::Watchpoint { .. } | Attach::PerfEvent { .. } | Attach::Iterator { .. }
        )
    };
    !object.programs.iter().any(of_one)
}

/// What others did of what one process did not.
fn compare(pid: u32, script: &Script, source: &Source, host: &Host, options: &Options) -> Option<Finding> {
    let options = Options {
        pid: None,
        child_pid: options.child_pid,
        positional: options.positional.clone(),
        named: options.named.clone(),
        allow_unsafe: false,
        settings: options.settings.clone(),
        missing_in_programs: options.missing_in_programs,
        ..Options::default()
    };
    let (object, blocks) = with_counters(script, source, host, &options).ok()?;
    let others = Watched::new(&object, source, blocks, None, None, COMPARISON);
    let events = object.programs.iter().filter(|program| is_event(&program.attach));
    let is_of_event = |block: &&Block| events.clone().any(|program| block.is_of(program));
    let seen: u64 = others.blocks.iter().filter(is_of_event).map(|block| block.seen).sum();
    let times = findings::times(seen, others.elapsed);
    (seen > 0).then(|| {
        let words = format!("without `-p {pid}` its probes fired {times}: others do it, this process does not");
        Finding::note(Kind::WrongProcess, words, "is it the right process? `@[pid, comm] = count()` says who does it")
    })
}

fn verdict(needs: &[Row], watched: &Watched, probes: &[Probe]) -> Verdict {
    let Some(outcome) = &watched.outcome else { return Verdict::Refused };
    let events = || probes.iter().filter(|probe| probe.is_event);
    let spans: u64 = outcome.spans.iter().map(|span| span.started).sum();
    let passed = spans > 0 || events().any(|probe| probe.counted.map_or(probe.has_fired, |(_, passed)| passed > 0));
    if needs.iter().any(|row| row.state != State::Works) || !watched.refused.is_empty() {
        Verdict::Refused
    } else if !passed && events().next().is_some() {
        Verdict::Silent
    } else if !outcome.losses.is_empty() || outcome.spans.iter().any(|span| span.lost() > 0) {
        Verdict::Lossy
    } else {
        Verdict::Well
    }
}
