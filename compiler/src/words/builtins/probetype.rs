//! `probetype`: the kind of the probe.

use crate::check;
use crate::lower::{self, Value};
use crate::object::{Attach, Constant};
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::{Builtin, Doc};

/// `probetype`.
#[derive(Debug)]
pub struct ProbeType;

impl Builtin for ProbeType {
    fn name(&self) -> &'static str {
        "probetype"
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "probetype",
            summary: "the kind of the probe",
            page: include_str!("../../../../spec/words/builtins/probetype.md"),
        }
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, span: Span) -> typed::Expr {
        let name = cx.seed.names.first().map_or("", String::as_str);
        let kind = name.split(':').next().unwrap_or_default();
        let kind = if matches!(cx.seed.attach, Attach::Begin | Attach::End) { "special" } else { kind };
        check::Body::str_literal(kind.as_bytes(), span)
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _ty: &Type, _constants: &[Constant]) -> Value {
        Value::None
    }
}
