//! Loops over the open entries of a span.
//!
//! In: a typed loop. Out: a walk over the map, with the loop's body in it.
//! Guarantee: each start that stays open during the loop is seen once; one that began after the
//! loop is never seen. Key and values are those of one start at one moment.

use super::claim::{self, TRIES};
use super::sweep;
use super::values::{self, Start};
use super::word::{FIRST_OPEN, MARKING, STAGE_BITS, STAGE_MASK};
use crate::ir::{Addr, BinOp, CmpOp, Likely, Role, Size, Width};
use crate::lower::{Body, loops};
use crate::typed::{SpanIndex, SpanValues, Stmt, VarIndex};

pub(in crate::lower) fn for_span(
    cx: &mut Body<'_, '_>,
    span: SpanIndex,
    key: VarIndex,
    values: &SpanValues,
    body: &[Stmt],
) {
    let place = values::place_of(cx, span);
    let key_bytes = cx.shared.ir.maps[place.id.0 as usize].key_size_bytes;
    let (now, at) = (values::now(cx), cx.scratch_room(8));
    let to = cx.scratch_at(at);
    cx.b.store(to, now, Size::B8);
    let repeated = loops::subprogram(cx, Role::Entry, "open", |cx, given| {
        let (read, over) = (cx.b.new_block(), cx.b.new_block());
        let from = cx.scratch_at(at);
        let now = cx.b.load(from, Size::B8);
        for _ in 0..TRIES {
            let [open, idle, old, again] = std::array::from_fn(|_| cx.b.new_block());
            let word = cx.b.load(Addr::reg(given[2], 0), Size::B8);
            cx.b.branch(CmpOp::Ge, Width::W64, word, FIRST_OPEN, open, over, Likely::Then);
            cx.b.switch_to(open);
            let stage = cx.b.bin(BinOp::And, Width::W64, word, STAGE_MASK);
            cx.b.branch(CmpOp::Ne, Width::W64, stage, MARKING, idle, again, Likely::Then);
            cx.b.switch_to(idle);
            let began = cx.b.bin(BinOp::Shr, Width::W64, word, STAGE_BITS);
            cx.b.branch(CmpOp::Le, Width::W64, began, now, old, over, Likely::Then);
            cx.b.switch_to(old);
            let own = values::key_in(cx, key);
            cx.copy(own, Addr::reg(given[1], 0), key_bytes);
            let start = Start { at: Addr::reg(given[2], 0), word };
            values::take_values(cx, span, values, start, Some(now));
            // If the word has not changed, everything that was read belongs to its start. The
            // exchange orders the reads on every architecture.
            claim::exchange_for(cx, given[2], word, word, again);
            cx.b.jump(read);
            cx.b.switch_to(again);
        }
        // During every attempt a mark was writing to it, in a thread that is not running.
        cx.b.jump(over);
        cx.b.switch_to(over);
        cx.b.ret(0);
        cx.b.switch_to(read);
        loops::iteration(cx, body);
    });
    sweep::walk_span(cx, span, repeated);
}
