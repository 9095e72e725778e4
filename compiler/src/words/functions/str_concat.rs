//! `str_concat(first, second)`: concatenates two strings.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `str_concat`.
#[derive(Debug)]
pub(super) struct StrConcat;

/// Rounds of checking in which the result's size is that of both strings together; this is enough
/// for variables that are made from each other without a circle.
const ROUNDS_OF_GROWTH: usize = 8;

impl Function for StrConcat {
    word!("str_concat", "functions/str_concat");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("str_concat", args.len(), 2..=2, span) {
            return typed::Expr::poison(span);
        }
        let (Some(first), Some(second)) = (cx.text_arg("str_concat", &args[0]), cx.text_arg("str_concat", &args[1]))
        else {
            return typed::Expr::poison(span);
        };
        let (Type::Str { capacity_bytes: a }, Type::Str { capacity_bytes: b }) = (&first.ty, &second.ty) else {
            return typed::Expr::poison(span);
        };
        // `$s = str_concat($s, …)` has no size that fits its own result: after some rounds it has
        // that of other strings, as in bpftrace.
        let most = cx.env.max_strlen.max(*a).max(*b);
        let whole = a.saturating_add(*b) - 1;
        let ty = Type::Str { capacity_bytes: if cx.env.round < ROUNDS_OF_GROWTH { whole } else { most } };
        typed::Expr::call(self.name(), vec![first, second], Vec::new(), ty, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let [first, second] = call.args.as_slice() else { return Value::None };
        let place = |cx: &mut lower::Body<'_, '_>, e: &typed::Expr| {
            let value = cx.expr(e);
            lower::text::Text { at: cx.in_memory(value, &e.ty), capacity_bytes: cx.layout(&e.ty).size_bytes }
        };
        let (first, second) = (place(cx, first), place(cx, second));
        lower::text::joined(cx, first, second, ty)
    }
}
