//! `kfunc_allowed(name)`: whether a probe may call a function of the kernel: never yet.

use crate::ast;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &KfuncAllowed = &KfuncAllowed;

/// `kfunc_allowed`.
#[derive(Debug)]
pub struct KfuncAllowed;

impl Function for KfuncAllowed {
    fn name(&self) -> &'static str {
        "kfunc_allowed"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "kfunc_allowed(name)",
            summary: "whether a probe may call a function of the kernel: never yet",
            page: include_str!("../../../../spec/words/functions/kfunc_allowed.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("kfunc_allowed", args.len(), 1..=1, span) {
            return check::Body::poison(span);
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
