//! `leader_comm, leader_comm(task)`: name of the first thread of the process.

use super::curtask;
use crate::ast;
use crate::catalogue::Builtin;
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `leader_comm`.
#[derive(Debug)]
pub(super) struct LeaderComm;

impl Builtin for LeaderComm {
    word!("leader_comm", "builtins/leader_comm");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let task = curtask::Curtask.check(cx, span);
        cx.path(task, &PATH, span)
    }

    fn check_with(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<typed::Expr> {
        if !cx.arity("leader_comm", args.len(), 0..=1, span) {
            return Some(typed::Expr::poison(span));
        }
        let task = cx.expr(&args[0]);
        Some(cx.path(task, &PATH, span))
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}

/// Path of fields from a task to the name.
const PATH: [&str; 2] = ["group_leader", "comm"];
