//! Computed cells and conditions of a view.
//!
//! In: a [`Formula`], the cells that it refers to, the accounting of the spans. Out: a [`Cell`]; a
//! condition is a boolean value.
//! Guarantee: a result that cannot be computed is missing: division by zero, and anything with a
//! missing operand.

use std::cmp::Ordering;

use profiler_model::operator::BinaryOp;
use profiler_model::output::{Cell, SpanLedger};
use profiler_model::statistics::Number;
use profiler_model::types::Space;
use profiler_model::value::Value;
use profiler_model::view::{Formula, LedgerCount, Naming, Source};

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;

/// The inputs of formulas.
pub(super) struct Inputs<'a> {
    /// The cell of a column in the current row.
    pub cell: &'a dyn Fn(Source) -> Cell,
    /// A part of the key of the current row, or how many values it has there.
    pub one_or_count: &'a dyn Fn(usize) -> Cell,
    /// The accounting of the spans, by index.
    pub spans: &'a [SpanLedger],
}

impl Inputs<'_> {
    /// Whether a condition holds; false if it cannot be decided.
    pub(super) fn holds(&self, condition: &Formula) -> bool {
        self.truth(condition) == Some(true)
    }

    /// The value of a formula.
    pub(super) fn compute(&self, formula: &Formula) -> Cell {
        match formula {
            Formula::Source(source) => (self.cell)(*source),
            Formula::OneOrCount(part) => (self.one_or_count)(*part),
            Formula::Text(text) => Cell::Value(Value::Str(text.clone())),
            Formula::Named(naming, of) => self.named(naming, of),
            formula if is_condition(formula) => {
                self.truth(formula).map_or(Cell::Missing, |truth| Cell::Value(Value::Bool(truth)))
            }
            formula => self.number(formula).map_or(Cell::Missing, Cell::Number),
        }
    }

    fn named(&self, naming: &Naming, of: &Formula) -> Cell {
        let number = match self.compute(of) {
            Cell::Number(Number::Integer(number)) => number,
            Cell::Value(Value::Int(number)) => number.into(),
            Cell::Value(Value::Uint(number) | Value::Pointer(number)) => number.into(),
            _ => return Cell::Missing,
        };
        Cell::Value(match naming {
            Naming::Texts { .. } => Value::Str(naming.text(number).unwrap_or_default().as_bytes().to_vec()),
            // An address may be stored as a signed number.
            Naming::KernelSymbol => Value::Symbol { space: Space::Kernel, address: number as u64, pid: 0 },
        })
    }

    fn number(&self, formula: &Formula) -> Option<Number> {
        let finite = |number: f64| number.is_finite().then_some(Number::Real(number));
        match formula {
            Formula::Number { thousandths } => Some(match thousandths % 1000 {
                0 => Number::Integer(thousandths / 1000),
                _ => Number::Real(Number::Integer(*thousandths).as_f64() / 1000.0),
            }),
            Formula::Ledger { span, count } => {
                self.spans.get(*span).map(|ledger| Number::Integer(counted(ledger, *count).into()))
            }
            Formula::Negate(of) => match self.number(of)? {
                Number::Integer(n) => n.checked_neg().map(Number::Integer),
                number => finite(-number.as_f64()),
            },
            Formula::PerSecond(amount, duration) => {
                let (amount, duration) = (self.number(amount)?.as_f64(), self.number(duration)?.as_f64());
                finite(amount * SECOND_NS / duration)
            }
            Formula::Binary(op, left, right) => arithmetic(*op, self.number(left)?, self.number(right)?),
            Formula::Source(source) => match (self.cell)(*source) {
                Cell::Number(number @ (Number::Integer(_) | Number::Real(_))) => Some(number),
                Cell::Value(Value::Int(n)) => Some(Number::Integer(n.into())),
                Cell::Value(Value::Uint(n)) => Some(Number::Integer(n.into())),
                // A bucket's bound cannot be used in arithmetic.
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a condition holds; `None` if a missing operand leaves it undecided.
    fn truth(&self, formula: &Formula) -> Option<bool> {
        match formula {
            Formula::Not(of) => self.truth(of).map(|truth| !truth),
            Formula::Binary(BinaryOp::LogicalAnd, left, right) => match (self.truth(left), self.truth(right)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Formula::Binary(BinaryOp::LogicalOr, left, right) => match (self.truth(left), self.truth(right)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Formula::Binary(op, left, right) => {
                if let (Some(left), Some(right)) = (self.number(left), self.number(right)) {
                    return compared(*op, left.compare(right));
                }
                match (self.compute(left), self.compute(right)) {
                    (Cell::Value(Value::Str(left)), Cell::Value(Value::Str(right))) => compared(*op, left.cmp(&right)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

fn is_condition(formula: &Formula) -> bool {
    match formula {
        Formula::Not(_) => true,
        Formula::Binary(op, ..) => !matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div),
        _ => false,
    }
}

/// Exact for integers as long as the result fits.
fn arithmetic(op: BinaryOp, left: Number, right: Number) -> Option<Number> {
    if let (Number::Integer(a), Number::Integer(b)) = (left, right) {
        let exact = match op {
            BinaryOp::Add => a.checked_add(b),
            BinaryOp::Sub => a.checked_sub(b),
            BinaryOp::Mul => a.checked_mul(b),
            BinaryOp::Div if b != 0 && a.checked_rem(b) == Some(0) => a.checked_div(b),
            _ => None,
        };
        if let Some(exact) = exact {
            return Some(Number::Integer(exact));
        }
    }
    let (a, b) = (left.as_f64(), right.as_f64());
    let real = match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        _ => return None,
    };
    real.is_finite().then_some(Number::Real(real))
}

fn compared(op: BinaryOp, order: Ordering) -> Option<bool> {
    Some(match op {
        BinaryOp::Equal => order.is_eq(),
        BinaryOp::NotEqual => order.is_ne(),
        BinaryOp::Less => order.is_lt(),
        BinaryOp::LessEqual => order.is_le(),
        BinaryOp::Greater => order.is_gt(),
        BinaryOp::GreaterEqual => order.is_ge(),
        _ => return None,
    })
}

fn counted(ledger: &SpanLedger, count: LedgerCount) -> u64 {
    match count {
        LedgerCount::Started => ledger.started,
        LedgerCount::Matched => ledger.matched,
        LedgerCount::Replaced => ledger.replaced,
        LedgerCount::Expired => ledger.expired,
        LedgerCount::Evicted => ledger.evicted.unwrap_or(0),
        LedgerCount::Ended => ledger.ended.unwrap_or(0),
        LedgerCount::Open => ledger.open,
        LedgerCount::Dropped => ledger.lost(),
        LedgerCount::Unmatched => ledger.unmatched,
    }
}
