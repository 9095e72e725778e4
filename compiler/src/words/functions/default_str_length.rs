//! `default_str_length()`: the capacity of strings for which the script gives no size.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `default_str_length`.
#[derive(Debug)]
pub(super) struct DefaultStrLength;

impl Function for DefaultStrLength {
    word!("default_str_length", "functions/default_str_length");

    fn is_called_by_name(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("default_str_length", args.len(), 0..=0, span) {
            return typed::Expr::poison(span);
        }
        typed::Expr { kind: ExprKind::Int(i64::from(cx.env.max_strlen)), ty: Type::U64, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
