//! `ustack`: the stack of the program, with the function of the same name doing the work.

use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::functions::ustack;
use crate::words::{Builtin, Doc, Function};

/// `ustack`.
#[derive(Debug)]
pub struct Ustack;

impl Builtin for Ustack {
    fn name(&self) -> &'static str {
        "ustack"
    }

    fn doc(&self) -> Doc {
        ustack::WORD.doc()
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        ustack::WORD.check(cx, &[], span)
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}
