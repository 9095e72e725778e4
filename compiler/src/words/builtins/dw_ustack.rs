//! `dw_ustack`: the user stack; the function of the same name does the work.

use crate::catalogue::{Builtin, Doc, Function};
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::functions::dw_ustack;

/// `dw_ustack`.
#[derive(Debug)]
pub(super) struct DwUstack;

impl Builtin for DwUstack {
    fn name(&self) -> &'static str {
        "dw_ustack"
    }

    fn doc(&self) -> Doc {
        dw_ustack::DwUstack.doc()
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        dw_ustack::DwUstack.check(cx, &[], span)
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}
