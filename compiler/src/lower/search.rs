//! Strings searched and measured inside a program.
//!
//! In: strings in our own memory. Out: positions, lengths, joined strings.
//! Guarantee: bounded by the strings' rooms. A search looks at each byte once, whatever it looks for.
//!
//! The search is the shift-and algorithm: bit `j` of the state says that the last `j + 1` bytes are the first `j + 1` of what is
//! looked for. Eight bytes are looked at between two branches, for each branch in a loop costs the verifier a state.

use crate::ir::{Addr, Arg, BinOp, BlockId, CmpOp, Helper, Likely, Operand, Section, Size, VReg, Width};
use crate::lower::body::FIRST_SCRATCH_BYTES;
use crate::lower::conditions::chunk;
use crate::lower::{Body, Value};
use crate::types::{Space, Type};

/// Longest text that can be looked for: a bit of the state for each byte.
pub const MAX_NEEDLE_BYTES: u32 = 64;
/// Longest room of a string that can be searched, for the verifier follows each round of the loop.
pub const MAX_HAYSTACK_BYTES: u32 = 4096;

/// One mask for each value of a byte.
const MASKS_BYTES: u32 = 256 * 8;
/// Bytes between two branches.
const STRIDE_BYTES: i64 = 8;

/// What is looked for: its masks, and its length less one.
struct Needle {
    masks: VReg,
    last_bit: Operand,
}

impl Body<'_, '_> {
    /// Position of the first place in `haystack` where `needle` is, or -1. Where only `whether` it is there counts, any number that is
    /// not negative will do.
    pub fn text_position(&mut self, haystack: Addr, room_bytes: u32, needle: &Value, ty: &Type, whether: bool) -> VReg {
        let result = self.b.copy(0);
        let done = self.b.new_block();
        let needle = match needle {
            Value::Bytes(text) if text.is_empty() => {
                self.b.jump(done);
                self.b.switch_to(done);
                return result;
            }
            Value::Bytes(text) => self.known_needle(text),
            other => {
                let at = self.in_memory(other.clone(), ty);
                let first = self.b.load(at, Size::B1);
                let search = self.b.new_block();
                self.b.branch(CmpOp::Eq, Width::W64, first, 0, done, search, Likely::Otherwise);
                self.b.switch_to(search);
                self.needle_in_memory(at, ty)
            }
        };
        let (haystack, room_bytes) = self.whole_strides(haystack, room_bytes);
        let hits = self.search(haystack, room_bytes, &needle, result);
        let (missing, found) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Eq, Width::W64, hits, 0, missing, found, Likely::Unknown);
        self.b.switch_to(missing);
        self.b.assign(result, -1);
        self.b.jump(done);
        self.b.switch_to(found);
        if !whether {
            self.first_hit(hits, result, &needle);
        }
        self.b.jump(done);
        self.b.switch_to(done);
        result
    }

    fn known_needle(&mut self, text: &[u8]) -> Needle {
        let mut masks = [0u64; 256];
        for (bit, byte) in text.iter().enumerate() {
            masks[usize::from(*byte)] |= 1 << bit;
        }
        let bytes: Vec<u8> = masks.iter().flat_map(|mask| mask.to_le_bytes()).collect();
        let offset = self.shared.rodata(&bytes);
        Needle { masks: self.b.data_addr(Section::Rodata, offset), last_bit: Operand::Imm(text.len() as i64 - 1) }
    }

    /// Makes the masks while the program runs. Without branches, so that the verifier follows one path only.
    fn needle_in_memory(&mut self, text: Addr, ty: &Type) -> Needle {
        let room_bytes = self.layout(ty).size_bytes.min(MAX_NEEDLE_BYTES);
        let table = self.memory(MASKS_BYTES, "masks");
        self.zero(table, MASKS_BYTES);
        let masks = self.address(table);
        let length = self.b.copy(0);
        for at in 0..room_bytes {
            let byte = self.b.load(text.plus(at as i32), Size::B1);
            let mask = self.mask_of(masks, byte);
            let before = self.b.load(mask, Size::B8);
            let with = self.b.bin(BinOp::Or, Width::W64, before, 1i64 << at);
            self.b.store(mask, with, Size::B8);
            // The highest bit of `0 - byte` says whether there is a byte.
            let negative = self.b.bin(BinOp::Sub, Width::W64, 0, byte);
            let one = self.b.bin(BinOp::Shr, Width::W64, negative, 63);
            let longer = self.b.bin(BinOp::Add, Width::W64, length, one);
            self.b.assign(length, longer);
        }
        // The bytes behind the end are no part of the text.
        self.b.store(table, 0, Size::B8);
        let last = self.b.bin(BinOp::Sub, Width::W64, length, 1);
        let last_bit = self.b.bin(BinOp::And, Width::W64, last, 63);
        Needle { masks, last_bit: last_bit.into() }
    }

    pub(super) fn mask_of(&mut self, masks: VReg, byte: VReg) -> Addr {
        let distance = self.b.bin(BinOp::Shl, Width::W64, byte, 3);
        Addr::reg(self.b.bin(BinOp::Add, Width::W64, masks, distance), 0)
    }

    /// The string in memory of whole strides, zeros behind it.
    pub(super) fn whole_strides(&mut self, text: Addr, room_bytes: u32) -> (Addr, u32) {
        let whole = room_bytes.next_multiple_of(STRIDE_BYTES as u32);
        if whole == room_bytes {
            return (text, room_bytes);
        }
        let to = self.memory(whole, "text");
        self.zero(to, whole);
        self.copy(to, text, room_bytes);
        (to, whole)
    }

    /// Which of the last eight bytes looked at end a match, the first one in the highest bit; 0 when the string has ended.
    /// `position` is then that of these bytes.
    fn search(&mut self, text: Addr, room_bytes: u32, needle: &Needle, position: VReg) -> VReg {
        let start = self.address(text);
        let (at, state, hits) = (self.b.copy(0), self.b.copy(0), self.b.copy(0));
        let (head, go_on, next, done) =
            (self.b.new_block(), self.b.new_block(), self.b.new_block(), self.b.new_block());
        self.b.jump(head);
        self.b.switch_to(head);
        let here = self.b.bin(BinOp::Add, Width::W64, start, at);
        self.b.assign(hits, 0);
        let mut byte = at;
        for offset in 0..STRIDE_BYTES {
            byte = self.b.load(Addr::reg(here, offset as i32), Size::B1);
            let shifted = self.b.bin(BinOp::Shl, Width::W64, state, 1);
            let started = self.b.bin(BinOp::Or, Width::W64, shifted, 1);
            let mask = self.mask_of(needle.masks, byte);
            let mask = self.b.load(mask, Size::B8);
            let alive = self.b.bin(BinOp::And, Width::W64, started, mask);
            self.b.assign(state, alive);
            let last = self.b.bin(BinOp::Shr, Width::W64, state, needle.last_bit);
            let hit = self.b.bin(BinOp::And, Width::W64, last, 1);
            let earlier = self.b.bin(BinOp::Shl, Width::W64, hits, 1);
            let all = self.b.bin(BinOp::Or, Width::W64, earlier, hit);
            self.b.assign(hits, all);
        }
        self.b.branch(CmpOp::Ne, Width::W64, hits, 0, done, go_on, Likely::Otherwise);
        self.b.switch_to(go_on);
        self.b.branch(CmpOp::Eq, Width::W64, byte, 0, done, next, Likely::Otherwise);
        self.b.switch_to(next);
        let further = self.b.bin(BinOp::Add, Width::W64, at, STRIDE_BYTES);
        self.b.assign(at, further);
        self.b.branch(CmpOp::Lt, Width::W64, at, i64::from(room_bytes), head, done, Likely::Then);
        self.b.switch_to(done);
        self.b.assign(position, at);
        hits
    }

    /// Turns the position of eight bytes into that of the first match that ends in them.
    fn first_hit(&mut self, hits: VReg, position: VReg, needle: &Needle) {
        // Verifier: it knows the number of the round, and would follow all that comes later for each. What was stored in a map it
        // does not know.
        let forgotten = self.memory(FIRST_SCRATCH_BYTES, "position");
        self.b.store(forgotten, position, Size::B8);
        let start = self.b.load(forgotten, Size::B8);
        // The distance of the highest bit from bit 7 is how far into the bytes the match ends.
        let table: Vec<u8> = (0..=255u8).map(|hits| hits.leading_zeros() as u8).collect();
        let offset = self.shared.rodata(&table);
        let base = self.b.data_addr(Section::Rodata, offset);
        let index = self.b.bin(BinOp::And, Width::W64, hits, 255);
        let entry = self.b.bin(BinOp::Add, Width::W64, base, index);
        let into = self.b.load(Addr::reg(entry, 0), Size::B1);
        let end = self.b.bin(BinOp::Add, Width::W64, start, into);
        let first = self.b.bin(BinOp::Sub, Width::W64, end, needle.last_bit);
        self.b.assign(position, first);
    }

    /// The length of a string behind an address, at most `most_bytes`.
    pub fn text_length(&mut self, text: VReg, most_bytes: u32, space: Space) -> VReg {
        let room = self.memory(most_bytes + 1, "text");
        let to = self.address_arg(room);
        let helper = match space {
            Space::Kernel => Helper::ProbeReadKernelStr,
            Space::User => Helper::ProbeReadUserStr,
        };
        // One byte more tells a string that fills its room from one that ends there.
        let size = Arg::Value(i64::from(most_bytes + 1).into());
        let read = self.b.call(helper, &[to, size, Arg::Value(text.into())]);
        self.report_failed_read(helper, read);
        let length = self.b.bin(BinOp::Sub, Width::W64, read, 1);
        let (failed, done) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::SLt, Width::W64, length, 0, failed, done, Likely::Otherwise);
        self.b.switch_to(failed);
        self.b.assign(length, 0);
        self.b.jump(done);
        self.b.switch_to(done);
        length
    }

    /// Two strings one behind the other.
    pub fn joined_texts(&mut self, a: (Addr, u32), b: (Addr, u32), ty: &Type) -> Value {
        let size_bytes = self.layout(ty).size_bytes;
        // Verifier: the second string's place varies, which the stack does not allow.
        let to = self.memory(size_bytes.max(FIRST_SCRATCH_BYTES), "joined");
        self.zero(to, size_bytes);
        let read = |cx: &mut Self, to: Arg, (from, room_bytes): (Addr, u32)| {
            let from = cx.address(from);
            let size = Arg::Value(i64::from(room_bytes).into());
            cx.b.call(Helper::ProbeReadKernelStr, &[to, size, Arg::Value(from.into())])
        };
        let to_arg = self.address_arg(to);
        let length = read(self, to_arg, a);
        let end = self.b.bin(BinOp::Sub, Width::W64, length, 1);
        let (bad, good) = (self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Ge, Width::W64, end, i64::from(a.1), bad, good, Likely::Otherwise);
        self.b.switch_to(bad);
        self.b.assign(end, 0);
        self.b.jump(good);
        self.b.switch_to(good);
        let end = self.b.clamp(end, a.1.saturating_sub(1));
        let start = self.address(to);
        let tail = self.b.bin(BinOp::Add, Width::W64, start, end);
        read(self, Arg::Value(tail.into()), b);
        Value::Memory(to)
    }

    /// 0 when the first bytes of two pieces of memory are equal, else 1.
    pub fn bytes_differ(&mut self, a: Addr, b: Addr, size_bytes: u32) -> VReg {
        self.differ(|cx, equal, other| cx.compare_bytes(a, b, size_bytes, equal, other))
    }

    /// The same for a constant on one side.
    pub fn bytes_differ_from(&mut self, a: Addr, bytes: &[u8]) -> VReg {
        self.differ(|cx, equal, other| {
            let mut at = 0;
            while at < bytes.len() {
                let here = a.plus(at as i32);
                let size = chunk(here, bytes.len() - at);
                let end = at + size.bytes() as usize;
                let mut word = [0u8; 8];
                word[..end - at].copy_from_slice(&bytes[at..end]);
                let have = cx.b.load(here, size);
                let next = cx.b.new_block();
                cx.branch(CmpOp::Eq, have, i64::from_le_bytes(word), next, other);
                cx.b.switch_to(next);
                at = end;
            }
            cx.b.jump(equal);
        })
    }

    fn differ(&mut self, compare: impl FnOnce(&mut Self, BlockId, BlockId)) -> VReg {
        let result = self.b.copy(0);
        let (equal, other) = (self.b.new_block(), self.b.new_block());
        compare(self, equal, other);
        self.b.switch_to(other);
        self.b.assign(result, 1);
        self.b.jump(equal);
        self.b.switch_to(equal);
        result
    }
}
