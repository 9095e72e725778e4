//! `kstack`: the kernel stack; the function of the same name does the work.

use crate::catalogue::{Builtin, Doc, Function};
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::functions::kstack;

/// `kstack`.
#[derive(Debug)]
pub(super) struct Kstack;

impl Builtin for Kstack {
    fn name(&self) -> &'static str {
        "kstack"
    }

    fn doc(&self) -> Doc {
        kstack::Kstack.doc()
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        kstack::Kstack.check(cx, &[], span)
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}
