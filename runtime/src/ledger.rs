//! What was lost, counted by the programs themselves and by the kernel.
//!
//! In: the counters of the object in `.bss`, and the kernel's of runs that it skipped. Out: each loss in words, and how often.
//! Guarantee: the sum over a program's records received and counted here is the number that it tried to send.

use profiler_compiler::object::{Loss, MAX_ROUNDS, Object, Storage};

use crate::load::Loaded;
use crate::sys::bpf::skipped_runs;

/// All losses that happened, in the order of the object's counters, then of its programs; counters of one loss are added up.
pub fn read(object: &Object, loaded: &Loaded) -> Vec<(Loss, u64)> {
    let mut losses = collect(object, |offset_bytes| loaded.globals().bss_u64(offset_bytes).unwrap_or(0));
    losses.extend(skipped(object, |name| loaded.program(name).map_or(0, skipped_runs)));
    losses
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

/// The losses in words.
pub fn describe(object: &Object, losses: &[(Loss, u64)]) -> Vec<(String, u64)> {
    losses.iter().map(|(loss, count)| (words(object, loss), *count)).collect()
}

fn words(object: &Object, loss: &Loss) -> String {
    let probe =
        |index: &usize| object.programs.get(*index).map_or_else(String::new, |program| program.probes.join(","));
    match loss {
        Loss::Events { program } => format!("events of {}: ring buffer full", probe(program)),
        Loss::Control { program } => format!("actions of {}: control ring full", probe(program)),
        Loss::MapFull { map } => {
            let map = object.maps.get(*map);
            let size = match map.map(|map| &map.storage) {
                Some(Storage::Map { max_entries, .. }) => format!(", it holds {max_entries} keys"),
                _ => String::new(),
            };
            format!("updates of {}: map full{size}", map.map_or("", |map| map.name.as_str()))
        }
        Loss::Rounds { program } => format!("loops of {}: cut after {MAX_ROUNDS} rounds", probe(program)),
        Loss::Stacks => "stacks not taken".into(),
        Loss::Scratch { program } => format!("runs of {}: no scratch memory free", probe(program)),
        Loss::Skipped { program } => format!("runs of {}: skipped by the kernel", probe(program)),
    }
}

#[cfg(test)]
mod tests {
    use profiler_compiler::object::{Attach, Config, Counter, Program};
    use profiler_compiler::source::Span;

    use super::*;

    fn object(losses: Vec<Loss>) -> Object {
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
            stack_tables: Vec::new(),
            ledger: ledger.collect(),
            config: Config::default(),
            views: Vec::new(),
            generation_offset: None,
        }
    }

    #[test]
    fn counters_of_a_loss_add_up_and_zero_is_no_loss() {
        let event = Loss::Events { program: 0 };
        let object = object(vec![event.clone(), Loss::Stacks, event.clone(), Loss::Control { program: 0 }]);
        let losses = collect(&object, |offset| if offset == 8 { 0 } else { u64::from(offset) + 1 });
        assert_eq!(losses, [(event, 18), (Loss::Control { program: 0 }, 25)]);
        assert_eq!(records(&losses), 43);
        let words = describe(&object, &losses);
        assert_eq!(words[0], ("events of kprobe:f,kprobe:g: ring buffer full".into(), 18));
        assert!(words[1].0.starts_with("actions of kprobe:f"));
    }

    #[test]
    fn what_the_kernel_skipped_is_a_loss_of_its_program() {
        let object = object(Vec::new());
        let losses: Vec<_> = skipped(&object, |name| if name == "p" { 3 } else { 0 }).collect();
        assert_eq!(losses, [(Loss::Skipped { program: 0 }, 3)]);
        assert_eq!(describe(&object, &losses)[0].0, "runs of kprobe:f,kprobe:g: skipped by the kernel");
        assert_eq!(skipped(&object, |_| 0).count(), 0);
    }

    #[test]
    fn losses_that_are_not_records_do_not_count_as_events() {
        assert_eq!(records(&[(Loss::Stacks, 5), (Loss::MapFull { map: 0 }, 6), (Loss::Scratch { program: 0 }, 7)]), 0);
    }

    #[test]
    fn an_index_out_of_range_still_has_words() {
        let object = object(Vec::new());
        assert_eq!(describe(&object, &[(Loss::MapFull { map: 9 }, 1)])[0].0, "updates of : map full");
    }
}
