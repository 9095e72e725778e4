//! `ntop([family,] address)`: an IPv4 or IPv6 address as text.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `ntop`.
#[derive(Debug)]
pub(super) struct Ntop;

impl Function for Ntop {
    word!("ntop", "functions/ntop");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("ntop", args.len(), 1..=2, span) {
            return typed::Expr::poison(span);
        }
        let family = match args {
            [family, _] => cx.int_arg("ntop", family),
            _ => None,
        };
        let address = cx.expr(&args[args.len() - 1]);
        let bytes = match &address.ty {
            Type::Unknown => return address,
            Type::Int(_) => 4,
            Type::Array { len: len @ (4 | 16), .. } => i64::from(*len),
            Type::Str { capacity_bytes: 4 } => 4,
            Type::Str { capacity_bytes: 16 } => 16,
            other => match struct_bytes(cx, other) {
                Some(bytes) => bytes,
                None => {
                    let message = format!("`ntop` takes a number, or 4 or 16 bytes; this is {}", cx.one(other));
                    return cx.fail(Diagnostic::error(Code(340), address.span, message));
                }
            },
        };
        let default = if bytes == 4 { AF_INET } else { AF_INET6 };
        let family = family.unwrap_or(typed::Expr { kind: ExprKind::Int(default), ty: Type::I64, span });
        typed::Expr::call(self.name(), vec![family, address], vec![Constant::Int(bytes)], Type::Inet, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let [family, address] = call.args.as_slice() else { return Value::None };
        lower::builtins::inet(cx, family, address, ty)
    }
}

/// The size of an address that is a struct.
fn struct_bytes(cx: &check::Body<'_, '_>, ty: &Type) -> Option<i64> {
    let Type::Struct { id, .. } = ty else { return None };
    match cx.env.target.btf()?.name(*id)? {
        "in_addr" => Some(4),
        "in6_addr" => Some(16),
        _ => None,
    }
}

/// Address families of Linux.
const AF_INET: i64 = 2;
const AF_INET6: i64 = 10;
