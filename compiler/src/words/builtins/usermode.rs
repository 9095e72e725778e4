//! `usermode`: 1 when the probe interrupted user code, 0 in the kernel.

use crate::ast::BinaryOp;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::{Attach, Constant};
use crate::source::Span;
use crate::target::Arch;
use crate::typed::{self, ContextKind, ExprKind};
use crate::types::{Int, Type};
use crate::words::{Builtin, Doc};

/// `usermode`.
#[derive(Debug)]
pub struct UserMode;

impl Builtin for UserMode {
    fn name(&self) -> &'static str {
        "usermode"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "usermode",
            summary: "1 when the probe interrupted user code, 0 in the kernel",
            page: include_str!("../../../../spec/words/builtins/usermode.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        // These two run where profiler itself asks for it, in its own process.
        if matches!(cx.seed.attach, Attach::Begin | Attach::End) || cx.seed.attach.is_trial() {
            let ty = Type::Int(Int { size_bytes: 1, signed: false });
            return typed::Expr { kind: ExprKind::Int(1), ty, span };
        }
        let registers = matches!(cx.seed.context.kind, ContextKind::Registers | ContextKind::PerfEvent);
        if !registers {
            return cx.fail(
                Diagnostic::error(Code(341), span, "this probe does not show registers")
                    .help("`uprobe`, `uretprobe`, `profile`, `software` and `hardware` do"),
            );
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
        check::Body::convert(is_user, &Type::Int(Int { size_bytes: 1, signed: false }))
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}
