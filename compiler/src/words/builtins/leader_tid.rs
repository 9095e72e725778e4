//! `leader_tid, leader_tid(task)`: thread id of the first thread of the process.

use super::curtask;
use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `leader_tid`.
#[derive(Debug)]
pub struct LeaderTid;

impl Builtin for LeaderTid {
    fn name(&self) -> &'static str {
        "leader_tid"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "leader_tid, leader_tid(task)",
            summary: "thread id of the first thread of the process",
            page: include_str!("../../../../spec/words/builtins/leader_tid.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let task = curtask::Curtask.check(cx, span);
        cx.path(task, &PATH, span)
    }

    fn check_with(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<typed::Expr> {
        if !cx.arity("leader_tid", args.len(), 0..=1, span) {
            return Some(check::Body::poison(span));
        }
        let task = cx.expr(&args[0]);
        Some(cx.path(task, &PATH, span))
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}

/// Where a task keeps it.
const PATH: [&str; 2] = ["group_leader", "pid"];
