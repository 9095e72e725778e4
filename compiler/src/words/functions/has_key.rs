//! `has_key(@x, key)`: whether a map has an entry.

use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &HasKey = &HasKey;

/// `has_key`.
#[derive(Debug)]
pub struct HasKey;

impl Function for HasKey {
    fn name(&self) -> &'static str {
        "has_key"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "has_key(@x, key)",
            summary: "whether a map has an entry",
            page: include_str!("../../../../spec/words/functions/has_key.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("has_key", args.len(), 1..=2, span) {
            return check::Body::poison(span);
        }
        let Some((map, key)) = cx.map_and_key("has_key", args) else { return check::Body::poison(span) };
        cx.call_of(self, key.into_iter().collect(), vec![Constant::Map(map.0)], Type::Bool, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(Constant::Map(map)) = call.constants.first() else { return Value::None };
        cx.map_has(typed::MapIndex(*map), call.args.first())
    }
}
