//! `kstack`: the stack of the kernel, with the function of the same name doing the work.

use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::functions::kstack;
use crate::words::{Builtin, Doc, Function};

/// `kstack`.
#[derive(Debug)]
pub struct Kstack;

impl Builtin for Kstack {
    fn name(&self) -> &'static str {
        "kstack"
    }

    fn doc(&self) -> Doc {
        kstack::WORD.doc()
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        kstack::WORD.check(cx, &[], span)
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}
