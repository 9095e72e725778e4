//! `warnf(format, values...)`: prints a warning with its position in the script.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::format;
use crate::lower::{self, Channel, Value};
use crate::object::{Constant, Event};
use crate::results::{Perform, Record, Sink};
use crate::source::Span;
use crate::typed::{self, ExprKind, Stmt, StmtKind};
use crate::types::Type;
use crate::words::functions::formatted;

/// `warnf`.
#[derive(Debug)]
pub(super) struct Warnf;

impl Function for Warnf {
    word!("warnf", "functions/warnf");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        formatted::check(self, cx, args, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        lower::events::send(cx, Channel::Data, self.name(), &call.constants, &call.args);
        Value::None
    }

    fn in_user_space(&'static self) -> Option<&'static dyn Perform> {
        Some(self)
    }
}

impl Perform for Warnf {
    fn perform(&self, event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        let Some(text) = formatted::text(event, record, sink) else { return };
        sink.note("warnf", &text, &event.places());
    }
}

/// Evaluates a helper's result and warns if it is not 0; `text` has one `%d` for it.
pub(super) fn unless_zero(cx: &mut check::Body<'_, '_>, result: typed::Expr, text: &str, span: Span) -> typed::Expr {
    // The blank makes the name distinct from every script variable.
    let var = cx.declare(" result", Type::I64);
    let read = || typed::Expr { kind: ExprKind::Var(var), ty: Type::I64, span };
    let constants = format::parse(text.as_bytes()).map(Constant::Format).into_iter().collect();
    let warning = typed::Expr::call(Warnf.name(), vec![read()], constants, Type::None, span);
    let stmt = |kind| Stmt { kind, span };
    let body = vec![
        stmt(StmtKind::AssignVar(var, result)),
        stmt(StmtKind::If(read(), vec![stmt(StmtKind::Expr(warning))], Vec::new())),
    ];
    let nothing = typed::Expr { kind: ExprKind::Int(0), ty: Type::None, span };
    typed::Expr { kind: ExprKind::Block(body, Box::new(nothing)), ty: Type::None, span }
}
