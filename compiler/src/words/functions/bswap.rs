//! `bswap(n)`: an integer with its bytes in reversed order.

use crate::ast;
use crate::check;
use crate::ir::Size;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::{Int, Type};
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &Bswap = &Bswap;

/// `bswap`.
#[derive(Debug)]
pub struct Bswap;

impl Function for Bswap {
    fn name(&self) -> &'static str {
        "bswap"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "bswap(n)",
            summary: "an integer with its bytes in reversed order",
            page: include_str!("../../../../spec/words/functions/bswap.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("bswap", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        let Some(value) = cx.int_arg("bswap", &args[0]) else { return check::Body::poison(span) };
        if value.ty == Type::Unknown {
            return value;
        }
        let size_bytes = match (&args[0].kind, &value.kind) {
            (ast::ExprKind::Int(_), ExprKind::Int(n)) => literal_bytes(*n),
            _ => value.ty.as_int().map_or(8, |int| int.size_bytes),
        };
        let ty = Type::Int(Int { size_bytes, signed: false });
        let value = check::Body::convert(value, &ty);
        match value.kind {
            _ if size_bytes == 1 => value,
            ExprKind::Int(n) => {
                let reversed = n.swap_bytes() as u64 >> (64 - 8 * u32::from(size_bytes));
                typed::Expr { kind: ExprKind::Int(reversed as i64), ty, span }
            }
            _ => cx.call_of(self, vec![value], Vec::new(), ty, span),
        }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let ([value], Some(int)) = (call.args.as_slice(), ty.as_int()) else { return Value::None };
        let value = cx.scalar_reg(value);
        let size = Size::from_bytes(u32::from(int.size_bytes)).unwrap_or(Size::B8);
        Value::Scalar(cx.b.swap(value, size).into())
    }
}

/// As bpftrace types a literal.
fn literal_bytes(n: i64) -> u8 {
    match n {
        -0x80..=0x7f => 1,
        -0x8000..=0x7fff => 2,
        -0x8000_0000..=0x7fff_ffff => 4,
        _ => 8,
    }
}
