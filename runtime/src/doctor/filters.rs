//! Processes that a script asks for by number or by name.
//!
//! In: a script's tree, its parameters, what the command line gives. Out: what it compares `pid`, `tid` and `comm` with.
//! Guarantee: only comparisons with something known before the run are found; others are the script's own business.

use profiler_compiler::ast::{BinaryOp, Expr, ExprKind, ProbeBlock, Script, Stage};
use profiler_compiler::check::Options;
use profiler_compiler::params::{Param, Type, Value};

/// A process that the script wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// By its number, and what gave that.
    Process(u32, String),
    /// By the number of one of its threads.
    Thread(u32, String),
    /// By its name.
    Name(String),
}

/// All that a script wants, each once.
pub(super) fn wanted(script: &Script, params: &[Param], options: &Options) -> Vec<Wanted> {
    let of_option = options.pid.map(|pid| Wanted::Process(pid, format!("-p {pid}")));
    let mut found: Vec<Wanted> = of_option.into_iter().collect();
    for param in params.iter().filter(|param| param.ty == Type::Pid) {
        if let Value::Set(pids) = &param.value {
            let of = |pid: &u64| {
                Some(Wanted::Process(u32::try_from(*pid).ok()?, format!("--{} {pid}", param.name.replace('_', "-"))))
            };
            found.extend(pids.iter().filter_map(of));
        }
    }
    let filters = script.blocks.iter().filter_map(|ProbeBlock { predicate, .. }| predicate.as_ref());
    let stages = script.spans.iter().flat_map(|span| &span.stages);
    let stages = stages.filter_map(|Stage { predicate, .. }| predicate.as_ref());
    filters.chain(stages).for_each(|filter| look(filter, &options.positional, &mut found));
    let mut once: Vec<Wanted> = Vec::new();
    for wanted in found {
        if !once.contains(&wanted) {
            once.push(wanted);
        }
    }
    once
}

/// Looks into what must all hold.
fn look(filter: &Expr, positional: &[String], found: &mut Vec<Wanted>) {
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

fn compared(word: &Expr, with: &Expr, positional: &[String]) -> Option<Wanted> {
    let ExprKind::Name(word) = &word.kind else { return None };
    let number = match &with.kind {
        ExprKind::Int(number) => u32::try_from(*number).ok(),
        ExprKind::Positional(place) => {
            positional.get((*place as usize).checked_sub(1)?).and_then(|text| text.parse().ok())
        }
        _ => None,
    };
    match (word.as_str(), number, &with.kind) {
        ("pid", Some(pid), _) => Some(Wanted::Process(pid, format!("pid == {pid}"))),
        ("tid", Some(tid), _) => Some(Wanted::Thread(tid, format!("tid == {tid}"))),
        ("comm", _, ExprKind::Str(name)) => Some(Wanted::Name(String::from_utf8_lossy(name).into_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Wanted, wanted};
    use profiler_compiler::check::Options;
    use profiler_compiler::compile::syntax;
    use profiler_compiler::source::Source;

    fn of(text: &str, pid: Option<u32>) -> Vec<Wanted> {
        let options = Options { pid, positional: vec!["12".into()], ..Options::default() };
        wanted(&syntax(&Source::new("x", text)).expect("a script"), &[], &options)
    }

    #[test]
    fn what_must_hold_is_found_and_what_may_hold_is_not() {
        let script = "kprobe:f / pid == 7 && 8 == tid && (comm == \"sh\" && arg0 > 1) / { } kprobe:g / pid == 7 / { }";
        let expected =
            [Wanted::Process(7, "pid == 7".into()), Wanted::Thread(8, "tid == 8".into()), Wanted::Name("sh".into())];
        assert_eq!(of(script, None), expected);
        assert_eq!(of("kprobe:f / pid == 7 || comm == \"x\" / { }", Some(9)), [Wanted::Process(9, "-p 9".into())]);
        assert_eq!(of("kprobe:f / pid == $1 / { }", None), [Wanted::Process(12, "pid == 12".into())]);
        assert_eq!(of("kprobe:f / pid != 7 / { } kprobe:g { if (pid == 7) { } }", None), []);
    }
}
