//! `exit([code])`: ends the run; `END` probes and maps are still printed.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Channel, Value};
use crate::object::Event;
use crate::results::{Perform, Record, Sink};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `exit`.
#[derive(Debug)]
pub(super) struct Exit;

impl Function for Exit {
    word!("exit", "functions/exit");

    fn ends_the_run(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("exit", args.len(), 0..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(code) = args.first().map_or(Some(None), |e| cx.int_arg("exit", e).map(Some)) else {
            return typed::Expr::poison(span);
        };
        let code = code.into_iter().map(|c| typed::Expr::convert(c, &Type::I64)).collect();
        typed::Expr::call(self.name(), code, Vec::new(), Type::None, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        // If the ring buffer is full, the record is lost, but the runtime still learns from the
        // gate that the run is over. The exit code is then that of a constant argument (nearly all
        // are constant), or else 0.
        let code = match call.args.first().map(|code| &code.kind) {
            Some(typed::ExprKind::Int(code)) => *code as u8,
            _ => 0,
        };
        lower::prologue::close_gate(cx, code);
        lower::events::send(cx, Channel::Control, self.name(), &call.constants, &call.args);
        cx.leave();
        Value::None
    }

    fn in_user_space(&'static self) -> Option<&'static dyn Perform> {
        Some(self)
    }
}

impl Perform for Exit {
    fn perform(&self, _event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        let code = match record.value(0) {
            crate::value::Value::Int(code) => code as u8,
            _ => 0,
        };
        sink.exit(code);
    }
}
