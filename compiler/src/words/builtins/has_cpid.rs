//! `has_cpid`: whether -c has started a command.

use crate::catalogue::Builtin;
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `has_cpid`.
#[derive(Debug)]
pub(super) struct HasCpid;

impl Builtin for HasCpid {
    word!("has_cpid", "builtins/has_cpid");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let given = cx.env.options.child_pid.is_some();
        typed::Expr { kind: ExprKind::Int(i64::from(given)), ty: Type::Bool, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}
