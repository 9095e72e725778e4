//! Random functions whose slots are followed byte by byte.
//!
//! In: functions with loops, partial writes, helper calls and slots whose address escapes. Out:
//! frames. Guarantee tested: on no path does a slot lose a byte that a later instruction reads.

use super::frame::Frame;
use crate::ir::build::FunctionBuilder;
use crate::ir::{Addr, Arg, CmpOp, Function, Helper, Inst, Likely, Size, SlotId, Terminator, Width};
use crate::source::Span;

/// A reproducible sequence of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as u32 % limit
    }
}

const SLOTS: u32 = 6;
const BLOCKS: u32 = 6;

fn function(random: &mut Random) -> Function {
    let mut b = FunctionBuilder::new("f", "s", Span::default());
    for _ in 0..SLOTS {
        b.slot(8 << random.below(3), 8, "x");
    }
    let mut blocks = vec![b.current_block()];
    blocks.extend((1..BLOCKS).map(|_| b.new_block()));
    let escapes = random.below(4) == 0;
    let one = b.copy(1);
    for block in &blocks {
        b.switch_to(*block);
        for _ in 0..random.below(4) {
            inst(&mut b, random, escapes);
        }
        let mut any = || blocks[random.below(BLOCKS) as usize];
        let (then, otherwise) = (any(), any());
        match random.below(5) {
            0 => b.ret(0),
            1 => b.jump(then),
            _ => b.branch(CmpOp::Eq, Width::W64, one, 0, then, otherwise, Likely::Unknown),
        }
    }
    b.finish()
}

fn inst(b: &mut FunctionBuilder, random: &mut Random, escapes: bool) {
    let slot = SlotId(random.below(SLOTS));
    let other = SlotId((slot.0 + 1 + random.below(SLOTS - 1)) % SLOTS);
    let read = |to: SlotId, bytes: i64, from: Arg| (Helper::ProbeReadKernel, [Arg::Slot(to, 0), bytes.into(), from]);
    match random.below(if escapes { 8 } else { 7 }) {
        0 => b.store(Addr::slot(slot, 0), 1, Size::B8),
        1 => b.store(Addr::slot(slot, 4 * random.below(2) as i32), 1, Size::B4),
        2 => b.zero(Addr::slot(slot, 0), 8),
        3 => _ = b.load(Addr::slot(slot, 0), Size::B8),
        4 => b.move_(Addr::slot(slot, 0), Addr::slot(other, 0), 8, 8),
        5 => {
            let (helper, args) = read(slot, 4 << random.below(2), 0.into());
            b.call_void(helper, &args);
        }
        6 => {
            let (helper, args) = read(slot, 8, Arg::Slot(other, 0));
            b.call_void(helper, &args);
        }
        _ => _ = b.slot_addr(slot, 0),
    }
}

/// A run of a function: which byte of which slot each byte of the frame belongs to.
struct Walk<'a> {
    function: &'a Function,
    frame: &'a Frame,
    owners: Vec<Option<(u32, i32)>>,
    written: Vec<(u32, i32)>,
    escaped: Vec<SlotId>,
}

impl Walk<'_> {
    fn byte(&self, slot: SlotId, at: i32) -> usize {
        usize::try_from(-(self.frame.offset(slot) + at)).expect("slots are below the frame pointer")
    }

    fn write(&mut self, slot: SlotId, bytes: std::ops::Range<i32>) {
        for at in bytes {
            let byte = self.byte(slot, at);
            self.owners[byte] = Some((slot.0, at));
            if !self.written.contains(&(slot.0, at)) {
                self.written.push((slot.0, at));
            }
        }
    }

    fn read(&self, slot: SlotId, bytes: std::ops::Range<i32>) {
        for at in bytes.filter(|at| self.written.contains(&(slot.0, *at))) {
            assert_eq!(self.owners[self.byte(slot, at)], Some((slot.0, at)), "slot {} lost byte {at}", slot.0);
        }
    }

    fn size(&self, slot: SlotId) -> i32 {
        self.function.slots[slot.0 as usize].size_bytes as i32
    }

    fn inst(&mut self, inst: &Inst) {
        let slot = |addr: &Addr| addr.base.slot().expect("only slots are accessed");
        match inst {
            Inst::Store { addr, size, .. } => {
                self.write(slot(addr), addr.offset..addr.offset + size.bytes() as i32);
            }
            Inst::Zero { addr, size_bytes } => self.write(slot(addr), 0..*size_bytes as i32),
            Inst::Load { addr, .. } => self.read(slot(addr), 0..8),
            // Eight bytes are copied in pieces, so the two may not share any.
            Inst::Move { to, from, .. } => {
                self.write(slot(to), 0..8);
                self.read(slot(from), 0..8);
            }
            Inst::Call { args, .. } => {
                let [Arg::Slot(to, _), Arg::Value(crate::ir::Operand::Imm(bytes)), from] = args[..] else { panic!() };
                self.write(to, 0..bytes as i32);
                if let Arg::Slot(from, _) = from {
                    self.read(from, 0..self.size(from));
                }
            }
            Inst::SlotAddr { slot, .. } => self.escaped.push(*slot),
            _ => {}
        }
    }
}

/// Follows a random path; returns the number of instructions on it.
fn walk(function: &Function, frame: &Frame, random: &mut Random) -> usize {
    let mut walk = Walk { function, frame, owners: vec![None; 1024], written: Vec::new(), escaped: Vec::new() };
    let (mut block, mut steps) = (0, 0);
    while steps < 60 {
        for (inst, _) in &function.blocks[block].insts {
            walk.inst(inst);
            steps += 1;
            // Through its address, a slot is read and written at any later time.
            for slot in walk.escaped.clone() {
                walk.read(slot, 0..walk.size(slot));
                walk.write(slot, 0..walk.size(slot));
            }
        }
        steps += 1;
        block = match function.blocks[block].end {
            Terminator::Return(_) => break,
            Terminator::Jump(to) => to.0,
            Terminator::Branch { then, otherwise, .. } => [then, otherwise][random.below(2) as usize].0,
        } as usize;
    }
    steps
}

#[test]
fn no_slot_loses_a_byte_on_any_path() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut shared, mut steps) = (0, 0);
    for _ in 0..3000 {
        let function = function(&mut random);
        let frame = Frame::new(&function);
        let bytes: u32 = function.slots.iter().map(|slot| slot.size_bytes).sum();
        shared += usize::from(frame.size_bytes * 2 < bytes);
        for _ in 0..20 {
            steps += walk(&function, &frame, &mut random);
        }
    }
    // The paths are long enough, and slots share enough, for a conflict to be met.
    assert!(shared > 500 && steps > 300_000, "{shared} functions share, {steps} instructions");
}

/// In a loop, a slot that every round replaces before it reads is dead between the rounds.
#[test]
fn slots_share_bytes_in_a_loop() {
    let mut b = FunctionBuilder::new("f", "s", Span::default());
    let slots: Vec<SlotId> = (0..10).map(|_| b.slot(8, 8, "read")).collect();
    let (head, out) = (b.new_block(), b.new_block());
    b.jump(head);
    b.switch_to(head);
    for slot in slots {
        b.call_void(Helper::ProbeReadKernel, &[Arg::Slot(slot, 0), 4.into(), 0.into()]);
        b.load(Addr::slot(slot, 0), Size::B4);
    }
    let one = b.copy(1);
    b.branch(CmpOp::Eq, Width::W64, one, 0, head, out, Likely::Unknown);
    b.switch_to(out);
    b.ret(0);
    assert_eq!(Frame::new(&b.finish()).size_bytes, 8);
}
