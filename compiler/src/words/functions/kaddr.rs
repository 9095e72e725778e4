//! `kaddr(name)`: the address of a kernel symbol.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `kaddr`.
#[derive(Debug)]
pub(super) struct Kaddr;

impl Function for Kaddr {
    word!("kaddr", "functions/kaddr");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("kaddr", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(name) = cx.constant_str(&args[0]) else {
            return cx.fail(Diagnostic::error(Code(339), args[0].span, "the symbol's name must be a string constant"));
        };
        let name = String::from_utf8_lossy(&name).into_owned();
        match cx.env.target.kernel_symbol(&name) {
            Some(address) => typed::Expr { kind: ExprKind::Int(address as i64), ty: Type::U64, span },
            None => {
                let message = format!("the kernel has no symbol `{name}` that can be read here");
                cx.fail(
                    Diagnostic::error(Code(343), args[0].span, message)
                        .help("only symbols in /proc/kallsyms have an address; data symbols need CONFIG_KALLSYMS_ALL"),
                )
            }
        }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
