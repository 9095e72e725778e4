//! `macaddr(address)`: a hardware address as text.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `macaddr`.
#[derive(Debug)]
pub(super) struct Macaddr;

impl Function for Macaddr {
    word!("macaddr", "functions/macaddr");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("macaddr", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let address = cx.expr(&args[0]);
        let fits = match &address.ty {
            Type::Unknown | Type::Pointer { .. } => true,
            Type::Str { capacity_bytes } => *capacity_bytes >= 6,
            Type::Array { of, len } => *len >= 6 && of.as_int().is_some_and(|int| int.size_bytes == 1),
            _ => false,
        };
        if !fits {
            let message =
                format!("`macaddr` takes an array of 6 bytes or a pointer to them, this is {}", cx.one(&address.ty));
            return cx.fail(Diagnostic::error(Code(348), args[0].span, message));
        }
        // Characters are read as a string, which ends at a zero byte; an address may contain zero
        // bytes.
        let is_place = matches!(address.kind, typed::ExprKind::Deref { .. }) && !address.ty.is_scalar();
        let address = if is_place { cx.address("macaddr", address) } else { Some(address) };
        let Some(address) = address else { return typed::Expr::poison(span) };
        typed::Expr::call(self.name(), vec![address], Vec::new(), Type::MacAddress, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let Some(address) = call.args.first() else { return Value::None };
        if address.ty.is_scalar() {
            let from = cx.scalar_reg(address);
            let to = cx.allocate(ty);
            lower::memory::probe_read(cx, to, from, ADDRESS_BYTES, lower::space_of(address));
            return Value::Memory(to);
        }
        let value = cx.expr(address);
        let from = cx.in_memory(value, &address.ty);
        let to = cx.allocate(ty);
        cx.copy(to, from, ADDRESS_BYTES);
        Value::Memory(to)
    }
}

/// `ETH_ALEN`.
const ADDRESS_BYTES: u32 = 6;
