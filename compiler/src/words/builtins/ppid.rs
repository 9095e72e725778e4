//! `ppid, ppid(task)`: process id of the parent.

use super::curtask;
use crate::ast;
use crate::catalogue::Builtin;
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `ppid`.
#[derive(Debug)]
pub(super) struct Ppid;

impl Builtin for Ppid {
    word!("ppid", "builtins/ppid");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let task = curtask::Curtask.check(cx, span);
        cx.path(task, &PATH, span)
    }

    fn check_with(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<typed::Expr> {
        if !cx.arity("ppid", args.len(), 0..=1, span) {
            return Some(typed::Expr::poison(span));
        }
        let task = cx.expr(&args[0]);
        Some(cx.path(task, &PATH, span))
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}

/// Path of fields from a task to the id.
const PATH: [&str; 2] = ["real_parent", "tgid"];
