//! `probe`: the full name of the probe that fired.

use crate::catalogue::Builtin;
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `probe`.
#[derive(Debug)]
pub(super) struct Probe;

impl Builtin for Probe {
    word!("probe", "builtins/probe");

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let constants =
            vec![Constant::Int(i64::from(cx.seed.context.first_name)), Constant::Int(cx.seed.names.len() as i64)];
        typed::Expr { kind: ExprKind::Builtin(WordName::new(self.name()), constants), ty: Type::ProbeName, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, ty: &Type, constants: &[Constant]) -> Value {
        lower::builtins::probe_name(cx, ty, constants)
    }
}
