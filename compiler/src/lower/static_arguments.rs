//! The arguments of static probes (USDT).
//!
//! In: the arguments that the program's sites can have, and the cookie of the site that was hit. Out: the value of one.
//! Guarantee: the cookie is asked for only where sites differ, and as many comparisons are made as the logarithm of them.

use std::ops::Range;

use crate::ir::{Addr, Arg, BinOp, CmpOp, Helper, Likely, Size, VReg, Width};
use crate::lower::Body;
use crate::types::Space;
use crate::usdt::{Address, Argument, Place, Register};

/// The cookie's lower half is the number of the probe's name, its upper half that of the arguments.
const ARGUMENTS_SHIFT: i64 = 32;

impl Body<'_, '_> {
    /// An argument, extended to 64 bits by its sign.
    pub fn static_argument(&mut self, index: usize) -> VReg {
        let probe = self.probe;
        let found: Vec<&Argument> =
            probe.context.static_arguments.iter().filter_map(|arguments| arguments.get(index)).collect();
        let result = self.b.new_vreg();
        let done = self.b.new_block();
        if are_same(&found) {
            self.argument_at(&found, 0..found.len(), None, result);
        } else {
            let cookie = self.b.call(Helper::GetAttachCookie, &[Arg::Context]);
            let which = self.b.bin(BinOp::Shr, Width::W64, cookie, ARGUMENTS_SHIFT);
            self.argument_at(&found, 0..found.len(), Some(which), result);
        }
        self.b.jump(done);
        self.b.switch_to(done);
        result
    }

    /// Chooses among a range of the arguments by halves.
    fn argument_at(&mut self, found: &[&Argument], range: Range<usize>, which: Option<VReg>, result: VReg) {
        let candidates = &found[range.clone()];
        let Some(which) = which.filter(|_| !are_same(candidates)) else {
            let value = match candidates.first() {
                Some(argument) => self.one_argument(argument),
                None => self.b.copy(0),
            };
            return self.b.assign(result, value);
        };
        let middle = range.start + range.len() / 2;
        let (low, high, done) = (self.b.new_block(), self.b.new_block(), self.b.new_block());
        self.b.branch(CmpOp::Lt, Width::W64, which, middle as i64, low, high, Likely::Unknown);
        for (block, half) in [(low, range.start..middle), (high, middle..range.end)] {
            self.b.switch_to(block);
            self.argument_at(found, half, Some(which), result);
            self.b.jump(done);
        }
        self.b.switch_to(done);
    }

    fn one_argument(&mut self, argument: &Argument) -> VReg {
        let (value, size_bytes) = match &argument.place {
            Place::Constant(number) => (self.b.copy(*number), argument.size_bytes),
            Place::Register(register) => (self.register_part(*register), argument.size_bytes.min(register.size_bytes)),
            Place::Memory(address) => {
                let from = self.argument_address(address);
                let to = self.memory(8, "argument");
                self.probe_read(to, from, argument.size_bytes.into(), Space::User);
                (self.b.load(to, size(argument.size_bytes)), argument.size_bytes)
            }
            // The checker lets no such argument pass.
            Place::Float | Place::Unknown => (self.b.copy(0), 8),
        };
        match size_bytes {
            8 => value,
            bytes => self.b.extend(value, size(bytes), argument.signed),
        }
    }

    fn argument_address(&mut self, address: &Address) -> VReg {
        let mut sum = self.b.copy(address.displacement);
        if let Some(base) = address.base {
            let base = self.whole_register(base);
            sum = self.b.bin(BinOp::Add, Width::W64, base, sum);
        }
        if let Some((index, scale)) = address.index {
            let index = self.whole_register(index);
            let distance = self.b.bin(BinOp::Shl, Width::W64, index, i64::from(scale.trailing_zeros()));
            sum = self.b.bin(BinOp::Add, Width::W64, sum, distance);
        }
        sum
    }

    /// A register of an address: only 32 bits of it in a 32-bit program.
    fn whole_register(&mut self, register: Register) -> VReg {
        let value = self.register_part(register);
        if register.size_bytes == 8 { value } else { self.b.extend(value, size(register.size_bytes), false) }
    }

    fn register_part(&mut self, register: Register) -> VReg {
        let context = self.b.context();
        let whole = self.b.load(Addr::reg(context, register.offset_bytes as i32), Size::B8);
        match register.first_bit {
            0 => whole,
            bits => self.b.bin(BinOp::Shr, Width::W64, whole, i64::from(bits)),
        }
    }
}

fn are_same(arguments: &[&Argument]) -> bool {
    let what = |argument: &Argument| (argument.size_bytes, argument.signed, argument.place.clone());
    arguments.windows(2).all(|pair| what(pair[0]) == what(pair[1]))
}

fn size(bytes: u8) -> Size {
    match bytes {
        1 => Size::B1,
        2 => Size::B2,
        4 => Size::B4,
        _ => Size::B8,
    }
}
