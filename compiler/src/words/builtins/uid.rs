//! `uid`: the user id of the current thread.

use crate::check;
use crate::ir::{Helper, Size};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `uid`.
#[derive(Debug)]
pub struct Uid;

impl Builtin for Uid {
    fn name(&self) -> &'static str {
        "uid"
    }

    fn doc(&self) -> Doc {
        Doc { signature: "uid", summary: "user id", page: include_str!("../../../../spec/words/builtins/uid.md") }
    }

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(self, Vec::new());
        typed::Expr { kind, ty: Type::U32, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        let both = cx.b.call(Helper::GetCurrentUidGid, &[]);
        Value::Scalar(cx.b.extend(both, Size::B4, false).into())
    }
}
