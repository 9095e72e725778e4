//! `syscall`: the number of the system call that a visited thread is in.

use crate::catalogue::Builtin;
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `syscall`.
#[derive(Debug)]
pub(super) struct Syscall;

impl Builtin for Syscall {
    word!("syscall", "builtins/syscall");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        if let Some(refused) = check::visited::refuse_elsewhere(cx, self.name(), span) {
            return refused;
        }
        let kind = ExprKind::Builtin(WordName::new(self.name()), Vec::new());
        typed::Expr { kind, ty: Type::I64, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::Scalar(lower::visited::syscall(cx).into())
    }
}
