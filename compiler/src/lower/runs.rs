//! Counts the runs of programs at perf events. The kernel silently skips such a run while another
//! program attached through perf runs on that CPU.
//!
//! In: the probe's attachment. Out: code at the start of its program, and a [`RunCounter`].
//! Guarantee: a clock tick that the kernel merged with a later one, because its interrupt came
//! late, is counted separately from one at which the program did not run.

use crate::ir::{Addr, BinOp, CmpOp, Helper, Likely, Operand, Section, Size, VReg, Width};
use crate::lower::{Body, prologue};
use crate::object::{Attach, MERGED_TICKS_BYTES, RunCounter};

/// Offset of the event in `bpf_perf_event_data_kern`. The program may compute this address from the
/// context, but not load from it directly.
const EVENT_BYTES: i64 = 16;

/// Offset of the time of the last run in each copy of the counter.
const LAST_RUN_BYTES: i32 = 16;

/// Two runs may be up to `period + period / JITTER_SHARE` apart without a tick between them.
const JITTER_SHARE: u64 = 16;

/// A cache line.
const STRIDE_BYTES: u32 = 64;

/// The `.bss` offset of the word that holds where in a perf event its timer's expiry time is.
fn expiry_offset(cx: &mut Body<'_, '_>) -> u32 {
    cx.shared.word(|shared| &mut shared.expiry)
}

/// Counts a run of a program at a perf event. The program cannot be re-entered on a CPU, so no
/// atomic operation is needed.
pub(super) fn count(cx: &mut Body<'_, '_>) {
    if !matches!(cx.probe.attach, Attach::PerfEvent { .. }) {
        return;
    }
    let copies = cx.shared.cpu_slots();
    let offset_bytes = cx.shared.bss_aligned(STRIDE_BYTES * copies, STRIDE_BYTES);
    let counter = RunCounter { program: cx.index, offset_bytes, stride_bytes: STRIDE_BYTES, copies };
    cx.shared.run_counters.push(counter);
    let own = cx.cpu_copy(offset_bytes, STRIDE_BYTES);
    add_to(cx, Addr::reg(own, 0), 1);
    if let Some(period_ns) = cx.probe.attach.clock_period_ns() {
        count_merged(cx, own, period_ns);
    }
}

/// The kernel delivers one tick for all that are due when the timer interrupt arrives. The
/// whole periods by which this run is late are ticks that get no run of their own.
fn count_merged(cx: &mut Body<'_, '_>, own: VReg, period_ns: u64) {
    let (gap, known, read, late, next) =
        (cx.b.new_block(), cx.b.new_block(), cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    // A run about one period after the previous one is not late by a period. Reading when it
    // was due costs 170 ns.
    let now = cx.b.call(Helper::KtimeGetNs, &[]);
    let last = Addr::reg(own, LAST_RUN_BYTES);
    let before = cx.b.load(last, Size::B8);
    cx.b.store(last, now, Size::B8);
    let since = cx.b.bin(BinOp::Sub, Width::W64, now, before);
    let usual_ns = period_ns + period_ns / JITTER_SHARE;
    cx.b.branch(CmpOp::Gt, Width::W64, since, usual_ns as i64, gap, next, Likely::Otherwise);
    cx.b.switch_to(gap);
    let word = expiry_offset(cx);
    let word = cx.b.data_addr(Section::Bss, word);
    let offset = cx.b.load(Addr::reg(word, 0), Size::B8);
    cx.b.branch(CmpOp::Ne, Width::W64, offset, 0, known, next, Likely::Then);
    cx.b.switch_to(known);
    let context = cx.b.context();
    let event = prologue::read_kernel_scalar(cx, context, EVENT_BYTES, Size::B8);
    let place = cx.b.bin(BinOp::Add, Width::W64, event, offset);
    let expiry = prologue::read_kernel_scalar(cx, place, 0, Size::B8);
    cx.b.branch(CmpOp::Ne, Width::W64, expiry, 0, read, next, Likely::Then);
    cx.b.switch_to(read);
    let late_ns = cx.b.bin(BinOp::Sub, Width::W64, now, expiry);
    cx.b.branch(CmpOp::SGe, Width::W64, late_ns, period_ns as i64, late, next, Likely::Otherwise);
    cx.b.switch_to(late);
    let merged = cx.b.bin(BinOp::Div, Width::W64, late_ns, period_ns as i64);
    add_to(cx, Addr::reg(own, MERGED_TICKS_BYTES as i32), merged);
    cx.b.jump(next);
    cx.b.switch_to(next);
}

fn add_to(cx: &mut Body<'_, '_>, place: Addr, n: impl Into<Operand>) {
    let before = cx.b.load(place, Size::B8);
    let after = cx.b.bin(BinOp::Add, Width::W64, before, n);
    cx.b.store(place, after, Size::B8);
}
