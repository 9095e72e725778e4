//! `arg0` to `arg11`: a probe's raw arguments.

use crate::catalogue::Builtin;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::{Attach, Constant};
use crate::results::WordName;
use crate::source::Span;
use crate::target::Arch;
use crate::typed::{self, ContextKind, ExprKind};
use crate::types::Type;
use crate::usdt::ArgumentLocation;

/// `argN`.
#[derive(Debug)]
pub(crate) struct Arg {
    /// N.
    pub index: u32,
    pub name: &'static str,
}

/// Offsets of rdi, rsi, rdx, rcx, r8 and r9 in x86's `pt_regs`: the System V ABI passes integers in
/// them.
const X86_64_ARGS: [u32; 6] = [112, 104, 96, 88, 72, 64];

/// arm64 passes the first eight arguments in x0 to x7, which are at the start of `pt_regs`.
const AARCH64_ARGS: u32 = 8;

impl Builtin for Arg {
    fn name(&self) -> &'static str {
        self.name
    }

    word!(page "builtins/arg");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        if !cx.seed.context.static_arguments.is_empty() {
            return self.check_static(cx, span);
        }
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

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::Scalar(lower::static_arguments::value(cx, self.index as usize).into())
    }
}

impl Arg {
    /// An argument of a static probe (USDT); every site of the program must have it.
    fn check_static(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let lists = &cx.seed.context.static_arguments;
        let mut signed = false;
        for list in lists {
            let Some(argument) = list.get(self.index as usize) else {
                let message = format!(
                    "{} no `{}`",
                    if lists.len() == 1 { "this probe has" } else { "some of these probes have" },
                    self.name
                );
                let which = if lists.len() == 1 { "it" } else { "one of them" };
                let help = match list.len() {
                    0 => format!("{which} has no arguments"),
                    1 => format!("{which} has arg0 only"),
                    count => format!("{which} has arg0 to arg{}", count - 1),
                };
                return cx.fail(Diagnostic::error(Code(421), span, message).help(help));
            };
            let why = match argument.place {
                ArgumentLocation::Float => "is a floating-point number, which programs in the kernel cannot read",
                ArgumentLocation::Unknown => "is in a place that cannot be read",
                _ => {
                    signed |= argument.signed;
                    continue;
                }
            };
            let message = format!("`{}` {why}", self.name);
            return cx.fail(
                Diagnostic::error(Code(422), span, message)
                    .help(format!("the program's note says `{}`", argument.text)),
            );
        }
        let ty = if signed { Type::I64 } else { Type::U64 };
        typed::Expr { kind: ExprKind::Builtin(WordName::new(self.name()), Vec::new()), ty, span }
    }
}

/// The argument that BTF describes at this position, as a number.
fn typed_argument(cx: &check::Body<'_, '_>, index: u32, span: Span) -> Option<ExprKind> {
    let arg = cx.seed.args.iter().find(|arg| matches!(arg.kind, ExprKind::ContextArg(n) if n == index))?;
    let typed = typed::Expr { kind: arg.kind.clone(), ty: arg.ty.clone(), span };
    Some(ExprKind::Convert(Box::new(typed)))
}

/// Offset in `pt_regs` of the n-th integer or pointer argument that is passed in a register.
pub(crate) fn argument_register(arch: Arch, index: u32) -> Option<u32> {
    match arch {
        Arch::X86_64 => X86_64_ARGS.get(index as usize).copied(),
        Arch::Aarch64 => (index < AARCH64_ARGS).then_some(index * 8),
    }
}
