//! `percpu_kaddr(name[, cpu])`: the address of a per-CPU variable of the kernel.

use crate::ast;
use crate::ast::BinaryOp;
use crate::catalogue::{Builtin, Function};
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::{Space, Type};
use crate::words::builtins;

/// `percpu_kaddr`.
#[derive(Debug)]
pub(super) struct PercpuKaddr;

impl Function for PercpuKaddr {
    word!("percpu_kaddr", "functions/percpu_kaddr");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("percpu_kaddr", args.len(), 1..=2, span) {
            return typed::Expr::poison(span);
        }
        let Some(name) = cx.constant_str(&args[0]) else {
            return cx.fail(Diagnostic::error(Code(339), args[0].span, "the symbol's name must be a string constant"));
        };
        let name = String::from_utf8_lossy(&name).into_owned();
        let Some(cpu) = (match args.get(1) {
            Some(cpu) => cx.int_arg("percpu_kaddr", cpu),
            None => Some(builtins::cpu::Cpu.check(cx, span)),
        }) else {
            return typed::Expr::poison(span);
        };
        // The kernel's array `__per_cpu_offset` has the offset of each CPU's copy.
        let symbols = [name.as_str(), "__per_cpu_offset"].map(|name| cx.env.target.kernel_symbol(name));
        let [Some(first), Some(distances)] = symbols else {
            let missing = if symbols[0].is_none() { name.as_str() } else { "__per_cpu_offset" };
            let message = format!("the kernel has no symbol `{missing}` that can be read here");
            let help = "variables are in /proc/kallsyms only with CONFIG_KALLSYMS_ALL";
            return cx.fail(Diagnostic::error(Code(343), args[0].span, message).help(help));
        };
        let pointer = Type::Pointer { to: Box::new(Type::U64), space: Space::Kernel };
        let number = |n: u64, ty: Type| typed::Expr { kind: ExprKind::Int(n as i64), ty, span };
        let base = Box::new(number(distances, pointer.clone()));
        let kind = ExprKind::Element {
            base,
            index: Box::new(typed::Expr::convert(cpu, &Type::U64)),
            stride_bytes: 8,
            len: None,
        };
        let distance = typed::Expr { kind, ty: Type::U64, span };
        let address = cx.binary(BinaryOp::Add, number(first, Type::U64), distance, span);
        typed::Expr::convert(address, &pointer)
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
