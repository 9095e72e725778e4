//! `reg(name)`: a register of the traced thread.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::target::Arch;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `reg`.
#[derive(Debug)]
pub(super) struct Reg;

impl Function for Reg {
    word!("reg", "functions/reg");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("reg", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(name) = cx.constant_str(&args[0]) else {
            return cx.fail(Diagnostic::error(
                Code(339),
                args[0].span,
                "the register's name must be a string constant",
            ));
        };
        let name = String::from_utf8_lossy(&name).into_owned();
        let registers = matches!(cx.seed.context.kind, typed::ContextKind::Registers | typed::ContextKind::PerfEvent);
        if !registers {
            let message = "this probe has no access to registers";
            return cx
                .fail(Diagnostic::error(Code(341), span, message).help(
                    "`kprobe`, `kretprobe`, `uprobe`, `uretprobe`, `profile`, `software` and `hardware` have it",
                ));
        }
        match register_offset(cx.env.target.arch(), &name) {
            Some(offset) => typed::Expr { kind: ExprKind::Register(offset), ty: Type::U64, span },
            None => {
                let message = format!("there is no register `{name}` on this processor");
                cx.fail(
                    Diagnostic::error(Code(342), args[0].span, message)
                        .help("x86: ip sp bp ax bx cx dx si di r8 .. r15 flags; arm64: pc sp r0 .. r30"),
                )
            }
        }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}

/// `struct pt_regs` of x86 in order, 8 bytes each (arch/x86/include/asm/ptrace.h).
const X86_64: [&str; 21] = [
    "r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di", "orig_ax", "ip",
    "cs", "flags", "sp", "ss",
];

/// Offset of this register in a probe's saved registers.
pub(crate) fn register_offset(arch: Arch, name: &str) -> Option<u32> {
    let at = match arch {
        Arch::X86_64 => X86_64.iter().position(|r| *r == name || (name == "pc" && *r == "ip"))?,
        Arch::Aarch64 => match name {
            "sp" => 31,
            "pc" | "ip" => 32,
            _ => name.strip_prefix(['r', 'x'])?.parse().ok().filter(|n| *n < 31)?,
        },
    };
    Some(at as u32 * 8)
}
