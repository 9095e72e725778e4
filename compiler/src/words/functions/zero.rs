//! `zero(@x)`: sets all values of a map to zero and keeps its keys.

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
pub const WORD: &Zero = &Zero;

/// `zero`.
#[derive(Debug)]
pub struct Zero;

impl Function for Zero {
    fn name(&self) -> &'static str {
        "zero"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "zero(@x)",
            summary: "sets all values of a map to zero and keeps its keys",
            page: include_str!("../../../../spec/words/functions/zero.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("zero", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        let Some(map) = cx.whole_map(&args[0]) else {
            let message = "`zero` takes a whole map";
            return cx.fail(Diagnostic::error(Code(337), args[0].span, message).help("write `zero(@x)`"));
        };
        if !cx.is_in_one_place(map, "`zero`", args[0].span) {
            return check::Body::poison(span);
        }
        cx.call_of(self, Vec::new(), vec![Constant::Map(map.0)], Type::None, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        cx.send(Channel::Control, WORD, &call.constants, &call.args);
        Value::None
    }

    fn perform(&self, event: &Event, _record: &Record<'_>, sink: &mut dyn Sink) {
        if let Some(Constant::Map(map)) = event.constants.first() {
            sink.zero_map(*map);
        }
    }
}
