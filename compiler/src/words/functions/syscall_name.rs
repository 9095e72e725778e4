//! `syscall_name(number)`: the name of a system call.

use crate::ast;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function};

/// The word.
pub const WORD: &SyscallName = &SyscallName;

/// `syscall_name`.
#[derive(Debug)]
pub struct SyscallName;

impl Function for SyscallName {
    fn name(&self) -> &'static str {
        "syscall_name"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "syscall_name(number)",
            summary: "the name of a system call",
            page: include_str!("../../../../spec/words/functions/syscall_name.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("syscall_name", args.len(), 1..=1, span) {
            return check::Body::poison(span);
        }
        let Some(number) = cx.int_arg("syscall_name", &args[0]) else { return check::Body::poison(span) };
        let number = check::Body::convert(number, &Type::I64);
        cx.call_of(self, vec![number], Vec::new(), Type::Str { capacity_bytes: ROOM_BYTES }, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(number) = call.args.first() else { return Value::None };
        let number = cx.scalar_reg(number);
        let texts = cx.syscall_names();
        cx.text_by_number(number, &texts, UNKNOWN, ROOM_BYTES)
    }
}

/// Longer than every text.
const ROOM_BYTES: u32 = 32;

/// For numbers without a text.
const UNKNOWN: &str = "Unknown syscall";
