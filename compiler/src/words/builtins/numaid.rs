//! `numaid`: the number of the NUMA node that the probe runs on.

use crate::check;
use crate::ir::Helper;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `numaid`.
#[derive(Debug)]
pub struct NumaId;

impl Builtin for NumaId {
    fn name(&self) -> &'static str {
        "numaid"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "numaid",
            summary: "number of the current NUMA node",
            page: include_str!("../../../../spec/words/builtins/numaid.md"),
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
        Value::Scalar(cx.b.call(Helper::GetNumaNodeId, &[]).into())
    }
}
