//! `cpu`: the number of the CPU that the probe runs on.

use crate::check;
use crate::ir::Helper;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `cpu`.
#[derive(Debug)]
pub struct Cpu;

impl Builtin for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "cpu",
            summary: "number of the current CPU",
            page: include_str!("../../../../spec/words/builtins/cpu.md"),
        }
    }

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(self, Vec::new());
        typed::Expr { kind, ty: Type::U32, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::Scalar(cx.b.call(Helper::GetSmpProcessorId, &[]).into())
    }
}
