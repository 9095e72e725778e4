//! Atomically claims a span's map entry (compare-and-exchange on its word).
//!
//! In: a key's address. Out: the element's address and its previous word, if the exchange
//! succeeded.
//! Guarantee: exactly one of several concurrent closers of a start wins.

use super::place::SpanPlace;
use super::values::Start;
use super::word::{FIRST_OPEN, MARKING, STAGE_MASK};
use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Inst, Likely, Operand, Size, VReg, Width};
use crate::lower::{Body, maps};

/// `BPF_LOCAL_STORAGE_GET_F_CREATE`: a new value is zeros.
pub(super) const CREATE: i64 = 1;

/// Number of attempts when another program is changing the element.
pub(super) const TRIES: u32 = 4;

/// A key of a span's map.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub place: &'a SpanPlace,
    /// Address of the key.
    pub key: Addr,
}

/// A claimed element.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claimed {
    /// Address of the element's value.
    pub element: VReg,
    /// The word before the exchange.
    pub word: VReg,
}

/// Where to go if nothing was claimed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Otherwise {
    /// Nothing is open under the key.
    pub absent: BlockId,
    /// Contended: every attempt lost the race.
    pub busy: BlockId,
}

/// The new word.
#[derive(Debug, Clone, Copy)]
pub(super) enum Exchange {
    /// 0: the span is closed.
    Close,
    /// The same time with another stage.
    Stage(i64),
}

/// Exchanges the word of the span that is open under a key; continues if that succeeded.
pub(super) fn claim(cx: &mut Body<'_, '_>, entry: Entry<'_>, exchange: Exchange, otherwise: Otherwise) -> Claimed {
    let claimed = Claimed { element: cx.b.new_vreg(), word: cx.b.new_vreg() };
    let got = cx.b.new_block();
    // Only an interrupt of the same thread can contend for the thread's own storage.
    for _ in 0..if entry.place.in_threads { 1 } else { TRIES } {
        let next = cx.b.new_block();
        let element = find_start(cx, entry);
        let found = cx.b.new_block();
        cx.b.branch(CmpOp::Ne, Width::W64, element, 0, found, otherwise.absent, Likely::Then);
        cx.b.switch_to(found);
        let word = cx.b.load(Addr::reg(element, 0), Size::B8);
        let open = cx.b.new_block();
        cx.b.branch(CmpOp::Ge, Width::W64, word, FIRST_OPEN, open, otherwise.absent, Likely::Then);
        cx.b.switch_to(open);
        exchange_word(cx, entry, Claimed { element, word }, exchange, next);
        cx.b.assign(claimed.element, element);
        cx.b.assign(claimed.word, word);
        cx.b.jump(got);
        cx.b.switch_to(next);
    }
    cx.b.jump(otherwise.busy);
    cx.b.switch_to(got);
    claimed
}

/// The address of a key's element, or 0.
fn find_start(cx: &mut Body<'_, '_>, Entry { place, key }: Entry<'_>) -> VReg {
    if place.in_threads { in_storage(cx, place, 0) } else { maps::look_up(cx, place.id, key) }
}

/// Exchanges a word that was read from an element, if the element belonged to the key at that
/// time and the word has not changed since; else jumps to `next`.
pub(super) fn exchange_word(cx: &mut Body<'_, '_>, entry: Entry<'_>, at: Claimed, exchange: Exchange, next: BlockId) {
    let Entry { place, key } = entry;
    if place.in_turns {
        let new = exchanged(cx, at.word, exchange);
        cx.b.store(Addr::reg(at.element, 0), new, Size::B8);
        return;
    }
    if place.has_marks {
        let stage = cx.b.bin(BinOp::And, Width::W64, at.word, STAGE_MASK);
        let idle = cx.b.new_block();
        cx.b.branch(CmpOp::Ne, Width::W64, stage, MARKING, idle, next, Likely::Then);
        cx.b.switch_to(idle);
    }
    if !place.in_threads {
        let again = maps::look_up(cx, place.id, key);
        let same = cx.b.new_block();
        cx.b.branch(CmpOp::Eq, Width::W64, again, at.element, same, next, Likely::Then);
        cx.b.switch_to(same);
    }
    let new = exchanged(cx, at.word, exchange);
    exchange_for(cx, at.element, at.word, new, next);
}

/// The new word.
fn exchanged(cx: &mut Body<'_, '_>, word: VReg, exchange: Exchange) -> Operand {
    match exchange {
        Exchange::Close => 0.into(),
        Exchange::Stage(stage) => word_in_stage(cx, word, stage).into(),
    }
}

/// Exchanges an element's word if it still is the one that was read; else jumps to `next`.
pub(super) fn exchange_for(cx: &mut Body<'_, '_>, element: VReg, word: VReg, new: impl Into<Operand>, next: BlockId) {
    let (seen, new) = (cx.b.new_vreg(), cx.b.copy(new));
    cx.b.inst(Inst::CompareExchange { dst: seen, addr: Addr::reg(element, 0), expected: word, new });
    let done = cx.b.new_block();
    cx.b.branch(CmpOp::Eq, Width::W64, seen, word, done, next, Likely::Then);
    cx.b.switch_to(done);
}

/// A word with the same time and another stage.
pub(super) fn word_in_stage(cx: &mut Body<'_, '_>, word: VReg, stage: i64) -> VReg {
    let time = cx.b.bin(BinOp::And, Width::W64, word, !STAGE_MASK);
    cx.b.bin(BinOp::Or, Width::W64, time, stage)
}

/// Sets the word of an element in a span's map or in task-local storage; a plain store if no
/// other program can interfere.
pub(super) fn publish_in(cx: &mut Body<'_, '_>, place: &SpanPlace, element: VReg, word: VReg) {
    if place.in_turns {
        cx.b.store(Addr::reg(element, 0), word, Size::B8);
    } else {
        publish(cx, element, word);
    }
}

/// Sets the word of an element that this program owns, and so releases it to other programs.
pub(super) fn publish(cx: &mut Body<'_, '_>, element: VReg, word: VReg) {
    let old = cx.b.new_vreg();
    cx.b.inst(Inst::Exchange { dst: old, addr: Addr::reg(element, 0), src: word });
}

/// The address of the current thread's value, or 0.
pub(super) fn in_storage(cx: &mut Body<'_, '_>, place: &SpanPlace, flags: i64) -> VReg {
    // Since 5.11: a typed task pointer.
    let task = cx.b.call(Helper::GetCurrentTaskBtf, &[]);
    let args = [Arg::Map(place.id), task.into(), Arg::Value(0.into()), Arg::Value(flags.into())];
    cx.b.call(Helper::TaskStorageGet, &args)
}

impl From<Claimed> for Start {
    fn from(claimed: Claimed) -> Start {
        Start { at: Addr::reg(claimed.element, 0), word: claimed.word }
    }
}
