//! `probetype`: the kind of the probe.

use crate::catalogue::Builtin;
use crate::check;
use crate::lower::{self, Value};
use crate::object::{Attach, Constant};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `probetype`.
#[derive(Debug)]
pub(super) struct ProbeType;

impl Builtin for ProbeType {
    word!("probetype", "builtins/probetype");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let name = cx.seed.names.first().map_or("", String::as_str);
        let kind = name.split(':').next().unwrap_or_default();
        let kind = if matches!(cx.seed.attach, Attach::Begin | Attach::End) { "special" } else { kind };
        typed::Expr::string(kind.as_bytes(), span)
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}
