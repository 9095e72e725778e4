//! `getopt("name"[, default[, "description"]])`: a named parameter that the command line can set.

use crate::ast;
use crate::catalogue::Function;
use crate::check::{self, getopt};
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `getopt`.
#[derive(Debug)]
pub(super) struct Getopt;

impl Function for Getopt {
    word!("getopt", "functions/getopt");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("getopt", args.len(), 1..=3, span) {
            return typed::Expr::poison(span);
        }
        let constant = |at: usize| args.get(at).is_none_or(|arg| matches!(arg.kind, ast::ExprKind::Str(_)));
        if let Some(at) = [0, 2].into_iter().find(|at| !constant(*at)) {
            let message = "name and description of a parameter are string constants";
            return cx.fail(Diagnostic::error(Code(339), args[at].span, message).help("write `getopt(\"slow\", 10)`"));
        }
        let default = args.get(1).map_or(Some(getopt::Value::Bool(false)), getopt::literal);
        let (Some(default), ast::ExprKind::Str(name)) = (default, &args[0].kind) else {
            let message = "the default of a parameter is a constant: a number, a string, `true` or `false`";
            return cx.fail(Diagnostic::error(Code(339), args[1].span, message));
        };
        let name = String::from_utf8_lossy(name).into_owned();
        let given = cx.env.options.named.iter().rev().find(|(given, _)| *given == name).map(|(_, text)| text.clone());
        let value = match given {
            None => Some(default.clone()),
            Some(text) => default.parse_like(text.as_deref()),
        };
        match value {
            Some(getopt::Value::Bool(value)) => cx.expr(&ast::Expr { kind: ast::ExprKind::Bool(value), span }),
            Some(getopt::Value::Int(value)) => typed::Expr { kind: typed::ExprKind::Int(value), ty: Type::I64, span },
            Some(getopt::Value::Uint(value)) => typed::Expr::int(value, span),
            Some(getopt::Value::Str(text)) => cx.expr(&ast::Expr { kind: ast::ExprKind::Str(text), span }),
            None => {
                let message = format!("`--{name}` is not {}", default.type_name());
                cx.fail(Diagnostic::error(Code(216), span, message).help(format!("write `--{name}=VALUE` after `--`")))
            }
        }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
