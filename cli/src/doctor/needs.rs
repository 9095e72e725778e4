//! Requirements of a script.
//!
//! In: the compiled script. Out: one row per requirement; those of maps and helpers once it is
//! known whether the kernel accepted them.
//! Guarantee: only what this script requires has a row; what the kernel accepted was not tested
//! separately.

use std::collections::BTreeMap;

use profiler_compiler::compile::Stages;
use profiler_compiler::emit::{Note, helper_name};
use profiler_compiler::ir::{Helper, MapKind};
use profiler_compiler::object::{Attach, Object, Storage};
use profiler_compiler::params::RodataLocation;

use super::counted;
use super::machine;
use super::{NOT_PERMITTED, Row, State};
use profiler_runtime::host::Host;
use profiler_runtime::sys::feature;

/// `BPF_PROG_TYPE_*` that may call most of the helpers, in the order they are tried: perf event,
/// kprobe, tracepoint, raw tracepoint.
const TRIED: [u32; 4] = [7, 2, 5, 17];

/// Helpers of program types that libbpf cannot test.
const NOT_TRIED: [Helper; 6] = [
    Helper::SeqPrintf,
    Helper::SeqWrite,
    Helper::TaskPtRegs,
    Helper::GetSocketCookie,
    Helper::DPath,
    Helper::SkbOutput,
];

/// The facts about the machine that matter to this script.
pub(super) fn of_machine(host: &Host, object: &Object) -> Vec<Row> {
    let mut rows = vec![machine::kernel(host), machine::capabilities(&machine::LOADING), machine::lockdown()];
    if host.has_read_types() {
        rows.push(machine::types(host));
    }
    let probes = || object.programs.iter().flat_map(|program| &program.probes);
    if probes().any(|probe| probe.starts_with("tracepoint:")) {
        rows.push(machine::tracefs(host));
    }
    if object.programs.iter().any(|program| is_perf_event(&program.attach)) {
        rows.push(machine::events());
    }
    rows
}

fn is_perf_event(attach: &Attach) -> bool {
    match attach {
        Attach::Tracepoint { .. } | Attach::Watchpoint { .. } | Attach::PerfEvent { .. } => true,
        Attach::Uprobe { multi, .. } | Attach::Kprobe { multi, .. } => !multi,
        _ => false,
    }
}

/// Map types, helpers and program types. With `is_loaded` the kernel has accepted all of them;
/// otherwise each is tested.
pub(super) fn of_programs(stages: &Stages, is_loaded: bool) -> Vec<Row> {
    let permitted = is_loaded || feature::has_map(MapKind::Hash as u32);
    let row = |works: bool, name, found: String, advice: &str| match (works, permitted) {
        (true, true) => Row::works(name, found),
        (false, true) => Row::fails(name, State::Broken, format!("the kernel refuses it: {found}"), advice),
        (_, false) => Row::fails(name, State::Broken, format!("{NOT_PERMITTED}: {found}"), ""),
    };
    let maps = kinds(stages).into_values().map(|(kind, names)| {
        let (name, advice) = kind_name(kind);
        row(is_loaded || feature::has_map(kind as u32), name, names.join(", "), advice)
    });
    let mut rows: Vec<Row> = maps.collect();
    let helpers = helpers(stages);
    let refused: Vec<String> = if is_loaded || !permitted {
        Vec::new()
    } else {
        helpers.iter().filter(|helper| !works(**helper)).map(|helper| helper_name(*helper)).collect()
    };
    let names: Vec<String> = helpers.iter().map(|helper| helper_name(*helper).replacen("bpf_", "", 1)).collect();
    if !refused.is_empty() {
        rows.push(row(false, "helpers", refused.join(", "), "a newer kernel has them"));
    } else if !names.is_empty() {
        rows.push(row(true, "helpers", names.join(", "), ""));
    }
    rows.push(row(is_loaded, "programs", programs(stages, is_loaded), ""));
    rows
}

fn works(helper: Helper) -> bool {
    NOT_TRIED.contains(&helper) || TRIED.iter().any(|program| feature::has_helper(*program, helper as u32))
}

fn programs(stages: &Stages, is_loaded: bool) -> String {
    let functions = || stages.emitted.functions.iter().chain(&stages.emitted.subprograms);
    let (count, instructions) =
        (stages.object.programs.len(), functions().map(|function| function.insns.len()).sum::<usize>());
    let plural = if count == 1 { "" } else { "s" };
    let verified = if is_loaded { ", verified" } else { "" };
    format!("{count} program{plural} of {instructions} instructions{verified}")
}

/// The map types with their contents.
fn kinds(stages: &Stages) -> BTreeMap<u32, (MapKind, Vec<String>)> {
    let object = &stages.object;
    let mut kinds: BTreeMap<u32, (MapKind, Vec<String>)> = BTreeMap::new();
    for map in &stages.ir.maps {
        let name = shown_name(object, &map.name);
        let names = &mut kinds.entry(map.kind as u32).or_insert_with(|| (map.kind, Vec::new())).1;
        if !counted::is_counter(&name) && !names.contains(&name) {
            names.push(name);
        }
    }
    kinds
}

/// The script's name for a map of the object.
fn shown_name(object: &Object, name: &str) -> String {
    let holds = |storage: &Storage| match storage {
        Storage::Map { map, .. } => map == name,
        Storage::Threads(threads) => threads.map == name,
        Storage::Global { .. } => false,
    };
    let own = object
        .maps
        .iter()
        .find(|map| holds(&map.storage) || map.alternate.as_ref().is_some_and(|it| holds(&it.storage)));
    if let Some(map) = own {
        return map.name.clone();
    }
    match name {
        _ if object.data_ring.as_deref() == Some(name) => "printed output".into(),
        _ if object.control_ring.as_deref() == Some(name) => "control records".into(),
        _ if object.packets.as_ref().is_some_and(|buffers| buffers.map == name) => "packets".into(),
        _ if object.stack_tables.iter().any(|table| table.map.as_deref() == Some(name) || table.overflow == name) => {
            "stacks".into()
        }
        _ if name.starts_with("set_") => {
            let overflow = |place: &RodataLocation| place.overflow.as_deref() == Some(name);
            let param = object.params.iter().find(|param| param.place.as_ref().is_some_and(overflow));
            param.map_or_else(|| name.to_owned(), |param| format!("--{}", param.name.replace('_', "-")))
        }
        _ => object
            .spans
            .iter()
            .find(|span| name.contains(&span.name))
            .map_or_else(|| name.to_owned(), |span| format!("span {}", span.name)),
    }
}

/// The name of a map type, and what to do without it.
fn kind_name(kind: MapKind) -> (&'static str, &'static str) {
    match kind {
        MapKind::Hash => ("hash maps", ""),
        MapKind::Array => ("arrays", ""),
        MapKind::PerfEventArray => ("arrays of perf events", ""),
        MapKind::PerCpuHash => ("per-CPU hash maps", ""),
        MapKind::PerCpuArray => ("per-CPU arrays", ""),
        MapKind::StackTrace => ("stack tables", ""),
        MapKind::LruHash => ("LRU hash maps", "write `hash` instead of `lruhash`"),
        MapKind::LruPerCpuHash => ("per-CPU LRU hash maps", "write `percpuhash` instead of `percpulruhash`"),
        MapKind::RingBuf => ("ring buffers", "needs Linux 5.8 or later"),
        MapKind::TaskStorage => ("task storage", "needs Linux 5.11 or later"),
    }
}

/// The helpers that programs call, by number.
fn helpers(stages: &Stages) -> Vec<Helper> {
    let functions = stages.emitted.functions.iter().chain(&stages.emitted.subprograms);
    let called = functions.flat_map(|function| &function.notes).filter_map(|note| match note {
        Some(Note::Helper(helper)) => Some((*helper as u32, *helper)),
        _ => None,
    });
    called.collect::<BTreeMap<u32, Helper>>().into_values().collect()
}
