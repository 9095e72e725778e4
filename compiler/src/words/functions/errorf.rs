//! `errorf(format, values...)`: prints an error with its position in the script.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Channel, Value};
use crate::object::Event;
use crate::results::{Perform, Record, Sink};
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::functions::formatted;

/// `errorf`.
#[derive(Debug)]
pub(super) struct Errorf;

impl Function for Errorf {
    word!("errorf", "functions/errorf");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        formatted::check(self, cx, args, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        lower::events::send(cx, Channel::Data, self.name(), &call.constants, &call.args);
        Value::None
    }

    fn in_user_space(&'static self) -> Option<&'static dyn Perform> {
        Some(self)
    }
}

impl Perform for Errorf {
    fn perform(&self, event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        let Some(text) = formatted::text(event, record, sink) else { return };
        sink.note("errorf", &text, &event.places());
    }
}
