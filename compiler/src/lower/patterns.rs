//! Strings compared with a regex.
//!
//! In: a string, and a parameter whose table is in read-only data ([`crate::params::pattern`]). Out: branches.
//! Guarantee: each byte of the string is looked at once, whatever the pattern; another pattern needs no other program.

use crate::ir::{Addr, BinOp, BlockId, CmpOp, Likely, Section, Size, VReg, Width};
use crate::lower::Body;
use crate::params::pattern::{LAST_OFFSET, MASKS_OFFSET, STARS_OFFSET};
use crate::typed::Expr;

/// Bytes between two branches, as in a search.
const STRIDE_BYTES: i64 = 8;

/// What matching needs of a pattern.
struct Pattern {
    masks: VReg,
    stars: VReg,
}

impl Body<'_, '_> {
    /// Goes on at `yes` when the text matches the regex, else at `no`.
    pub(super) fn branch_on_pattern(&mut self, text: &Expr, index: usize, yes: BlockId, no: BlockId) {
        let value = self.expr(text);
        let room_bytes = self.layout(&text.ty).size_bytes;
        let at = self.in_memory(value, &text.ty);
        let (at, room_bytes) = self.whole_strides(at, room_bytes);
        let stars = self.param_at(index, STARS_OFFSET);
        let stars = self.b.load(stars, Size::B8);
        let offset = self.shared.param_offset(index) + MASKS_OFFSET;
        let masks = self.b.data_addr(Section::Rodata, offset);
        let pattern = Pattern { masks, stars };
        let places = self.b.copy(1);
        let text_at = self.address(at);
        let read = self.b.copy(0);
        let (head, go_on, done) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        self.b.jump(head);
        self.b.switch_to(head);
        let here = self.b.bin(BinOp::Add, Width::W64, text_at, read);
        let mut byte = read;
        for offset in 0..STRIDE_BYTES {
            byte = self.b.load(Addr::reg(here, offset as i32), Size::B1);
            self.move_on(&pattern, places, byte);
        }
        let further = self.b.bin(BinOp::Add, Width::W64, read, STRIDE_BYTES);
        self.b.assign(read, further);
        self.b.branch(CmpOp::Eq, Width::W64, byte, 0, done, go_on, Likely::Unknown);
        self.b.switch_to(go_on);
        self.b.branch(CmpOp::Lt, Width::W64, read, i64::from(room_bytes), head, done, Likely::Then);
        self.b.switch_to(done);
        // A text that fills its room ends without a NUL.
        let end = self.b.copy(0);
        self.move_on(&pattern, places, end);
        let last = self.param_at(index, LAST_OFFSET);
        let last = self.b.load(last, Size::B8);
        let matched = self.b.bin(BinOp::And, Width::W64, places, last);
        self.b.branch(CmpOp::Ne, Width::W64, matched, 0, yes, no, Likely::Unknown);
    }

    /// The places in the pattern behind one byte more.
    fn move_on(&mut self, pattern: &Pattern, places: VReg, byte: VReg) {
        let next = self.b.bin(BinOp::Shl, Width::W64, places, 1);
        let mask = self.mask_of(pattern.masks, byte);
        let mask = self.b.load(mask, Size::B8);
        let reached = self.b.bin(BinOp::And, Width::W64, next, mask);
        let kept = self.b.bin(BinOp::And, Width::W64, places, pattern.stars);
        let all = self.b.bin(BinOp::Or, Width::W64, reached, kept);
        self.b.assign(places, all);
    }
}
