//! Taking hold of what a key has in a span's map.
//!
//! In: a key's address. Out: the element's address and the word that it had, when the word was exchanged for another.
//! Guarantee: of all that want to close one start, one succeeds.

use super::{FIRST_OPEN, MARKING, STAGE_MASK, SpanPlace};
use crate::ir::{Addr, BinOp, BlockId, CmpOp, Inst, Likely, Operand, Size, VReg, Width};
use crate::lower::Body;

/// How often an element that somebody else is just changing is looked at again.
pub(super) const TRIES: u32 = 4;

/// What was taken hold of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claimed {
    /// The element's value.
    pub element: VReg,
    /// Its word before.
    pub word: VReg,
}

/// Where to go when nothing was taken hold of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Otherwise {
    /// There is nothing open under the key.
    pub absent: BlockId,
    /// Somebody else was at it in every try.
    pub busy: BlockId,
}

/// What the word becomes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Exchange {
    /// 0: the span is closed.
    Close,
    /// The same time with another stage.
    Stage(i64),
}

impl Body<'_, '_> {
    /// Exchanges the word of what is open under a key; goes on where that was done.
    pub(super) fn claim(&mut self, place: &SpanPlace, key: Addr, exchange: Exchange, otherwise: Otherwise) -> Claimed {
        let claimed = Claimed { element: self.b.new_vreg(), word: self.b.new_vreg() };
        let got = self.b.new_block();
        // What a thread holds itself, only an interrupt of its own can be at.
        for _ in 0..if place.in_threads { 1 } else { TRIES } {
            let next = self.b.new_block();
            let element = self.find_start(place, key);
            let found = self.b.new_block();
            self.b.branch(CmpOp::Ne, Width::W64, element, 0, found, otherwise.absent, Likely::Then);
            self.b.switch_to(found);
            let word = self.b.load(Addr::reg(element, 0), Size::B8);
            let open = self.b.new_block();
            self.b.branch(CmpOp::Ge, Width::W64, word, FIRST_OPEN, open, otherwise.absent, Likely::Then);
            self.b.switch_to(open);
            self.exchange_word(place, key, Claimed { element, word }, exchange, next);
            self.b.assign(claimed.element, element);
            self.b.assign(claimed.word, word);
            self.b.jump(got);
            self.b.switch_to(next);
        }
        self.b.jump(otherwise.busy);
        self.b.switch_to(got);
        claimed
    }

    /// The address of what is under a key, or 0.
    fn find_start(&mut self, place: &SpanPlace, key: Addr) -> VReg {
        if place.in_threads { self.in_storage(place, 0) } else { self.look_up(place.id, key) }
    }

    /// Exchanges a word that was read from an element, if the element was the key's then and the word is still the same; else goes
    /// to `next`.
    pub(super) fn exchange_word(
        &mut self,
        place: &SpanPlace,
        key: Addr,
        at: Claimed,
        exchange: Exchange,
        next: BlockId,
    ) {
        let stage = self.b.bin(BinOp::And, Width::W64, at.word, STAGE_MASK);
        let idle = self.b.new_block();
        self.b.branch(CmpOp::Ne, Width::W64, stage, MARKING, idle, next, Likely::Then);
        self.b.switch_to(idle);
        if !place.in_threads {
            let again = self.look_up(place.id, key);
            let same = self.b.new_block();
            self.b.branch(CmpOp::Eq, Width::W64, again, at.element, same, next, Likely::Then);
            self.b.switch_to(same);
        }
        let new: Operand = match exchange {
            Exchange::Close => 0.into(),
            Exchange::Stage(stage) => self.word_in_stage(at.word, stage).into(),
        };
        self.exchange_for(at.element, at.word, new, next);
    }

    /// Exchanges an element's word for another, if it is still the one that was read; else goes to `next`.
    pub(super) fn exchange_for(&mut self, element: VReg, word: VReg, new: impl Into<Operand>, next: BlockId) {
        let (seen, new) = (self.b.new_vreg(), self.b.copy(new));
        self.b.inst(Inst::CompareExchange { dst: seen, addr: Addr::reg(element, 0), expected: word, new });
        let done = self.b.new_block();
        self.b.branch(CmpOp::Eq, Width::W64, seen, word, done, next, Likely::Then);
        self.b.switch_to(done);
    }

    /// A word with the same time and another stage.
    pub(super) fn word_in_stage(&mut self, word: VReg, stage: i64) -> VReg {
        let time = self.b.bin(BinOp::And, Width::W64, word, !STAGE_MASK);
        self.b.bin(BinOp::Or, Width::W64, time, stage)
    }

    /// Sets the word of an element that this program holds, so that others may go on with it.
    pub(super) fn publish(&mut self, element: VReg, word: VReg) {
        let old = self.b.new_vreg();
        self.b.inst(Inst::Exchange { dst: old, addr: Addr::reg(element, 0), src: word });
    }
}
