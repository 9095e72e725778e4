//! `fail(format, values...)`: refuses the script with a message.

use crate::ast;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::value::{self, SymbolName, Symbols};
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &Fail = &Fail;

/// `fail`.
#[derive(Debug)]
pub struct Fail;

impl Function for Fail {
    fn name(&self) -> &'static str {
        "fail"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "fail(format, values...)",
            summary: "refuses the script with a message",
            page: include_str!("../../../../spec/words/functions/fail.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        let Some((format, values)) = cx.format_call("fail", args, span) else { return check::Body::poison(span) };
        if cx.unreachable {
            return typed::Expr { kind: ExprKind::Int(0), ty: Type::None, span };
        }
        let mut given = Vec::with_capacity(values.len());
        for part in values {
            given.push(match part.kind {
                ExprKind::Int(n) => value::Value::Int(n),
                ExprKind::Str(text) => value::Value::Str(text),
                _ => {
                    let message = "a message of `fail` is made of constants";
                    return cx.fail(Diagnostic::error(Code(386), part.span, message));
                }
            });
        }
        let mut text = Vec::new();
        format.render(|at| given.get(at).cloned().unwrap_or(value::Value::Missing), &NoSymbols, &mut text);
        cx.fail(Diagnostic::error(Code(383), span, String::from_utf8_lossy(&text).trim_end().to_string()))
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}

/// Constants hold no addresses.
#[derive(Debug)]
struct NoSymbols;

impl Symbols for NoSymbols {
    fn kernel(&self, _address: u64) -> Option<SymbolName> {
        None
    }

    fn user(&self, _pid: u32, _address: u64) -> Option<SymbolName> {
        None
    }

    fn username(&self, _uid: u32) -> Option<String> {
        None
    }

    fn boot_time_ns(&self) -> u64 {
        0
    }
}
