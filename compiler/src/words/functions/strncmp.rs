//! `strncmp(first, second, bytes)`: 0 when two strings begin with the same bytes.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::VReg;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `strncmp`.
#[derive(Debug)]
pub(super) struct Strncmp;

impl Function for Strncmp {
    word!("strncmp", "functions/strncmp");

    fn only_reads(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("strncmp", args.len(), 3..=3, span) {
            return typed::Expr::poison(span);
        }
        let (Some(first), Some(second)) = (cx.text_arg("strncmp", &args[0]), cx.text_arg("strncmp", &args[1])) else {
            return typed::Expr::poison(span);
        };
        let Some(bytes @ 0..=MAX_BYTES) = cx.constant_int(&args[2]) else {
            let message = format!("`strncmp` takes a constant number of bytes up to {MAX_BYTES}");
            return cx.fail(Diagnostic::error(Code(387), args[2].span, message));
        };
        typed::Expr::call(self.name(), vec![first, second], vec![Constant::Int(bytes)], Type::I64, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let ([first, second], [Constant::Int(bytes)]) = (call.args.as_slice(), call.constants.as_slice()) else {
            return Value::None;
        };
        let bytes = *bytes as u32;
        let (a, b) = (cx.expr(first), cx.expr(second));
        let differ = match (a, b) {
            (Value::Bytes(text), value) => differ_from(cx, value, &second.ty, text, bytes),
            (value, Value::Bytes(text)) => differ_from(cx, value, &first.ty, text, bytes),
            (a, b) => {
                let (a, b) = (cx.in_memory(a, &first.ty), cx.in_memory(b, &second.ty));
                let room = cx.layout(&first.ty).size_bytes.min(cx.layout(&second.ty).size_bytes);
                lower::text::bytes_differ(cx, a, b, room.min(bytes))
            }
        };
        Value::Scalar(differ.into())
    }
}

/// Maximum length, because each word of memory is compared by separate instructions.
const MAX_BYTES: i64 = 1024;

fn differ_from(cx: &mut lower::Body<'_, '_>, value: Value, ty: &Type, mut text: Vec<u8>, bytes: u32) -> VReg {
    let at = cx.in_memory(value, ty);
    // Compare the NUL too if the string is shorter than the compared length.
    text.push(0);
    text.truncate(bytes as usize);
    if text.len() > cx.layout(ty).size_bytes as usize {
        return cx.b.copy(1);
    }
    lower::text::bytes_differ_from(cx, at, &text)
}
