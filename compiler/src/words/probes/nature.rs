//! Descriptions of probes that several kinds share.
//!
//! In: nothing. Out: [`Nature`]s.
//! Guarantee: plain data.

use crate::catalogue::Nature;

/// What an event of profiler itself is.
pub(super) const OWN_EVENT: Nature = Nature { what: "event of profiler itself", lasts: "stable", way: "" };

/// What a counted perf event is.
pub(super) const COUNTED_EVENT: Nature = Nature {
    what: "event counted by the kernel or the CPU",
    lasts: "stable",
    way: "an interrupt per run; the number after the last colon is the number of events per run",
};

/// What a function of the kernel is, which the kernel reaches in this way.
pub(super) const fn kernel_function(way: &'static str) -> Nature {
    Nature {
        what: "kernel function",
        lasts: "this kernel version only: later ones may rename, change or inline it; inlined calls do not fire",
        way,
    }
}
