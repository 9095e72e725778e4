//! The losses of a run.
//!
//! In: losses. Out: a section, if there are any.
//! Guarantee: each loss that a setting or a declaration can prevent names it.

use profiler_model::object::{Attach, Loss, MAX_FOLLOWED_RETURNS, MAX_ROUNDS, Object, Storage, UserMap};
use profiler_model::output::{Field, Section};
use profiler_model::unwind::End;
use profiler_model::value::Shortfalls;

use super::Inputs;

/// One kind of loss.
struct Missing {
    what: String,
    count: u64,
    help: Option<String>,
}

pub(super) fn section(facts: &Inputs<'_>) -> Option<Section> {
    let lost = facts.losses.iter().filter(|(_, count)| *count > 0);
    let mut missing: Vec<Missing> = lost.map(|(loss, count)| of_loss(facts, loss, *count)).collect();
    let unnamed = facts.resolved.unnamed();
    if unnamed > 0 {
        missing.push(Missing { what: "names of addresses".into(), count: unnamed, help: None });
    }
    missing.extend(of_names(&facts.names));
    if missing.is_empty() {
        return None;
    }
    let mut lines = Vec::new();
    for it in &missing {
        lines.push(format!("  {}: {}", it.what, it.count));
        lines.extend(it.help.iter().map(|help| format!("    = help: {help}")));
    }
    let entry = |it: Missing| {
        let mut fields = vec![("what", Field::Text(it.what)), ("count", Field::Count(it.count))];
        fields.extend(it.help.map(|help| ("help", Field::Text(help))));
        fields
    };
    Some(Section {
        name: "missing",
        title: "Missing from these results:".into(),
        lines,
        entries: missing.into_iter().map(entry).collect(),
    })
}

fn of_names(names: &Shortfalls) -> impl Iterator<Item = Missing> {
    let frame_pointers = "compile with frame pointers (`-fno-omit-frame-pointer`, Rust: `-C force-frame-pointers`)";
    let trust = "the file must be a regular one, and belong to root or to the user of its process";
    let memory =
        "files may take 192 MiB, or an eighth of the control group's memory: `show_debug_info = false` reads no lines";
    [
        ("user stacks that end at an address that is not code", names.broken_stacks, Some(frame_pointers)),
        ("names that were cut", names.cut_names, None),
        ("symbols of files with too many of them", names.large_files, None),
        ("source lines of files: too little memory for their debug information", names.refused_files, Some(memory)),
        ("perf maps and jitdumps that were not read", names.refused_maps, Some(trust)),
        ("names of addresses: their files or processes did not answer", names.unanswered, None),
        ("records of process mappings: ring buffer full", names.lost_records, None),
    ]
    .into_iter()
    .filter(|(_, count, _)| *count > 0)
    .map(|(what, count, help)| Missing { what: what.into(), count, help: help.map(str::to_owned) })
}

fn of_loss(facts: &Inputs<'_>, loss: &Loss, count: u64) -> Missing {
    let object = facts.object;
    let probe = |index: &usize| object.programs.get(*index).map_or_else(String::new, |program| named(&program.probes));
    let blocks_of = |index: usize| {
        let mut probes: Vec<String> = Vec::new();
        for probe in object.blocks_with(index).flat_map(|(_, program)| &program.probes) {
            if !probes.contains(probe) {
                probes.push(probe.clone());
            }
        }
        named(&probes)
    };
    let (what, help) = match loss {
        Loss::Events { program } => (
            format!("events of {}: ring buffer full", probe(program)),
            Some("print less, or raise `perf_rb_pages` (`config = { perf_rb_pages = 8192 }` is 32 MiB)".to_owned()),
        ),
        Loss::Control { program } => (format!("actions of {}: control ring full", probe(program)), None),
        Loss::MapFull { map } => match object.maps.get(*map) {
            Some(UserMap { name, storage: Storage::Threads(_), .. }) => {
                (format!("updates of {name}: the kernel had no memory for a thread's value, or was busy with it"), None)
            }
            Some(map) => (format!("updates of {}: map full{}", map.name, size(map)), larger(map)),
            None => ("updates of : map full".into(), None),
        },
        Loss::Rounds { program } => (format!("loops of {}: cut after {MAX_ROUNDS} rounds", probe(program)), None),
        Loss::Stacks => {
            let kept = object.stack_tables.iter().map(|table| table.capacity).max().unwrap_or_default();
            let more = u64::from(kept) * 4;
            let help = format!(
                "{kept} different ones are kept: write `config = {{ max_stacks = {more} }}`, or ask for fewer frames (`ustack(8)`)"
            );
            ("stacks not taken".into(), Some(help))
        }
        Loss::Callers { end } => (format!("callers in user stacks: {}", end.reason()), without_callers(*end)),
        Loss::Scratch { program } => (format!("runs of {}: no scratch memory free", probe(program)), None),
        Loss::Returns { program } => (
            format!(
                "returns of {}: nested deeper than {MAX_FOLLOWED_RETURNS}, which the kernel does not follow",
                blocks_of(*program)
            ),
            Some("probe a function that does not call itself, or its entry alone".to_owned()),
        ),
        Loss::Commands => ("commands of `system`: not run, a signal ended the run first".into(), None),
        Loss::Ticks { program } => ticks(object, *program, &blocks_of(*program)),
        Loss::MergedTicks { program } => {
            (format!("ticks of {}: came late, and the kernel merged them with later ones", blocks_of(*program)), None)
        }
        Loss::Skipped { program } => (format!("runs of {}: skipped by the kernel", blocks_of(*program)), None),
    };
    Missing { what, count, help }
}

/// What to do about stacks that end early.
fn without_callers(end: End) -> Option<String> {
    let help = match end {
        End::NoTable => "stacks of a process are complete as soon as its files are read, some milliseconds later",
        End::NoInformation => {
            "compile with `-fasynchronous-unwind-tables`, or with frame pointers (Java: `-XX:+PreserveFramePointer`)"
        }
        End::Depth | End::Unreadable | End::Unsupported => return None,
    };
    Some(help.into())
}

/// Missing ticks of an `interval`, or of a CPU's clock.
fn ticks(object: &Object, program: usize, probes: &str) -> (String, Option<String>) {
    let what = format!("ticks of {probes}: did not run");
    match object.programs.get(program).map(|program| &program.attach) {
        Some(Attach::PerfEvent { .. }) => (
            format!("{what}: skipped by the kernel"),
            Some(
                "it does so while a program that is attached through perf runs on that CPU (`rawtracepoint` and tracepoints without \
                 `args` are not), and on some machines while a CPU is idle"
                    .to_owned(),
            ),
        ),
        _ => (what, None),
    }
}

/// The probes of a program. If there are many (a wildcard over system calls has hundreds), the
/// first ones and the number of others.
fn named(probes: &[String]) -> String {
    const MOST: usize = 3;
    if probes.len() <= MOST + 1 {
        return probes.join(",");
    }
    format!("{} and {} others", probes[..MOST].join(","), probes.len() - MOST)
}

fn size(map: &UserMap) -> String {
    match &map.storage {
        Storage::Map { max_entries, .. } if map.value.pages().is_some() => {
            format!(", it holds {max_entries} entries, one for each power of two of a key's values")
        }
        Storage::Map { max_entries, .. } => format!(", it holds {max_entries} keys"),
        Storage::Global { .. } | Storage::Threads(_) => String::new(),
    }
}

/// What to write for four times the capacity of a map.
fn larger(map: &UserMap) -> Option<String> {
    let Storage::Map { max_entries, per_cpu, evicts: false, .. } = &map.storage else { return None };
    if map.value.pages().is_some() {
        return Some(format!("write `let {} = percpuhash(KEYS);` with more keys, or raise `max_map_keys`", map.name));
    }
    let kind = if *per_cpu { "percpuhash" } else { "hash" };
    let keys = u64::from(*max_entries) * 4;
    let declaration = format!("`let {} = {kind}({keys});`", map.name);
    Some(format!("write {declaration} for more keys, or `config = {{ max_map_keys = {keys} }}` for more in all maps"))
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn many_probes_are_some_and_a_number() {
        let probes: Vec<String> = (0..360).map(|number| format!("tracepoint:syscalls:sys_enter_{number}")).collect();
        assert_eq!(named(&probes[..2]), "tracepoint:syscalls:sys_enter_0,tracepoint:syscalls:sys_enter_1");
        let all = named(&probes);
        assert!(all.ends_with("sys_enter_2 and 357 others") && all.len() < 140, "{all}");
    }
}
