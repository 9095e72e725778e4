//! `memcmp(first, second, bytes)`: how the first bytes of two values compare.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::layout;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `memcmp`.
#[derive(Debug)]
pub(super) struct Memcmp;

impl Function for Memcmp {
    word!("memcmp", "functions/memcmp");

    fn only_reads(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("memcmp", args.len(), 3..=3, span) {
            return typed::Expr::poison(span);
        }
        let (first, second) = (cx.value_for(&args[0]), cx.value_for(&args[1]));
        for value in [&first, &second] {
            if value.ty.is_scalar() {
                let message = format!("`memcmp` takes strings, arrays and the like, this is {}", cx.one(&value.ty));
                return cx.fail(Diagnostic::error(Code(385), value.span, message).help("compare numbers with `==`"));
            }
        }
        let room = |ty: &Type| i64::from(layout::of(ty, cx.env.target.btf_if_needed(ty)).size_bytes);
        let most = room(&first.ty).min(room(&second.ty)).min(MAX_BYTES);
        match cx.constant_int(&args[2]) {
            Some(bytes) if (0..=most).contains(&bytes) => {
                typed::Expr::call(self.name(), vec![first, second], vec![Constant::Int(bytes)], Type::I64, span)
            }
            _ if first.ty == Type::Unknown || second.ty == Type::Unknown => typed::Expr::poison(span),
            _ => {
                let message = format!("`memcmp` takes a constant number of bytes up to {most} here");
                cx.fail(Diagnostic::error(Code(387), args[2].span, message))
            }
        }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let ([first, second], [Constant::Int(bytes)]) = (call.args.as_slice(), call.constants.as_slice()) else {
            return Value::None;
        };
        let (a, b) = (cx.expr(first), cx.expr(second));
        let (a, b) = (cx.in_memory(a, &first.ty), cx.in_memory(b, &second.ty));
        Value::Scalar(lower::text::bytes_difference(cx, a, b, *bytes as u32).into())
    }
}

/// Maximum length, because each word of memory is compared by separate instructions.
const MAX_BYTES: i64 = 1024;
