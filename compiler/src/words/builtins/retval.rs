//! `retval`: the return value of a function.

use crate::catalogue::Builtin;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::{Attach, Constant};
use crate::source::Span;
use crate::target::Arch;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `retval`.
#[derive(Debug)]
pub(super) struct Retval;

impl Builtin for Retval {
    word!("retval", "builtins/retval");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        if let (Attach::Trampoline { at_return: true, function, program }, None) = (&cx.seed.attach, &cx.seed.retval) {
            let message = match program {
                None => format!("`{function}` returns nothing"),
                Some(_) => format!("the result of the BPF program `{function}` cannot be read"),
            };
            return cx.fail(Diagnostic::error(Code(413), span, message).help("leave `retval` out"));
        }
        if let Some(result) = &cx.seed.retval {
            return typed::Expr { kind: result.kind.clone(), ty: result.ty.clone(), span };
        }
        if !cx.seed.attach.at_return() {
            let message = "only a return probe has `retval`";
            return cx.fail(Diagnostic::error(Code(333), span, message).help("probe the return: `uretprobe:PATH:FUNCTION`, `kretprobe:FUNCTION` or `fexit:FUNCTION`; the result of a system call is `args.ret` of its `sys_exit_` tracepoint"));
        }
        typed::Expr { kind: ExprKind::Register(result_register(cx.env.target.arch())), ty: Type::U64, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}

/// Offset in `pt_regs` of the register with the result of a function: rax on x86, x0 on arm64.
pub(crate) fn result_register(arch: Arch) -> u32 {
    match arch {
        Arch::X86_64 => 80,
        Arch::Aarch64 => 0,
    }
}
