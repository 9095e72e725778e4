//! Constants: literals, positional parameters, sizes.
//!
//! In: expressions as written. Out: typed constants, or the constant a word asks for.
//! Guarantee: whatever is called constant here needs no code.

use crate::ast::{Expr, ExprKind, UnaryOp};
use crate::check::Body;
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

impl Body<'_, '_> {
    /// An integer constant; those that only fit unsigned are `uint64`.
    pub fn int_literal(value: u64, span: Span) -> typed::Expr {
        let ty = if i64::try_from(value).is_ok() { Type::I64 } else { Type::U64 };
        typed::Expr { kind: typed::ExprKind::Int(value as i64), ty, span }
    }

    /// A string constant with room for its NUL, and cut where it has one already, as in C.
    pub fn str_literal(text: &[u8], span: Span) -> typed::Expr {
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let ty = Type::Str { capacity_bytes: text.len() as u32 + 1 };
        typed::Expr { kind: typed::ExprKind::Str(text.to_vec()), ty, span }
    }

    /// `$1`: a number when it reads as one, else a string; 0 when not given.
    pub fn positional(&mut self, index: u32, span: Span) -> typed::Expr {
        let Some(text) = self.env.options.positional.get(index as usize - 1).cloned() else {
            return Self::int_literal(0, span);
        };
        match parse_int(&text) {
            Some(value) => typed::Expr { kind: typed::ExprKind::Int(value), ty: Type::I64, span },
            None => Self::str_literal(text.as_bytes(), span),
        }
    }

    /// The text of `$1`, for words that want a string; empty when not given.
    pub fn positional_text(&self, e: &Expr) -> Option<String> {
        match e.kind {
            ExprKind::Positional(index) => {
                Some(self.env.options.positional.get(index as usize - 1).cloned().unwrap_or_default())
            }
            _ => None,
        }
    }

    /// The value of an expression that is an integer constant.
    pub fn constant_int(&mut self, e: &Expr) -> Option<i64> {
        match &e.kind {
            ExprKind::Int(n) | ExprKind::Duration(n) => i64::try_from(*n).ok(),
            ExprKind::Unary(UnaryOp::Neg, inner) => self.constant_int(inner).and_then(i64::checked_neg),
            _ => match self.expr(e) {
                typed::Expr { kind: typed::ExprKind::Int(n), ty, .. } if ty != Type::Unknown => Some(n),
                _ => None,
            },
        }
    }

    /// The text of an expression that is a string constant.
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

    /// Reports a call with a wrong number of arguments; true when the number is right.
    pub fn arity(&mut self, what: &str, given: usize, allowed: std::ops::RangeInclusive<usize>, span: Span) -> bool {
        if allowed.contains(&given) {
            return true;
        }
        let (low, high) = (*allowed.start(), *allowed.end());
        let wanted = match (low, high) {
            (0, 0) => "no argument".to_string(),
            (1, 1) => "one argument".to_string(),
            (low, high) if low == high => format!("{low} arguments"),
            (low, usize::MAX) => format!("at least {low} argument{}", if low == 1 { "" } else { "s" }),
            (low, high) if low + 1 == high => format!("{low} or {high} arguments"),
            (low, high) => format!("{low} to {high} arguments"),
        };
        let given = match given {
            0 => "none is".to_string(),
            1 => "one is".to_string(),
            n => format!("{n} are"),
        };
        let message = format!("`{what}` takes {wanted}, {given} given");
        let word = self.env.catalogue.function(what).map(crate::words::Function::doc);
        let word = word.or_else(|| self.env.catalogue.aggregation(what).map(crate::words::Aggregation::doc));
        let mut diagnostic = Diagnostic::error(Code(320), span, message);
        if let Some(doc) = word {
            diagnostic = diagnostic.help(format!("{}: {}", doc.signature, doc.summary));
        }
        self.error(diagnostic);
        false
    }

    /// An integer argument; reports other types.
    pub fn int_arg(&mut self, what: &str, e: &Expr) -> Option<typed::Expr> {
        let checked = self.expr(e);
        if checked.ty.as_int().is_some() || checked.ty == Type::Unknown {
            return Some(checked);
        }
        let message = format!("`{what}` takes a number, this is {}", self.one(&checked.ty));
        self.error(Diagnostic::error(Code(303), e.span, message));
        None
    }
}

/// Reads `12`, `-3`, `0x1f`, `017`.
pub fn parse_int(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let value = if let Some(hex) = digits.strip_prefix("0x") {
        u64::from_str_radix(hex, 16).ok()?
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(digits, 8).ok()?
    } else {
        digits.parse().ok()?
    };
    if negative { i64::try_from(value).ok()?.checked_neg() } else { Some(value as i64) }
}
