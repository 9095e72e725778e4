//! What is missing from results.
//!
//! In: losses. Out: a section, when there are any.
//! Guarantee: each loss that a setting or a declaration mends says which.

use profiler_compiler::object::{Loss, MAX_ROUNDS, Storage, UserMap};

use super::{Facts, Field, Section};

/// One kind of loss.
struct Missing {
    what: String,
    count: u64,
    help: Option<String>,
}

pub(super) fn section(facts: &Facts<'_>) -> Option<Section> {
    let lost = facts.losses.iter().filter(|(_, count)| *count > 0);
    let mut missing: Vec<Missing> = lost.map(|(loss, count)| of_loss(facts, loss, *count)).collect();
    if facts.unnamed > 0 {
        missing.push(Missing { what: "names of addresses".into(), count: facts.unnamed, help: None });
    }
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

fn of_loss(facts: &Facts<'_>, loss: &Loss, count: u64) -> Missing {
    let object = facts.object;
    let probe =
        |index: &usize| object.programs.get(*index).map_or_else(String::new, |program| program.probes.join(","));
    let (what, help) = match loss {
        Loss::Events { program } => (
            format!("events of {}: ring buffer full", probe(program)),
            Some("print less, or raise `perf_rb_pages` (`config = { perf_rb_pages = 8192 }` is 32 MiB)".to_owned()),
        ),
        Loss::Control { program } => (format!("actions of {}: control ring full", probe(program)), None),
        Loss::MapFull { map } => match object.maps.get(*map) {
            Some(UserMap { name, storage: Storage::Threads(_), .. }) => (
                format!("updates of {name}: the kernel had no memory for a thread's value, or was at work on it"),
                None,
            ),
            Some(map) => (format!("updates of {}: map full{}", map.name, size(map)), larger(map)),
            None => ("updates of : map full".into(), None),
        },
        Loss::Rounds { program } => (format!("loops of {}: cut after {MAX_ROUNDS} rounds", probe(program)), None),
        Loss::Stacks => ("stacks not taken".into(), None),
        Loss::Scratch { program } => (format!("runs of {}: no scratch memory free", probe(program)), None),
        Loss::Skipped { program } => (format!("runs of {}: skipped by the kernel", probe(program)), None),
    };
    Missing { what, count, help }
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

/// What to write for room for four times as many keys.
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
