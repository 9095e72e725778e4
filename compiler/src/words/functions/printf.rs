//! `printf(format, values...)`: prints values by a format, as in C.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Channel, Value};
use crate::object::{Constant, Event};
use crate::results::{Perform, Record, Sink};
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::functions::{formatted, kernel_format};

/// Maximum number of values of a pinned iterator's `printf` (the kernel's `MAX_BPRINTF_VARARGS`).
const MAX_VALUES: usize = 12;

/// `printf`.
#[derive(Debug)]
pub(super) struct Printf;

impl Function for Printf {
    word!("printf", "functions/printf");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        let call = formatted::check(self, cx, args, span);
        match &call.kind {
            typed::ExprKind::Call(of) if check::writes_to_a_sequence(cx) => match of.constants.as_slice() {
                [Constant::Format(format)] => match kernel_format::fault(cx, format, &of.args, MAX_VALUES, span) {
                    Some(fault) => cx.fail(fault),
                    None => call,
                },
                _ => call,
            },
            _ => call,
        }
    }

    fn writes_to_sequences(&self) -> bool {
        true
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        if let ([Constant::Format(format)], true) = (call.constants.as_slice(), lower::sequence::is_written(cx)) {
            lower::sequence::print(cx, &kernel_format::bytes(format), &call.args);
            return Value::None;
        }
        lower::events::send(cx, Channel::Data, self.name(), &call.constants, &call.args);
        Value::None
    }

    fn in_user_space(&'static self) -> Option<&'static dyn Perform> {
        Some(self)
    }
}

impl Perform for Printf {
    fn perform(&self, event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        let Some(text) = formatted::shown(event, record, sink) else { return };
        sink.text("printf", &text);
    }
}
