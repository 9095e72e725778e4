//! `len(@x), len(stack)`: the number of entries of a map, or of frames of a stack.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `len`.
#[derive(Debug)]
pub(super) struct Len;

impl Function for Len {
    word!("len", "functions/len");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("len", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(map) = cx.whole_map(&args[0]) else {
            let value = cx.expr(&args[0]);
            match value.ty {
                Type::Unknown => return value,
                // A saved stack is an id in the table of stacks, which programs cannot read.
                // That in a variable was captured in the same run, so it is the same stack.
                Type::Stack(_) if matches!(value.kind, ExprKind::Call(_) | ExprKind::Var(_)) => {
                    return typed::Expr::call(self.name(), vec![value], Vec::new(), Type::I64, span);
                }
                Type::Stack(_) => {
                    let message = "the frames of a stack can be counted only in the run that takes it";
                    return cx.fail(Diagnostic::error(Code(337), args[0].span, message).help("write `len(kstack)`"));
                }
                _ => {}
            }
            let message = "`len` takes a whole map or a stack";
            return cx.fail(Diagnostic::error(Code(337), args[0].span, message).help("write `len(@x)`"));
        };
        if !cx.is_walkable(map, "`len`", args[0].span) {
            return typed::Expr::poison(span);
        }
        let info = cx.env.maps.get(map);
        if info.declared.as_ref().is_some_and(|declared| declared.kind.evicts) {
            let diagnostic = check::no_length(&info.name, args[0].span);
            return cx.fail(diagnostic);
        }
        if info.value.as_ref().is_some_and(|value| value.pages().is_some()) {
            let diagnostic = check::in_pages(&info.name, args[0].span);
            return cx.fail(diagnostic);
        }
        typed::Expr::call(self.name(), Vec::new(), vec![Constant::Map(map.0)], Type::I64, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(Constant::Map(map)) = call.constants.first() else {
            let Some(Type::Stack(stack)) = call.args.first().map(|arg| &arg.ty) else { return Value::None };
            return Value::Scalar(lower::stacks::depth(cx, *stack).into());
        };
        lower::maps::length(cx, typed::MapIndex(*map))
    }
}
