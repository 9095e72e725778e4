//! `is_err(pointer)`: whether a pointer is an error number of the kernel in disguise.

use crate::ast;
use crate::ast::BinaryOp;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &IsErr = &IsErr;

/// `is_err`.
#[derive(Debug)]
pub struct IsErr;

impl Function for IsErr {
    fn name(&self) -> &'static str {
        "is_err"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "is_err(pointer)",
            summary: "whether a pointer is an error number of the kernel in disguise",
            page: include_str!("../../../../spec/words/functions/is_err.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("is_err", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        let Some(pointer) = cx.int_arg("is_err", &args[0]) else { return check::Body::poison(span) };
        let address = check::Body::convert(pointer, &Type::U64);
        let lowest = typed::Expr { kind: ExprKind::Int(-MAX_ERRNO), ty: Type::U64, span };
        cx.binary(BinaryOp::GreaterEqual, address, lowest, span)
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}

/// `MAX_ERRNO` of include/linux/err.h.
const MAX_ERRNO: i64 = 4095;
