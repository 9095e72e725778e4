//! Constants: literals, positional parameters, sizes.
//!
//! In: expressions as written. Out: typed constants, or the constant that a function requires.
//! Guarantee: whatever is called constant here needs no code.

use crate::ast::{Expr, ExprKind, UnaryOp};
use crate::check::Body;
use crate::source::Span;
use crate::typed;
use crate::types::Type;

impl Body<'_, '_> {
    /// The value of an expression if it is an integer constant.
    pub fn constant_int(&mut self, e: &Expr) -> Option<i64> {
        match &e.kind {
            ExprKind::Int(n) | ExprKind::Duration(n) => i64::try_from(*n).ok(),
            ExprKind::Unary(UnaryOp::Neg, inner) => self.constant_int(inner).and_then(i64::checked_neg),
            _ => match self.expr(e) {
                // A `uint64` of 2^63 or more must not be read as the negative number with the same
                // bits.
                typed::Expr { kind: typed::ExprKind::Int(n), ty, .. } if ty != Type::Unknown => {
                    (n >= 0 || ty.as_int().is_none_or(|int| int.signed)).then_some(n)
                }
                _ => None,
            },
        }
    }

    /// The text of an expression if it is a string constant.
    pub fn constant_str(&self, e: &Expr) -> Option<Vec<u8>> {
        match &e.kind {
            ExprKind::Str(text) => Some(text.clone()),
            ExprKind::Positional(_) => self.positional_text(e).map(String::into_bytes),
            ExprKind::Call { name, args } if name.text == "str" && args.len() == 1 => {
                self.positional_text(&args[0]).map(String::into_bytes)
            }
            _ => None,
        }
    }

    /// The text of `$1`, for functions that take a string; empty if not given.
    pub fn positional_text(&self, e: &Expr) -> Option<String> {
        match e.kind {
            ExprKind::Positional(index) => {
                Some(self.env.options.positional.get(index as usize - 1).cloned().unwrap_or_default())
            }
            _ => None,
        }
    }
}

/// `$1`: a number if it parses as one, else a string; 0 if not given.
pub(super) fn positional(cx: &mut Body<'_, '_>, index: u32, span: Span) -> typed::Expr {
    let Some(text) = cx.env.options.positional.get(index as usize - 1).cloned() else {
        return typed::Expr::int(0, span);
    };
    match parse_int(&text) {
        Some(value) => match u64::try_from(value) {
            Ok(value) => typed::Expr::int(value, span),
            Err(_) => typed::Expr { kind: typed::ExprKind::Int(value as i64), ty: Type::I64, span },
        },
        None => typed::Expr::string(text.as_bytes(), span),
    }
}

/// Parses `12`, `-3`, `0x1f`, `017`: a number that fits in an `int64` or a `uint64`.
fn parse_int(text: &str) -> Option<i128> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let value = if let Some(hex) = digits.strip_prefix("0x") {
        u64::from_str_radix(hex, 16).ok()?
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(digits, 8).ok()?
    } else {
        digits.parse().ok()?
    };
    if negative { 0_i64.checked_sub_unsigned(value).map(i128::from) } else { Some(i128::from(value)) }
}
