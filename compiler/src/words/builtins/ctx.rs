//! `ctx`: the address of the probe's raw context; for debugging.

use crate::catalogue::Builtin;
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::{Space, Type};

/// `ctx`.
#[derive(Debug)]
pub(crate) struct Ctx;

impl Builtin for Ctx {
    word!("ctx", "builtins/ctx");

    fn is_context(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(WordName::new(self.name()), Vec::new());
        let to = Box::new(cx.seed.context_struct.map_or(Type::None, |id| Type::Struct { id, space: Space::Kernel }));
        typed::Expr { kind, ty: Type::Pointer { to, space: Space::Kernel }, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::Scalar(cx.b.context().into())
    }
}
