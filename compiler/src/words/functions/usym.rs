//! `usym(address)`: the symbol at an address of the current process.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::ir::{BinOp, Size, Width};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `usym`.
#[derive(Debug)]
pub(super) struct Usym;

impl Function for Usym {
    word!("usym", "functions/usym");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("usym", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(address) = cx.int_arg("usym", &args[0]) else { return typed::Expr::poison(span) };
        typed::Expr::call(self.name(), vec![address], Vec::new(), Type::UserSymbol, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let Some(address) = call.args.first() else { return Value::None };
        let address = cx.scalar(address);
        let both = lower::ids::namespaced(cx);
        let process = cx.b.bin(BinOp::Shr, Width::W64, both, 32);
        let to = cx.allocate(ty);
        cx.b.store(to, address, Size::B8);
        cx.b.store(to.plus(8), process, Size::B8);
        Value::Memory(to)
    }
}
