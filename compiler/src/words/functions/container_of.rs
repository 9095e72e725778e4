//! `container_of(pointer, type, member)`: the struct that contains a member.

use crate::ast::{self, BinaryOp, ExprKind, TypeName};
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::expand;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::{Space, Type};

/// `container_of`.
#[derive(Debug)]
pub(super) struct ContainerOf;

impl Function for ContainerOf {
    word!("container_of", "functions/container_of");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("container_of", args.len(), 3..=3, span) {
            return typed::Expr::poison(span);
        }
        let (pointer, of) = (cx.expr(&args[0]), type_of(&args[1]));
        let Some(path) = expand::fields(&args[2]) else {
            let message = "the last argument of `container_of` must be the name of a member";
            let help = "such as `rcu`, or `sched.list` for a member of a member";
            return cx.fail(Diagnostic::error(Code(366), args[2].span, message).help(help));
        };
        let Some(of) = of else {
            let message = "the second argument of `container_of` must be a type";
            return cx.fail(Diagnostic::error(Code(366), args[1].span, message).help("such as `struct task_struct`"));
        };
        let space = match &pointer.ty {
            Type::Unknown => return pointer,
            Type::Pointer { space, .. } => *space,
            Type::Int(_) => Space::Kernel,
            other => {
                let message = format!("`container_of` takes an address, this is {}", cx.one(other));
                return cx.fail(Diagnostic::error(Code(348), args[0].span, message));
            }
        };
        let offset = cx.offsetof(&of, &path, span);
        if offset.ty == Type::Unknown {
            return offset;
        }
        let Some(to) = cx.type_named(&of) else { return typed::Expr::poison(span) };
        // The offset is in bytes, whatever the pointer's type.
        let address = cx.binary(BinaryOp::Sub, typed::Expr::convert(pointer, &Type::U64), offset, span);
        typed::Expr::convert(address, &Type::Pointer { to: Box::new(to), space })
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}

/// A type as an argument; a type of one word parses as a name.
fn type_of(arg: &ast::Expr) -> Option<TypeName> {
    match &arg.kind {
        ExprKind::Type(ty) => Some(ty.clone()),
        ExprKind::Name(name) => Some(TypeName { name: name.clone(), ..TypeName::unnamed(arg.span) }),
        _ => None,
    }
}
