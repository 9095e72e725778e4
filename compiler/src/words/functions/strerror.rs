//! `strerror(error)`: the text of an error number.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::ir::{BinOp, Width};
use crate::lower::{self, Value};
use crate::numbers::ERRORS;
use crate::source::Span;
use crate::target::Target;
use crate::typed;
use crate::types::Type;
use crate::view::Naming;

/// `strerror`.
#[derive(Debug)]
pub(super) struct Strerror;

impl Function for Strerror {
    word!("strerror", "functions/strerror");

    fn naming(&self, _target: &dyn Target) -> Option<Naming> {
        Some(Naming::of(&ERRORS, UNKNOWN, true))
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("strerror", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(number) = cx.int_arg("strerror", &args[0]) else { return typed::Expr::poison(span) };
        let number = typed::Expr::convert(number, &Type::I64);
        typed::Expr::call(self.name(), vec![number], Vec::new(), Type::Str { capacity_bytes: ROOM_BYTES }, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(number) = call.args.first() else { return Value::None };
        let number = cx.scalar_reg(number);
        let sign = cx.b.bin(BinOp::Sar, Width::W64, number, 63);
        let flipped = cx.b.bin(BinOp::Xor, Width::W64, number, sign);
        let number = cx.b.bin(BinOp::Sub, Width::W64, flipped, sign);
        lower::table::text_by_number(cx, number, &ERRORS, UNKNOWN, ROOM_BYTES)
    }
}

/// String capacity; longer than every text.
const ROOM_BYTES: u32 = 64;

/// For numbers without a text.
const UNKNOWN: &str = "Unknown error";
