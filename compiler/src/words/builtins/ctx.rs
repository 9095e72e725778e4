//! `ctx`: the address of the probe's raw context; for debugging.

use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::{Space, Type};
use crate::words::{Builtin, Doc};

/// `ctx`.
#[derive(Debug)]
pub struct Ctx;

impl Builtin for Ctx {
    fn name(&self) -> &'static str {
        "ctx"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "ctx",
            summary: "address of the raw context",
            page: include_str!("../../../../spec/words/builtins/ctx.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(self, Vec::new());
        let to = Box::new(cx.seed.context_struct.map_or(Type::None, |id| Type::Struct { id, space: Space::Kernel }));
        typed::Expr { kind, ty: Type::Pointer { to, space: Space::Kernel }, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::Scalar(cx.b.context().into())
    }
}
