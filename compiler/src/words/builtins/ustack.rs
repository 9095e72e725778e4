//! `ustack`: the user stack; the function of the same name does the work.

use crate::catalogue::{Builtin, Doc, Function};
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::functions::ustack;

/// `ustack`.
#[derive(Debug)]
pub(super) struct Ustack;

impl Builtin for Ustack {
    fn name(&self) -> &'static str {
        "ustack"
    }

    fn doc(&self) -> Doc {
        ustack::Ustack.doc()
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        ustack::Ustack.check(cx, &[], span)
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}
