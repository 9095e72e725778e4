//! Kinds of maps and helpers that scripts need, each created or verified for a trial.
//!
//! In: nothing. Out: a row each.

use super::{NOT_PERMITTED, Row, State};
use crate::sys::feature;

/// `enum bpf_map_type` of include/uapi/linux/bpf.h, and what goes without.
const MAPS: &[(&str, u32, State, &str)] = &[
    ("hash maps", 1, State::Broken, ""),
    ("hash maps of each CPU", 5, State::Broken, ""),
    ("ring buffer", 27, State::Broken, "needs a kernel since 5.8"),
    ("task storage", 29, State::Missing, "state of threads needs a kernel since 5.11"),
];

/// `enum bpf_func_id`, for the type of programs that may call it.
const HELPERS: &[(&str, u32, State, &str)] = &[
    ("bpf_loop", 181, State::Missing, "`for`, `while` and sums over more than 8 CPUs need a kernel since 5.17"),
    ("bpf_for_each_map_elem", 164, State::Missing, "`for` over maps needs a kernel since 5.13"),
    ("bpf_get_attach_cookie", 174, State::Missing, "wildcards cost a program each before 5.15"),
    ("bpf_probe_read_kernel", 113, State::Broken, ""),
    ("bpf_probe_read_user", 112, State::Broken, ""),
];

/// `BPF_PROG_TYPE_PERF_EVENT`: it may call all of these.
const PERF_EVENT: u32 = 7;

/// All rows. Who may make no maps may ask nothing of helpers either.
pub(super) fn rows() -> Vec<Row> {
    let permitted = feature::has_map(MAPS[0].1);
    let row = |works: bool, name, (state, advice)| match (works, permitted) {
        (true, true) => Row::works(name, "there"),
        (false, true) => Row::fails(name, state, "the kernel refuses it", advice),
        (_, false) => Row::fails(name, state, NOT_PERMITTED, ""),
    };
    let maps = MAPS.iter().map(|(name, kind, state, advice)| row(feature::has_map(*kind), name, (*state, *advice)));
    let helpers = HELPERS
        .iter()
        .map(|(name, helper, state, advice)| row(feature::has_helper(PERF_EVENT, *helper), name, (*state, *advice)));
    maps.chain(helpers).collect()
}
