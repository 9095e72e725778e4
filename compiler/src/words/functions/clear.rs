//! `clear(@x)`: removes all entries of a map.

use crate::ast;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Channel, Value};
use crate::object::{Constant, Event};
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function, Record, Sink};

/// The word.
pub const WORD: &Clear = &Clear;

/// `clear`.
#[derive(Debug)]
pub struct Clear;

impl Function for Clear {
    fn name(&self) -> &'static str {
        "clear"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "clear(@x)",
            summary: "removes all entries of a map",
            page: include_str!("../../../../spec/words/functions/clear.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("clear", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        let Some(map) = cx.whole_map(&args[0]) else {
            let message = "`clear` takes a whole map";
            return cx.fail(Diagnostic::error(Code(337), args[0].span, message).help("write `clear(@x)`"));
        };
        cx.call_of(self, Vec::new(), vec![Constant::Map(map.0)], Type::None, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        cx.send(Channel::Control, WORD, &call.constants, &call.args);
        Value::None
    }

    fn perform(&self, event: &Event, _record: &Record<'_>, sink: &mut dyn Sink) {
        if let Some(Constant::Map(map)) = event.constants.first() {
            sink.clear_map(*map);
        }
    }
}
