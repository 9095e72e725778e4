//! `pid`: the process id, which the kernel calls tgid.

use crate::ast;
use crate::catalogue::{Builtin, Identity};
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{BinOp, Width};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `pid`.
#[derive(Debug)]
pub(super) struct Pid;

impl Builtin for Pid {
    word!("pid", "builtins/pid");

    fn is_process_number(&self) -> bool {
        true
    }

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let kind = ExprKind::Builtin(WordName::new(self.name()), Vec::new());
        typed::Expr { kind, ty: Type::U32, span }
    }

    fn check_with(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> Option<typed::Expr> {
        Some(in_namespace(cx, self, args, span))
    }

    fn identity(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> Option<Identity> {
        super::start_time::identity(cx, false, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, _ty: &Type, constants: &[Constant]) -> Value {
        let both = if constants.is_empty() { lower::ids::namespaced(cx) } else { lower::ids::initial(cx) };
        Value::Scalar(cx.b.bin(BinOp::Shr, Width::W64, both, 32).into())
    }
}

/// `pid(init)` and `tid(init)`: the id in the initial pid namespace; `curr_ns` means the profiler's
/// own namespace.
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
    typed::Expr { kind: ExprKind::Builtin(WordName::new(word.name()), constants), ty: Type::U32, span }
}
