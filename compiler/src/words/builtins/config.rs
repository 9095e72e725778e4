//! `config`: the settings of this run, a record of constants.

use crate::ast::{Expr, ExprKind, Ident};
use crate::check::{self, parameters};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `config`.
#[derive(Debug)]
pub struct Config;

impl Builtin for Config {
    fn name(&self) -> &'static str {
        "config"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "config",
            summary: "the settings of this run",
            page: include_str!("../../../../spec/words/builtins/config.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let constant = |(name, value): &(&'static str, parameters::Value)| {
            let kind = match value {
                parameters::Value::Bool(value) => ExprKind::Bool(*value),
                parameters::Value::Int(value) => ExprKind::Int(*value as u64),
                parameters::Value::Str(text) => ExprKind::Str(text.clone()),
            };
            (Ident { text: (*name).into(), span }, Expr { kind, span })
        };
        let parts = cx.env.settings.iter().map(constant).collect();
        cx.expr(&Expr { kind: ExprKind::Record(parts), span })
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}
