//! `limit N evict`: a start that finds no room takes that of the oldest.
//!
//! In: a start's step. Out: two walks over the map, the first for the time of the oldest, the second to close it.
//! Guarantee: each start that is closed so is counted once and has its event, and none is closed while there is room. Up to
//! [`MOST_FOR_ONE`] keys it is the oldest alone, and the second oldest for the other one of two starts that come at once. Of more keys, what
//! began shortly after it goes as well, so that not every start walks.

use super::sweep::{Closing, Moments};
use crate::ir::{Addr, BinOp, CmpOp, Likely, Role, Size, Width};
use crate::lower::Body;
use crate::lower::loops::Repeated;
use crate::object::SpanCounter;
use crate::typed::{SpanEviction, SpanStep};

/// With so many keys both walks take a microsecond or two.
const MOST_FOR_ONE: u32 = 64;
/// With more, all goes that began in the first sixteenth of the time since the oldest began.
const SLICE_BITS: i64 = 4;

/// How often a start makes room, where another CPU takes it.
pub(super) const ROUNDS: u32 = 2;

/// The walks of a start that makes room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walks {
    moments: Moments,
    oldest: Repeated,
    closed: Repeated,
    one: Option<One>,
}

/// What a start knows, in scratch memory, that closes one.
#[derive(Debug, Clone, Copy)]
struct One {
    /// When the second oldest began.
    second: i32,
    /// Whether one was closed.
    done: i32,
}

impl Body<'_, '_> {
    /// What makes room in a span's map.
    pub(super) fn walks(&mut self, step: &SpanStep, eviction: &SpanEviction) -> Walks {
        let moments = self.moments();
        let is_one = self.shared.program.spans[step.span.0].limit <= MOST_FOR_ONE;
        let one = is_one.then(|| One { second: self.scratch_room(8), done: self.scratch_room(8) });
        let oldest = self.oldest_walk(moments, one);
        let closing = Closing {
            span: step.span,
            key: eviction.key,
            values: &eviction.values,
            handlers: &eviction.handlers,
            counter: SpanCounter::Evicted,
            one: one.map(|one| one.done),
        };
        let closed = self.closing_walk("evict", closing, moments);
        Walks { moments, oldest, closed, one }
    }

    /// Looks for the time of the oldest, and of the second oldest.
    fn oldest_walk(&mut self, moments: Moments, one: Option<One>) -> Repeated {
        self.subprogram(Role::Entry, "oldest", |cx, given| {
            let (next, older, younger) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
            let word = cx.b.load(Addr::reg(given[2], 0), Size::B8);
            let began = cx.began(word, next, next);
            let at = cx.scratch_at(moments.latest);
            let known = cx.b.load(at, Size::B8);
            cx.b.branch(CmpOp::Lt, Width::W64, began, known, older, younger, Likely::Unknown);
            cx.b.switch_to(older);
            cx.b.store(at, began, Size::B8);
            if let Some(one) = one {
                let at = cx.scratch_at(one.second);
                cx.b.store(at, known, Size::B8);
            }
            cx.b.jump(next);
            cx.b.switch_to(younger);
            if let Some(one) = one {
                let at = cx.scratch_at(one.second);
                let (second, older) = (cx.b.load(at, Size::B8), cx.b.new_block());
                cx.b.branch(CmpOp::Lt, Width::W64, began, second, older, next, Likely::Unknown);
                cx.b.switch_to(older);
                cx.b.store(at, began, Size::B8);
            }
            cx.b.jump(next);
            cx.b.switch_to(next);
            cx.b.ret(0);
        })
    }

    /// Makes room in a span's map.
    pub(super) fn evict_oldest(&mut self, step: &SpanStep, walks: Walks) {
        let Walks { moments, oldest, closed, one } = walks;
        let now = self.span_now();
        // Nothing is younger than now.
        for offset in [moments.now, moments.latest].into_iter().chain(one.map(|one| one.second)) {
            let at = self.scratch_at(offset);
            self.b.store(at, now, Size::B8);
        }
        self.walk_span(step.span, oldest);
        let latest = self.scratch_at(moments.latest);
        let Some(one) = one else {
            let began = self.b.load(latest, Size::B8);
            let age = self.time_since(began, now);
            let slice = self.b.bin(BinOp::Shr, Width::W64, age, SLICE_BITS);
            let end = self.b.bin(BinOp::Add, Width::W64, began, slice);
            self.b.store(latest, end, Size::B8);
            return self.walk_span(step.span, closed);
        };
        let done = self.scratch_at(one.done);
        self.b.store(done, 0, Size::B8);
        self.walk_span(step.span, closed);
        // Another CPU has closed the oldest, for a start of its own.
        let is_done = self.b.load(done, Size::B8);
        let (lost, room) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Eq, Width::W64, is_done, 0, lost, room, Likely::Otherwise);
        self.b.switch_to(lost);
        let second = self.scratch_at(one.second);
        let began = self.b.load(second, Size::B8);
        self.b.store(latest, began, Size::B8);
        self.walk_span(step.span, closed);
        self.b.jump(room);
        self.b.switch_to(room);
    }
}
