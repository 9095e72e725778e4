//! `getopt("name"[, default[, "description"]])`: a parameter that the command line may give by name.

use crate::ast;
use crate::check::{self, parameters};
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Doc, Function};

/// `getopt`.
#[derive(Debug)]
pub struct Getopt;

impl Function for Getopt {
    fn name(&self) -> &'static str {
        "getopt"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "getopt(name[, default[, description]])",
            summary: "a parameter given as `--name=value` behind `--`",
            page: include_str!("../../../../spec/words/functions/getopt.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("getopt", args.len(), 1..=3, span) {
            return check::Body::poison(span);
        }
        let constant = |at: usize| args.get(at).is_none_or(|arg| matches!(arg.kind, ast::ExprKind::Str(_)));
        if let Some(at) = [0, 2].into_iter().find(|at| !constant(*at)) {
            let message = "name and description of a parameter are string constants";
            return cx.fail(Diagnostic::error(Code(339), args[at].span, message).help("write `getopt(\"slow\", 10)`"));
        }
        let default = args.get(1).map_or(Some(parameters::Value::Bool(false)), parameters::literal);
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
            Some(parameters::Value::Bool(value)) => cx.expr(&ast::Expr { kind: ast::ExprKind::Bool(value), span }),
            Some(parameters::Value::Int(value)) => {
                typed::Expr { kind: typed::ExprKind::Int(value), ty: Type::I64, span }
            }
            Some(parameters::Value::Str(text)) => cx.expr(&ast::Expr { kind: ast::ExprKind::Str(text), span }),
            None => {
                let message = format!("`--{name}` is not {}", default.type_name());
                cx.fail(Diagnostic::error(Code(216), span, message).help(format!("write `--{name}=VALUE` behind `--`")))
            }
        }
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }
}
