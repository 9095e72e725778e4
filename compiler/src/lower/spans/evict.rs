//! `limit N evict`: a start that finds the map full evicts the oldest.
//!
//! In: a start's step. Out: two walks over the map, the first to find the time of the oldest, the
//! second to close it. With many keys, code that takes the oldest from a table.
//! Guarantee: each evicted start is counted once and has its event, and none is evicted while the
//! map has space. Only the oldest is evicted; of two concurrent starts, the second evicts the
//! second oldest.

use super::oldest::{self, OldestWalks};
use super::place::OldestTable;
use super::sweep::{self, Closing, Moments};
use super::values;
use crate::ir::{Addr, CmpOp, Likely, Role, Size, Width};
use crate::lower::Body;
use crate::lower::loops::{self, Repeated};
use crate::lower::shared::Shared;
use crate::object::SpanCounter;
use crate::typed::{SpanEviction, SpanStep};

/// With up to this many keys, both walks together take a microsecond or two.
const MOST_WITHOUT_TABLE: u32 = 64;

/// How often a start evicts, in case another CPU takes the space.
pub(super) const ROUNDS: u32 = 2;

/// The walks of a start that evicts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walks {
    moments: Moments,
    oldest: Repeated,
    closed: Repeated,
    one: One,
    table: Option<OldestWalks>,
}

/// State of a start that evicts one, as scratch offsets.
#[derive(Debug, Clone, Copy)]
pub(super) struct One {
    /// The start time of the second oldest.
    second: i32,
    /// Whether one was closed.
    pub done: i32,
}

impl Shared<'_> {
    /// The table of the oldest starts of a span that evicts and has many keys.
    pub(super) fn oldest_table(&mut self, index: usize, key_size_bytes: u32) -> Option<OldestTable> {
        let span = &self.program.spans[index];
        let limit = span.limit;
        (span.evicts && limit > MOST_WITHOUT_TABLE).then(|| {
            let offset = self.bss(OldestTable::size_bytes(limit, key_size_bytes));
            OldestTable::new(offset, limit, key_size_bytes)
        })
    }
}

/// Builds the walks that make space in a span's map.
pub(super) fn walks(cx: &mut Body<'_, '_>, step: &SpanStep, eviction: &SpanEviction) -> Walks {
    let moments = sweep::moments(cx);
    let one = One { second: cx.scratch_room(8), done: cx.scratch_room(8) };
    let oldest = oldest_walk(cx, moments, one);
    let closing = Closing {
        span: step.span,
        key: eviction.key,
        values: &eviction.values,
        handlers: &eviction.handlers,
        counter: SpanCounter::Evicted,
        one: Some(one.done),
    };
    let closed = sweep::closing_walk(cx, "evict", closing, moments);
    let table = values::place_of(cx, step.span).oldest;
    let table = table.map(|table| oldest::oldest_walks(cx, table, closing, moments));
    Walks { moments, oldest, closed, one, table }
}

/// Finds the times of the oldest and of the second oldest.
fn oldest_walk(cx: &mut Body<'_, '_>, moments: Moments, one: One) -> Repeated {
    loops::subprogram(cx, Role::Entry, "oldest", |cx, given| {
        let (next, older, younger) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
        let word = cx.b.load(Addr::reg(given[2], 0), Size::B8);
        let began = sweep::start_time(cx, word, next, next);
        let at = cx.scratch_at(moments.latest);
        let known = cx.b.load(at, Size::B8);
        cx.b.branch(CmpOp::Lt, Width::W64, began, known, older, younger, Likely::Unknown);
        cx.b.switch_to(older);
        cx.b.store(at, began, Size::B8);
        let at = cx.scratch_at(one.second);
        cx.b.store(at, known, Size::B8);
        cx.b.jump(next);
        cx.b.switch_to(younger);
        let at = cx.scratch_at(one.second);
        let (second, older) = (cx.b.load(at, Size::B8), cx.b.new_block());
        cx.b.branch(CmpOp::Lt, Width::W64, began, second, older, next, Likely::Unknown);
        cx.b.switch_to(older);
        cx.b.store(at, began, Size::B8);
        cx.b.jump(next);
        cx.b.switch_to(next);
        cx.b.ret(0);
    })
}

/// Makes space in a span's map.
pub(super) fn evict_oldest(cx: &mut Body<'_, '_>, step: &SpanStep, walks: Walks) {
    let now = values::now(cx);
    let at = cx.scratch_at(walks.moments.now);
    cx.b.store(at, now, Size::B8);
    let Some(table) = walks.table else { return evict_by_walks(cx, step, walks) };
    let (direct, room) = (cx.b.new_block(), cx.b.new_block());
    oldest::take_oldest(cx, step, table, walks.one, direct);
    cx.b.jump(room);
    cx.b.switch_to(direct);
    evict_by_walks(cx, step, walks);
    cx.b.jump(room);
    cx.b.switch_to(room);
}

fn evict_by_walks(cx: &mut Body<'_, '_>, step: &SpanStep, walks: Walks) {
    let Walks { moments, oldest, closed, one, .. } = walks;
    let at = cx.scratch_at(moments.now);
    let now = cx.b.load(at, Size::B8);
    // Nothing is younger than now.
    for offset in [moments.latest, one.second] {
        let at = cx.scratch_at(offset);
        cx.b.store(at, now, Size::B8);
    }
    sweep::walk_span(cx, step.span, oldest);
    let done = cx.scratch_at(one.done);
    cx.b.store(done, 0, Size::B8);
    sweep::walk_span(cx, step.span, closed);
    // Another CPU has closed the oldest for a start of its own.
    let is_done = cx.b.load(done, Size::B8);
    let (lost, room) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(CmpOp::Eq, Width::W64, is_done, 0, lost, room, Likely::Otherwise);
    cx.b.switch_to(lost);
    let second = cx.scratch_at(one.second);
    let began = cx.b.load(second, Size::B8);
    let latest = cx.scratch_at(moments.latest);
    cx.b.store(latest, began, Size::B8);
    sweep::walk_span(cx, step.span, closed);
    cx.b.jump(room);
    cx.b.switch_to(room);
}
