//! `unwatch(address)`: removes the watchpoints at an address.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Channel, Value};
use crate::object::Event;
use crate::results::{Perform, Record, Sink};
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::value;

/// `unwatch`.
#[derive(Debug)]
pub(super) struct Unwatch;

impl Function for Unwatch {
    word!("unwatch", "functions/unwatch");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("unwatch", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let address = cx.expr(&args[0]);
        let Some(address) = cx.address("unwatch", address) else { return typed::Expr::poison(span) };
        let address = typed::Expr::convert(address, &Type::U64);
        typed::Expr::call(self.name(), vec![address], Vec::new(), Type::None, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        lower::events::send(cx, Channel::Control, self.name(), &call.constants, &call.args);
        Value::None
    }

    fn in_user_space(&'static self) -> Option<&'static dyn Perform> {
        Some(self)
    }
}

impl Perform for Unwatch {
    fn perform(&self, event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        if let value::Value::Uint(address) = record.value(0) {
            sink.unwatch(address, event.span);
        }
    }
}
