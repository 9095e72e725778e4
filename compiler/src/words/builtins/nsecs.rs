//! `nsecs`: time in nanoseconds since boot, including suspend.

use crate::check;
use crate::ir::Helper;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `nsecs`.
#[derive(Debug)]
pub struct Nsecs;

impl Builtin for Nsecs {
    fn name(&self) -> &'static str {
        "nsecs"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "nsecs",
            summary: "nanoseconds since boot",
            page: include_str!("../../../../spec/words/builtins/nsecs.md"),
        }
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(self, Vec::new());
        typed::Expr { kind, ty: Type::U64, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::Scalar(cx.b.call(Helper::KtimeGetBootNs, &[]).into())
    }
}
