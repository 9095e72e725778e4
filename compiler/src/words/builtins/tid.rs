//! `tid`: the thread id, which the kernel calls pid.

use crate::ast;
use crate::check;
use crate::ir::Size;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc, Identity};

/// `tid`.
#[derive(Debug)]
pub struct Tid;

impl Builtin for Tid {
    fn name(&self) -> &'static str {
        "tid"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "tid, tid(init)",
            summary: "thread id",
            page: include_str!("../../../../spec/words/builtins/tid.md"),
        }
    }

    fn is_thread_number(&self) -> bool {
        true
    }

    fn is_constant(&self) -> bool {
        true
    }

    fn identifies_thread(&self) -> bool {
        true
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(self, Vec::new());
        typed::Expr { kind, ty: Type::U32, span }
    }

    fn check_with(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<typed::Expr> {
        Some(super::pid::in_namespace(cx, self, args, span))
    }

    fn identity(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> Option<Identity> {
        super::start_time::identity(cx, true, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, constants: &[Constant]) -> Value {
        let both = if constants.is_empty() { cx.process_ids() } else { cx.initial_ids() };
        Value::Scalar(cx.b.extend(both, Size::B4, false).into())
    }
}
