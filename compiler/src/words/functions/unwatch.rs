//! `unwatch(address)`: closes the watchpoints at an address.

use crate::ast;
use crate::check;
use crate::lower::{self, Channel, Value};
use crate::object::Event;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::value;
use crate::words::{Doc, Function, Record, Sink};

/// The word.
pub const WORD: &Unwatch = &Unwatch;

/// `unwatch`.
#[derive(Debug)]
pub struct Unwatch;

impl Function for Unwatch {
    fn name(&self) -> &'static str {
        "unwatch"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "unwatch(address)",
            summary: "closes the watchpoints at an address",
            page: include_str!("../../../../spec/words/functions/unwatch.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("unwatch", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        let address = cx.expr(&args[0]);
        let Some(address) = cx.address("unwatch", address) else { return check::Body::poison(span) };
        let address = check::Body::convert(address, &Type::U64);
        cx.call_of(self, vec![address], Vec::new(), Type::None, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        cx.send(Channel::Control, WORD, &call.constants, &call.args);
        Value::None
    }

    fn perform(&self, event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        if let value::Value::Uint(address) = record.value(0) {
            sink.unwatch(address, event.span);
        }
    }
}
