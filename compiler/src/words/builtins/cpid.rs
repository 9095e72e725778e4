//! `cpid`: the process id of the command that `-c` started.

use crate::catalogue::Builtin;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `cpid`.
#[derive(Debug)]
pub(super) struct Cpid;

impl Builtin for Cpid {
    word!("cpid", "builtins/cpid");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        match cx.env.options.child_pid {
            Some(pid) => typed::Expr { kind: ExprKind::Int(i64::from(pid)), ty: Type::U32, span },
            None => cx
                .fail(Diagnostic::error(Code(331), span, "`cpid` needs a command").help("start one with `-c COMMAND`")),
        }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}
