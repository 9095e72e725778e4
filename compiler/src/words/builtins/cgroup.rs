//! `cgroup`: the cgroup v2 id of the current thread.

use crate::catalogue::Builtin;
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `cgroup`.
#[derive(Debug)]
pub(super) struct Cgroup;

impl Builtin for Cgroup {
    word!("cgroup", "builtins/cgroup");

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(WordName::new(self.name()), Vec::new());
        typed::Expr { kind, ty: Type::U64, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::Scalar(lower::ids::cgroup(cx).into())
    }
}
