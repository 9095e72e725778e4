//! `jiffies`: ticks of the kernel since boot.

use crate::check;
use crate::ir::Helper;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `jiffies`.
#[derive(Debug)]
pub struct Jiffies;

impl Builtin for Jiffies {
    fn name(&self) -> &'static str {
        "jiffies"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "jiffies",
            summary: "ticks of the kernel since boot",
            page: include_str!("../../../../spec/words/builtins/jiffies.md"),
        }
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        typed::Expr { kind: ExprKind::Builtin(self, Vec::new()), ty: Type::U64, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::Scalar(cx.b.call(Helper::Jiffies64, &[]).into())
    }
}
