//! What the probes cost.
//!
//! In: the kernel's statistics of each program. Out: a section, when they were measured.
//! Guarantee: each program is there, also one that never ran.

use std::time::Duration;

use profiler_compiler::object::Object;
use profiler_compiler::statistics::Number;
use profiler_compiler::units::Unit;

use super::{Facts, Field, Section};
use crate::load::Loaded;
use crate::sys::bpf::program_state;

/// What a program cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// Its probes.
    pub probe: String,
    /// How often it ran.
    pub runs: u64,
    /// How long all of them together took.
    pub time_ns: u64,
    /// For how long it was attached.
    pub elapsed: Duration,
}

/// The costs of all programs so far.
pub fn costs(object: &Object, loaded: &Loaded, elapsed: Duration) -> Vec<Cost> {
    let cost = |program: &profiler_compiler::object::Program| {
        let state = loaded.program(&program.name).and_then(program_state).unwrap_or_default();
        let first = program.probes.first().map_or("", String::as_str);
        let probe = match program.probes.len() {
            0 | 1 => first.to_owned(),
            count => format!("{first} and {} more", count - 1),
        };
        Cost { probe, runs: state.runs, time_ns: state.run_time_ns, elapsed }
    };
    object.programs.iter().map(cost).collect()
}

impl Cost {
    fn mean_ns(&self) -> f64 {
        Number::quotient(i128::from(self.time_ns), self.runs).as_f64()
    }

    /// The share of one CPU in percent.
    fn share(&self) -> f64 {
        let elapsed = self.elapsed.as_secs_f64();
        let time = Duration::from_nanos(self.time_ns).as_secs_f64();
        if elapsed == 0.0 { 0.0 } else { time * 100.0 / elapsed }
    }
}

pub(super) fn section(facts: &Facts<'_>) -> Option<Section> {
    let costs = facts.costs?;
    let mut rows = vec![["runs".to_owned(), "mean".into(), "of one CPU".into(), "probe".into()]];
    let row = |cost: &Cost| {
        let share = format!("{:.3} %", cost.share());
        [cost.runs.to_string(), Unit::Duration.text(cost.mean_ns()), share, cost.probe.clone()]
    };
    rows.extend(costs.iter().map(row));
    let total: f64 = costs.iter().map(Cost::share).sum();
    let runs: u64 = costs.iter().map(|cost| cost.runs).sum();
    rows.push([runs.to_string(), String::new(), format!("{total:.3} %"), "all".into()]);
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let (first, second, third) = (width(0), width(1), width(2));
    let line = |[runs, mean, share, probe]: &[String; 4]| {
        format!("  {runs:>first$}  {mean:>second$}  {share:>third$}  {probe}")
    };
    let entry = |cost: &Cost| {
        vec![
            ("probe", Field::Text(cost.probe.clone())),
            ("runs", Field::Count(cost.runs)),
            ("mean_ns", Field::Real(rounded(cost.mean_ns()))),
            ("cpu_percent", Field::Real(rounded(cost.share()))),
        ]
    };
    Some(Section {
        name: "cost",
        title: "Cost of the probes:".into(),
        lines: rows.iter().map(line).collect(),
        entries: costs.iter().map(entry).collect(),
    })
}

/// To thousandths.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_stand_below_each_other() {
        let cost =
            |probe: &str, runs, time_ns| Cost { probe: probe.into(), runs, time_ns, elapsed: Duration::from_secs(1) };
        let costs = [cost("kprobe:f", 1000, 1_500_000), cost("BEGIN", 0, 0)];
        let object = crate::ledger::tests::object(Vec::new());
        let facts = Facts { object: &object, losses: &[], unnamed: 0, costs: Some(&costs) };
        let section = section(&facts).unwrap();
        let expected = [
            "  runs    mean  of one CPU  probe",
            "  1000  1.5 µs     0.150 %  kprobe:f",
            "     0    0 ns     0.000 %  BEGIN",
            "  1000             0.150 %  all",
        ];
        assert_eq!(section.lines, expected);
        assert_eq!(section.entries[0][2], ("mean_ns", Field::Real(1500.0)));
    }
}
