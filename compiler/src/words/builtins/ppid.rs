//! `ppid, ppid(task)`: process id of the parent.

use super::curtask;
use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `ppid`.
#[derive(Debug)]
pub struct Ppid;

impl Builtin for Ppid {
    fn name(&self) -> &'static str {
        "ppid"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "ppid, ppid(task)",
            summary: "process id of the parent",
            page: include_str!("../../../../spec/words/builtins/ppid.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let task = curtask::Curtask.check(cx, span);
        cx.path(task, &PATH, span)
    }

    fn check_with(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<typed::Expr> {
        if !cx.arity("ppid", args.len(), 0..=1, span) {
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
const PATH: [&str; 2] = ["real_parent", "tgid"];
