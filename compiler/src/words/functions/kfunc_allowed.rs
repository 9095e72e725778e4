//! `kfunc_allowed(name)`: whether a probe may call a kernel function: not yet, for any name.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `kfunc_allowed`.
#[derive(Debug)]
pub(super) struct KfuncAllowed;

impl Function for KfuncAllowed {
    word!("kfunc_allowed", "functions/kfunc_allowed");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("kfunc_allowed", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        if cx.constant_str(&args[0]).is_none() {
            return cx.fail(Diagnostic::error(
                Code(339),
                args[0].span,
                "the function's name must be a string constant",
            ));
        }
        typed::Expr { kind: ExprKind::Int(0), ty: Type::Bool, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
