//! `kstack([mode][, frames])`: the kernel stack.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `kstack`.
#[derive(Debug)]
pub(crate) struct Kstack;

impl Function for Kstack {
    word!("kstack", "functions/kstack");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        let Some(ty) = cx.kernel_stack(args, span) else { return typed::Expr::poison(span) };
        typed::Expr::call(self.name(), Vec::new(), Vec::new(), ty, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _call: &typed::Call, ty: &Type) -> Value {
        lower::stacks::capture(cx, ty)
    }
}
