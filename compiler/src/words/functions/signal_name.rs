//! `signal_name(signal)`: the description of a signal.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::numbers::SIGNALS;
use crate::source::Span;
use crate::target::Target;
use crate::typed;
use crate::types::Type;
use crate::view::Naming;

/// `signal_name`.
#[derive(Debug)]
pub(super) struct SignalName;

impl Function for SignalName {
    word!("signal_name", "functions/signal_name");

    fn naming(&self, _target: &dyn Target) -> Option<Naming> {
        Some(Naming::of(&SIGNALS, UNKNOWN, false))
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("signal_name", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(number) = cx.int_arg("signal_name", &args[0]) else { return typed::Expr::poison(span) };
        let number = typed::Expr::convert(number, &Type::I64);
        typed::Expr::call(self.name(), vec![number], Vec::new(), Type::Str { capacity_bytes: ROOM_BYTES }, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(number) = call.args.first() else { return Value::None };
        let number = cx.scalar_reg(number);
        lower::table::text_by_number(cx, number, &SIGNALS, UNKNOWN, ROOM_BYTES)
    }
}

/// String capacity; longer than every text.
const ROOM_BYTES: u32 = 32;

/// For numbers without a text.
const UNKNOWN: &str = "N/A";
