//! `cat(format, values...)`: prints the contents of a file.

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
pub const WORD: &Cat = &Cat;

/// `cat`.
#[derive(Debug)]
pub struct Cat;

impl Function for Cat {
    fn name(&self) -> &'static str {
        "cat"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "cat(format, values...)",
            summary: "prints the contents of a file",
            page: include_str!("../../../../spec/words/functions/cat.md"),
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
        sink.cat(&String::from_utf8_lossy(&text), event.span);
    }
}
