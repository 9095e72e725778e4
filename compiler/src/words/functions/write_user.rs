//! `write_user(address, value, bytes)`: writes to the process's memory; needs --unsafe.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Arg, CmpOp, Helper, Width};
use crate::layout;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `write_user`.
#[derive(Debug)]
pub(super) struct WriteUser;

impl Function for WriteUser {
    word!("write_user", "functions/write_user");

    fn is_unsafe(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("write_user", args.len(), 3..=3, span) {
            return typed::Expr::poison(span);
        }
        let pointer = cx.expr(&args[0]);
        let Some(pointer) = cx.address("write_user", pointer) else { return typed::Expr::poison(span) };
        let value = cx.value_for(&args[1]);
        let most = i64::from(layout::of(&value.ty, cx.env.target.btf_if_needed(&value.ty)).size_bytes);
        match cx.constant_int(&args[2]) {
            Some(bytes) if (1..=most).contains(&bytes) => {
                typed::Expr::call(self.name(), vec![pointer, value], vec![Constant::Int(bytes)], Type::Bool, span)
            }
            _ if value.ty == Type::Unknown => typed::Expr::poison(span),
            _ => {
                let message =
                    format!("`write_user` takes a constant number of bytes from 1 to {most}, the size of the value");
                cx.fail(Diagnostic::error(Code(387), args[2].span, message))
            }
        }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let ([pointer, value], [Constant::Int(bytes)]) = (call.args.as_slice(), call.constants.as_slice()) else {
            return Value::None;
        };
        let to = cx.scalar_reg(pointer);
        let lowered = cx.expr(value);
        let from = cx.in_memory(lowered, &value.ty);
        let from = cx.address_arg(from);
        let size = Arg::Value((*bytes).into());
        let result = cx.b.call(Helper::ProbeWriteUser, &[Arg::Value(to.into()), from, size]);
        Value::Scalar(cx.b.set(CmpOp::Eq, Width::W64, result, 0).into())
    }
}
