//! `ksym(address)`: the symbol at an address in the kernel.

use crate::ast;
use crate::check;
use crate::ir::Size;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &Ksym = &Ksym;

/// `ksym`.
#[derive(Debug)]
pub struct Ksym;

impl Function for Ksym {
    fn name(&self) -> &'static str {
        "ksym"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "ksym(address)",
            summary: "the symbol at an address in the kernel",
            page: include_str!("../../../../spec/words/functions/ksym.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("ksym", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        let Some(address) = cx.int_arg("ksym", &args[0]) else { return check::Body::poison(span) };
        cx.call_of(self, vec![address], Vec::new(), Type::KernelSymbol, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let Some(address) = call.args.first() else { return Value::None };
        let address = cx.scalar(address);
        let to = cx.room(ty);
        cx.b.store(to, address, Size::B8);
        Value::Memory(to)
    }
}
