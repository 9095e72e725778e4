//! Loss accounting: what was lost, as counted by the programs and by the kernel, and what measuring
//! cost.
//!
//! In: the counters of the object in `.bss`, and the kernel's. Out: [`Section`]s as text and as
//! fields.
//! Guarantee: a program's received records and its losses counted here add up to the records that
//! it tried to send.

mod cost;
mod missing;
mod names;
mod unwinding;
mod visits;

pub use crate::symbols::counting::Resolved;
pub use crate::unwind::used::Used;
pub use crate::visits::Rounds;
pub use cost::{Cost, costs, with_traps};

use profiler_model::object::{Loss, Object};
use profiler_model::output::Section;
use profiler_model::value::Shortfalls;

use crate::load::Loaded;
use crate::sys::bpf::program_state;

/// All losses that happened: first those that programs counted, in the order of the object's
/// counters, then those that the kernel counted. Counters of the same loss are added up.
pub fn read(object: &Object, loaded: &Loaded, skipped: Vec<(Loss, u64)>) -> Vec<(Loss, u64)> {
    let mut losses = collect(object, |offset_bytes| loaded.globals().bss_u64(offset_bytes).unwrap_or(0));
    losses.extend(skipped);
    losses
}

/// Runs that the kernel skipped, in the order of the programs. `missed` comes from the links:
/// program ids, and how often each was not called.
pub fn skipped(object: &Object, loaded: &Loaded, missed: &[(u32, u64)]) -> Vec<(Loss, u64)> {
    let count = |name: &str| {
        let Some(state) = loaded.program(name).and_then(program_state) else { return 0 };
        state.skipped_runs + missed_of(state.id, missed)
    };
    skipped_runs(object, count).collect()
}

/// How often the program with this id was not called, over all its links.
fn missed_of(program: u32, missed: &[(u32, u64)]) -> u64 {
    missed.iter().filter(|(id, _)| *id == program).map(|(_, count)| count).sum()
}

fn skipped_runs(object: &Object, count: impl Fn(&str) -> u64) -> impl Iterator<Item = (Loss, u64)> {
    // The kernel has one count for all probes that run in one program.
    object
        .kernel_programs()
        .map(move |(index, program)| (Loss::Skipped { program: index }, count(&program.runs_in)))
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

/// The number of records among the losses: output and actions that never arrived.
pub fn records(losses: &[(Loss, u64)]) -> u64 {
    losses.iter().filter(|(loss, _)| matches!(loss, Loss::Events { .. } | Loss::Control { .. })).map(|(_, n)| n).sum()
}

/// What was missing up to a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// What was lost.
    pub losses: Vec<(Loss, u64)>,
    /// How many printed addresses have names.
    pub resolved: Resolved,
    /// Why names are missing or truncated.
    pub names: Shortfalls,
}

impl Account {
    /// What of it was missing after an earlier moment.
    #[must_use]
    pub fn since(&self, before: &Account) -> Account {
        let earlier = |loss: &Loss| before.losses.iter().find(|(known, _)| known == loss).map_or(0, |(_, n)| *n);
        let later = |(loss, n): &(Loss, u64)| (loss.clone(), n.saturating_sub(earlier(loss)));
        Account {
            losses: self.losses.iter().map(later).filter(|(_, n)| *n > 0).collect(),
            resolved: self.resolved.since(&before.resolved),
            names: self.names.since(&before.names),
        }
    }
}

/// The inputs of the sections.
#[derive(Debug)]
pub struct Inputs<'a> {
    /// The compiled object.
    pub object: &'a Object,
    /// What was lost.
    pub losses: &'a [(Loss, u64)],
    /// How many printed addresses have names.
    pub resolved: Resolved,
    /// Why names are missing or truncated.
    pub names: Shortfalls,
    /// The cost of each program, if it was measured.
    pub costs: Option<&'a [Cost]>,
    /// The memory of unwind tables, if there are any.
    pub unwinding: Option<Used>,
    /// The rounds of programs that visit threads.
    pub visits: &'a [Rounds],
}

/// All sections, in display order. A new section is one line here and one more file.
const SECTIONS: [fn(&Inputs<'_>) -> Option<Section>; 5] =
    [missing::section, visits::section, cost::section, names::section, unwinding::section];

/// The sections that are not empty.
pub fn sections(facts: &Inputs<'_>) -> Vec<Section> {
    SECTIONS.iter().filter_map(|section| section(facts)).collect()
}

#[cfg(test)]
mod tests {
    use profiler_model::object::{Attach, CPU_CLOCK, Config, Counter, Program, Rate, SOFTWARE};
    use profiler_model::source::Span;

    use super::*;

    pub(super) fn object(losses: Vec<Loss>) -> Object {
        let program = Program {
            name: "p".into(),
            runs_in: "p".into(),
            probes: vec!["kprobe:f".into(), "kprobe:g".into()],
            points: 2,
            attach: Attach::Begin,
            entry_counter: None,
            span: Span { start: 0, end: 0 },
        };
        let ledger =
            losses.into_iter().zip((0..).step_by(8)).map(|(loss, offset_bytes)| Counter { offset_bytes, loss });
        Object {
            elf: Vec::new(),
            programs: vec![program],
            maps: Vec::new(),
            loaded_for: std::collections::BTreeMap::new(),
            enums: std::collections::BTreeMap::new(),
            events: Vec::new(),
            probe_names: Vec::new(),
            strings: Vec::new(),
            data_ring: None,
            control_ring: None,
            packets: None,
            wake_flag_offset: None,
            start_time_offset: None,
            wall_clock_offset: None,
            expiry_offset: None,
            result_offset: None,
            stack_tables: Vec::new(),
            unwinding: None,
            ledger: ledger.collect(),
            config: Config::default(),
            params: Vec::new(),
            views: Vec::new(),
            generation_offset: None,
            gate_offset: 0,
            run_counters: Vec::new(),
            spans: Vec::new(),
        }
    }

    fn lines_of(object: &Object, losses: &[(Loss, u64)]) -> Vec<String> {
        let sections = sections(&Inputs {
            object,
            losses,
            resolved: Resolved::default(),
            names: Shortfalls::default(),
            costs: None,
            unwinding: None,
            visits: &[],
        });
        sections.into_iter().flat_map(|section| section.lines).collect()
    }

    #[test]
    fn without_a_loss_nothing_is_said() {
        assert_eq!(lines_of(&object(Vec::new()), &[]), [""; 0]);
    }

    #[test]
    fn counters_of_a_loss_add_up_and_zero_is_no_loss() {
        let event = Loss::Events { program: 0 };
        let object = object(vec![event.clone(), Loss::Stacks, event.clone(), Loss::Control { program: 0 }]);
        let losses = collect(&object, |offset| if offset == 8 { 0 } else { u64::from(offset) + 1 });
        assert_eq!(losses, [(event, 18), (Loss::Control { program: 0 }, 25)]);
        assert_eq!(records(&losses), 43);
        let lines = lines_of(&object, &losses);
        assert_eq!(lines[0], "  events of kprobe:f,kprobe:g: ring buffer full: 18");
        assert!(lines.iter().any(|line| line.starts_with("  actions of kprobe:f")));
    }

    #[test]
    fn a_window_has_what_was_lost_in_it() {
        let (event, stack) = (Loss::Events { program: 0 }, Loss::Stacks);
        let resolved = |addresses, named| Resolved { addresses, named, with_lines: 0 };
        let names = |cut_names| Shortfalls { cut_names, ..Shortfalls::default() };
        let before = Account { losses: vec![(event.clone(), 5)], resolved: resolved(10, 8), names: names(1) };
        let losses = vec![(event, 5), (stack.clone(), 3)];
        let now = Account { losses, resolved: resolved(15, 9), names: names(1) };
        let window = Account { losses: vec![(stack, 3)], resolved: resolved(5, 1), names: names(0) };
        assert_eq!(now.since(&before), window);
        assert_eq!(now.since(&Account::default()), now);
        assert_eq!(now.since(&now), Account::default());
    }

    #[test]
    fn what_the_kernel_skipped_is_a_loss_of_its_program() {
        let object = object(Vec::new());
        let losses: Vec<_> = skipped_runs(&object, |name| if name == "p" { 3 } else { 0 }).collect();
        assert_eq!(losses, [(Loss::Skipped { program: 0 }, 3)]);
        assert_eq!(lines_of(&object, &losses)[0], "  runs of kprobe:f,kprobe:g: skipped by the kernel: 3");
        assert_eq!(skipped_runs(&object, |_| 0).count(), 0);
    }

    #[test]
    fn ticks_of_a_cpus_clock_say_who_left_them_out() {
        let mut object = object(Vec::new());
        let ticks = [(Loss::Ticks { program: 0 }, 4), (Loss::MergedTicks { program: 0 }, 5)];
        assert_eq!(lines_of(&object, &ticks)[0], "  ticks of kprobe:f,kprobe:g: did not run: 4");
        object.programs[0].attach = Attach::PerfEvent { kind: SOFTWARE, config: CPU_CLOCK, rate: Rate::Hertz(99) };
        let lines = lines_of(&object, &ticks);
        assert_eq!(lines[0], "  ticks of kprobe:f,kprobe:g: did not run: skipped by the kernel: 4");
        assert!(lines[1].contains("attached through perf"), "{}", lines[1]);
        assert_eq!(lines[2], "  ticks of kprobe:f,kprobe:g: came late, and the kernel merged them with later ones: 5");
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
        assert_eq!(lines_of(&object, &[(Loss::MapFull { map: 9 }, 1)])[0], "  updates of : map full: 1");
    }
}
