//! `func`: the name of the function that the probe is in.

use crate::catalogue::Builtin;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::results::WordName;
use crate::source::Span;
use crate::typed::{self, ExprKind};
use crate::types::Type;

/// `func`.
#[derive(Debug)]
pub(super) struct Func;

impl Builtin for Func {
    word!("func", "builtins/func");

    fn is_constant(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        if cx.seed.functions.is_empty() {
            let message = "this probe is not in a function";
            return cx.fail(Diagnostic::error(Code(334), span, message).help("`probe` is the name of the probe"));
        }
        let constants =
            vec![Constant::Int(i64::from(cx.seed.first_function)), Constant::Int(cx.seed.names.len() as i64)];
        typed::Expr { kind: ExprKind::Builtin(WordName::new(self.name()), constants), ty: Type::ProbeName, span }
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, ty: &Type, constants: &[Constant]) -> Value {
        lower::builtins::probe_name(cx, ty, constants)
    }
}
