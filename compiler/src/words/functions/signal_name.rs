//! `signal_name(signal)`: what a signal means.

use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::numbers::SIGNALS;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &SignalName = &SignalName;

/// `signal_name`.
#[derive(Debug)]
pub struct SignalName;

impl Function for SignalName {
    fn name(&self) -> &'static str {
        "signal_name"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "signal_name(signal)",
            summary: "what a signal means",
            page: include_str!("../../../../spec/words/functions/signal_name.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("signal_name", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        let Some(number) = cx.int_arg("signal_name", &args[0]) else { return check::Body::poison(span) };
        let number = check::Body::convert(number, &Type::I64);
        cx.call_of(self, vec![number], Vec::new(), Type::Str { capacity_bytes: ROOM_BYTES }, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(number) = call.args.first() else { return Value::None };
        let number = cx.scalar_reg(number);
        cx.text_by_number(number, &SIGNALS, UNKNOWN, ROOM_BYTES)
    }
}

/// Longer than every text.
const ROOM_BYTES: u32 = 32;

/// For numbers without a text.
const UNKNOWN: &str = "N/A";
