//! `delete(@x, key)`: removes an entry of a map; true when it was there.

use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &Delete = &Delete;

/// `delete`.
#[derive(Debug)]
pub struct Delete;

impl Function for Delete {
    fn name(&self) -> &'static str {
        "delete"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "delete(@x, key)",
            summary: "removes an entry of a map; true when it was there",
            page: include_str!("../../../../spec/words/functions/delete.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("delete", args.len(), 1..=2, span) {
            return check::Body::poison(span);
        }
        let Some((map, key)) = cx.map_and_key("delete", args) else { return check::Body::poison(span) };
        cx.call_of(self, key.into_iter().collect(), vec![Constant::Map(map.0)], Type::Bool, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(Constant::Map(map)) = call.constants.first() else { return Value::None };
        cx.map_delete(typed::MapIndex(*map), call.args.first())
    }
}
