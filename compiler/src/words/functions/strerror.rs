//! `strerror(error)`: the text of an error number.

use crate::ast;
use crate::check;
use crate::ir::{BinOp, Width};
use crate::lower::{self, Value};
use crate::numbers::ERRORS;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &Strerror = &Strerror;

/// `strerror`.
#[derive(Debug)]
pub struct Strerror;

impl Function for Strerror {
    fn name(&self) -> &'static str {
        "strerror"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "strerror(error)",
            summary: "the text of an error number",
            page: include_str!("../../../../spec/words/functions/strerror.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("strerror", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        let Some(number) = cx.int_arg("strerror", &args[0]) else { return check::Body::poison(span) };
        let number = check::Body::convert(number, &Type::I64);
        cx.call_of(self, vec![number], Vec::new(), Type::Str { capacity_bytes: ROOM_BYTES }, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(number) = call.args.first() else { return Value::None };
        let number = cx.scalar_reg(number);
        let sign = cx.b.bin(BinOp::Sar, Width::W64, number, 63);
        let flipped = cx.b.bin(BinOp::Xor, Width::W64, number, sign);
        let number = cx.b.bin(BinOp::Sub, Width::W64, flipped, sign);
        cx.text_by_number(number, &ERRORS, UNKNOWN, ROOM_BYTES)
    }
}

/// Longer than every text.
const ROOM_BYTES: u32 = 64;

/// For numbers without a text.
const UNKNOWN: &str = "Unknown error";
