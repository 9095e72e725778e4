//! `cpid`: the process id of the command that `-c` started.

use crate::catalogue::Builtin;
use crate::check::{self, Dialect};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::Operand;
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
        match (cx.env.options.child_pid, cx.env.options.dialect) {
            (Some(pid), _) => typed::Expr { kind: ExprKind::Int(i64::from(pid)), ty: Type::U32, span },
            (None, Dialect::Bpftrace) => typed::Expr::builtin(self.name(), Vec::new(), Type::U32, span),
            (None, Dialect::Own) => cx
                .fail(Diagnostic::error(Code(331), span, "`cpid` needs a command").help("start one with `-c COMMAND`")),
        }
    }

    /// Without a command: bpftrace's scripts test `has_cpid` at run time.
    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        lower::failures::warn(cx, "No child command (`-c`); cpid is zero");
        Value::Scalar(Operand::Imm(0))
    }
}
