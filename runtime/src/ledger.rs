//! How good the results are: what was lost, counted by the programs themselves and by the kernel, and what measuring cost.
//!
//! In: the counters of the object in `.bss`, and the kernel's. Out: [`Section`]s in words and in fields.
//! Guarantee: the sum over a program's records received and counted here is the number that it tried to send.

mod cost;
mod missing;

pub use cost::{Cost, costs};

use profiler_compiler::object::{Loss, Object};

use crate::load::Loaded;
use crate::sys::bpf::program_state;

/// All losses that happened, in the order of the object's counters, then of its programs; counters of one loss are added up.
/// `missed` is what the links say: the numbers of programs, and how often they were not called.
pub fn read(object: &Object, loaded: &Loaded, missed: &[(u32, u64)]) -> Vec<(Loss, u64)> {
    let mut losses = collect(object, |offset_bytes| loaded.globals().bss_u64(offset_bytes).unwrap_or(0));
    losses.extend(skipped(object, |name| {
        let Some(state) = loaded.program(name).and_then(program_state) else { return 0 };
        state.skipped_runs + missed_of(state.id, missed)
    }));
    losses
}

/// How often the program of this number was not called, over all its links.
fn missed_of(program: u32, missed: &[(u32, u64)]) -> u64 {
    missed.iter().filter(|(id, _)| *id == program).map(|(_, count)| count).sum()
}

fn skipped(object: &Object, count: impl Fn(&str) -> u64) -> impl Iterator<Item = (Loss, u64)> {
    let programs = object.programs.iter().enumerate();
    programs
        .map(move |(index, program)| (Loss::Skipped { program: index }, count(&program.name)))
        .filter(|(_, n)| *n > 0)
}

fn collect(object: &Object, count: impl Fn(u32) -> u64) -> Vec<(Loss, u64)> {
    let mut losses: Vec<(Loss, u64)> = Vec::new();
    for counter in &object.ledger {
        let lost = count(counter.offset_bytes);
        if lost == 0 {
            continue;
        }
        match losses.iter_mut().find(|(loss, _)| *loss == counter.loss) {
            Some((_, sum)) => *sum += lost,
            None => losses.push((counter.loss.clone(), lost)),
        }
    }
    losses
}

/// Records among the losses: output and actions that never arrived.
pub fn records(losses: &[(Loss, u64)]) -> u64 {
    losses.iter().filter(|(loss, _)| matches!(loss, Loss::Events { .. } | Loss::Control { .. })).map(|(_, n)| n).sum()
}

/// What a section is made from.
#[derive(Debug)]
pub struct Facts<'a> {
    /// What was compiled.
    pub object: &'a Object,
    /// What was lost.
    pub losses: &'a [(Loss, u64)],
    /// Addresses that were shown without a name.
    pub unnamed: u64,
    /// What each program cost, when that was measured.
    pub costs: Option<&'a [Cost]>,
}

/// A part of what is said of the quality of results.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Its name in JSON.
    pub name: &'static str,
    /// The line above it in text.
    pub title: String,
    /// Its lines in text.
    pub lines: Vec<String>,
    /// Its objects in JSON.
    pub entries: Vec<Vec<(&'static str, Field)>>,
}

/// A value of an object in JSON.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// Words.
    Text(String),
    /// How many.
    Count(u64),
    /// A quantity.
    Real(f64),
}

/// All sections, in the order in which they are shown. One more is a line here and a file beside the others.
const SECTIONS: [fn(&Facts<'_>) -> Option<Section>; 2] = [missing::section, cost::section];

/// The sections that have something to say.
pub fn sections(facts: &Facts<'_>) -> Vec<Section> {
    SECTIONS.iter().filter_map(|section| section(facts)).collect()
}

#[cfg(test)]
mod tests {
    use profiler_compiler::object::{Attach, Config, Counter, Program};
    use profiler_compiler::source::Span;

    use super::*;

    pub(super) fn object(losses: Vec<Loss>) -> Object {
        let program = Program {
            name: "p".into(),
            probes: vec!["kprobe:f".into(), "kprobe:g".into()],
            points: 2,
            attach: Attach::Begin,
            span: Span { start: 0, end: 0 },
        };
        let ledger =
            losses.into_iter().zip((0..).step_by(8)).map(|(loss, offset_bytes)| Counter { offset_bytes, loss });
        Object {
            elf: Vec::new(),
            programs: vec![program],
            maps: Vec::new(),
            enums: std::collections::BTreeMap::new(),
            events: Vec::new(),
            probe_names: Vec::new(),
            strings: Vec::new(),
            data_ring: None,
            control_ring: None,
            wake_flag_offset: None,
            start_time_offset: None,
            wall_clock_offset: None,
            result_offset: None,
            stack_tables: Vec::new(),
            ledger: ledger.collect(),
            config: Config::default(),
            params: Vec::new(),
            views: Vec::new(),
            generation_offset: None,
            spans: Vec::new(),
        }
    }

    fn said(object: &Object, losses: &[(Loss, u64)]) -> Vec<String> {
        let sections = sections(&Facts { object, losses, unnamed: 0, costs: None });
        sections.into_iter().flat_map(|section| section.lines).collect()
    }

    #[test]
    fn without_a_loss_nothing_is_said() {
        assert_eq!(said(&object(Vec::new()), &[]), [""; 0]);
    }

    #[test]
    fn counters_of_a_loss_add_up_and_zero_is_no_loss() {
        let event = Loss::Events { program: 0 };
        let object = object(vec![event.clone(), Loss::Stacks, event.clone(), Loss::Control { program: 0 }]);
        let losses = collect(&object, |offset| if offset == 8 { 0 } else { u64::from(offset) + 1 });
        assert_eq!(losses, [(event, 18), (Loss::Control { program: 0 }, 25)]);
        assert_eq!(records(&losses), 43);
        let lines = said(&object, &losses);
        assert_eq!(lines[0], "  events of kprobe:f,kprobe:g: ring buffer full: 18");
        assert!(lines.iter().any(|line| line.starts_with("  actions of kprobe:f")));
    }

    #[test]
    fn what_the_kernel_skipped_is_a_loss_of_its_program() {
        let object = object(Vec::new());
        let losses: Vec<_> = skipped(&object, |name| if name == "p" { 3 } else { 0 }).collect();
        assert_eq!(losses, [(Loss::Skipped { program: 0 }, 3)]);
        assert_eq!(said(&object, &losses)[0], "  runs of kprobe:f,kprobe:g: skipped by the kernel: 3");
        assert_eq!(skipped(&object, |_| 0).count(), 0);
    }

    #[test]
    fn a_program_misses_what_all_its_links_missed() {
        let missed = [(3, 10), (4, 5), (3, 1)];
        assert_eq!((missed_of(3, &missed), missed_of(5, &missed)), (11, 0));
    }

    #[test]
    fn losses_that_are_not_records_do_not_count_as_events() {
        assert_eq!(records(&[(Loss::Stacks, 5), (Loss::MapFull { map: 0 }, 6), (Loss::Scratch { program: 0 }, 7)]), 0);
    }

    #[test]
    fn an_index_out_of_range_still_has_words() {
        let object = object(Vec::new());
        assert_eq!(said(&object, &[(Loss::MapFull { map: 9 }, 1)])[0], "  updates of : map full: 1");
    }
}
