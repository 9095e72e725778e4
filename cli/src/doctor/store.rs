//! Map types and helpers that scripts need, each created or verified as a test.
//!
//! In: nothing. Out: one row each.

use super::{NOT_PERMITTED, Row, State};
use profiler_runtime::sys::feature;

/// `enum bpf_map_type` of include/uapi/linux/bpf.h, with advice for kernels without it.
const MAPS: &[(&str, u32, State, &str)] = &[
    ("hash maps", 1, State::Broken, ""),
    ("per-CPU hash maps", 5, State::Broken, ""),
    ("ring buffer", 27, State::Broken, "needs Linux 5.8 or later"),
    ("task storage", 29, State::Missing, "`state` by `tid` needs Linux 5.11 or later"),
];

/// `enum bpf_func_id`, tested in a program type that may call it.
const HELPERS: &[(&str, u32, State, &str)] = &[
    ("bpf_loop", 181, State::Missing, "`for`, `while` and sums over more than 8 CPUs need Linux 5.17 or later"),
    ("bpf_for_each_map_elem", 164, State::Missing, "`for` over maps needs Linux 5.13 or later"),
    ("bpf_get_attach_cookie", 174, State::Missing, "before Linux 5.15, a wildcard needs one program per match"),
    ("bpf_probe_read_kernel", 113, State::Broken, ""),
    ("bpf_probe_read_user", 112, State::Broken, ""),
];

/// `BPF_PROG_TYPE_PERF_EVENT`: it may call all of these.
const PERF_EVENT: u32 = 7;

/// All rows. Without the privilege to create maps, helpers cannot be tested either.
pub(super) fn rows() -> Vec<Row> {
    let permitted = feature::has_map(MAPS[0].1);
    let row = |works: bool, name, (state, advice)| match (works, permitted) {
        (true, true) => Row::works(name, "available"),
        (false, true) => Row::fails(name, state, "the kernel refuses it", advice),
        (_, false) => Row::fails(name, state, NOT_PERMITTED, ""),
    };
    let maps = MAPS.iter().map(|(name, kind, state, advice)| row(feature::has_map(*kind), name, (*state, *advice)));
    let helpers = HELPERS
        .iter()
        .map(|(name, helper, state, advice)| row(feature::has_helper(PERF_EVENT, *helper), name, (*state, *advice)));
    maps.chain(helpers).collect()
}
