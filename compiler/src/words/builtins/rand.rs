//! `rand`: a random number of 32 bits.

use crate::check;
use crate::ir::{Helper, Size};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `rand`.
#[derive(Debug)]
pub struct Rand;

impl Builtin for Rand {
    fn name(&self) -> &'static str {
        "rand"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "rand",
            summary: "random number of 32 bits",
            page: include_str!("../../../../spec/words/builtins/rand.md"),
        }
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(self, Vec::new());
        typed::Expr { kind, ty: Type::U32, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        let random = cx.b.call(Helper::GetPrandomU32, &[]);
        Value::Scalar(cx.b.extend(random, Size::B4, false).into())
    }
}
