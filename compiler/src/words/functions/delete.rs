//! `delete(@x, key)`: removes an entry of a map; true if it existed.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::ir::Operand;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `delete`.
#[derive(Debug)]
pub(super) struct Delete;

impl Function for Delete {
    word!("delete", "functions/delete");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("delete", args.len(), 1..=2, span) {
            return typed::Expr::poison(span);
        }
        let Some((map, key)) = cx.map_and_key("delete", args) else { return typed::Expr::poison(span) };
        typed::Expr::call(self.name(), key.into_iter().collect(), vec![Constant::Map(map.0)], Type::Bool, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(Constant::Map(map)) = call.constants.first() else { return Value::None };
        lower::maps::delete(cx, typed::MapIndex(*map), call.args.first())
    }

    fn lower_unused(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) {
        if let Value::Scalar(Operand::Reg(removed)) = self.lower(cx, call, ty) {
            lower::failures::missing_entry(cx, removed);
        }
    }
}
