//! Finds the processes that a script filters for, by number or by name.
//!
//! In: a script's syntax tree, its parameters, the command-line options. Out: the values that it
//! compares `pid`, `tid` and `comm` with.
//! Guarantee: only comparisons with a value known before the run are found; others are ignored.

use profiler_compiler::ast::{BinaryOp, Expr, ExprKind, ProbeBlock, Script, Stage};
use profiler_compiler::check::Options;
use profiler_compiler::params::{Param, Type, Value};

/// A process that the script filters for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProcessFilter {
    /// By its number, and where that came from.
    Process(u32, String),
    /// By the number of one of its threads, and where that came from.
    Thread(u32, String),
    /// By its name.
    Name(String),
}

/// All processes that a script filters for, without duplicates.
pub(super) fn process_filters(script: &Script, params: &[Param], options: &Options) -> Vec<ProcessFilter> {
    let of_option = |pid: &u32| ProcessFilter::Process(*pid, format!("-p {pid}"));
    let mut found: Vec<ProcessFilter> = options.pids.iter().map(of_option).collect();
    for param in params.iter().filter(|param| param.ty == Type::Pid) {
        if let Value::Set(pids) = &param.value {
            let of = |pid: &u64| {
                Some(ProcessFilter::Process(
                    u32::try_from(*pid).ok()?,
                    format!("--{} {pid}", param.name.replace('_', "-")),
                ))
            };
            found.extend(pids.iter().filter_map(of));
        }
    }
    let filters = script.blocks.iter().filter_map(|ProbeBlock { predicate, .. }| predicate.as_ref());
    let stages = script.spans.iter().flat_map(|span| &span.stages);
    let stages = stages.filter_map(|Stage { predicate, .. }| predicate.as_ref());
    filters.chain(stages).for_each(|filter| look(filter, &options.positional, &mut found));
    let mut once: Vec<ProcessFilter> = Vec::new();
    for process_filters in found {
        if !once.contains(&process_filters) {
            once.push(process_filters);
        }
    }
    once
}

/// Collects comparisons from a conjunction.
fn look(filter: &Expr, positional: &[String], found: &mut Vec<ProcessFilter>) {
    let ExprKind::Binary(op, left, right) = &filter.kind else { return };
    match op {
        BinaryOp::LogicalAnd => {
            look(left, positional, found);
            look(right, positional, found);
        }
        BinaryOp::Equal => {
            found.extend(compared(left, right, positional).or_else(|| compared(right, left, positional)));
        }
        _ => {}
    }
}

fn compared(word: &Expr, with: &Expr, positional: &[String]) -> Option<ProcessFilter> {
    let ExprKind::Name(word) = &word.kind else { return None };
    let number = match &with.kind {
        ExprKind::Int(number) => u32::try_from(*number).ok(),
        ExprKind::Positional(place) => {
            positional.get((*place as usize).checked_sub(1)?).and_then(|text| text.parse().ok())
        }
        _ => None,
    };
    match (word.as_str(), number, &with.kind) {
        ("pid", Some(pid), _) => Some(ProcessFilter::Process(pid, format!("pid == {pid}"))),
        ("tid", Some(tid), _) => Some(ProcessFilter::Thread(tid, format!("tid == {tid}"))),
        ("comm", _, ExprKind::Str(name)) => Some(ProcessFilter::Name(String::from_utf8_lossy(name).into_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{ProcessFilter, process_filters};
    use profiler_compiler::check::Options;
    use profiler_compiler::compile::syntax;
    use profiler_compiler::source::Source;

    fn of(text: &str, pids: &[u32]) -> Vec<ProcessFilter> {
        let options = Options { pids: pids.to_vec(), positional: vec!["12".into()], ..Options::default() };
        process_filters(&syntax(&Source::new("x", text)).expect("a script"), &[], &options)
    }

    #[test]
    fn what_must_hold_is_found_and_what_may_hold_is_not() {
        let script = "kprobe:f / pid == 7 && 8 == tid && (comm == \"sh\" && arg0 > 1) / { } kprobe:g / pid == 7 / { }";
        let expected = [
            ProcessFilter::Process(7, "pid == 7".into()),
            ProcessFilter::Thread(8, "tid == 8".into()),
            ProcessFilter::Name("sh".into()),
        ];
        assert_eq!(of(script, &[]), expected);
        assert_eq!(of("kprobe:f / pid == 7 || comm == \"x\" / { }", &[9]), [ProcessFilter::Process(9, "-p 9".into())]);
        assert_eq!(of("kprobe:f / pid == $1 / { }", &[]), [ProcessFilter::Process(12, "pid == 12".into())]);
        assert_eq!(of("kprobe:f / pid != 7 / { } kprobe:g { if (pid == 7) { } }", &[]), []);
    }
}
