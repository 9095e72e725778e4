//! `inflight(SPAN), inflight(SPAN, STAGE)`: the number of open spans, or of those in a stage.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::similar;
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `inflight`.
#[derive(Debug)]
pub(super) struct Inflight;

impl Function for Inflight {
    word!("inflight", "functions/inflight");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("inflight", args.len(), 1..=2, span) {
            return typed::Expr::poison(span);
        }
        let name = |arg: &ast::Expr| match &arg.kind {
            ast::ExprKind::Name(name) => name.clone(),
            _ => String::new(),
        };
        let wanted = name(&args[0]);
        let Some(index) = cx.env.spans.index(&wanted) else {
            let names: Vec<&str> = cx.env.spans.list.iter().map(|info| info.name.as_str()).collect();
            let message = "`inflight` takes the name of a span";
            let help = match (similar::nearest(&wanted, names.iter().copied(), 1).first(), names.as_slice()) {
                (Some(near), _) => format!("did you mean `{near}`?"),
                (None, []) => "this script has none: `span NAME by KEY { start PROBE end PROBE }`".to_string(),
                (None, names) => format!("the spans of this script: {}", names.join(", ")),
            };
            return cx.fail(Diagnostic::error(Code(241), args[0].span, message).help(help));
        };
        let mut constants = vec![Constant::Int(index as i64)];
        if let Some(arg) = args.get(1) {
            let stages = &cx.env.spans.list[index].stages;
            let Some(stage) = stages.iter().position(|stage| *stage == name(arg)) else {
                let message = format!("`{wanted}` has no stage of this name");
                let help = format!("its stages: {}", stages.join(", "));
                return cx.fail(Diagnostic::error(Code(241), arg.span, message).help(help));
            };
            constants.push(Constant::Int(stage as i64));
        }
        typed::Expr::call(self.name(), Vec::new(), constants, Type::I64, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        match call.constants.as_slice() {
            [Constant::Int(span)] => lower::spans::inflight(cx, *span as usize, None),
            [Constant::Int(span), Constant::Int(stage)] => {
                lower::spans::inflight(cx, *span as usize, Some(*stage as usize))
            }
            _ => Value::None,
        }
    }
}
