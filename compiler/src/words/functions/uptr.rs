//! `uptr(pointer)`: the same address, as one in the process's memory.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::{Space, Type};
use crate::words::functions::kptr::in_space;

/// `uptr`.
#[derive(Debug)]
pub(super) struct Uptr;

impl Function for Uptr {
    word!("uptr", "functions/uptr");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        in_space(cx, self.name(), args, Space::User, span)
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
