//! `time([format])`: prints the time of day by a strftime format.

use crate::ast;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Channel, Value};
use crate::object::{Constant, Event};
use crate::source::Span;
use crate::strftime;
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function, Record, Sink};

/// The word.
pub const WORD: &Time = &Time;

/// `time`.
#[derive(Debug)]
pub struct Time;

impl Function for Time {
    fn name(&self) -> &'static str {
        "time"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "time([format])",
            summary: "prints the time of day by a strftime format",
            page: include_str!("../../../../spec/words/functions/time.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("time", args.len(), 0..=1, span) {
            return check::Body::poison(span);
        }
        let format = match args.first() {
            None => "%H:%M:%S\n".to_string(),
            Some(e) => match cx.constant_str(e) {
                Some(text) => String::from_utf8_lossy(&text).into_owned(),
                None => return cx.fail(Diagnostic::error(Code(339), e.span, "the format must be a string constant")),
            },
        };
        cx.call_of(self, Vec::new(), vec![Constant::Str(format)], Type::None, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        cx.send(Channel::Data, WORD, &call.constants, &call.args);
        Value::None
    }

    fn perform(&self, event: &Event, _record: &Record<'_>, sink: &mut dyn Sink) {
        let Some(Constant::Str(format)) = event.constants.first() else { return };
        let now_ns = sink.now_ns();
        let zone = sink.symbols().zone(now_ns);
        let text = strftime::strftime(format, now_ns, &zone, strftime::Dialect::Time);
        sink.text("time", text.as_bytes());
    }
}
