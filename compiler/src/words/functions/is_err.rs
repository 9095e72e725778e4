//! `is_err(pointer)`: whether a pointer encodes a kernel error number.

use crate::ast;
use crate::ast::BinaryOp;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `is_err`.
#[derive(Debug)]
pub(super) struct IsErr;

impl Function for IsErr {
    word!("is_err", "functions/is_err");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("is_err", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(pointer) = cx.int_arg("is_err", &args[0]) else { return typed::Expr::poison(span) };
        let address = typed::Expr::convert(pointer, &Type::U64);
        let lowest = typed::Expr { kind: ExprKind::Int(-MAX_ERRNO), ty: Type::U64, span };
        cx.binary(BinaryOp::GreaterEqual, address, lowest, span)
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}

/// `MAX_ERRNO` of include/linux/err.h.
const MAX_ERRNO: i64 = 4095;
