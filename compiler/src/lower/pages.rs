//! Values of maps that are kept in pages: an entry of the map for each page that is used.
//!
//! In: a key of the script, a bucket. Out: the key of a page's entry, code that asks for or removes all pages of a key.
//! Guarantee: the bytes of equal keys are equal; no page of a key that was removed is left, but for those that another program
//! writes meanwhile.

use crate::ir::{Addr, Arg, BinOp, CmpOp, Helper, Likely, MapId, Operand, Size, VReg, Width};
use crate::lower::{Body, Value};
use crate::typed::{Expr, MapIndex};
use crate::types::Type;
use crate::words::{PAGE_NUMBER_BYTES, Pages};

/// A key that is allowed is allowed so many pages where memory permits. Measured values of one kind mostly lie within a few powers
/// of two, and rarely are all keys used.
const PAGES_PER_KEY: u32 = 4;

/// Bytes of a page's key, by those of the script's.
pub(super) const fn key_size_bytes(script_key_bytes: u32) -> u32 {
    script_key_bytes.next_multiple_of(PAGE_NUMBER_BYTES) + PAGE_NUMBER_BYTES
}

/// How many pages a map for so many keys has: fewer a key where each CPU could otherwise not have its own.
pub(super) fn entries(keys: u32, pages: Pages, cpus: u64, max_per_cpu_bytes: u64) -> u32 {
    let fits = |count: &u32| u64::from(*count) * cpus * u64::from(pages.size_bytes) <= max_per_cpu_bytes;
    let wanted = (0..=PAGES_PER_KEY.ilog2()).rev().map(|power| keys.saturating_mul(1 << power));
    let least = keys.saturating_mul(PAGES_PER_KEY);
    wanted.into_iter().find(fits).unwrap_or(least)
}

impl Body<'_, '_> {
    pub(super) fn pages_of(&self, map: MapIndex) -> Option<Pages> {
        self.shared.program.maps[map.0].value.pages()
    }

    /// The key with room for the page's number behind it, and where that is.
    fn page_key(&mut self, map: MapIndex, key: Option<&Expr>) -> (Addr, Addr) {
        let ty = self.shared.program.maps[map.0].key.clone().unwrap_or(Type::I64);
        let key_bytes = self.layout(&ty).size_bytes.max(1);
        let whole = key_size_bytes(key_bytes);
        let addr = self.memory(whole, "key");
        let number = addr.plus((whole - PAGE_NUMBER_BYTES) as i32);
        if !key_bytes.is_multiple_of(PAGE_NUMBER_BYTES) {
            self.b.store(number.plus(-(PAGE_NUMBER_BYTES as i32)), 0, Size::B4);
        }
        if let Some(key) = key {
            self.store_as(key, &ty, addr);
        }
        (addr, number)
    }

    /// The key of the page of a bucket, and the bucket's number in it.
    pub(super) fn key_of_page(
        &mut self,
        map: MapIndex,
        key: Option<&Expr>,
        pages: Pages,
        bucket: VReg,
    ) -> (Addr, Option<VReg>) {
        let (addr, number) = self.page_key(map, key);
        let page = self.b.bin(BinOp::Shr, Width::W64, bucket, i64::from(pages.sub_bits));
        self.b.store(number, page, Size::B4);
        (addr, Some(self.b.bin(BinOp::And, Width::W64, bucket, (1i64 << pages.sub_bits) - 1)))
    }

    /// Whether a key has a page at all.
    pub(super) fn has_pages(&mut self, map: MapIndex, id: MapId, key: Option<&Expr>, pages: Pages) -> Value {
        let (addr, number) = self.page_key(map, key);
        let result = self.b.copy(1);
        let done = self.b.new_block();
        for page in 0..pages.count {
            self.b.store(number, i64::from(page), Size::B4);
            let found = self.look_up(id, addr);
            let next = self.b.new_block();
            self.b.branch(CmpOp::Ne, Width::W64, found, 0, done, next, Likely::Unknown);
            self.b.switch_to(next);
        }
        self.b.assign(result, 0);
        self.b.jump(done);
        self.b.switch_to(done);
        Value::Scalar(result.into())
    }

    /// Removes all pages of a key; whether there was one.
    pub(super) fn delete_pages(&mut self, map: MapIndex, id: MapId, key: Option<&Expr>, pages: Pages) -> Value {
        let (addr, number) = self.page_key(map, key);
        self.forget_lookups(map);
        let mut any: Operand = Operand::Imm(0);
        for page in 0..pages.count {
            self.b.store(number, i64::from(page), Size::B4);
            let key = self.address_arg(addr);
            let result = self.b.call(Helper::MapDeleteElem, &[Arg::Map(id), key]);
            let removed = self.b.set(CmpOp::Eq, Width::W32, result, 0);
            any = self.b.bin(BinOp::Or, Width::W64, any, removed).into();
        }
        Value::Scalar(any)
    }
}
