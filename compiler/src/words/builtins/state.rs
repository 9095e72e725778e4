//! `state`: what a visited thread is doing: running, or waiting for what.

use crate::catalogue::Builtin;
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `state`.
#[derive(Debug)]
pub(super) struct State;

impl Builtin for State {
    word!("state", "builtins/state");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        if let Some(refused) = check::visited::refuse_elsewhere(cx, self.name(), span) {
            return refused;
        }
        let kind = ExprKind::Builtin(WordName::new(self.name()), Vec::new());
        typed::Expr { kind, ty: Type::Str { capacity_bytes: lower::visited::STATE_BYTES }, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        lower::visited::state(cx)
    }
}
