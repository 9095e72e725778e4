//! `signal(signal)`: sends a signal to the current process; needs --unsafe.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Arg, Helper};
use crate::lower::{self, Value};
use crate::numbers;
use crate::object::Attach;
use crate::similar;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `signal`.
#[derive(Debug)]
pub(super) struct Signal;

impl Function for Signal {
    word!("signal", "functions/signal");

    fn is_unsafe(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("signal", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        send(cx, self, &args[0], span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(signal) = call.args.first() else { return Value::None };
        let signal = cx.scalar(signal);
        Value::Scalar(cx.b.call(Helper::SendSignal, &[Arg::Value(signal)]).into())
    }
}

/// Checks a call that sends a signal, and adds a warning that is printed if it fails.
pub(super) fn send(
    cx: &mut check::Body<'_, '_>,
    word: &'static dyn Function,
    arg: &ast::Expr,
    span: Span,
) -> typed::Expr {
    let attach = &cx.seed.attach;
    if attach.is_trial() || matches!(attach, Attach::Begin | Attach::End | Attach::Timer { .. } | Attach::Visits { .. })
    {
        let probe = cx.seed.names.first().cloned().unwrap_or_default();
        let message = format!("`{}` would hit profiler itself in `{probe}`", word.name());
        let help = "send signals from probes that run in the traced process";
        return cx.fail(Diagnostic::error(Code(603), span, message).help(help));
    }
    let Some(number) = number(cx, word.name(), arg) else { return typed::Expr::poison(span) };
    let result = typed::Expr::call(word.name(), vec![number], Vec::new(), Type::I64, span);
    super::warnf::unless_zero(cx, result, "the signal could not be sent: error %d", span)
}

fn number(cx: &mut check::Body<'_, '_>, what: &str, arg: &ast::Expr) -> Option<typed::Expr> {
    if let Some(name) = cx.constant_str(arg) {
        let name = String::from_utf8_lossy(&name);
        let known = numbers::signal_number(&name);
        if known.is_none() {
            let near = similar::nearest(&name.to_uppercase().replace("SIG", ""), numbers::signal_names(), 1);
            let mut diagnostic = Diagnostic::error(Code(388), arg.span, format!("there is no signal `{name}`"));
            if let Some(near) = near.first() {
                diagnostic = diagnostic.help(format!("did you mean `SIG{near}`?"));
            }
            cx.error(diagnostic);
        }
        let kind = ExprKind::Int(i64::from(known?));
        return Some(typed::Expr { kind, ty: Type::I64, span: arg.span });
    }
    let number = cx.int_arg(what, arg)?;
    if let ExprKind::Int(n) = number.kind
        && !(1..=LAST_SIGNAL).contains(&n)
        && number.ty != Type::Unknown
    {
        let message = format!("signals have numbers from 1 to {LAST_SIGNAL}");
        cx.error(Diagnostic::error(Code(388), arg.span, message));
        return None;
    }
    Some(number)
}

/// `_NSIG`.
const LAST_SIGNAL: i64 = 64;
