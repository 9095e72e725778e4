//! `kfunc_exist(name)`: whether the kernel has a function of this name.

use crate::ast;
use crate::btf::Kind;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `kfunc_exist`.
#[derive(Debug)]
pub(super) struct KfuncExist;

impl Function for KfuncExist {
    word!("kfunc_exist", "functions/kfunc_exist");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("kfunc_exist", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(name) = cx.constant_str(&args[0]) else {
            return cx.fail(Diagnostic::error(
                Code(339),
                args[0].span,
                "the function's name must be a string constant",
            ));
        };
        let name = String::from_utf8_lossy(&name);
        let known = cx.env.target.btf().is_some_and(|btf| btf.find(Kind::Function, &name).is_some());
        typed::Expr { kind: ExprKind::Int(i64::from(known)), ty: Type::Bool, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
