//! `system(format, values...)`: runs a command; needs --unsafe.

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
pub const WORD: &System = &System;

/// `system`.
#[derive(Debug)]
pub struct System;

impl Function for System {
    fn name(&self) -> &'static str {
        "system"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "system(format, values...)",
            summary: "runs a command; needs --unsafe",
            page: include_str!("../../../../spec/words/functions/system.md"),
        }
    }

    fn is_unsafe(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        formatted::check(self, cx, args, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        cx.send(Channel::Control, WORD, &call.constants, &call.args);
        Value::None
    }

    fn perform(&self, event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        let Some(text) = formatted::text(event, record, sink) else { return };
        sink.system(&String::from_utf8_lossy(&text));
    }
}
