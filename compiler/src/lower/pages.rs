//! Paged map values: one map entry for each page that is used.
//!
//! In: a script key, a bucket. Out: the key of a page's entry, code that tests for or removes all
//! pages of a key.
//! Guarantee: equal keys have equal bytes. No page of a removed key is left, except pages that
//! another program writes concurrently.

use crate::ir::{Addr, Arg, BinOp, CmpOp, Helper, Likely, MapId, Operand, Size, VReg, Width};
use crate::lower::{Body, Value, maps};
use crate::object::{PAGE_NUMBER_BYTES, Pages};
use crate::typed::{Expr, MapIndex};
use crate::types::Type;

/// Pages per allowed key, where memory permits. Measured values of one kind mostly lie within a few
/// powers of two, and rarely are all keys used.
const PAGES_PER_KEY: u32 = 4;

/// Size of a page's key, by that of the script's key.
pub(super) const fn key_size_bytes(script_key_bytes: u32) -> u32 {
    script_key_bytes.next_multiple_of(PAGE_NUMBER_BYTES) + PAGE_NUMBER_BYTES
}

/// Number of entries of a map for this many keys: fewer pages per key if the per-CPU copies would
/// not fit otherwise.
pub(super) fn entries(keys: u32, pages: Pages, cpus: u64, max_per_cpu_bytes: u64) -> u32 {
    let fits = |count: &u32| u64::from(*count) * cpus * u64::from(pages.size_bytes) <= max_per_cpu_bytes;
    let wanted = (0..=PAGES_PER_KEY.ilog2()).rev().map(|power| keys.saturating_mul(1 << power));
    let least = keys.saturating_mul(PAGES_PER_KEY);
    wanted.into_iter().find(fits).unwrap_or(least)
}

pub(super) fn of_map(cx: &Body<'_, '_>, map: MapIndex) -> Option<Pages> {
    cx.shared.program.maps[map.0].value.pages()
}

/// The key followed by space for the page number, and the address of that space.
fn page_key(cx: &mut Body<'_, '_>, map: MapIndex, key: Option<&Expr>) -> (Addr, Addr) {
    let ty = cx.shared.program.maps[map.0].key.clone().unwrap_or(Type::I64);
    let key_bytes = cx.layout(&ty).size_bytes.max(1);
    let whole = key_size_bytes(key_bytes);
    let addr = cx.memory(whole, "key");
    let number = addr.plus((whole - PAGE_NUMBER_BYTES) as i32);
    if !key_bytes.is_multiple_of(PAGE_NUMBER_BYTES) {
        cx.b.store(number.plus(-(PAGE_NUMBER_BYTES as i32)), 0, Size::B4);
    }
    if let Some(key) = key {
        cx.store_as(key, &ty, addr);
    }
    (addr, number)
}

/// The key of the page that contains a bucket, and the bucket's index in that page.
pub(super) fn key_of_page(
    cx: &mut Body<'_, '_>,
    map: MapIndex,
    key: Option<&Expr>,
    pages: Pages,
    bucket: VReg,
) -> (Addr, Option<VReg>) {
    let (addr, number) = page_key(cx, map, key);
    let page = cx.b.bin(BinOp::Shr, Width::W64, bucket, i64::from(pages.sub_bits));
    cx.b.store(number, page, Size::B4);
    (addr, Some(cx.b.bin(BinOp::And, Width::W64, bucket, (1i64 << pages.sub_bits) - 1)))
}

/// Whether a key has any page.
pub(super) fn has_any(cx: &mut Body<'_, '_>, map: MapIndex, id: MapId, key: Option<&Expr>, pages: Pages) -> Value {
    let (addr, number) = page_key(cx, map, key);
    let result = cx.b.copy(1);
    let done = cx.b.new_block();
    for page in 0..pages.count {
        cx.b.store(number, i64::from(page), Size::B4);
        let found = maps::look_up(cx, id, addr);
        let next = cx.b.new_block();
        cx.b.branch(CmpOp::Ne, Width::W64, found, 0, done, next, Likely::Unknown);
        cx.b.switch_to(next);
    }
    cx.b.assign(result, 0);
    cx.b.jump(done);
    cx.b.switch_to(done);
    Value::Scalar(result.into())
}

/// Removes all pages of a key; yields whether there was one.
pub(super) fn delete(cx: &mut Body<'_, '_>, map: MapIndex, id: MapId, key: Option<&Expr>, pages: Pages) -> Value {
    let (addr, number) = page_key(cx, map, key);
    cx.function.lookups.forget(map);
    let mut any: Operand = Operand::Imm(0);
    for page in 0..pages.count {
        cx.b.store(number, i64::from(page), Size::B4);
        let key = cx.address_arg(addr);
        let result = cx.b.call(Helper::MapDeleteElem, &[Arg::Map(id), key]);
        let removed = cx.b.set(CmpOp::Eq, Width::W32, result, 0);
        any = cx.b.bin(BinOp::Or, Width::W64, any, removed).into();
    }
    Value::Scalar(any)
}
