//! `cgroup`: the cgroup v2 id of the current thread.

use crate::check;
use crate::ir::Helper;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `cgroup`.
#[derive(Debug)]
pub struct Cgroup;

impl Builtin for Cgroup {
    fn name(&self) -> &'static str {
        "cgroup"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "cgroup",
            summary: "cgroup v2 id of the current thread",
            page: include_str!("../../../../spec/words/builtins/cgroup.md"),
        }
    }

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(self, Vec::new());
        typed::Expr { kind, ty: Type::U64, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::Scalar(cx.b.call(Helper::GetCurrentCgroupId, &[]).into())
    }
}
