//! `limit N evict`: a start that finds no room takes that of the oldest.
//!
//! In: a start's step. Out: two walks over the map, the first for the time of the oldest, the second to close it.
//! Guarantee: each start that is closed so is counted once and has its event, and none is closed while there is room. Up to
//! [`MOST_FOR_ONE`] keys it is the oldest alone. Of more, what began shortly after it goes as well, so that not every start walks.

use super::sweep::Closing;
use crate::ir::{Addr, BinOp, CmpOp, Likely, Role, Size, Width};
use crate::lower::Body;
use crate::object::SpanCounter;
use crate::typed::{SpanEviction, SpanStep};

/// With so many keys both walks take a microsecond or two.
const MOST_FOR_ONE: u32 = 64;
/// With more, all goes that began in the first sixteenth of the time since the oldest began.
const SLICE_BITS: i64 = 4;

impl Body<'_, '_> {
    /// Makes room in a span's map.
    pub(super) fn evict_oldest(&mut self, step: &SpanStep, eviction: &SpanEviction) {
        let now = self.span_now();
        let moments = self.moments(now);
        let latest = self.scratch_at(moments.latest);
        // Nothing is younger than now.
        self.b.store(latest, now, Size::B8);
        let oldest = self.subprogram(Role::Entry, "oldest", |cx, given| {
            let (next, older) = (cx.b.new_block(), cx.b.new_block());
            let word = cx.b.load(Addr::reg(given[2], 0), Size::B8);
            let began = cx.began(word, next, next);
            let at = cx.scratch_at(moments.latest);
            let known = cx.b.load(at, Size::B8);
            cx.b.branch(CmpOp::Lt, Width::W64, began, known, older, next, Likely::Unknown);
            cx.b.switch_to(older);
            cx.b.store(at, began, Size::B8);
            cx.b.jump(next);
            cx.b.switch_to(next);
            cx.b.ret(0);
        });
        self.walk_span(step.span, oldest);
        let is_one = self.shared.program.spans[step.span.0].limit <= MOST_FOR_ONE;
        if !is_one {
            let at = self.scratch_at(moments.latest);
            let began = self.b.load(at, Size::B8);
            let age = self.time_since(began, now);
            let slice = self.b.bin(BinOp::Shr, Width::W64, age, SLICE_BITS);
            let latest = self.b.bin(BinOp::Add, Width::W64, began, slice);
            self.b.store(at, latest, Size::B8);
        }
        let closing = Closing {
            span: step.span,
            key: eviction.key,
            values: &eviction.values,
            handlers: &eviction.handlers,
            counter: SpanCounter::Evicted,
            one: is_one,
        };
        let closed = self.closing_walk("evict", closing, moments);
        self.walk_span(step.span, closed);
    }
}
