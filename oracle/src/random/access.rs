//! Random statements that access memory, maps and ring buffers.
//!
//! In: a generator. Out: instructions in its current block. Guarantee: every access is in bounds
//! and aligned, every lookup is checked for null, every record is submitted or discarded.

use super::{
    ARRAY, CONTEXT_SIZE_BYTES, Generator, HASH, KEYS, LOCAL_SLOT_BYTES, PER_CPU_HASH, RING, RODATA_BYTES,
    SCRATCH_SLOT_BYTES, SCRATCH_WORDS, SIZES,
};
use profiler_compiler::ir::{Addr, Arg, BinOp, Helper, Inst, Likely, Section, Size, VReg, Width};

impl Generator {
    /// An offset below `size_bytes` that is aligned for that access size.
    fn offset(&mut self, size: Size, size_bytes: u32) -> u32 {
        self.numbers.below(u64::from(size_bytes / size.bytes())) as u32 * size.bytes()
    }

    /// A location in the scratch slot, accessed directly or through its address.
    pub(super) fn scratch_place(&mut self) -> (Addr, Size) {
        let size = self.numbers.pick(&SIZES);
        let offset = self.offset(size, SCRATCH_SLOT_BYTES) as i32;
        if self.numbers.one_in(3) {
            let address = self.b.slot_addr(self.scratch, offset);
            return (Addr::reg(address, 0), size);
        }
        (Addr::slot(self.scratch, offset), size)
    }

    /// A location in the scratch words of `.bss`, at a constant offset or at one that a mask
    /// bounds.
    fn bss_place(&mut self) -> (Addr, Size) {
        let size = self.numbers.pick(&SIZES);
        if self.numbers.one_in(3) {
            let index = self.reg();
            let mask = i64::from(SCRATCH_WORDS * 8 - 8);
            let index = self.b.bin(BinOp::And, Width::W64, index, mask);
            let base = self.b.data_addr(Section::Bss, 0);
            let address = self.b.bin(BinOp::Add, Width::W64, base, index);
            return (Addr::reg(address, 0), size);
        }
        let offset = self.offset(size, SCRATCH_WORDS * 8);
        let base = self.b.data_addr(Section::Bss, offset & !7);
        (Addr::reg(base, (offset & 7) as i32), size)
    }

    pub(super) fn load_from_bss(&mut self) -> VReg {
        let (addr, size) = self.bss_place();
        self.b.load(addr, size)
    }

    /// Loads from the context or from `.rodata`.
    pub(super) fn load_constant(&mut self) -> VReg {
        if self.numbers.one_in(2) {
            let context = self.b.context();
            let offset = self.offset(Size::B8, CONTEXT_SIZE_BYTES) as i32;
            return self.b.load(Addr::reg(context, offset), Size::B8);
        }
        let size = self.numbers.pick(&SIZES);
        let offset = self.offset(size, RODATA_BYTES);
        let base = self.b.data_addr(Section::Rodata, offset);
        self.b.load(Addr::reg(base, 0), size)
    }

    pub(super) fn store_to_bss(&mut self) {
        let src = self.expression(1);
        let (addr, size) = self.bss_place();
        self.b.store(addr, src, size);
    }

    pub(super) fn store_to_slot(&mut self) {
        let src = self.expression(1);
        let (addr, size) = self.scratch_place();
        self.b.store(addr, src, size);
    }

    pub(super) fn move_bytes(&mut self) {
        let half = SCRATCH_SLOT_BYTES / 2;
        let (to, from) = (Addr::slot(self.scratch, 0), Addr::slot(self.scratch, half as i32));
        match self.numbers.below(4) {
            0 => self.b.move_(to, from, half, 8),
            1 => self.b.zero(from, half),
            2 => self.b.zero(to.plus(3), 2),
            _ => {
                let word = self.numbers.below(u64::from(SCRATCH_WORDS - 1)) as u32;
                let bss = self.b.data_addr(Section::Bss, word * 8);
                let (bss, slot) = (Addr::reg(bss, 0), Addr::slot(self.scratch, 0));
                let (to, from) = if self.numbers.one_in(2) { (bss, slot) } else { (slot, bss) };
                self.b.move_(to, from, SCRATCH_SLOT_BYTES, 8);
            }
        }
    }

    pub(super) fn atomic(&mut self) {
        let word = self.numbers.below(u64::from(SCRATCH_WORDS)) as u32;
        let src = self.reg();
        let addr = Addr::reg(self.b.data_addr(Section::Bss, word * 8), 0);
        self.atomic_at(addr, src);
    }

    fn atomic_at(&mut self, addr: Addr, src: VReg) {
        let dst = self.b.new_vreg();
        match self.numbers.below(6) {
            0 => self.b.inst(Inst::Exchange { dst, addr, src }),
            1 => {
                let expected = self.reg();
                self.b.inst(Inst::CompareExchange { dst, addr, expected, new: src });
            }
            kind => {
                let op = self.numbers.pick(&[BinOp::Add, BinOp::And, BinOp::Or, BinOp::Xor]);
                let size = self.numbers.pick(&[Size::B4, Size::B8]);
                let fetch = (kind < 4).then_some(dst);
                self.b.inst(Inst::Atomic { op, addr, src, fetch, size });
                if fetch.is_none() {
                    return;
                }
            }
        }
        self.values.push(dst);
    }

    /// Stores a random key in the key slot.
    fn set_key(&mut self) {
        let key = self.reg();
        let key = self.b.bin(BinOp::And, Width::W64, key, KEYS - 1);
        self.b.store(Addr::slot(self.key, 0), key, Size::B8);
    }

    pub(super) fn look_up(&mut self, depth: u32) {
        let map = self.numbers.pick(&[HASH, PER_CPU_HASH, ARRAY]);
        self.set_key();
        let value = self.b.call(Helper::MapLookupElem, &[map.into(), self.key.into()]);
        let src = self.reg();
        self.if_present(value, |g| {
            let addr = Addr::reg(value, 0);
            match g.numbers.below(3) {
                0 => g.atomic_at(addr, src),
                1 => g.b.store(addr, src, Size::B8),
                _ => {
                    let loaded = g.b.load(addr, Size::B8);
                    let variable = g.numbers.pick(&g.variables.clone());
                    g.b.assign(variable, loaded);
                }
            }
            if depth < 2 && g.numbers.one_in(3) {
                g.statements(depth + 1);
            }
        });
    }

    pub(super) fn update(&mut self) {
        let map = self.numbers.pick(&[HASH, PER_CPU_HASH, ARRAY]);
        self.set_key();
        let value = self.expression(1);
        self.b.store(Addr::slot(self.value, 0), value, Size::B8);
        let flags = if map == ARRAY { 0 } else { self.numbers.below(3) as i64 };
        let args: [Arg; 4] = [map.into(), self.key.into(), self.value.into(), flags.into()];
        let result = self.b.call(Helper::MapUpdateElem, &args);
        self.keep_answer(result);
    }

    pub(super) fn delete(&mut self) {
        let map = self.numbers.pick(&[HASH, PER_CPU_HASH]);
        self.set_key();
        let result = self.b.call(Helper::MapDeleteElem, &[map.into(), self.key.into()]);
        self.keep_answer(result);
    }

    /// Since 6.4 these helpers return 64 bits; before, only the low half is defined.
    fn keep_answer(&mut self, result: VReg) {
        let answer = self.b.extend(result, Size::B4, true);
        self.values.push(answer);
    }

    pub(super) fn output(&mut self) {
        let size_bytes = i64::from(self.offset(Size::B4, SCRATCH_SLOT_BYTES)) + 4;
        let slot = if self.numbers.one_in(2) { self.scratch.into() } else { self.b.slot_addr(self.scratch, 0).into() };
        let args = [RING.into(), slot, size_bytes.into(), 0.into()];
        self.b.call_void(Helper::RingbufOutput, &args);
    }

    /// Reads into a part of the scratch slot with a probe-read helper.
    pub(super) fn probe(&mut self) {
        let word = self.numbers.below(u64::from(SCRATCH_WORDS)) as u32;
        let offset = self.offset(Size::B8, SCRATCH_SLOT_BYTES) as i32;
        let from = self.b.data_addr(Section::Bss, word * 8);
        let args = [Arg::Slot(self.scratch, offset), 8.into(), from.into()];
        let result = self.b.call(Helper::ProbeReadKernel, &args);
        self.values.push(result);
    }

    /// Stores and loads the local slot, with an operation in between that may change it.
    pub(super) fn through_local(&mut self) {
        let (size, other) = (self.numbers.pick(&SIZES), self.numbers.pick(&SIZES));
        let place = Addr::slot(self.local, self.offset(size, LOCAL_SLOT_BYTES) as i32);
        let near = Addr::slot(self.local, self.offset(other, LOCAL_SLOT_BYTES) as i32);
        let (src, between) = (self.expression(1), self.expression(1));
        self.b.store(place, src, size);
        match self.numbers.below(6) {
            0 => self.b.store(near, between, other),
            1 => self.b.zero(Addr::slot(self.local, 1), 3),
            2 => self.b.move_(Addr::slot(self.local, 0), Addr::slot(self.scratch, 8), 8, 8),
            3 => {
                let from = self.b.data_addr(Section::Bss, 0);
                let args = [self.local.into(), 8.into(), from.into()];
                self.b.call_void(Helper::ProbeReadKernel, &args);
            }
            _ => self.assign(),
        }
        let loaded = self.b.load(place, size);
        let variable = self.numbers.pick(&self.variables.clone());
        self.b.assign(variable, loaded);
    }

    /// Stores through a register that points to one of two locations in the scratch slot, then
    /// changes the register.
    pub(super) fn through_alias(&mut self) {
        let (move_on, access) = (self.b.new_block(), self.b.new_block());
        let first = self.b.slot_addr(self.scratch, 0);
        let place = self.b.copy(first);
        let (op, width, a, b) = self.comparison();
        self.b.branch(op, width, a, b, move_on, access, Likely::Unknown);
        self.b.switch_to(move_on);
        let second = self.b.slot_addr(self.scratch, 8);
        self.b.assign(place, second);
        self.b.jump(access);
        self.b.switch_to(access);
        let (direct, aliased) = (self.operand(), self.operand());
        self.b.store(Addr::slot(self.scratch, 4), direct, Size::B4);
        let further = self.b.bin(BinOp::Add, Width::W64, place, 4);
        self.b.assign(place, first);
        self.b.store(Addr::reg(further, 0), aliased, Size::B4);
        let loaded = self.b.load(Addr::slot(self.scratch, 4), Size::B4);
        let variable = self.numbers.pick(&self.variables.clone());
        self.b.assign(variable, loaded);
    }

    pub(super) fn reserve(&mut self) {
        let record = self.b.call(Helper::RingbufReserve, &[RING.into(), 16.into(), 0.into()]);
        let (first, second) = (self.operand(), self.operand());
        self.if_present(record, |g| {
            g.b.store(Addr::reg(record, 0), first, Size::B8);
            let rest = g.b.bin(BinOp::Add, Width::W64, record, 8);
            g.b.store(Addr::reg(rest, 0), second, Size::B8);
            let end = if g.numbers.one_in(4) { Helper::RingbufDiscard } else { Helper::RingbufSubmit };
            g.b.call_void(end, &[record.into(), 0.into()]);
        });
    }
}
