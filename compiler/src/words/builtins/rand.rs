//! `rand`: a random 32-bit number.

use crate::catalogue::Builtin;
use crate::check;
use crate::ir::{Helper, Size};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `rand`.
#[derive(Debug)]
pub(super) struct Rand;

impl Builtin for Rand {
    word!("rand", "builtins/rand");

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(WordName::new(self.name()), Vec::new());
        typed::Expr { kind, ty: Type::U32, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        let random = cx.b.call(Helper::GetPrandomU32, &[]);
        Value::Scalar(cx.b.extend(random, Size::B4, false).into())
    }
}
