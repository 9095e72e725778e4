//! `tseries(n, interval, intervals[, "how"])`: one value for each of the latest intervals.
//!
//! A slot has 24 bytes: value, mark and interval number. Intervals reuse the slots in turn. The
//! first update in an interval claims its slot by writing the interval's number. In an atomic slot
//! it then subtracts the old contents that it read before, so that concurrent additions are
//! preserved.

use std::collections::BTreeMap;

use crate::ast;
use crate::catalogue::{Aggregated, Aggregation};
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Addr, BinOp, CmpOp, Helper, Inst, Likely, Operand, Section, Size, VReg, Width};
use crate::lower::{self, AggregateSlot};
use crate::results::Merge;
use crate::series::Series;
use crate::source::Span;
use crate::value::Value;

/// `tseries`.
#[derive(Debug)]
pub(super) struct Tseries;

/// How several values of one interval are combined, indexed by the constant.
const HOW: [&str; 5] = ["", "avg", "max", "min", "sum"];
const LAST: i64 = 0;
const AVG: i64 = 1;
const MAX: i64 = 2;
const MIN: i64 = 3;

const SLOT_BYTES: u32 = 24;
/// The word after the value: the time of the last value, or the number of values.
const MARK: i32 = 8;
const NUMBER: i32 = 16;

/// The kernel limits a per-CPU map value to 32 KiB.
const MOST_INTERVALS: i64 = 1000;

impl Aggregation for Tseries {
    word!("tseries", "aggregations/tseries");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<Aggregated> {
        if !cx.arity("tseries", args.len(), 3..=4, span) {
            return None;
        }
        let how = match args.get(3) {
            None => Some(LAST as usize),
            Some(e) => cx
                .constant_str(e)
                .and_then(|text| HOW[1..].iter().position(|how| how.as_bytes() == text))
                .map(|n| n + 1),
        };
        let Some(how) = how else {
            let message = "the last argument of `tseries` is \"avg\", \"max\", \"min\" or \"sum\"";
            cx.error(Diagnostic::error(Code(389), args[3].span, message));
            return None;
        };
        let (interval_ns, intervals) = (cx.constant_int(&args[1]), cx.constant_int(&args[2]));
        let (Some(interval_ns @ 1..), Some(intervals @ 1..=MOST_INTERVALS)) = (interval_ns, intervals) else {
            let message = format!(
                "`tseries` takes constants: the length of an interval, at least 1 ns, and the number of intervals, 1 to {MOST_INTERVALS}"
            );
            let span = args[1].span.to(args[2].span);
            cx.error(Diagnostic::error(Code(389), span, message).help("`tseries(n, 100ms, 20)`"));
            return None;
        };
        let used = cx.one_integer("tseries", &args[..1], span)?;
        Some(Aggregated { params: vec![interval_ns, intervals, how as i64], ..used })
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, args: &[Operand]) {
        let (interval_ns, intervals, how) = (slot.param(0), slot.param(1), slot.param(2));
        let offset = cx.wall_clock_offset();
        let boot = cx.b.call(Helper::KtimeGetBootNs, &[]);
        let base = cx.b.data_addr(Section::Bss, offset);
        let wall = cx.b.load(Addr::reg(base, 0), Size::B8);
        let now = cx.b.bin(BinOp::Add, Width::W64, boot, wall);
        let number = cx.b.bin(BinOp::Div, Width::W64, now, interval_ns);
        let turn = cx.b.bin(BinOp::Mod, Width::W64, number, intervals);
        // Verifier: older versions do not track the bound of a remainder.
        let turn = cx.b.clamp(turn, intervals as u32 - 1);
        let distance = cx.b.bin(BinOp::Mul, Width::W64, turn, i64::from(SLOT_BYTES));
        let first = cx.address(slot.addr);
        let at = cx.b.bin(BinOp::Add, Width::W64, first, distance);
        let place = AggregateSlot { addr: Addr::reg(at, 0), ..slot.clone() };
        claim(cx, &place, number);
        match how {
            LAST => {
                cx.b.store(place.addr, args[0], Size::B8);
                cx.b.store(place.addr.plus(MARK), now, Size::B8);
            }
            MAX | MIN => {
                let key = super::ordered(cx, args[0], slot.signed);
                let key = if how == MIN { cx.b.bin(BinOp::Xor, Width::W64, key, -1) } else { key };
                place.raise(cx, key);
            }
            _ => {
                place.add(cx, 0, args[0]);
                place.add(cx, MARK, Operand::Imm(1));
            }
        }
    }

    fn size_bytes(&self, params: &[i64]) -> u32 {
        super::param(params, 1) as u32 * SLOT_BYTES
    }
}

impl Merge for Tseries {
    fn takes(&self, params: &[i64]) -> bool {
        matches!(params, [length, 1..=MOST_INTERVALS, _] if *length > 0)
    }

    fn merge(&self, params: &[i64], signed: bool, per_cpu: &[&[u8]]) -> Value {
        let [interval_ns, intervals, how] = super::three(params);
        let mut points: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for bytes in per_cpu {
            for slot in 0..intervals as usize {
                let [value, mark, number] = [0, 1, 2].map(|word| super::word(bytes, slot * 3 + word));
                if number == 0 {
                    continue;
                }
                points
                    .entry(number)
                    .and_modify(|kept| *kept = both(how, *kept, (value, mark)))
                    .or_insert((value, mark));
            }
        }
        let shown = |(number, (value, mark)): (u64, (u64, u64))| (number, shown(how, signed, value, mark));
        let points = points.into_iter().map(shown).collect();
        Value::Series(Series::new(interval_ns as u64, intervals as u64, points))
    }

    fn json_type(&self) -> &'static str {
        "tseries"
    }
}

/// Claims a slot for interval `number`: empties it, unless it already belongs to that interval.
fn claim(cx: &mut lower::Body<'_, '_>, slot: &AggregateSlot, number: VReg) {
    let (stale, ready) = (cx.b.new_block(), cx.b.new_block());
    let seen = cx.b.load(slot.addr.plus(NUMBER), Size::B8);
    cx.b.branch(CmpOp::Ne, Width::W64, seen, number, stale, ready, Likely::Otherwise);
    cx.b.switch_to(stale);
    if slot.atomic {
        let (value, mark) = (cx.b.load(slot.addr, Size::B8), cx.b.load(slot.addr.plus(MARK), Size::B8));
        let (old, mine) = (cx.b.new_vreg(), cx.b.new_block());
        cx.b.inst(Inst::CompareExchange { dst: old, addr: slot.addr.plus(NUMBER), expected: seen, new: number });
        cx.b.branch(CmpOp::Eq, Width::W64, old, seen, mine, ready, Likely::Then);
        cx.b.switch_to(mine);
        for (offset, kept) in [(0, value), (MARK, mark)] {
            let less = cx.b.bin(BinOp::Sub, Width::W64, 0, kept);
            cx.b.atomic_add(slot.addr.plus(offset), less, Size::B8);
        }
    } else {
        cx.b.store(slot.addr, 0, Size::B8);
        cx.b.store(slot.addr.plus(MARK), 0, Size::B8);
        cx.b.store(slot.addr.plus(NUMBER), number, Size::B8);
    }
    cx.b.jump(ready);
    cx.b.switch_to(ready);
}

/// Combines two CPUs' value and mark of one interval.
fn both(how: i64, a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    match how {
        LAST => {
            if b.1 > a.1 {
                b
            } else {
                a
            }
        }
        MAX | MIN => (a.0.max(b.0), 0),
        _ => (a.0.wrapping_add(b.0), a.1.wrapping_add(b.1)),
    }
}

/// The number that a slot's value and mark encode.
fn shown(how: i64, signed: bool, value: u64, mark: u64) -> i128 {
    let value = match how {
        AVG => return super::average(mark, super::number(value, signed)),
        MAX | MIN => {
            let key = if how == MIN { !value } else { value };
            if signed { key ^ (1 << 63) } else { key }
        }
        _ => value,
    };
    super::number(value, signed)
}

#[cfg(test)]
mod tests {
    use super::{AVG, LAST, MAX, MIN, Tseries};
    use crate::results::Merge as _;
    use crate::value::Value;

    fn points(how: i64, cpus: &[&[[u64; 3]]]) -> Vec<(u64, i128)> {
        let bytes: Vec<Vec<u8>> =
            cpus.iter().map(|slots| slots.iter().flatten().flat_map(|word| word.to_ne_bytes()).collect()).collect();
        let copies: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        match Tseries.merge(&[1000, 2, how], true, &copies) {
            Value::Series(series) => series.points,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_of_several_cpus_meet_in_their_interval() {
        let ordered = |n: i64| n as u64 ^ (1 << 63);
        assert_eq!(points(LAST, &[&[[7, 100, 4], [9, 90, 3]], &[[8, 99, 4], [0, 0, 0]]]), [(3, 9), (4, 7)]);
        assert_eq!(points(AVG, &[&[[7, 2, 4], [0; 3]], &[[8, 3, 4], [-5i64 as u64, 1, 5]]]), [(4, 3), (5, -5)]);
        assert_eq!(points(MAX, &[&[[ordered(-3), 0, 4], [0; 3]], &[[ordered(-8), 0, 4], [0; 3]]]), [(4, -3)]);
        assert_eq!(points(MIN, &[&[[!ordered(-3), 0, 4], [0; 3]], &[[!ordered(8), 0, 4], [0; 3]]]), [(4, -3)]);
        assert_eq!(points(4, &[&[[1, 1, 4], [0; 3]], &[[2, 1, 4], [0; 3]]]), [(4, 3)]);
    }
}
