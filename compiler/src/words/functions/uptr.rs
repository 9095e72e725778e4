//! `uptr(pointer)`: the same address, as one in the memory of the process.

use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::{Space, Type};
use crate::words::functions::kptr::in_space;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &Uptr = &Uptr;

/// `uptr`.
#[derive(Debug)]
pub struct Uptr;

impl Function for Uptr {
    fn name(&self) -> &'static str {
        "uptr"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "uptr(pointer)",
            summary: "the same address, as one in the memory of the process",
            page: include_str!("../../../../spec/words/functions/uptr.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        in_space(cx, self.name(), args, Space::User, span)
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
