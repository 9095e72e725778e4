//! `system(format, values...)`: runs a command; needs --unsafe.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Channel, Value};
use crate::object::{Constant, Event};
use crate::results::{Perform, Record, Sink};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::functions::formatted;

/// `system`.
#[derive(Debug)]
pub(super) struct System;

impl Function for System {
    word!("system", "functions/system");

    fn is_unsafe(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        let call = formatted::check(self, cx, args, span);
        let problem = unquoted(&call);
        cx.env.report.extend(problem);
        call
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        lower::events::send(cx, Channel::Control, self.name(), &call.constants, &call.args);
        Value::None
    }

    fn in_user_space(&'static self) -> Option<&'static dyn Perform> {
        Some(self)
    }
}

/// The warning for text of traced programs that the shell would interpret.
fn unquoted(call: &typed::Expr) -> Option<Diagnostic> {
    let ExprKind::Call(call) = &call.kind else { return None };
    let [Constant::Format(format)] = call.constants.as_slice() else { return None };
    let is_plain = |value: &typed::Expr| value.ty.is_scalar() || matches!(value.kind, ExprKind::Str(_));
    let mut printed = format.conversions().zip(&call.args);
    let (_, value) = printed.find(|(conversion, value)| "srRH".contains(conversion.letter) && !is_plain(value))?;
    let message = "the shell interprets this text: with `;` in it, the rest would be run as a command";
    let help = "write `%q`, which quotes for the shell, or `exec(program, arguments...)`, which needs no shell";
    Some(Diagnostic::warning(Code(913), value.span, message).help(help))
}

impl Perform for System {
    fn perform(&self, event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        let Some(text) = formatted::text(event, record, sink) else { return };
        sink.system(&String::from_utf8_lossy(&text));
    }
}
