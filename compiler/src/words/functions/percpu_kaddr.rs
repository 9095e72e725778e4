//! `percpu_kaddr(name[, cpu])`: the address of a variable that the kernel has for each CPU.

use crate::ast;
use crate::ast::BinaryOp;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::{Space, Type};
use crate::words::{Builtin, Doc, Function, builtins};

/// The word.
pub const WORD: &PercpuKaddr = &PercpuKaddr;

/// `percpu_kaddr`.
#[derive(Debug)]
pub struct PercpuKaddr;

impl Function for PercpuKaddr {
    fn name(&self) -> &'static str {
        "percpu_kaddr"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "percpu_kaddr(name[, cpu])",
            summary: "the address of a variable that the kernel has for each CPU",
            page: include_str!("../../../../spec/words/functions/percpu_kaddr.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("percpu_kaddr", args.len(), 1..=2, span) {
            return check::Body::poison(span);
        }
        let Some(name) = cx.constant_str(&args[0]) else {
            return cx.fail(Diagnostic::error(Code(339), args[0].span, "the symbol's name must be a string constant"));
        };
        let name = String::from_utf8_lossy(&name).into_owned();
        let Some(cpu) = (match args.get(1) {
            Some(cpu) => cx.int_arg("percpu_kaddr", cpu),
            None => Some(builtins::cpu::Cpu.check(cx, span)),
        }) else {
            return check::Body::poison(span);
        };
        // The distance of each CPU's copy is in an array of the kernel's.
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
            index: Box::new(check::Body::convert(cpu, &Type::U64)),
            stride_bytes: 8,
            len: None,
        };
        let distance = typed::Expr { kind, ty: Type::U64, span };
        let address = cx.binary(BinaryOp::Add, number(first, Type::U64), distance, span);
        check::Body::convert(address, &pointer)
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
