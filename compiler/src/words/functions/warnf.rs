//! `warnf(format, values...)`: prints a warning with its place in the script.

use crate::ast;
use crate::check;
use crate::format;
use crate::lower::{self, Channel, Value};
use crate::object::{Constant, Event};
use crate::source::Span;
use crate::typed::{self, ExprKind, Stmt, StmtKind};
use crate::types::Type;
use crate::words::functions::formatted;
use crate::words::{Doc, Function, Record, Sink};

/// The word.
pub const WORD: &Warnf = &Warnf;

/// `warnf`.
#[derive(Debug)]
pub struct Warnf;

impl Function for Warnf {
    fn name(&self) -> &'static str {
        "warnf"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "warnf(format, values...)",
            summary: "prints a warning with its place in the script",
            page: include_str!("../../../../spec/words/functions/warnf.md"),
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
        sink.note("warnf", &text, event.span);
    }
}

/// Evaluates a helper's result and warns when it is not 0; `text` has one `%d` for it.
pub(super) fn unless_zero(cx: &mut check::Body<'_, '_>, result: typed::Expr, text: &str, span: Span) -> typed::Expr {
    // No variable of a script has a blank in its name.
    let var = cx.declare(" result", Type::I64);
    let read = || typed::Expr { kind: ExprKind::Var(var), ty: Type::I64, span };
    let constants = format::parse(text.as_bytes()).map(Constant::Format).into_iter().collect();
    let warning = cx.call_of(WORD, vec![read()], constants, Type::None, span);
    let stmt = |kind| Stmt { kind, span };
    let body = vec![
        stmt(StmtKind::AssignVar(var, result)),
        stmt(StmtKind::If(read(), vec![stmt(StmtKind::Expr(warning))], Vec::new())),
    ];
    let nothing = typed::Expr { kind: ExprKind::Int(0), ty: Type::None, span };
    typed::Expr { kind: ExprKind::Block(body, Box::new(nothing)), ty: Type::None, span }
}
