//! `write_user(address, value, bytes)`: writes into the memory of the process; needs --unsafe.

use crate::ast;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Arg, CmpOp, Helper, Width};
use crate::layout;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &WriteUser = &WriteUser;

/// `write_user`.
#[derive(Debug)]
pub struct WriteUser;

impl Function for WriteUser {
    fn name(&self) -> &'static str {
        "write_user"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "write_user(address, value, bytes)",
            summary: "writes into the memory of the process; needs --unsafe",
            page: include_str!("../../../../spec/words/functions/write_user.md"),
        }
    }

    fn is_unsafe(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("write_user", args.len(), 3..=3, span) {
            return check::Body::poison(span);
        }
        let pointer = cx.expr(&args[0]);
        let Some(pointer) = cx.address("write_user", pointer) else { return check::Body::poison(span) };
        let value = cx.value_for(&args[1]);
        let most = i64::from(layout::of(&value.ty, cx.env.target.btf_if_needed(&value.ty)).size_bytes);
        match cx.constant_int(&args[2]) {
            Some(bytes) if (1..=most).contains(&bytes) => {
                cx.call_of(self, vec![pointer, value], vec![Constant::Int(bytes)], Type::Bool, span)
            }
            _ if value.ty == Type::Unknown => check::Body::poison(span),
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
