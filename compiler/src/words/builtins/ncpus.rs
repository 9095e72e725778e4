//! `ncpus`: the number of CPUs that can exist on this machine.

use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `ncpus`.
#[derive(Debug)]
pub struct Ncpus;

impl Builtin for Ncpus {
    fn name(&self) -> &'static str {
        "ncpus"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "ncpus",
            summary: "number of CPUs",
            page: include_str!("../../../../spec/words/builtins/ncpus.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let cpus = cx.env.target.possible_cpus();
        typed::Expr { kind: ExprKind::Int(i64::from(cpus)), ty: Type::U64, span }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}
