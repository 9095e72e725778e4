//! `username`: the name of the current user, looked up when it is printed.

use crate::catalogue::Builtin;
use crate::check;
use crate::ir::Size;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `username`.
#[derive(Debug)]
pub(super) struct Username;

impl Builtin for Username {
    word!("username", "builtins/username");

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(WordName::new(self.name()), Vec::new());
        typed::Expr { kind, ty: Type::Username, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, ty: &Type, _constants: &[Constant]) -> Value {
        let both = lower::ids::user_and_group(cx);
        let uid = cx.b.extend(both, Size::B4, false);
        let to = cx.allocate(ty);
        cx.b.store(to, uid, Size::B8);
        Value::Memory(to)
    }
}
