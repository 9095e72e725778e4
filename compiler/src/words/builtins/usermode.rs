//! `usermode`: 1 when the probe interrupted user code, 0 in the kernel.

use crate::ast::BinaryOp;
use crate::catalogue::Builtin;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::{Attach, Constant};
use crate::source::Span;
use crate::target::Arch;
use crate::typed::{self, ContextKind, ExprKind};
use crate::types::{Int, Type};

/// `usermode`.
#[derive(Debug)]
pub(super) struct UserMode;

impl Builtin for UserMode {
    word!("usermode", "builtins/usermode");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        // Begin, end, test and bench probes run in profiler's own process, when profiler triggers
        // them.
        if matches!(cx.seed.attach, Attach::Begin | Attach::End) || cx.seed.attach.is_trial() {
            let ty = Type::Int(Int { size_bytes: 1, signed: false });
            return typed::Expr { kind: ExprKind::Int(1), ty, span };
        }
        let registers = matches!(cx.seed.context.kind, ContextKind::Registers | ContextKind::PerfEvent);
        if !registers {
            return cx
                .fail(Diagnostic::error(Code(341), span, "this probe has no access to registers").help(
                    "`kprobe`, `kretprobe`, `uprobe`, `uretprobe`, `profile`, `software` and `hardware` have it",
                ));
        }
        let (offset, mask, user) = match cx.env.target.arch() {
            // The lowest bits of `cs` are the privilege level.
            Arch::X86_64 => (136, 3, 3),
            // The lowest bits of `pstate` are the exception level.
            Arch::Aarch64 => (264, 15, 0),
        };
        let number = |n| typed::Expr { kind: ExprKind::Int(n), ty: Type::U64, span };
        let register = typed::Expr { kind: ExprKind::Register(offset), ty: Type::U64, span };
        let level = cx.binary(BinaryOp::BitAnd, register, number(mask), span);
        let is_user = cx.binary(BinaryOp::Equal, level, number(user), span);
        typed::Expr::convert(is_user, &Type::Int(Int { size_bytes: 1, signed: false }))
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}
