//! `has_key(@x, key)`: whether a map has an entry.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `has_key`.
#[derive(Debug)]
pub(super) struct HasKey;

impl Function for HasKey {
    word!("has_key", "functions/has_key");

    fn only_reads(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("has_key", args.len(), 1..=2, span) {
            return typed::Expr::poison(span);
        }
        let Some((map, key)) = cx.map_and_key("has_key", args) else { return typed::Expr::poison(span) };
        typed::Expr::call(self.name(), key.into_iter().collect(), vec![Constant::Map(map.0)], Type::Bool, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(Constant::Map(map)) = call.constants.first() else { return Value::None };
        lower::maps::has(cx, typed::MapIndex(*map), call.args.first())
    }
}
