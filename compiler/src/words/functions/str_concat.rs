//! `str_concat(first, second)`: two strings one behind the other.

use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &StrConcat = &StrConcat;

/// `str_concat`.
#[derive(Debug)]
pub struct StrConcat;

impl Function for StrConcat {
    fn name(&self) -> &'static str {
        "str_concat"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "str_concat(first, second)",
            summary: "two strings one behind the other",
            page: include_str!("../../../../spec/words/functions/str_concat.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("str_concat", args.len(), 2..=2, span) {
            return check::Body::poison(span);
        }
        let (Some(first), Some(second)) = (cx.text_arg("str_concat", &args[0]), cx.text_arg("str_concat", &args[1]))
        else {
            return check::Body::poison(span);
        };
        let (Type::Str { capacity_bytes: a }, Type::Str { capacity_bytes: b }) = (&first.ty, &second.ty) else {
            return check::Body::poison(span);
        };
        let ty = Type::Str { capacity_bytes: a + b - 1 };
        cx.call_of(self, vec![first, second], Vec::new(), ty, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let [first, second] = call.args.as_slice() else { return Value::None };
        let place = |cx: &mut lower::Body<'_, '_>, e: &typed::Expr| {
            let value = cx.expr(e);
            (cx.in_memory(value, &e.ty), cx.layout(&e.ty).size_bytes)
        };
        let (first, second) = (place(cx, first), place(cx, second));
        cx.joined_texts(first, second, ty)
    }
}
