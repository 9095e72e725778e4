//! `tid`: the thread id, which the kernel calls pid.

use crate::ast;
use crate::catalogue::{Builtin, Identity};
use crate::check;
use crate::ir::Size;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `tid`.
#[derive(Debug)]
pub(super) struct Tid;

impl Builtin for Tid {
    word!("tid", "builtins/tid");

    fn is_thread_number(&self) -> bool {
        true
    }

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(WordName::new(self.name()), Vec::new());
        typed::Expr { kind, ty: Type::U32, span }
    }

    fn check_with(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<typed::Expr> {
        Some(super::pid::in_namespace(cx, self, args, span))
    }

    fn identity(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> Option<Identity> {
        super::start_time::identity(cx, true, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, constants: &[Constant]) -> Value {
        let both = if constants.is_empty() { lower::ids::namespaced(cx) } else { lower::ids::initial(cx) };
        Value::Scalar(cx.b.extend(both, Size::B4, false).into())
    }
}
