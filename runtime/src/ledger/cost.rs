//! The cost of the probes.
//!
//! In: the kernel's statistics of each program, and estimates of the overhead around each run. Out:
//! a section, if costs were measured.
//! Guarantee: every program is included, even one that never ran.

use std::time::Duration;

use profiler_model::object::{Object, Program};
use profiler_model::output::{Field, Section};
use profiler_model::statistics::Number;
use profiler_model::units::Unit;

use super::Inputs;
use crate::attach::trap::Traps;
use crate::load::Loaded;
use crate::sys::bpf::program_state;

/// The cost of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// Its name in the object.
    pub program: String,
    /// The probes of all blocks that run in it, abbreviated.
    pub probe: String,
    /// Number of runs.
    pub runs: u64,
    /// Total run time in nanoseconds. For return probes of user functions it includes the program
    /// that counts their entries.
    pub time_ns: u64,
    /// The kernel's overhead around a run, estimated in nanoseconds; `None` if that was not
    /// measured.
    pub trap_ns: Option<f64>,
    /// How long it was attached.
    pub elapsed: Duration,
}

/// The costs of all programs so far.
pub fn costs(object: &Object, loaded: &Loaded, elapsed: Duration) -> Vec<Cost> {
    let cost = |(index, program): (usize, &Program)| {
        let name = &program.runs_in;
        let blocks: Vec<&Program> = object.blocks_with(index).map(|(_, block)| block).collect();
        let state = loaded.program(name).and_then(program_state).unwrap_or_default();
        let first = blocks.iter().flat_map(|block| &block.probes).next().map_or("", String::as_str);
        let probe = match blocks.iter().map(|block| block.probes.len()).sum() {
            0 | 1 => first.to_owned(),
            count => format!("{first} and {} more", count - 1),
        };
        let counters = blocks.iter().filter_map(|block| program_state(loaded.program(block.entry_counter.as_ref()?)?));
        let time_ns = state.run_time_ns + counters.map(|state| state.run_time_ns).sum::<u64>();
        Cost { program: name.clone(), probe, runs: state.runs, time_ns, trap_ns: None, elapsed }
    };
    object.kernel_programs().map(cost).collect()
}

/// Adds the kernel's overhead around the runs to the costs.
pub fn with_traps(mut costs: Vec<Cost>, object: &Object, traps: &Traps) -> Vec<Cost> {
    for (cost, (_, program)) in costs.iter_mut().zip(object.kernel_programs()) {
        cost.trap_ns = traps.of(&program.attach);
    }
    costs
}

impl Cost {
    fn mean_ns(&self) -> f64 {
        Number::quotient(i128::from(self.time_ns), self.runs).as_f64()
    }

    /// The share of one CPU in percent, including the kernel's overhead around the runs if that is
    /// known.
    fn share(&self) -> f64 {
        let elapsed = self.elapsed.as_secs_f64();
        let runs = Number::quotient(i128::from(self.runs), 1).as_f64();
        let traps = self.trap_ns.unwrap_or(0.0) * runs / 1e9;
        let time = Duration::from_nanos(self.time_ns).as_secs_f64() + traps;
        if elapsed == 0.0 { 0.0 } else { time * 100.0 / elapsed }
    }
}

pub(super) fn section(facts: &Inputs<'_>) -> Option<Section> {
    let costs = facts.costs?;
    let has_traps = costs.iter().any(|cost| cost.trap_ns.is_some());
    let mut rows = vec![["runs".to_owned(), "mean".into(), "+ trap".into(), "CPU".into(), "probe".into()]];
    let row = |cost: &Cost| {
        let share = format!("{:.3} %", cost.share());
        let trap =
            cost.trap_ns.map_or_else(String::new, |trap_ns| format!("≈ {}", Unit::Duration.text(trap_ns.round())));
        [cost.runs.to_string(), Unit::Duration.text(cost.mean_ns()), trap, share, cost.probe.clone()]
    };
    rows.extend(costs.iter().map(row));
    let total: f64 = costs.iter().map(Cost::share).sum();
    let runs: u64 = costs.iter().map(|cost| cost.runs).sum();
    rows.push([runs.to_string(), String::new(), String::new(), format!("{total:.3} %"), "total".into()]);
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let (first, second, third, fourth) = (width(0), width(1), width(2), width(3));
    let line = |[runs, mean, trap, share, probe]: &[String; 5]| {
        let trap = if has_traps { format!("  {trap:>third$}") } else { String::new() };
        format!("  {runs:>first$}  {mean:>second$}{trap}  {share:>fourth$}  {probe}")
    };
    let entry = |cost: &Cost| {
        let mut fields = vec![
            ("probe", Field::Text(cost.probe.clone())),
            ("runs", Field::Count(cost.runs)),
            ("mean_ns", Field::Real(rounded(cost.mean_ns()))),
        ];
        fields.extend(cost.trap_ns.map(|trap_ns| ("trap_ns", Field::Real(rounded(trap_ns)))));
        fields.push(("cpu_percent", Field::Real(rounded(cost.share()))));
        fields
    };
    Some(Section {
        name: "cost",
        title: "Probe cost:".into(),
        lines: rows.iter().map(line).collect(),
        entries: costs.iter().map(entry).collect(),
    })
}

/// Rounds to thousandths.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use profiler_model::value::Shortfalls;

    use super::*;
    use crate::ledger::Resolved;

    #[test]
    fn costs_stand_below_each_other() {
        let cost = |probe: &str, runs, time_ns| Cost {
            program: "p".into(),
            probe: probe.into(),
            runs,
            time_ns,
            trap_ns: None,
            elapsed: Duration::from_secs(1),
        };
        let mut costs = [cost("kprobe:f", 1000, 1_500_000), cost("BEGIN", 0, 0)];
        let object = crate::ledger::tests::object(Vec::new());
        let made = |costs: &[Cost]| {
            let names = Shortfalls::default();
            section(&Inputs {
                object: &object,
                losses: &[],
                resolved: Resolved::default(),
                names,
                costs: Some(costs),
                unwinding: None,
                visits: &[],
            })
            .unwrap()
        };
        let section = made(&costs);
        let expected = [
            "  runs    mean      CPU  probe",
            "  1000  1.5 µs  0.150 %  kprobe:f",
            "     0    0 ns  0.000 %  BEGIN",
            "  1000          0.150 %  total",
        ];
        assert_eq!(section.lines, expected);
        assert_eq!(section.entries[0][2], ("mean_ns", Field::Real(1500.0)));
        costs[0].trap_ns = Some(900.4);
        let section = made(&costs);
        let expected = [
            "  runs    mean    + trap      CPU  probe",
            "  1000  1.5 µs  ≈ 900 ns  0.240 %  kprobe:f",
            "     0    0 ns            0.000 %  BEGIN",
            "  1000                    0.240 %  total",
        ];
        assert_eq!(section.lines, expected);
        assert_eq!(section.entries[0][3], ("trap_ns", Field::Real(900.4)));
    }
}
