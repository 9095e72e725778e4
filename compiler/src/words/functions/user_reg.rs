//! `user_reg(name)`: a register of the thread's user code, as it was when it entered the kernel.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Addr, Arg, Helper, Size};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::functions::reg::register_offset;

/// `user_reg`.
#[derive(Debug)]
pub(super) struct UserReg;

impl Function for UserReg {
    word!("user_reg", "functions/user_reg");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("user_reg", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(name) = cx.constant_str(&args[0]) else {
            let message = "the register's name must be a string constant";
            return cx.fail(Diagnostic::error(Code(339), args[0].span, message));
        };
        let name = String::from_utf8_lossy(&name).into_owned();
        if cx.seed.context.kind == typed::ContextKind::Iterator && !check::stacks::has_task(cx) {
            let message = "this iterator has no thread whose registers could be read";
            let help = "`iter:task`, `iter:task_file` and `iter:task_vma` have one";
            return cx.fail(Diagnostic::error(Code(341), span, message).help(help));
        }
        match register_offset(cx.env.target.arch(), &name) {
            Some(offset) => {
                let offset = Constant::Int(offset.into());
                typed::Expr::call(self.name(), Vec::new(), vec![offset], Type::U64, span)
            }
            None => {
                let message = format!("there is no register `{name}` on this processor");
                let help = "x86: ip sp bp ax bx cx dx si di r8 .. r15 flags orig_ax; arm64: pc sp r0 .. r30";
                cx.fail(Diagnostic::error(Code(342), args[0].span, message).help(help))
            }
        }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(Constant::Int(offset)) = call.constants.first() else { return Value::None };
        let task = lower::threads::task(cx);
        // Since 5.15.
        let registers = cx.b.call(Helper::TaskPtRegs, &[Arg::Value(task.into())]);
        Value::Scalar(cx.b.load(Addr::reg(registers, *offset as i32), Size::B8).into())
    }
}
