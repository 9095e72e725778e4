//! The rounds of visits to all threads, and how late they were.
//!
//! In: the account of the rounds. Out: a section.
//! Guarantee: it is there whenever a script visits threads, however exact the rounds were.

use profiler_model::output::{Field, Section};
use profiler_model::statistics::Number;
use profiler_model::units::Unit;

use super::Inputs;
use crate::visits::Rounds;

pub(super) fn section(facts: &Inputs<'_>) -> Option<Section> {
    if facts.visits.is_empty() {
        return None;
    }
    let probe = |rounds: &Rounds| {
        let program = facts.object.programs.get(rounds.program);
        program.and_then(|program| program.probes.first()).cloned().unwrap_or_default()
    };
    let lines = facts.visits.iter().map(|rounds| format!("  {}: {}", probe(rounds), words(rounds))).collect();
    let entry = |rounds: &Rounds| {
        vec![
            ("probe", Field::Text(probe(rounds))),
            ("rounds", Field::Count(rounds.made)),
            ("missed", Field::Count(rounds.missed)),
            ("latest_ns", Field::Count(rounds.latest.as_nanos() as u64)),
            ("longest_ns", Field::Count(rounds.longest.as_nanos() as u64)),
        ]
    };
    let entries = facts.visits.iter().map(entry).collect();
    Some(Section { name: "visits", title: "Rounds of visits:".into(), lines, entries })
}

fn words(rounds: &Rounds) -> String {
    let time = |time: std::time::Duration| Unit::Duration.text(Number::Integer(time.as_nanos() as i128).as_f64());
    let missed = if rounds.missed == 0 { String::new() } else { format!(", {} left out", rounds.missed) };
    let (latest, longest) = (time(rounds.latest), time(rounds.longest));
    format!("{}{missed}; the latest began {latest} late, the longest took {longest}", rounds.made)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use profiler_model::value::Shortfalls;

    use super::*;
    use crate::ledger::Resolved;

    #[test]
    fn rounds_are_shown_with_how_late_they_were() {
        let object = crate::ledger::tests::object(Vec::new());
        let rounds = Rounds {
            program: 0,
            made: 40,
            missed: 2,
            latest: Duration::from_micros(1500),
            longest: Duration::from_micros(250),
        };
        let made = |visits: &[Rounds]| {
            let names = Shortfalls::default();
            let resolved = Resolved::default();
            section(&Inputs { object: &object, losses: &[], resolved, names, costs: None, unwinding: None, visits })
        };
        let section = made(&[rounds]).expect("a section");
        assert_eq!(
            section.lines,
            ["  kprobe:f: 40, 2 left out; the latest began 1.5 ms late, the longest took 250 µs"]
        );
        assert_eq!(section.entries[0][3], ("latest_ns", Field::Count(1_500_000)));
        assert!(made(&[]).is_none());
    }
}
