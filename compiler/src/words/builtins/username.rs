//! `username`: the name of the current user, looked up when it is printed.

use crate::check;
use crate::ir::{Helper, Size};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `username`.
#[derive(Debug)]
pub struct Username;

impl Builtin for Username {
    fn name(&self) -> &'static str {
        "username"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "username",
            summary: "user name",
            page: include_str!("../../../../spec/words/builtins/username.md"),
        }
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(self, Vec::new());
        typed::Expr { kind, ty: Type::Username, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, ty: &Type, _constants: &[Constant]) -> Value {
        let both = cx.b.call(Helper::GetCurrentUidGid, &[]);
        let uid = cx.b.extend(both, Size::B4, false);
        let to = cx.room(ty);
        cx.b.store(to, uid, Size::B8);
        Value::Memory(to)
    }
}
