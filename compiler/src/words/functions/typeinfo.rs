//! `typeinfo(value or type)`: the names of a type.

use crate::ast::{self, Expr, ExprKind, Ident, TypeName};
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `typeinfo`.
#[derive(Debug)]
pub(super) struct Typeinfo;

impl Function for Typeinfo {
    word!("typeinfo", "functions/typeinfo");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("typeinfo", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let of = TypeName { of: Some(Box::new(args[0].clone())), ..TypeName::unnamed(args[0].span) };
        let Some(ty) = cx.type_named(&of) else { return typed::Expr::poison(span) };
        let made = |kind| Expr { kind, span };
        let text = |text: String| made(ExprKind::Str(text.into_bytes()));
        let part = |name: &str, value| (Ident { text: name.to_owned(), span }, value);
        let parts = vec![
            part("btf_id", made(ExprKind::Int(0))),
            part("base_type", text(base(&ty).to_owned())),
            part("full_type", text(cx.describe(&ty))),
        ];
        cx.expr(&made(ExprKind::Record(parts)))
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}

/// What a type is, in bpftrace's words.
fn base(ty: &Type) -> &'static str {
    match ty {
        Type::Int(_) | Type::Enum { .. } => "int",
        Type::Bool => "bool",
        Type::Str { .. } => "string",
        Type::Buf { .. } => "buffer",
        Type::Pointer { .. } => "pointer",
        Type::Struct { .. } => "c_type",
        Type::Array { .. } => "array",
        Type::Tuple(_) => "tuple",
        Type::Record(_) => "record",
        Type::Inet => "inet",
        _ => "opaque",
    }
}
