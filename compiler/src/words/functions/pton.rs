//! `pton(text)`: an IPv4 or IPv6 address as bytes.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::{Int, Type};
use std::net::IpAddr;

/// `pton`.
#[derive(Debug)]
pub(super) struct Pton;

impl Function for Pton {
    word!("pton", "functions/pton");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("pton", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(text) = cx.constant_str(&args[0]) else {
            return cx.fail(Diagnostic::error(Code(339), args[0].span, "the address must be a string constant"));
        };
        let bytes = match String::from_utf8_lossy(&text).parse() {
            Ok(IpAddr::V4(address)) => address.octets().to_vec(),
            Ok(IpAddr::V6(address)) => address.octets().to_vec(),
            Err(_) => {
                let message = "this is not an IPv4 or IPv6 address";
                return cx.fail(
                    Diagnostic::error(Code(384), args[0].span, message).help("for example `pton(\"127.0.0.1\")`"),
                );
            }
        };
        let byte = Type::Int(Int { size_bytes: 1, signed: true });
        let ty = Type::Array { of: Box::new(byte), len: bytes.len() as u32 };
        let constants = bytes.into_iter().map(|byte| Constant::Int(i64::from(byte))).collect();
        typed::Expr::call(self.name(), Vec::new(), constants, ty, span)
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
