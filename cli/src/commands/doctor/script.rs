//! `profiler doctor SCRIPT`.
//!
//! In: a script with its parameters. Out: its requirements, what its probes did, and advice.
//! Guarantee: nothing that the script prints is shown.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use crate::doctor::{self as runtime, Finding, Probe, Report, State, Subject, Verdict, shown};
use profiler_compiler::diagnostic::{Code, Diagnostic};
use profiler_compiler::source::Source;
use profiler_compiler::statistics::Number;
use profiler_compiler::units::Unit;
use profiler_model::text::thousands;
use profiler_output::json::quoted;

use super::page::Page;
use crate::commands::args::{DoctorArguments, ScriptArguments};
use crate::commands::colours::look;
use crate::commands::exit::{Failure, LOSS, OK, REFUSED, SILENT};
use crate::commands::{check, diagnostics, engine, parameters};

/// How long a script is watched by default: including loading and attaching, doctor takes less than
/// two seconds.
const DURATION: Duration = Duration::from_millis(1500);

/// Diagnostic code for a probe kind that this kernel does not support.
const UNKNOWN_PROBING: Code = Code(410);

/// Examines a script.
pub(super) fn doctor(script: &ScriptArguments, arguments: &DoctorArguments) -> Result<u8, Failure> {
    let source = script.origin.load()?;
    let script = parameters::settle(script, &source)?;
    if script.named.iter().any(|(name, _)| name == "help") {
        super::show(&parameters::describe(&source)?)?;
        return Ok(OK);
    }
    let start = |command: &str| engine::start(&script, command, (&arguments.run_as, false));
    let child = arguments.command.as_deref().map(start).transpose()?;
    let options = &engine::options(&script, child.as_ref().map(profiler_runtime::child::Child::pid));
    let duration = arguments.duration.unwrap_or(DURATION);
    let report = match runtime::visit(Subject { source: &source, options, child, duration }) {
        Ok(report) => report,
        Err(diagnostics) => return refused(&source, diagnostics, &script.processes.pids, arguments.json),
    };
    if arguments.json {
        super::show(&document(&source, &report))?;
    } else {
        // A closed standard error has no reader to warn.
        let warnings = diagnostics::render(&source, &report.warnings, look());
        let _ = std::io::stderr().write_all(warnings.as_bytes());
        super::show(&text(&source, &report, Page::of_standard_output()))?;
    }
    Ok(match report.verdict {
        Verdict::Well => OK,
        Verdict::Refused => REFUSED,
        Verdict::Silent => SILENT,
        Verdict::Lossy => LOSS,
    })
}

/// Reports a script that does not compile here: what this machine lacks, and the diagnostics.
fn refused(source: &Source, diagnostics: Vec<Diagnostic>, pids: &[u32], as_json: bool) -> Result<u8, Failure> {
    let lacking = runtime::lacking();
    let wrong = pids.iter().find_map(|pid| runtime::wrong_process(*pid));
    let mut errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
    let is_lacking =
        wrong.is_some() || errors.all(|error| error.code == UNKNOWN_PROBING || (600..700).contains(&error.code.0));
    let failure = |diagnostics| Failure::Script { source: source.clone(), diagnostics };
    if as_json {
        let (rows, entries) = (lacking.iter().map(super::row), check::entries(source, &diagnostics));
        let rows: Vec<String> = rows.collect();
        super::show(&format!(
            "{{\"type\": \"doctor\", \"data\": {{\"script\": {}, \"needs\": [{}], \"verdict\": \"does not compile\", \
             \"findings\": [{}], \"diagnostics\": [{}]}}}}\n",
            quoted(&source.name),
            rows.join(", "),
            wrong.as_ref().map(finding_object).unwrap_or_default(),
            entries.join(", ")
        ))?;
        return Ok(if is_lacking { REFUSED } else { failure(diagnostics).code() });
    }
    let mut page = Page::of_standard_output();
    if is_lacking && !lacking.is_empty() {
        page.title(&format!("{} does not compile; missing on this machine", source.name));
        let width = lacking.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        page.rows(&lacking, width);
    }
    if let Some(Finding { words, advice, .. }) = &wrong {
        page.title("findings");
        page.paragraph("  - ", 4, words);
        page.paragraph("    = help: ", 6, advice);
    }
    super::show(&page.text())?;
    let failure = failure(diagnostics);
    if !is_lacking {
        return Err(failure);
    }
    // A closed standard error has no reader; the exit code says the same.
    let _ = std::io::stderr().write_all(failure.render(look()).as_bytes());
    Ok(REFUSED)
}

fn text(source: &Source, report: &Report, mut page: Page) -> String {
    page.title(&format!("requirements of {}", source.name));
    page.rows(&report.needs, report.needs.iter().map(|row| row.name.chars().count()).max().unwrap_or(0));
    let time = report.elapsed.map_or_else(|| ", not attached".into(), |time| format!(", attached for {}", shown(time)));
    page.title(&format!("probes{time}"));
    probes(&report.probes, &mut page);
    for (name, summary) in &report.spans {
        page.paragraph("  ", 4, &format!("span {name}: {summary}"));
    }
    if report.elapsed.is_some() {
        page.paragraph("  ", 4, &left(report));
    }
    if !report.findings.is_empty() {
        page.title("findings");
    }
    let mut advised = "";
    for Finding { words, advice, .. } in &report.findings {
        page.paragraph("  - ", 4, words);
        if !advice.is_empty() && advised != advice {
            page.paragraph("    = help: ", 6, advice);
        }
        advised = advice;
    }
    page.title(&conclusion(report));
    page.text()
}

/// What the script printed and left in its maps, in a sentence.
fn left(report: &Report) -> String {
    let number =
        |count: u64, one: &str, many: &str| format!("{} {}", thousands(count), if count == 1 { one } else { many });
    let printed = number(report.prints, "time", "times");
    let entries = number(report.entries, "entry", "entries");
    match (report.prints, report.entries) {
        (0, 0) => "no output; all maps are empty".into(),
        (0, _) => format!("no output; the maps have {entries} (not shown)"),
        (_, 0) => format!("printed {printed} (not shown)"),
        (..) => format!("printed {printed}; the maps have {entries} (not shown)"),
    }
}

/// A one-line summary.
fn conclusion(report: &Report) -> String {
    let events = || report.probes.iter().filter(|probe| probe.is_event);
    let (all, fired) = (events().count(), events().filter(|probe| probe.has_fired).count());
    let fired = match (fired, all) {
        (_, 0) => "no probe waits for an event".to_owned(),
        (1, 1) => "the probe fired".into(),
        (2, 2) => "both probes fired".into(),
        (fired, all) if fired == all => format!("all {all} probes fired"),
        (0, _) => "no probe fired".into(),
        (fired, all) => format!("{fired} of {all} probes fired"),
    };
    match report.verdict {
        Verdict::Well if report.prints + report.entries == 0 && report.spans.is_empty() => {
            format!("{fired}, but there was no output")
        }
        Verdict::Well if report.findings.iter().any(|finding| finding.is_wrong) => {
            format!("works with problems: {fired}")
        }
        Verdict::Well => format!("no problem found: {fired}, nothing was lost"),
        Verdict::Refused => "a requirement is missing or refused here".into(),
        Verdict::Silent if events().any(|probe| probe.has_fired) => {
            format!("no results: {fired}, but no event passed a filter")
        }
        Verdict::Silent => format!("no results: {fired}"),
        Verdict::Lossy => format!("incomplete results: {fired}, but data was lost"),
    }
}

/// Columns of the probe table, after name and attach method.
const COLUMNS: [&str; 8] = ["fired", "past filter", "runs", "mean", "received", "lost", "skipped", "trap"];

/// The table of probes, or one paragraph per probe if the terminal is too narrow.
fn probes(probes: &[Probe], page: &mut Page) {
    let mut rows = vec![[&["", "attach type"], COLUMNS.as_slice()].concat().into_iter().map(str::to_owned).collect()];
    rows.extend(probes.iter().map(cells));
    // Runs are rarely skipped, and a loss of zero is not worth a column.
    let is_shown = |at: &usize| match at {
        0 | 2 | 7 => true,
        8 => probes.iter().any(|probe| probe.skipped > 0),
        at => rows[1..].iter().any(|row: &Vec<String>| !matches!(row[*at].as_str(), "" | "-" | "″")),
    };
    let shown: Vec<usize> = (0..rows[0].len()).filter(is_shown).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let total: usize = 8 + shown.iter().map(|at| width(*at) + 2).sum::<usize>();
    if page.width().is_some_and(|columns| columns < total) {
        for (probe, row) in probes.iter().zip(&rows[1..]) {
            page.paragraph(&page.mark(state(probe)), 8, &probe.name);
            page.below(&sentence(probe, row));
        }
        return;
    }
    for (index, row) in rows.iter().enumerate() {
        let mut line =
            index.checked_sub(1).and_then(|at| probes.get(at)).map_or(" ".repeat(8), |it| page.mark(state(it)));
        for at in &shown {
            let (cell, width) = (&row[*at], width(*at));
            let _ = if *at < 2 { write!(line, "{cell:<width$}  ") } else { write!(line, "{cell:>width$}  ") };
        }
        page.line(line.trim_end());
    }
}

fn state(probe: &Probe) -> State {
    match probe {
        Probe { refusal: Some(_), .. } => State::Broken,
        Probe { is_attached: true, has_fired, is_event, .. } if *has_fired || !is_event => State::Works,
        _ => State::Missing,
    }
}

fn cells(probe: &Probe) -> Vec<String> {
    let unknown = || "-".to_owned();
    if !probe.is_attached {
        let way = if probe.refusal.is_some() { "refused".into() } else { probe.way.clone() };
        return [probe.name.clone(), way].into_iter().chain((0..COLUMNS.len()).map(|_| unknown())).collect();
    }
    let (fired, passed) = match probe.counted {
        None if probe.is_counted_before => ("″".into(), if probe.has_filter { "″".into() } else { unknown() }),
        None => (unknown(), unknown()),
        Some((seen, passed)) => (thousands(seen), if probe.has_filter { thousands(passed) } else { unknown() }),
    };
    let (runs, time) = match probe.cost {
        None => (unknown(), unknown()),
        Some((0, _)) => ("0".into(), unknown()),
        Some((runs, time)) => (thousands(runs), mean(time, runs)),
    };
    let received = probe.received.map_or_else(unknown, thousands);
    let (lost, skipped) = (thousands(probe.lost), thousands(probe.skipped));
    let trap = probe.trap_ns.map_or_else(unknown, |trap_ns| format!("≈ {}", Unit::Duration.text(trap_ns.round())));
    vec![probe.name.clone(), probe.way.clone(), fired, passed, runs, time, received, lost, skipped, trap]
}

fn mean(time: Duration, runs: u64) -> String {
    let time_ns = i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
    Unit::Duration.text(Number::quotient(time_ns, runs).as_f64())
}

/// One probe's cells as a sentence.
fn sentence(probe: &Probe, cells: &[String]) -> String {
    if !probe.is_attached {
        return probe.refusal.as_ref().map_or("not attached".into(), |_| "refused".into());
    }
    let mut words = vec![probe.way.clone()];
    match probe.counted {
        Some(_) => words.push(format!("fired {}", cells[2])),
        None => words.push(if probe.is_counted_before { "counted with the previous probe" } else { "attached" }.into()),
    }
    if probe.has_filter && probe.counted.is_some() {
        words.push(format!("{} past the filter", cells[3]));
    }
    if cells[5] != "-" {
        let trap = if cells[9] == "-" { String::new() } else { format!(", plus {} of overhead each", cells[9]) };
        words.push(format!("{} runs of {}{trap}", cells[4], cells[5]));
    }
    words.extend((cells[6] != "-").then(|| format!("{} received", cells[6])));
    words.push(format!("{} lost", cells[7]));
    words.extend((probe.skipped > 0).then(|| format!("{} skipped", cells[8])));
    words.join(", ")
}

fn document(source: &Source, report: &Report) -> String {
    let list = |entries: Vec<String>| format!("[{}]", entries.join(", "));
    let needs = list(report.needs.iter().map(super::row).collect());
    let probes = list(report.probes.iter().map(probe_object).collect());
    let spans = report.spans.iter();
    let spans = spans.map(|(name, words)| format!("{{\"name\": {}, \"ledger\": {}}}", quoted(name), quoted(words)));
    let findings = report.findings.iter().map(finding_object);
    let verdict = match report.verdict {
        Verdict::Well => "well",
        Verdict::Refused => "refused",
        Verdict::Silent => "silent",
        Verdict::Lossy => "lossy",
    };
    let seconds = report.elapsed.map_or("null".to_owned(), |time| format!("{:.3}", time.as_secs_f64()));
    format!(
        "{{\"type\": \"doctor\", \"data\": {{\"script\": {}, \"verdict\": \"{verdict}\", \"seconds\": {seconds}, \
         \"printed\": {}, \"entries\": {}, \"needs\": {needs}, \"probes\": {probes}, \"spans\": {}, \"findings\": {}}}}}\n",
        quoted(&source.name),
        report.prints,
        report.entries,
        list(spans.collect()),
        list(findings.collect()),
    )
}

fn finding_object(finding: &Finding) -> String {
    let Finding { kind, is_wrong, words, advice } = finding;
    let advice = if advice.is_empty() { "null".to_owned() } else { quoted(advice) };
    let (kind, words) = (kind.name(), quoted(words));
    format!("{{\"kind\": \"{kind}\", \"wrong\": {is_wrong}, \"finding\": {words}, \"advice\": {advice}}}")
}

fn probe_object(probe: &Probe) -> String {
    let number = |number: Option<u64>| number.map_or("null".to_owned(), |number| number.to_string());
    let text = |text: &Option<String>| text.as_deref().map_or("null".to_owned(), quoted);
    let nanoseconds = probe.cost.and_then(|(_, time)| u64::try_from(time.as_nanos()).ok());
    format!(
        "{{\"probe\": {}, \"way\": {}, \"place\": {}, \"points\": {}, \"attached\": {}, \"refusal\": {}, \"fired\": {}, \
         \"passed\": {}, \"runs\": {}, \"time_ns\": {}, \"trap_ns\": {}, \"received\": {}, \"lost\": {}, \"skipped\": {}}}",
        quoted(&probe.name),
        quoted(&probe.way),
        text(&probe.place),
        probe.points,
        probe.is_attached,
        text(&probe.refusal),
        number(probe.counted.map(|(seen, _)| seen)),
        number(probe.counted.map(|(_, passed)| passed)),
        number(probe.cost.map(|(runs, _)| runs)),
        number(nanoseconds),
        number(probe.trap_ns.map(|trap_ns| trap_ns.round() as u64)),
        number(probe.received),
        probe.lost,
        probe.skipped,
    )
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
