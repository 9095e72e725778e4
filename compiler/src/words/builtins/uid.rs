//! `uid`: the user id of the current thread.

use crate::catalogue::Builtin;
use crate::check;
use crate::ir::Size;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `uid`.
#[derive(Debug)]
pub(super) struct Uid;

impl Builtin for Uid {
    word!("uid", "builtins/uid");

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(WordName::new(self.name()), Vec::new());
        typed::Expr { kind, ty: Type::U32, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        let both = lower::ids::user_and_group(cx);
        Value::Scalar(cx.b.extend(both, Size::B4, false).into())
    }
}
