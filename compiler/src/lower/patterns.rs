//! Matches strings against a regex or glob.
//!
//! In: a string, and a parameter whose table is in read-only data ([`crate::params::automaton`]).
//! Out: branches.
//! Guarantee: each byte of the string is read at most once, whatever the pattern. Changing the
//! pattern does not change the program.

use crate::ir::{Addr, BinOp, BlockId, CmpOp, Likely, Section, Size, VReg, Width};
use crate::lower::{Body, params, text};
use crate::params::automaton::{ACCEPT_OFFSET, CLASSES_OFFSET, START_OFFSET, TRANSITIONS_BYTES, TRANSITIONS_OFFSET};
use crate::typed::Expr;

/// Bytes between two branches, as in a search.
const STRIDE_BYTES: i64 = 8;

/// The addresses of the tables of a pattern.
struct Tables {
    classes: VReg,
    transitions: VReg,
}

/// Jumps to `yes` if the text matches the pattern, else to `no`.
pub(super) fn branch_on(cx: &mut Body<'_, '_>, text: &Expr, index: usize, yes: BlockId, no: BlockId) {
    let value = cx.expr(text);
    let capacity_bytes = cx.layout(&text.ty).size_bytes;
    let at = cx.in_memory(value, &text.ty);
    let (at, capacity_bytes) = text::whole_strides(cx, at, capacity_bytes);
    let offset = cx.shared.param_offset(index);
    let tables = Tables {
        classes: cx.b.data_addr(Section::Rodata, offset + CLASSES_OFFSET),
        transitions: cx.b.data_addr(Section::Rodata, offset + TRANSITIONS_OFFSET),
    };
    let accept = params::address(cx, index, ACCEPT_OFFSET);
    let accept = cx.b.load(accept, Size::B8);
    let start = params::address(cx, index, START_OFFSET);
    let start = cx.b.load(start, Size::B8);
    let state = cx.b.copy(start);
    let text_at = cx.address(at);
    let read = cx.b.copy(0);
    let (head, go_on, full, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    cx.b.jump(head);
    cx.b.switch_to(head);
    let here = cx.b.bin(BinOp::Add, Width::W64, text_at, read);
    for offset in 0..STRIDE_BYTES {
        let byte = cx.b.load(Addr::reg(here, offset as i32), Size::B1);
        move_on(cx, &tables, state, byte);
    }
    let further = cx.b.bin(BinOp::Add, Width::W64, read, STRIDE_BYTES);
    cx.b.assign(read, further);
    // The accepting and the rejecting state are the lowest. The end of the text leads to them.
    cx.b.branch(CmpOp::Le, Width::W64, state, accept, done, go_on, Likely::Unknown);
    cx.b.switch_to(go_on);
    cx.b.branch(CmpOp::Lt, Width::W64, read, i64::from(capacity_bytes), head, full, Likely::Then);
    // A text that fills its capacity ends without a NUL.
    cx.b.switch_to(full);
    let end = cx.b.copy(0);
    move_on(cx, &tables, state, end);
    cx.b.jump(done);
    cx.b.switch_to(done);
    cx.b.branch(CmpOp::Eq, Width::W64, state, accept, yes, no, Likely::Unknown);
}

/// Moves to the next state by one byte of the text.
fn move_on(cx: &mut Body<'_, '_>, tables: &Tables, state: VReg, byte: VReg) {
    let class = cx.b.bin(BinOp::Add, Width::W64, tables.classes, byte);
    let class = cx.b.load(Addr::reg(class, 0), Size::B1);
    let column = cx.b.bin(BinOp::Shl, Width::W64, class, 1);
    let column = cx.b.bin(BinOp::Add, Width::W64, tables.transitions, column);
    // Verifier: states are in read-only data and below this size, which it does not know.
    let row = cx.b.bin(BinOp::And, Width::W64, state, i64::from(TRANSITIONS_BYTES - 1));
    let next = cx.b.bin(BinOp::Add, Width::W64, column, row);
    let next = cx.b.load(Addr::reg(next, 0), Size::B2);
    cx.b.assign(state, next);
}
