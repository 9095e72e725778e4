//! `jiffies`: ticks of the kernel since boot.

use crate::catalogue::Builtin;
use crate::check;
use crate::ir::Helper;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `jiffies`.
#[derive(Debug)]
pub(super) struct Jiffies;

impl Builtin for Jiffies {
    word!("jiffies", "builtins/jiffies");

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        typed::Expr { kind: ExprKind::Builtin(WordName::new(self.name()), Vec::new()), ty: Type::U64, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::Scalar(cx.b.call(Helper::Jiffies64, &[]).into())
    }
}
