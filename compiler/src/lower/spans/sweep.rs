//! The sweep of a span: closes starts that are too old.
//!
//! In: a sweep's step, or another source of the age limit. Out: a walk over the map that runs the
//! event's handlers.
//! Guarantee: an entry that an end, a start or another walk closes at the same time is left to it.

use super::claim::{self, Claimed, Entry};
use super::word::{FIRST_OPEN, LEFT_OVER, MARKING, STAGE_BITS, STAGE_MASK};
use super::{close, ledger, values};
use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, Operand, Role, Size, VReg, Width};
use crate::lower::loops::{self, Repeated};
use crate::lower::{Body, Value, params};
use crate::object::SpanCounter;
use crate::typed::{SpanIndex, SpanStep, SpanValues, Stmt, VarIndex};

/// What a walk does with each start that it closes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closing<'a> {
    pub span: SpanIndex,
    /// The variable that receives the key.
    pub key: VarIndex,
    /// The values that the handlers read.
    pub values: &'a SpanValues,
    /// The handlers to run.
    pub handlers: &'a [Vec<Stmt>],
    /// The counter to increment.
    pub counter: SpanCounter,
    /// Scratch offset of the flag that the walk has closed one start, after which it stops; `None`
    /// if it closes all.
    pub one: Option<i32>,
}

/// A walk's times, as scratch offsets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moments {
    /// The time at which the walk began.
    pub now: i32,
    /// Starts later than this stay open.
    pub latest: i32,
}

pub(super) fn sweep_span(cx: &mut Body<'_, '_>, step: &SpanStep) {
    let age_ns = age_limit(cx, step);
    let now = values::now(cx);
    let latest = time_since_fixed(cx, age_ns, now);
    let moments = moments(cx);
    for (offset, moment) in [(moments.now, now), (moments.latest, latest)] {
        let at = cx.scratch_at(offset);
        cx.b.store(at, moment, Size::B8);
    }
    let closing = Closing {
        span: step.span,
        key: step.key,
        values: &step.values,
        handlers: &step.handlers,
        counter: SpanCounter::Expired,
        one: None,
    };
    let repeated = closing_walk(cx, "sweep", closing, moments);
    walk_span(cx, step.span, repeated);
}

/// The maximum age of a start. A parameter is loaded at run time, so that changing it does not
/// change the program.
fn age_limit(cx: &mut Body<'_, '_>, step: &SpanStep) -> Operand {
    let span = &cx.shared.program.spans[step.span.0];
    let constant = span.expire_ns.unwrap_or(u64::MAX >> 1) as i64;
    match span.expire_param.map(|index| params::value(cx, index)) {
        Some(Value::Scalar(value)) => value,
        _ => constant.into(),
    }
}

/// The time `age_ns` before `now`; 0 if that is before boot.
fn time_since_fixed(cx: &mut Body<'_, '_>, age_ns: Operand, now: VReg) -> VReg {
    let age = cx.b.copy(age_ns);
    values::time_since(cx, age, now)
}

/// Reserves scratch memory for a walk's times.
pub(super) fn moments(cx: &mut Body<'_, '_>) -> Moments {
    Moments { now: cx.scratch_room(8), latest: cx.scratch_room(8) }
}

/// The subprogram that closes each start of a span that is old enough.
pub(super) fn closing_walk(cx: &mut Body<'_, '_>, word: &str, closing: Closing<'_>, moments: Moments) -> Repeated {
    loops::subprogram(cx, Role::Entry, word, |cx, given| {
        let next = cx.b.new_block();
        close_entry(cx, closing, moments, (given[1], given[2]), next);
        cx.b.jump(next);
        cx.b.switch_to(next);
        cx.b.ret(0);
    })
}

/// Runs a subprogram for each entry of a span's map.
pub(super) fn walk_span(cx: &mut Body<'_, '_>, span: SpanIndex, repeated: Repeated) {
    let id = values::place_of(cx, span).id;
    let walk = |cx: &mut Body<'_, '_>| {
        let frame = loops::frame_argument(cx);
        let args = [Arg::Map(id), Arg::Function(repeated.function), frame, Arg::Value(0.into())];
        cx.b.call_void(Helper::ForEachMapElem, &args);
    };
    loops::run(cx, repeated, walk, true);
}

/// The start time of an entry that is open and that no mark is writing to; otherwise jumps to
/// `closed` or `next`.
pub(super) fn start_time(cx: &mut Body<'_, '_>, word: VReg, closed: BlockId, next: BlockId) -> VReg {
    let (open, idle) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Ge, Width::W64, word, FIRST_OPEN, open, closed, Likely::Then);
    cx.b.switch_to(open);
    let stage = cx.b.bin(BinOp::And, Width::W64, word, STAGE_MASK);
    cx.b.branch(CmpOp::Ne, Width::W64, stage, MARKING, idle, next, Likely::Then);
    cx.b.switch_to(idle);
    cx.b.bin(BinOp::Shr, Width::W64, word, STAGE_BITS)
}

/// Closes an entry that is old enough; jumps to `next` if it is not.
pub(super) fn close_entry(
    cx: &mut Body<'_, '_>,
    closing: Closing<'_>,
    moments: Moments,
    (key, element): (VReg, VReg),
    next: BlockId,
) {
    let place = values::place_of(cx, closing.span);
    let word = cx.b.load(Addr::reg(element, 0), Size::B8);
    let (closed, old) = (cx.b.new_block(), cx.b.new_block());
    let began = start_time(cx, word, closed, next);
    let at = cx.scratch_at(moments.latest);
    let latest = cx.b.load(at, Size::B8);
    cx.b.branch(CmpOp::Le, Width::W64, began, latest, old, next, Likely::Otherwise);
    cx.b.switch_to(old);
    // The key is read before the word is exchanged: if the exchange succeeds, the element was
    // this key's all the while.
    let own = copied_key(cx, closing, key);
    claim::exchange_for(cx, element, word, 0, next);
    let at = cx.scratch_at(moments.now);
    let now = cx.b.load(at, Size::B8);
    let claimed = Claimed { element, word };
    values::take_values(cx, closing.span, closing.values, claimed.into(), Some(now));
    close::free_element(cx, Entry { place: &place, key: own }, claimed);
    let ledger = ledger::ledger_of(cx, closing.span);
    ledger::count_span(cx, ledger, closing.counter);
    ledger::count_out_of(cx, ledger, word);
    values::run_handlers(cx, closing.handlers);
    if let Some(offset) = closing.one {
        let at = cx.scratch_at(offset);
        cx.b.store(at, 1, Size::B8);
        cx.b.ret(1);
    } else {
        cx.b.jump(next);
    }
    // No program owns a left-over element.
    cx.b.switch_to(closed);
    let left = cx.b.new_block();
    cx.b.branch(CmpOp::Eq, Width::W64, word, LEFT_OVER, left, next, Likely::Otherwise);
    cx.b.switch_to(left);
    let own = copied_key(cx, closing, key);
    claim::exchange_for(cx, element, word, 0, next);
    close::free_element(cx, Entry { place: &place, key: own }, Claimed { element, word });
}

fn copied_key(cx: &mut Body<'_, '_>, closing: Closing<'_>, key: VReg) -> Addr {
    let size_bytes = cx.shared.ir.maps[values::place_of(cx, closing.span).id.0 as usize].key_size_bytes;
    let own = values::key_in(cx, closing.key);
    cx.copy(own, Addr::reg(key, 0), size_bytes);
    own
}
