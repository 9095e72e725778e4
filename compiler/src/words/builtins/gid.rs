//! `gid`: the group id of the current thread.

use crate::catalogue::Builtin;
use crate::check;
use crate::ir::{BinOp, Width};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `gid`.
#[derive(Debug)]
pub(super) struct Gid;

impl Builtin for Gid {
    word!("gid", "builtins/gid");

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(WordName::new(self.name()), Vec::new());
        typed::Expr { kind, ty: Type::U32, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        let both = lower::ids::user_and_group(cx);
        Value::Scalar(cx.b.bin(BinOp::Shr, Width::W64, both, 32).into())
    }
}
