//! The oldest starts of a span with many keys: found by one walk, taken one by one.
//!
//! In: an eviction of a span. Out: a table in `.bss` with the keys and times of the oldest starts,
//! code that fills it and takes from it.
//! Guarantee: a program that takes a start from the table gets the oldest that is still open: any
//! start not in the table began later than all that were.
//!
//! The cost of a walk over the map grows with the number of keys, and one walk serves as many
//! evictions as the table has slots. One program at a time fills the table. A slot is taken by
//! exchanging its time for 0. An entry that has been closed or restarted since the walk has another
//! time in its word, and is skipped.

use super::evict::One;
use super::place::{KEY, OldestTable, PLACES};
use super::sweep::{self, Closing, Moments};
use super::{claim, values};
use crate::ir::{Addr, BinOp, CmpOp, Likely, Operand, Role, Section, Size, VReg, Width};
use crate::lower::loops::{self, Repeated};
use crate::lower::{Body, maps};
use crate::typed::SpanStep;

/// Offset of the flag that a program is filling the table.
const FILLS: u32 = 0;
/// Offset of the number of slots that have been filled.
const COUNT: u32 = 8;
/// A comparison of all slots, and the scratch offsets of its result.
#[derive(Debug, Clone, Copy)]
struct Extreme {
    walk: Repeated,
    /// The initial time, before the first comparison.
    none: i64,
    time: i32,
    place: i32,
}

/// The code that fills the table and takes from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct OldestWalks {
    table: OldestTable,
    fill: Repeated,
    take: Repeated,
}

/// Builds the subprograms that fill a table and close the oldest start in it.
pub(super) fn oldest_walks(
    cx: &mut Body<'_, '_>,
    table: OldestTable,
    closing: Closing<'_>,
    moments: Moments,
) -> OldestWalks {
    let (time, place) = (cx.scratch_room(8), cx.scratch_room(8));
    let oldest = Extreme { walk: comparison(cx, table, CmpOp::Lt, (time, place)), none: -1, time, place };
    let youngest = Extreme { walk: comparison(cx, table, CmpOp::Gt, (time, place)), none: 0, time, place };
    let fill = filling(cx, table, youngest);
    let take = taking(cx, table, oldest, closing, moments);
    OldestWalks { table, fill, take }
}

fn table_word(cx: &mut Body<'_, '_>, table: OldestTable, offset: u32) -> VReg {
    cx.b.data_addr(Section::Bss, table.offset + offset)
}

/// The address of a slot.
fn place_at(cx: &mut Body<'_, '_>, table: OldestTable, index: VReg) -> VReg {
    // Verifier: it cannot see that the index is bounded by construction.
    let index = cx.b.clamp(index, table.places - 1);
    let stride = i64::from(OldestTable::stride(table.key_size_bytes));
    let distance = cx.b.bin(BinOp::Mul, Width::W64, index, stride);
    let first = table_word(cx, table, PLACES);
    cx.b.bin(BinOp::Add, Width::W64, first, distance)
}

/// Compares one slot with the best so far.
fn comparison(cx: &mut Body<'_, '_>, table: OldestTable, op: CmpOp, (time, place): (i32, i32)) -> Repeated {
    loops::subprogram(cx, Role::Iteration, "compare", |cx, given| {
        let (some, better, next) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
        let at = place_at(cx, table, given[0]);
        let began = cx.b.load(Addr::reg(at, 0), Size::B8);
        cx.b.branch(CmpOp::Ne, Width::W64, began, 0, some, next, Likely::Then);
        cx.b.switch_to(some);
        let best_at = cx.scratch_at(time);
        let best = cx.b.load(best_at, Size::B8);
        cx.b.branch(op, Width::W64, began, best, better, next, Likely::Unknown);
        cx.b.switch_to(better);
        cx.b.store(best_at, began, Size::B8);
        let place_at = cx.scratch_at(place);
        cx.b.store(place_at, given[0], Size::B8);
        cx.b.jump(next);
        cx.b.switch_to(next);
        cx.b.ret(0);
    })
}

fn compare_all(cx: &mut Body<'_, '_>, table: OldestTable, extreme: Extreme) {
    let at = cx.scratch_at(extreme.time);
    cx.b.store(at, extreme.none, Size::B8);
    let rounds = Operand::Imm(i64::from(table.places));
    loops::run(cx, extreme.walk, |cx| loops::run_rounds(cx, extreme.walk, rounds), true);
}

/// Puts a map entry into a free slot, or into that of the youngest.
fn filling(cx: &mut Body<'_, '_>, table: OldestTable, youngest: Extreme) -> Repeated {
    let most = i64::from(table.places);
    loops::subprogram(cx, Role::Entry, "fill", |cx, given| {
        let next = cx.b.new_block();
        let word = cx.b.load(Addr::reg(given[2], 0), Size::B8);
        let began = sweep::start_time(cx, word, next, next);
        let [free, last, full, older] = std::array::from_fn(|_| cx.b.new_block());
        let counter = table_word(cx, table, COUNT);
        let count = cx.b.load(Addr::reg(counter, 0), Size::B8);
        cx.b.branch(CmpOp::Lt, Width::W64, count, most, free, full, Likely::Otherwise);
        cx.b.switch_to(free);
        let more = cx.b.bin(BinOp::Add, Width::W64, count, 1);
        cx.b.store(Addr::reg(counter, 0), more, Size::B8);
        put_in_place(cx, table, count, began, given[1]);
        cx.b.branch(CmpOp::Eq, Width::W64, more, most, last, next, Likely::Otherwise);
        cx.b.switch_to(full);
        let at = cx.scratch_at(youngest.time);
        let latest = cx.b.load(at, Size::B8);
        cx.b.branch(CmpOp::Lt, Width::W64, began, latest, older, next, Likely::Otherwise);
        cx.b.switch_to(older);
        let at = cx.scratch_at(youngest.place);
        let place = cx.b.load(at, Size::B8);
        put_in_place(cx, table, place, began, given[1]);
        cx.b.jump(last);
        cx.b.switch_to(last);
        compare_all(cx, table, youngest);
        cx.b.jump(next);
        cx.b.switch_to(next);
        cx.b.ret(0);
    })
}

fn put_in_place(cx: &mut Body<'_, '_>, table: OldestTable, place: VReg, began: VReg, key: VReg) {
    let at = place_at(cx, table, place);
    cx.copy(Addr::reg(at, KEY), Addr::reg(key, 0), table.key_size_bytes);
    cx.b.store(Addr::reg(at, 0), began, Size::B8);
}

/// Takes the oldest start from the table and closes it; continues with the next if it is not
/// open any more.
fn taking(
    cx: &mut Body<'_, '_>,
    table: OldestTable,
    oldest: Extreme,
    closing: Closing<'_>,
    moments: Moments,
) -> Repeated {
    loops::subprogram(cx, Role::Iteration, "take", |cx, _| {
        let (some, none, found, next) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
        compare_all(cx, table, oldest);
        let at = cx.scratch_at(oldest.time);
        let began = cx.b.load(at, Size::B8);
        cx.b.branch(CmpOp::Eq, Width::W64, began, oldest.none, none, some, Likely::Otherwise);
        cx.b.switch_to(none);
        cx.b.ret(1);
        cx.b.switch_to(some);
        let at = cx.scratch_at(oldest.place);
        let index = cx.b.load(at, Size::B8);
        let place = place_at(cx, table, index);
        claim::exchange_for(cx, place, began, 0, next);
        // The slot may be refilled meanwhile, but the key must stay the one that found the
        // element.
        let own = cx.memory(table.key_size_bytes, "key");
        cx.copy(own, Addr::reg(place, KEY), table.key_size_bytes);
        let latest = cx.scratch_at(moments.latest);
        cx.b.store(latest, began, Size::B8);
        let id = values::place_of(cx, closing.span).id;
        let element = maps::look_up(cx, id, own);
        cx.b.branch(CmpOp::Ne, Width::W64, element, 0, found, next, Likely::Then);
        cx.b.switch_to(found);
        let key = cx.address(own);
        sweep::close_entry(cx, closing, moments, (key, element), next);
        cx.b.jump(next);
        cx.b.switch_to(next);
        cx.b.ret(0);
    })
}

/// Closes the oldest start and sets `one.done`, which stays 0 if none was closed. Jumps to
/// `direct` if another program is filling the table.
pub(super) fn take_oldest(
    cx: &mut Body<'_, '_>,
    step: &SpanStep,
    walks: OldestWalks,
    one: One,
    direct: crate::ir::BlockId,
) {
    let table = walks.table;
    let [free, empty, done] = std::array::from_fn(|_| cx.b.new_block());
    let fills = table_word(cx, table, FILLS);
    let is_filling = cx.b.load(Addr::reg(fills, 0), Size::B8);
    cx.b.branch(CmpOp::Eq, Width::W64, is_filling, 0, free, direct, Likely::Then);
    cx.b.switch_to(free);
    take_one(cx, walks, one);
    let at = cx.scratch_at(one.done);
    let is_done = cx.b.load(at, Size::B8);
    cx.b.branch(CmpOp::Ne, Width::W64, is_done, 0, done, empty, Likely::Then);
    cx.b.switch_to(empty);
    let nobody = cx.b.copy(0);
    claim::exchange_for(cx, fills, nobody, 1, direct);
    let counter = table_word(cx, table, COUNT);
    cx.b.store(Addr::reg(counter, 0), 0, Size::B8);
    sweep::walk_span(cx, step.span, walks.fill);
    let nobody = cx.b.copy(0);
    claim::publish(cx, fills, nobody);
    take_one(cx, walks, one);
    cx.b.jump(done);
    cx.b.switch_to(done);
}

fn take_one(cx: &mut Body<'_, '_>, walks: OldestWalks, one: One) {
    let at = cx.scratch_at(one.done);
    cx.b.store(at, 0, Size::B8);
    // Each iteration empties a slot; one more finds that none is left.
    let rounds = Operand::Imm(i64::from(walks.table.places) + 1);
    loops::run(cx, walks.take, |cx| loops::run_rounds(cx, walks.take, rounds), true);
}
