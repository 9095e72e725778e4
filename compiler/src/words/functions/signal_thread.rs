//! `signal_thread(signal)`: sends a signal to the current thread; needs --unsafe.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::ir::{Arg, Helper};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `signal_thread`.
#[derive(Debug)]
pub(super) struct SignalThread;

impl Function for SignalThread {
    word!("signal_thread", "functions/signal_thread");

    fn is_unsafe(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("signal_thread", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        super::signal::send(cx, self, &args[0], span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(signal) = call.args.first() else { return Value::None };
        let signal = cx.scalar(signal);
        Value::Scalar(cx.b.call(Helper::SendSignalThread, &[Arg::Value(signal)]).into())
    }
}
