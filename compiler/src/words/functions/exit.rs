//! `exit([code])`: ends the run; `END` probes and maps are still printed.

use crate::ast;
use crate::check;
use crate::lower::{self, Channel, Value};
use crate::object::Event;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function, Record, Sink};

/// The word.
pub const WORD: &Exit = &Exit;

/// `exit`.
#[derive(Debug)]
pub struct Exit;

impl Function for Exit {
    fn name(&self) -> &'static str {
        "exit"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "exit([code])",
            summary: "ends the run; `END` probes and maps are still printed",
            page: include_str!("../../../../spec/words/functions/exit.md"),
        }
    }

    fn ends_the_run(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("exit", args.len(), 0..=1, span) {
            return check::Body::poison(span);
        }
        let Some(code) = args.first().map_or(Some(None), |e| cx.int_arg("exit", e).map(Some)) else {
            return check::Body::poison(span);
        };
        let code = code.into_iter().map(|c| check::Body::convert(c, &Type::I64)).collect();
        cx.call_of(self, code, Vec::new(), Type::None, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        cx.send(Channel::Control, WORD, &call.constants, &call.args);
        cx.leave();
        Value::None
    }

    fn perform(&self, _event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        let code = match record.value(0) {
            crate::value::Value::Int(code) => code as u8,
            _ => 0,
        };
        sink.exit(code);
    }
}
