//! `find(@x, key, $value)`: whether a map has an entry, and copies its value into a variable.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, MapValue};
use crate::types::Type;

/// `find`.
#[derive(Debug)]
pub(super) struct Find;

impl Function for Find {
    word!("find", "functions/find");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("find", args.len(), 3..=3, span) {
            return typed::Expr::poison(span);
        }
        let Some((map, Some(key))) = cx.map_and_key("find", &args[..2]) else {
            let message = "`find` takes a map with keys";
            return cx.fail(Diagnostic::error(Code(337), args[0].span, message).help(self.doc().signature()));
        };
        let ast::ExprKind::Var(name) = &args[2].kind else {
            let message = "the value goes into a variable";
            return cx.fail(Diagnostic::error(Code(337), args[2].span, message).help(self.doc().signature()));
        };
        let held = match &cx.env.maps.get(map).value {
            None => Type::Unknown,
            Some(MapValue::Plain(ty)) => ty.clone(),
            Some(MapValue::Aggregate { word, .. }) => {
                let message = format!("the value of `{word}()` cannot be read inside a probe yet");
                return cx.fail(
                    Diagnostic::error(Code(392), args[0].span, message)
                        .help("`has_key(@x, key)` tells whether it is there"),
                );
            }
        };
        let Some(var) = cx.receive(name, &held, args[2].span) else { return typed::Expr::poison(span) };
        let constants = vec![Constant::Map(map.0), Constant::Int(var.0 as i64)];
        // The variable is passed as an argument too, so that loops see that it is used.
        let place = typed::Expr { kind: typed::ExprKind::Var(var), ty: cx.var_type(var).clone(), span: args[2].span };
        typed::Expr::call(self.name(), vec![key, place], constants, Type::Bool, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let ([key, _], [Constant::Map(map), Constant::Int(var)]) = (call.args.as_slice(), call.constants.as_slice())
        else {
            return Value::None;
        };
        lower::maps::find(cx, typed::MapIndex(*map), key, typed::VarIndex(*var as usize))
    }
}
