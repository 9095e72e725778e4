//! `ksym(address)`: the kernel symbol at an address.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::ir::Size;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::target::Target;
use crate::typed;
use crate::types::Type;
use crate::view::Naming;

/// `ksym`.
#[derive(Debug)]
pub(super) struct Ksym;

impl Function for Ksym {
    word!("ksym", "functions/ksym");

    fn naming(&self, _target: &dyn Target) -> Option<Naming> {
        Some(Naming::KernelSymbol)
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("ksym", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(address) = cx.int_arg("ksym", &args[0]) else { return typed::Expr::poison(span) };
        typed::Expr::call(self.name(), vec![address], Vec::new(), Type::KernelSymbol, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let Some(address) = call.args.first() else { return Value::None };
        let address = cx.scalar(address);
        let to = cx.allocate(ty);
        cx.b.store(to, address, Size::B8);
        Value::Memory(to)
    }
}
