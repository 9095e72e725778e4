//! `gid`: the group id of the current thread.

use crate::check;
use crate::ir::{BinOp, Helper, Width};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `gid`.
#[derive(Debug)]
pub struct Gid;

impl Builtin for Gid {
    fn name(&self) -> &'static str {
        "gid"
    }

    fn doc(&self) -> Doc {
        Doc { signature: "gid", summary: "group id", page: include_str!("../../../../spec/words/builtins/gid.md") }
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
        Value::Scalar(cx.b.bin(BinOp::Shr, Width::W64, both, 32).into())
    }
}
