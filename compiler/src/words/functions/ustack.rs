//! `ustack([mode][, frames])`: the stack of the program.

use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::{Space, StackType, Type};
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &Ustack = &Ustack;

/// `ustack`.
#[derive(Debug)]
pub struct Ustack;

impl Function for Ustack {
    fn name(&self) -> &'static str {
        "ustack"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "ustack([mode][, frames])",
            summary: "the stack of the program",
            page: include_str!("../../../../spec/words/functions/ustack.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        let Some((mode, limit)) = cx.stack_args(args, span) else { return check::Body::poison(span) };
        let ty = Type::Stack(StackType { space: Space::User, mode, limit });
        cx.call_of(self, Vec::new(), Vec::new(), ty, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _call: &typed::Call, ty: &Type) -> Value {
        cx.stack(ty)
    }
}
