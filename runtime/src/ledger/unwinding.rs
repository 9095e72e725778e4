//! The memory of unwind tables, for `--stats`.
//!
//! In: what is in use. Out: a section.
//! Guarantee: nothing without such tables.

use profiler_model::output::{Field, Section};
use profiler_model::statistics::Number;
use profiler_model::units::Unit;

use super::{Inputs, Used};

pub(super) fn section(facts: &Inputs<'_>) -> Option<Section> {
    facts.costs?;
    let used = facts.unwinding?;
    let size = |bytes: u64| Unit::Bytes.text(Number::Integer(i128::from(bytes)).as_f64());
    let line = format!(
        "  {} of at most {}: {} files, {} processes",
        size(used.size_bytes),
        size(Used::LIMIT_BYTES),
        used.files,
        used.processes
    );
    let entry = vec![
        ("size_bytes", Field::Count(used.size_bytes)),
        ("limit_bytes", Field::Count(Used::LIMIT_BYTES)),
        ("files", Field::Count(used.files)),
        ("processes", Field::Count(used.processes)),
    ];
    Some(Section { name: "unwind_tables", title: "Unwind tables:".into(), lines: vec![line], entries: vec![entry] })
}

#[cfg(test)]
mod tests {
    use profiler_model::value::Shortfalls;

    use super::*;
    use crate::ledger::Resolved;

    #[test]
    fn memory_is_shown_with_its_limit() {
        let object = crate::ledger::tests::object(Vec::new());
        let used = Used { files: 12, processes: 3, size_bytes: 5 << 20 };
        let made = |unwinding, costs| {
            let names = Shortfalls::default();
            section(&Inputs {
                object: &object,
                losses: &[],
                resolved: Resolved::default(),
                names,
                costs,
                unwinding,
                visits: &[],
            })
        };
        let lines = made(Some(used), Some(&[])).expect("a section").lines;
        assert_eq!(lines, ["  5 MiB of at most 64.1 MiB: 12 files, 3 processes"]);
        assert!(made(None, Some(&[])).is_none() && made(Some(used), None).is_none());
    }
}
