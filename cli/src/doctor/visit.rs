//! Examines one script: what it requires, and whether its probes fire.
//!
//! In: a script that compiles, and how long to watch it. Out: a [`Report`].
//! Guarantee: the script's own programs are loaded and attached as in `run`, with added counters;
//! nothing that it prints is shown, no command of `system()` is run, and nothing stays attached.

use std::time::Duration;

use profiler_compiler::CATALOGUE;
use profiler_compiler::ast::Script;
use profiler_compiler::check::Options;
use profiler_compiler::compile::{Stages, stages_of, syntax};
use profiler_compiler::diagnostic::Diagnostic;
use profiler_compiler::object::{Attach, Loss, Object, Program};
use profiler_compiler::source::Source;

use super::counted::{self, Block};
use super::filters::{self, ProcessFilter};
use super::findings::{self, Finding, Kind};
use super::report::{Probe, Report, Verdict};
use super::watched::Watched;
use super::{Row, State, needs, process, remarks};
use profiler_runtime::child::Child;
use profiler_runtime::host::Host;

/// How long other processes are watched if a process did nothing that the script probes.
const COMPARISON: Duration = Duration::from_millis(200);

/// What to examine.
pub struct Subject<'a> {
    /// The script.
    pub source: &'a Source,
    /// Compiler options from the command line.
    pub options: &'a Options,
    /// The command of `-c`.
    pub child: Option<Child>,
    /// How long to watch it.
    pub duration: Duration,
}

/// Examines a script. Errors in the script itself are returned as diagnostics.
pub fn visit(subject: Subject<'_>) -> Result<Report, Vec<Diagnostic>> {
    let Subject { source, options, child, duration } = subject;
    let host = Host::new();
    let script = syntax(source)?;
    let plain = stages_of(script.clone(), source, &CATALOGUE, &host, options)?;
    let mut rows = needs::of_machine(&host, &plain.object);
    let wanted = filters::process_filters(&script, &plain.object.params, options);
    let pids = processes(&wanted);
    let before: Vec<_> = pids.iter().map(|pid| process::activity(*pid)).collect();
    let (mut object, blocks) = with_counters(&script, source, &host, options)?;
    take_scopes(&mut object, &plain.object);
    let watched = Watched::new(&object, source, blocks, (&options.pids, child), duration);
    rows.extend(needs::of_programs(&plain, watched.is_loaded));
    let probes: Vec<Probe> = (0..object.programs.len()).filter_map(|index| probe(index, &object, &watched)).collect();
    let verdict = verdict(&rows, &watched, &probes);
    // A name that passed a filter exists; looking for one reads all threads.
    let is_worth_it = |it: &&ProcessFilter| verdict == Verdict::Silent || !matches!(it, ProcessFilter::Name(_));
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
        findings.extend(remarks::of_probes(&object, source, &watched, &probes, &options.pids));
        let is_silent = !probes.iter().any(|probe| probe.is_event && probe.has_fired);
        if !options.pids.is_empty() && is_silent && is_everybody_s(&object) {
            findings.extend(compare(&script, source, &host, options));
        }
        findings.extend(remarks::of_results(&object, &watched, &probes));
        findings.extend(remarks::of_all_processes(&object));
    }
    let spans = watched.outcome.iter().flat_map(|outcome| &outcome.spans);
    let spans = spans.map(|span| (span.name.clone(), span.summary())).collect();
    let elapsed = watched.outcome.as_ref().map(|_| watched.elapsed);
    // At the end, probes that take long to detach still see profiler itself; that is not what the
    // script is about.
    let has_passed = watched.blocks.is_empty() || watched.blocks.iter().any(|block| block.passed > 0);
    let (prints, entries) = (watched.renderer.prints, if has_passed { watched.renderer.entries } else { 0 });
    let warnings = plain.warnings;
    Ok(Report { needs: rows, probes, spans, findings, elapsed, prints, entries, warnings, verdict })
}

/// Processes that the script filters for by number and that exist.
fn processes(wanted: &[ProcessFilter]) -> Vec<u32> {
    let number = |wanted: &ProcessFilter| match wanted {
        ProcessFilter::Process(pid, _) => Some(*pid),
        ProcessFilter::Thread(..) | ProcessFilter::Name(_) => None,
    };
    wanted.iter().filter_map(number).collect()
}

/// Compiles with counters in the blocks; without, if they are too much for a script near a limit.
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

/// Copies the scopes of the unmodified script: the counters hide filters from the compiler, and a
/// filter can restrict a program to some processes. A program merged from several blocks needs the
/// processes of all of them.
fn take_scopes(object: &mut Object, plain: &Object) {
    let wanted = |index: usize| match plain.programs.get(index).map(|program| &program.attach) {
        Some(Attach::Uprobe { scope, multi, .. }) => Some((scope.clone(), *multi)),
        _ => None,
    };
    let scopes: Vec<_> = (0..object.programs.len())
        .map(|index| {
            let blocks = object.blocks_with(index).map(|(block, _)| wanted(block));
            blocks.reduce(|a, b| a.zip(b).map(|((a, multi), (b, same))| (a.or(b), multi && same))).flatten()
        })
        .collect();
    for (program, wanted) in object.programs.iter_mut().zip(scopes) {
        if let (Attach::Uprobe { scope, multi, .. }, Some((wanted, is_multi))) = (&mut program.attach, wanted)
            && *multi == is_multi
        {
            *scope = wanted;
        }
    }
}

/// The report of a program; `None` for one that the script did not write, or that does not run
/// here.
fn probe(index: usize, object: &Object, watched: &Watched) -> Option<Probe> {
    let program = object.programs.get(index)?;
    if program.attach.is_trial() || program.attach.is_of_span() {
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
    // Programs of one block share its counters.
    let of_block = |program: &Program| block.is_some_and(|block| block.is_of(program));
    let is_first = !object.programs[..index].iter().any(of_block);
    // The cost of blocks that share a program is reported for the first of them.
    let shares = object.programs[..index].iter().any(|it| it.runs_in == program.runs_in);
    let costs = watched.costs.iter().flatten().filter(|_| is_event(&program.attach) && !shares);
    let cost = costs.clone().find(|cost| cost.program == program.runs_in);
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
        trap_ns: cost.and_then(|cost| cost.trap_ns),
        counted,
        is_counted_before: block.is_some() && !is_first,
        has_filter: block.is_some_and(|block| block.filter.is_some()),
        received: watched.outcome.as_ref().filter(|_| sends).and_then(|it| it.received.get(index).copied()),
        lost: lost(|loss| match loss {
            Loss::Events { program } | Loss::Control { program } | Loss::Rounds { program } => Some(*program),
            _ => None,
        }),
        skipped: lost(|loss| match loss {
            Loss::Skipped { program }
            | Loss::Scratch { program }
            | Loss::Returns { program }
            | Loss::Ticks { program }
            | Loss::MergedTicks { program } => Some(*program),
            _ => None,
        }),
    })
}

/// Whether it is triggered by something other than profiler.
fn is_event(attach: &Attach) -> bool {
    !attach.is_of_span()
        && !matches!(attach, Attach::Begin | Attach::End | Attach::Signal | Attach::Timer { .. })
        && !matches!(attach, Attach::Visits { .. })
}

/// How a program is attached, in kernel terms.
fn way(attach: &Attach) -> String {
    match attach {
        Attach::Begin | Attach::End => "run by profiler".into(),
        Attach::Timer { .. } => "timer".into(),
        Attach::Signal => "SIGUSR1".into(),
        Attach::RawTracepoint { .. } => "raw tracepoint".into(),
        Attach::Tracepoint { .. } => "perf tracepoint".into(),
        Attach::Iterator { .. } | Attach::Visits { .. } => "iterator".into(),
        Attach::Watchpoint { .. } => "breakpoint".into(),
        Attach::PerfEvent { .. } => "perf event".into(),
        attach => attach.function_mechanism().unwrap_or("program").into(),
    }
}

/// Whether its programs run for all processes anyway and `-p` only filters. Attaching the probes of
/// one process to all processes would slow down the others.
fn is_everybody_s(object: &Object) -> bool {
    let of_one = |program: &Program| {
        matches!(
            program.attach,
            Attach::Uprobe { .. } | Attach::Watchpoint { .. } | Attach::PerfEvent { .. } | Attach::Iterator { .. }
        )
    };
    !object.programs.iter().any(of_one)
}

/// Compares with other processes: what they did while the requested process did nothing.
fn compare(script: &Script, source: &Source, host: &Host, options: &Options) -> Option<Finding> {
    let pids: Vec<String> = options.pids.iter().map(ToString::to_string).collect();
    let options = Options {
        pids: Vec::new(),
        child_pid: options.child_pid,
        positional: options.positional.clone(),
        named: options.named.clone(),
        allow_unsafe: false,
        settings: options.settings.clone(),
        missing_in_programs: options.missing_in_programs,
        dialect: options.dialect,
        ..Options::default()
    };
    let (object, blocks) = with_counters(script, source, host, &options).ok()?;
    let others = Watched::new(&object, source, blocks, (&[], None), COMPARISON);
    let events = object.programs.iter().filter(|program| is_event(&program.attach));
    let is_of_event = |block: &&Block| events.clone().any(|program| block.is_of(program));
    let seen: u64 = others.blocks.iter().filter(is_of_event).map(|block| block.seen).sum();
    let times = findings::times(seen, others.elapsed);
    (seen > 0).then(|| {
        let words = format!(
            "without `-p {}` its probes fired {times}: others do it, {} not",
            pids.join(","),
            if pids.len() == 1 { "this process does" } else { "these processes do" }
        );
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
    } else if outcome.losses.iter().any(|(loss, _)| loss.is_of_data())
        || outcome.spans.iter().any(|span| span.lost() > 0)
    {
        Verdict::Lossy
    } else {
        Verdict::Well
    }
}
