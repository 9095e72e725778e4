//! `time([format])`: prints the time of day in a strftime format.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Channel, Value};
use crate::object::{Constant, Event};
use crate::results::{Perform, Record, Sink};
use crate::source::Span;
use crate::strftime;
use crate::typed;
use crate::types::Type;

/// `time`.
#[derive(Debug)]
pub(super) struct Time;

impl Function for Time {
    word!("time", "functions/time");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("time", args.len(), 0..=1, span) {
            return typed::Expr::poison(span);
        }
        let format = match args.first() {
            None => "%H:%M:%S\n".to_string(),
            Some(e) => match cx.constant_str(e) {
                Some(text) => String::from_utf8_lossy(&text).into_owned(),
                None => return cx.fail(Diagnostic::error(Code(339), e.span, "the format must be a string constant")),
            },
        };
        typed::Expr::call(self.name(), Vec::new(), vec![Constant::Str(format)], Type::None, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        lower::events::send(cx, Channel::Data, self.name(), &call.constants, &call.args);
        Value::None
    }

    fn in_user_space(&'static self) -> Option<&'static dyn Perform> {
        Some(self)
    }
}

impl Perform for Time {
    fn perform(&self, event: &Event, _record: &Record<'_>, sink: &mut dyn Sink) {
        let Some(Constant::Str(format)) = event.constants.first() else { return };
        let now_ns = sink.now_ns();
        let zone = sink.symbols().zone(now_ns);
        let text = strftime::strftime(format, now_ns, &zone, strftime::Dialect::Time);
        sink.text("time", text.as_bytes());
    }
}
