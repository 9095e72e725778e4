//! `strlen(text)`: the number of bytes of a string.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::{Space, Type};

/// `strlen`.
#[derive(Debug)]
pub(super) struct Strlen;

impl Function for Strlen {
    word!("strlen", "functions/strlen");

    fn only_reads(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("strlen", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let text = check::with_text(cx.expr(&args[0]));
        let byte = |ty: &Type| ty.as_int().is_some_and(|int| int.size_bytes == 1) || *ty == Type::None;
        let most = match &text.ty {
            Type::Unknown => return text,
            Type::Str { capacity_bytes } => *capacity_bytes,
            Type::Pointer { to, .. } if byte(to) => cx.env.max_strlen,
            other => {
                let message = format!("`strlen` takes a string, this is {}", cx.one(other));
                return cx.fail(Diagnostic::error(Code(385), args[0].span, message));
            }
        };
        match text.kind {
            ExprKind::Str(bytes) => {
                let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                typed::Expr { kind: ExprKind::Int(len as i64), ty: Type::U64, span }
            }
            _ => typed::Expr::call(self.name(), vec![text], vec![Constant::Int(i64::from(most))], Type::U64, span),
        }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let ([text], [Constant::Int(most)]) = (call.args.as_slice(), call.constants.as_slice()) else {
            return Value::None;
        };
        let (from, space) = if text.ty.is_scalar() {
            (cx.scalar_reg(text), lower::space_of(text))
        } else {
            let value = cx.expr(text);
            let at = cx.in_memory(value, &text.ty);
            (cx.address(at), Space::Kernel)
        };
        Value::Scalar(lower::text::length(cx, from, *most as u32, space).into())
    }
}
