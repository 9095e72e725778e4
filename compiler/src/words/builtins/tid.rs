//! `tid`: the thread id, which the kernel calls pid.

use crate::check;
use crate::ir::{Helper, Size};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `tid`.
#[derive(Debug)]
pub struct Tid;

impl Builtin for Tid {
    fn name(&self) -> &'static str {
        "tid"
    }

    fn doc(&self) -> Doc {
        Doc { signature: "tid", summary: "thread id", page: include_str!("../../../../spec/words/builtins/tid.md") }
    }

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(self, Vec::new());
        typed::Expr { kind, ty: Type::U32, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        let both = cx.b.call(Helper::GetCurrentPidTgid, &[]);
        Value::Scalar(cx.b.extend(both, Size::B4, false).into())
    }
}
