//! How many addresses have names, for `--stats`.
//!
//! In: counts of what was printed. Out: a section.
//! Guarantee: nothing without addresses.

use profiler_model::output::{Field, Section};
use profiler_model::statistics::Number;
use profiler_model::text::thousands;

use super::{Inputs, Resolved};

pub(super) fn section(facts: &Inputs<'_>) -> Option<Section> {
    facts.costs?;
    let Resolved { addresses, named, with_lines } = facts.resolved;
    if addresses == 0 {
        return None;
    }
    let share = Number::Integer(named.into()).as_f64() * 100.0 / Number::Integer(addresses.into()).as_f64();
    let line = format!(
        "  {} of {} addresses ({share:.1} %), {} with source lines",
        thousands(named),
        thousands(addresses),
        thousands(with_lines)
    );
    let entry = vec![
        ("addresses", Field::Count(addresses)),
        ("named", Field::Count(named)),
        ("with_lines", Field::Count(with_lines)),
    ];
    Some(Section { name: "names", title: "Names:".into(), lines: vec![line], entries: vec![entry] })
}

#[cfg(test)]
mod tests {
    use profiler_model::value::Shortfalls;

    use super::*;

    #[test]
    fn the_share_of_names_is_shown_if_there_are_addresses() {
        let object = crate::ledger::tests::object(Vec::new());
        let made = |resolved, costs| {
            let names = Shortfalls::default();
            section(&Inputs { object: &object, losses: &[], resolved, names, costs, unwinding: None, visits: &[] })
        };
        let resolved = Resolved { addresses: 2000, named: 1999, with_lines: 7 };
        let lines = made(resolved, Some(&[])).expect("a section").lines;
        assert_eq!(lines, ["  1,999 of 2,000 addresses (100.0 %), 7 with source lines"]);
        assert!(made(Resolved::default(), Some(&[])).is_none() && made(resolved, None).is_none());
    }
}
