//! `dist(n[, error%])`: a log-linear histogram with exact count, sum, minimum and maximum.
//!
//! Its bytes are three words, sum, maximum and minimum (stored as in [`super::max`] and
//! [`super::min`]), followed by the counts of the buckets, numbered as in [`crate::distribution`].
//! Without a key there are all buckets, followed by one for negative values. With a key there is
//! one page of buckets, and the page number is part of the map key: a key has a page for each power
//! of two that its values fall in, and uses no memory for others.

use crate::ast;
use crate::catalogue::{Aggregated, Aggregation};
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::distribution::{Distribution, MAX_SUB_BITS, pages, sub_bits_for};
use crate::ir::{BinOp, CmpOp, Likely, Operand, VReg, Width};
use crate::lower::{self, AggregateSlot};
use crate::object::Pages;
use crate::results::Merge;
use crate::source::Span;
use crate::statistics::Statistic;
use crate::value::Value;

/// Words before the buckets: sum, maximum, minimum.
const HEAD_WORDS: usize = 3;

/// The default error, and the smallest and largest allowed one, in thousandths of a percent.
const ERROR: (u32, u32, u32) = (1000, 100, 25_000);

/// `dist`.
#[derive(Debug)]
pub(super) struct Dist;

impl Aggregation for Dist {
    word!("dist", "aggregations/dist");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<Aggregated> {
        if !cx.arity("dist", args.len(), 1..=2, span) {
            return None;
        }
        let (default, least, most) = ERROR;
        let error = match args.get(1).map(|arg| (&arg.kind, arg.span)) {
            None => Some(default),
            Some((ast::ExprKind::Decimal { thousandths, percent: true }, _)) => {
                u32::try_from(*thousandths).ok().filter(|error| (least..=most).contains(error))
            }
            Some(_) => None,
        };
        let Some(sub_bits) = error.and_then(sub_bits_for) else {
            let message = "the error of `dist` is a percentage from 0.1% to 25%";
            let at = args.get(1).map_or(span, |arg| arg.span);
            cx.error(Diagnostic::error(Code(396), at, message).help("for example `dist(v, 2%)`; without it, 1%"));
            return None;
        };
        let used = cx.one_integer("dist", &args[..1], span)?;
        Some(Aggregated { params: vec![i64::from(sub_bits)], ..used })
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, args: &[Operand]) {
        let Some(bucket) = slot.bucket else { return };
        slot.add(cx, 0, args[0]);
        let largest = super::ordered(cx, args[0], slot.signed);
        slot.plus(8).raise(cx, largest);
        let smallest = cx.b.bin(BinOp::Xor, Width::W64, largest, -1);
        slot.plus(16).raise(cx, smallest);
        let words = slot.size_bytes / 8 - HEAD_WORDS as u32;
        slot.plus(8 * HEAD_WORDS as i32).bump(cx, bucket, words);
    }

    fn size_bytes(&self, params: &[i64]) -> u32 {
        let sub_bits = sub_bits(params);
        (HEAD_WORDS as u32 + (pages(sub_bits) << sub_bits) + 1) * 8
    }

    fn pages(&self, params: &[i64]) -> Option<Pages> {
        let sub_bits = sub_bits(params);
        // The last page counts negative values.
        let count = pages(sub_bits) + 1;
        Some(Pages { sub_bits, count, size_bytes: (HEAD_WORDS as u32 + (1 << sub_bits)) * 8 })
    }

    fn bucket(&self, cx: &mut lower::Body<'_, '_>, params: &[i64], signed: bool, args: &[Operand]) -> Option<VReg> {
        let sub_bits = sub_bits(params);
        let k = i64::from(sub_bits);
        let n = cx.b.copy(args[0]);
        let index = cx.b.new_vreg();
        let (small, large, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
        if signed {
            let (negative, other) = (cx.b.new_block(), cx.b.new_block());
            cx.b.branch(CmpOp::SLt, Width::W64, n, 0, negative, other, Likely::Otherwise);
            cx.b.switch_to(negative);
            cx.b.assign(index, i64::from(pages(sub_bits) << sub_bits));
            cx.b.jump(done);
            cx.b.switch_to(other);
        }
        cx.b.branch(CmpOp::Lt, Width::W64, n, 1i64 << k, small, large, Likely::Otherwise);
        cx.b.switch_to(small);
        cx.b.assign(index, n);
        cx.b.jump(done);
        cx.b.switch_to(large);
        let log2 = super::hist::integer_log2(cx, n);
        let shift = cx.b.bin(BinOp::Sub, Width::W64, log2, k);
        let leading = cx.b.bin(BinOp::Shr, Width::W64, n, shift);
        let first = cx.b.bin(BinOp::Shl, Width::W64, shift, k);
        let number = cx.b.bin(BinOp::Add, Width::W64, first, leading);
        cx.b.assign(index, number);
        cx.b.jump(done);
        cx.b.switch_to(done);
        Some(index)
    }
}

impl Merge for Dist {
    fn merge(&self, params: &[i64], signed: bool, per_cpu: &[&[u8]]) -> Value {
        self.merge_pages(params, signed, &[(0, per_cpu.to_vec())])
    }

    fn merge_pages(&self, params: &[i64], signed: bool, pages: &[(u64, Vec<&[u8]>)]) -> Value {
        let mut all = Distribution { sub_bits: sub_bits(params), ..Distribution::default() };
        for (page, copies) in pages {
            for copy in copies {
                all.merge(&of_copy(*page, copy, sub_bits(params), signed));
            }
        }
        Value::Distribution(all)
    }

    fn yields(&self, _statistic: Statistic) -> bool {
        true
    }

    fn takes(&self, params: &[i64]) -> bool {
        matches!(params, [bits] if (0..=i64::from(MAX_SUB_BITS)).contains(bits))
    }

    fn json_type(&self) -> &'static str {
        "dist"
    }
}

fn sub_bits(params: &[i64]) -> u8 {
    super::param(params, 0) as u8
}

/// Decodes one CPU's bytes; their first bucket is the first of page `page`.
fn of_copy(page: u64, bytes: &[u8], sub_bits: u8, signed: bool) -> Distribution {
    let number = |bits: u64| if signed { i128::from(bits as i64) } else { i128::from(bits) };
    let flip = if signed { 1u64 << 63 } else { 0 };
    let mut copy = Distribution { sub_bits, ..Distribution::default() };
    let first = (page << sub_bits) as u32;
    for (bucket, at) in (first..).zip(HEAD_WORDS..bytes.len() / 8) {
        let count = super::word(bytes, at);
        if bucket < pages(sub_bits) << sub_bits {
            copy.add(bucket, count);
        } else {
            copy.negative = copy.negative.saturating_add(count);
        }
    }
    if copy.count() > 0 {
        copy.sum = number(super::word(bytes, 0));
        copy.range = Some((number(!super::word(bytes, 2) ^ flip), number(super::word(bytes, 1) ^ flip)));
    }
    copy
}
