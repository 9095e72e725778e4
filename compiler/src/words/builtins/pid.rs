//! `pid`: the process id, which the kernel calls tgid.

use crate::ast;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{BinOp, Width};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;
use crate::words::{Builtin, Doc, Identity};

/// `pid`.
#[derive(Debug)]
pub struct Pid;

impl Builtin for Pid {
    fn name(&self) -> &'static str {
        "pid"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "pid, pid(init)",
            summary: "process id",
            page: include_str!("../../../../spec/words/builtins/pid.md"),
        }
    }

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(self, Vec::new());
        typed::Expr { kind, ty: Type::U32, span }
    }

    fn check_with(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<typed::Expr> {
        Some(in_namespace(cx, self, args, span))
    }

    fn identity(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> Option<Identity> {
        super::start_time::identity(cx, false, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, constants: &[Constant]) -> Value {
        let both = if constants.is_empty() { cx.process_ids() } else { cx.initial_ids() };
        Value::Scalar(cx.b.bin(BinOp::Shr, Width::W64, both, 32).into())
    }
}

/// `pid(init)` and `tid(init)`: the number in the initial pid namespace; `curr_ns` is the profiler's own.
pub(super) fn in_namespace(
    cx: &mut check::Body<'_, '_>,
    word: &'static dyn Builtin,
    args: &[ast::Expr],
    span: Span,
) -> typed::Expr {
    let name = match args {
        [ast::Expr { kind: ast::ExprKind::Name(name), .. }] => name.as_str(),
        _ => "",
    };
    let constants = match name {
        "curr_ns" => Vec::new(),
        "init" => vec![Constant::Int(1)],
        _ => {
            let message = format!("`{}` takes the namespace it counts in: init or curr_ns", word.name());
            return cx.fail(Diagnostic::error(Code(381), span, message));
        }
    };
    typed::Expr { kind: ExprKind::Builtin(word, constants), ty: Type::U32, span }
}
