//! `bswap(n)`: an integer with its bytes in reverse order.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::ir::Size;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::{Int, Type};

/// `bswap`.
#[derive(Debug)]
pub(super) struct Bswap;

impl Function for Bswap {
    word!("bswap", "functions/bswap");

    fn only_reads(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("bswap", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(value) = cx.int_arg("bswap", &args[0]) else { return typed::Expr::poison(span) };
        if value.ty == Type::Unknown {
            return value;
        }
        let size_bytes = match (&args[0].kind, &value.kind) {
            (ast::ExprKind::Int(_), ExprKind::Int(n)) => literal_bytes(*n),
            _ => value.ty.as_int().map_or(8, |int| int.size_bytes),
        };
        let ty = Type::Int(Int { size_bytes, signed: false });
        let value = typed::Expr::convert(value, &ty);
        match value.kind {
            _ if size_bytes == 1 => value,
            ExprKind::Int(n) => {
                let reversed = n.swap_bytes() as u64 >> (64 - 8 * u32::from(size_bytes));
                typed::Expr { kind: ExprKind::Int(reversed as i64), ty, span }
            }
            _ => typed::Expr::call(self.name(), vec![value], Vec::new(), ty, span),
        }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let ([value], Some(int)) = (call.args.as_slice(), ty.as_int()) else { return Value::None };
        let value = cx.scalar_reg(value);
        let size = Size::from_bytes(u32::from(int.size_bytes)).unwrap_or(Size::B8);
        Value::Scalar(cx.b.swap(value, size).into())
    }
}

/// The size in bytes of the type that bpftrace gives a literal.
fn literal_bytes(n: i64) -> u8 {
    match n {
        -0x80..=0x7f => 1,
        -0x8000..=0x7fff => 2,
        -0x8000_0000..=0x7fff_ffff => 4,
        _ => 8,
    }
}
