//! `pton(text)`: an IPv4 or IPv6 address as bytes.

use crate::ast;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::{Int, Type};
use crate::words::{Doc, Function};
use std::net::IpAddr;

/// The word.
pub const WORD: &Pton = &Pton;

/// `pton`.
#[derive(Debug)]
pub struct Pton;

impl Function for Pton {
    fn name(&self) -> &'static str {
        "pton"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "pton(text)",
            summary: "an IPv4 or IPv6 address as bytes",
            page: include_str!("../../../../spec/words/functions/pton.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("pton", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        let Some(text) = cx.constant_str(&args[0]) else {
            return cx.fail(Diagnostic::error(Code(339), args[0].span, "the address must be a string constant"));
        };
        let bytes = match String::from_utf8_lossy(&text).parse() {
            Ok(IpAddr::V4(address)) => address.octets().to_vec(),
            Ok(IpAddr::V6(address)) => address.octets().to_vec(),
            Err(_) => {
                let message = "this is no IPv4 or IPv6 address";
                return cx.fail(
                    Diagnostic::error(Code(384), args[0].span, message).help("for example `pton(\"127.0.0.1\")`"),
                );
            }
        };
        let byte = Type::Int(Int { size_bytes: 1, signed: true });
        let ty = Type::Array { of: Box::new(byte), len: bytes.len() as u32 };
        let constants = bytes.into_iter().map(|byte| Constant::Int(i64::from(byte))).collect();
        cx.call_of(self, Vec::new(), constants, ty, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let byte = |constant: &Constant| match constant {
            Constant::Int(byte) => *byte as u8,
            _ => 0,
        };
        let bytes: Vec<u8> = call.constants.iter().map(byte).collect();
        Value::Memory(cx.constant_bytes(&bytes))
    }
}
