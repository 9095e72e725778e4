//! `syscall_name(number)`: the name of a system call.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::lower::{self, Value};
use crate::source::Span;
use crate::syscalls;
use crate::target::Target;
use crate::typed;
use crate::types::Type;
use crate::view::Naming;

/// `syscall_name`.
#[derive(Debug)]
pub(super) struct SyscallName;

impl Function for SyscallName {
    word!("syscall_name", "functions/syscall_name");

    fn naming(&self, target: &dyn Target) -> Option<Naming> {
        Some(Naming::of(&syscalls::names(target.arch()), UNKNOWN, false))
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("syscall_name", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(number) = cx.int_arg("syscall_name", &args[0]) else { return typed::Expr::poison(span) };
        let number = typed::Expr::convert(number, &Type::I64);
        typed::Expr::call(self.name(), vec![number], Vec::new(), Type::Str { capacity_bytes: ROOM_BYTES }, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(number) = call.args.first() else { return Value::None };
        let number = cx.scalar_reg(number);
        let texts = lower::table::syscall_names(cx);
        lower::table::text_by_number(cx, number, &texts, UNKNOWN, ROOM_BYTES)
    }
}

/// String capacity; longer than every text.
const ROOM_BYTES: u32 = 32;

/// For numbers without a text.
const UNKNOWN: &str = "Unknown syscall";
