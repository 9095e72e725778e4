//! `ncpus`: the number of CPUs that can exist on this machine.

use crate::catalogue::Builtin;
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `ncpus`.
#[derive(Debug)]
pub(super) struct Ncpus;

impl Builtin for Ncpus {
    word!("ncpus", "builtins/ncpus");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let cpus = cx.env.target.possible_cpus();
        typed::Expr { kind: ExprKind::Int(i64::from(cpus)), ty: Type::U64, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}
