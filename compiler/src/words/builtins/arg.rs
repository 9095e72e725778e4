//! `arg0` to `arg9`: a probe's raw arguments.

use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::{Attach, Constant};
use crate::source::Span;
use crate::target::Arch;
use crate::typed::{self, ContextKind, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `argN`.
#[derive(Debug)]
pub struct Arg {
    /// N.
    pub index: u32,
    /// Its name.
    pub name: &'static str,
}

/// Offsets in x86's `pt_regs` of rdi, rsi, rdx, rcx, r8, r9: where the System V ABI passes integers.
const X86_64_ARGS: [u32; 6] = [112, 104, 96, 88, 72, 64];

/// arm64 passes the first eight in x0 to x7, which `pt_regs` starts with.
const AARCH64_ARGS: u32 = 8;

impl Builtin for Arg {
    fn name(&self) -> &'static str {
        self.name
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "arg0 .. arg9",
            summary: "raw arguments of a function or of a raw tracepoint, as 64 bits",
            page: include_str!("../../../../spec/words/builtins/arg.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let attach = &cx.seed.attach;
        let kind = match cx.seed.context.kind {
            ContextKind::Registers if !attach.at_return() => {
                argument_register(cx.env.target.arch(), self.index).map(ExprKind::Register)
            }
            _ if matches!(attach, Attach::Trampoline { .. }) => typed_argument(cx, self.index, span),
            ContextKind::RawTracepoint if cx.seed.raw_args => Some(ExprKind::ContextArg(self.index)),
            _ => None,
        };
        match kind {
            Some(kind) => typed::Expr { kind, ty: Type::U64, span },
            None => {
                let probe = cx.seed.names.first().cloned().unwrap_or_default();
                let message = format!("`{probe}` has no `{}`", self.name);
                cx.fail(Diagnostic::error(Code(332), span, message).help(
                    "functions have arg0 to arg5 in registers at their entry, raw tracepoints have them; tracepoints have `args`",
                ))
            }
        }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}

/// The argument that BTF has at this place, as a number.
fn typed_argument(cx: &check::Body<'_, '_>, index: u32, span: Span) -> Option<ExprKind> {
    let arg = cx.seed.args.iter().find(|arg| matches!(arg.kind, ExprKind::ContextArg(n) if n == index))?;
    let typed = typed::Expr { kind: arg.kind.clone(), ty: arg.ty.clone(), span };
    Some(ExprKind::Convert(Box::new(typed)))
}

/// Where `pt_regs` keeps the n-th integer or pointer that a function gets in registers.
pub fn argument_register(arch: Arch, index: u32) -> Option<u32> {
    match arch {
        Arch::X86_64 => X86_64_ARGS.get(index as usize).copied(),
        Arch::Aarch64 => (index < AARCH64_ARGS).then_some(index * 8),
    }
}
