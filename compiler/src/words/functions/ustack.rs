//! `ustack([mode][, frames])`: the user stack.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `ustack`.
#[derive(Debug)]
pub(crate) struct Ustack;

impl Function for Ustack {
    word!("ustack", "functions/ustack");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        let Some(ty) = cx.user_stack(args, span) else { return typed::Expr::poison(span) };
        typed::Expr::call(self.name(), Vec::new(), Vec::new(), ty, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _call: &typed::Call, ty: &Type) -> Value {
        lower::stacks::capture(cx, ty)
    }
}
