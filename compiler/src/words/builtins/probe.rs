//! `probe`: the full name of the probe that fired.

use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `probe`.
#[derive(Debug)]
pub struct Probe;

impl Builtin for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "probe",
            summary: "the full name of the probe that fired",
            page: include_str!("../../../../spec/words/builtins/probe.md"),
        }
    }

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let constants =
            vec![Constant::Int(i64::from(cx.seed.context.first_name)), Constant::Int(cx.seed.names.len() as i64)];
        typed::Expr { kind: ExprKind::Builtin(self, constants), ty: Type::ProbeName, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, ty: &Type, constants: &[Constant]) -> Value {
        cx.probe_name(ty, constants)
    }
}
