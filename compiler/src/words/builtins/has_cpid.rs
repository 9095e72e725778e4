//! `has_cpid`: whether -c has started a command.

use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `has_cpid`.
#[derive(Debug)]
pub struct HasCpid;

impl Builtin for HasCpid {
    fn name(&self) -> &'static str {
        "has_cpid"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "has_cpid",
            summary: "whether -c has started a command",
            page: include_str!("../../../../spec/words/builtins/has_cpid.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let given = cx.env.options.child_pid.is_some();
        typed::Expr { kind: ExprKind::Int(i64::from(given)), ty: Type::Bool, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}
