//! `cpu`: the number of the CPU that the probe runs on.

use crate::catalogue::Builtin;
use crate::check;
use crate::ir::Helper;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `cpu`.
#[derive(Debug)]
pub(crate) struct Cpu;

impl Builtin for Cpu {
    word!("cpu", "builtins/cpu");

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        if let Some(refused) = check::visited::refuse(cx, self.name(), span) {
            return refused;
        }
        let kind = ExprKind::Builtin(WordName::new(self.name()), Vec::new());
        typed::Expr { kind, ty: Type::U32, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::Scalar(cx.b.call(Helper::GetSmpProcessorId, &[]).into())
    }
}
