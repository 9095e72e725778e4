//! `errorf(format, values...)`: prints an error with its place in the script.

use crate::ast;
use crate::check;
use crate::lower::{self, Channel, Value};
use crate::object::Event;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::functions::formatted;
use crate::words::{Doc, Function, Record, Sink};

/// The word.
pub const WORD: &Errorf = &Errorf;

/// `errorf`.
#[derive(Debug)]
pub struct Errorf;

impl Function for Errorf {
    fn name(&self) -> &'static str {
        "errorf"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "errorf(format, values...)",
            summary: "prints an error with its place in the script",
            page: include_str!("../../../../spec/words/functions/errorf.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        formatted::check(self, cx, args, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        cx.send(Channel::Data, WORD, &call.constants, &call.args);
        Value::None
    }

    fn perform(&self, event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        let Some(text) = formatted::text(event, record, sink) else { return };
        sink.note("errorf", &text, event.span);
    }
}
