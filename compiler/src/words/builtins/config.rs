//! `config`: the settings of this run, a record of constants.

use crate::ast::{Expr, ExprKind, Ident};
use crate::catalogue::Builtin;
use crate::check::{self, getopt};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `config`.
#[derive(Debug)]
pub(super) struct Config;

impl Builtin for Config {
    word!("config", "builtins/config");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let constant = |(name, value): &(&'static str, getopt::Value)| {
            let kind = match value {
                getopt::Value::Bool(value) => ExprKind::Bool(*value),
                getopt::Value::Int(value) => ExprKind::Int(*value as u64),
                getopt::Value::Uint(value) => ExprKind::Int(*value),
                getopt::Value::Str(text) => ExprKind::Str(text.clone()),
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
