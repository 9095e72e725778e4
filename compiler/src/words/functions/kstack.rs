//! `kstack([mode][, frames])`: the stack of the kernel.

use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::{Space, StackType, Type};
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &Kstack = &Kstack;

/// `kstack`.
#[derive(Debug)]
pub struct Kstack;

impl Function for Kstack {
    fn name(&self) -> &'static str {
        "kstack"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "kstack([mode][, frames])",
            summary: "the stack of the kernel",
            page: include_str!("../../../../spec/words/functions/kstack.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        let Some((mode, limit)) = cx.stack_args(args, span) else { return check::Body::poison(span) };
        if cx.refuse_stack_in_loop(span) {
            return check::Body::poison(span);
        }
        let ty = Type::Stack(StackType { space: Space::Kernel, mode, limit });
        cx.call_of(self, Vec::new(), Vec::new(), ty, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _call: &typed::Call, ty: &Type) -> Value {
        cx.stack(ty)
    }
}
