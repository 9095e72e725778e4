//! `flame(@x)`: prints a map as a picture of the stacks in its keys.

use crate::ast;
use crate::catalogue::{Function, WholeMap};
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Channel, Value};
use crate::object::{Constant, Event};
use crate::results::{Perform, Record, Sink};
use crate::source::Span;
use crate::typed::{self, MapIndex, MapValue};
use crate::types::Type;
use crate::view::Measure;

/// `flame`.
#[derive(Debug)]
pub(super) struct Flame;

impl Function for Flame {
    word!("flame", "functions/flame");

    fn whole_map(&self, _call: &typed::Call) -> Option<WholeMap> {
        Some(WholeMap::Shows)
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        let Some(map) = cx.only_map("flame", args, span) else { return typed::Expr::poison(span) };
        if let Some(problem) = problem(cx, map, args[0].span) {
            return cx.fail(problem);
        }
        typed::Expr::call(self.name(), Vec::new(), vec![Constant::Map(map.0)], Type::None, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        lower::events::send(cx, Channel::Control, self.name(), &call.constants, &call.args);
        Value::None
    }

    fn in_user_space(&'static self) -> Option<&'static dyn Perform> {
        Some(self)
    }
}

impl Perform for Flame {
    fn perform(&self, event: &Event, _record: &Record<'_>, sink: &mut dyn Sink) {
        if let Some(Constant::Map(map)) = event.constants.first() {
            sink.print_flame(*map);
        }
    }
}

/// Why a map cannot be drawn, as far as its types are known.
fn problem(cx: &check::Body<'_, '_>, map: MapIndex, span: Span) -> Option<Diagnostic> {
    let info = cx.env.maps.get(map);
    let has_stacks = info.key.as_ref().is_none_or(|key| key.as_ref().is_some_and(Type::has_stacks));
    if !has_stacks {
        let message = format!("the keys of `{}` have no stack that could be drawn", info.name);
        return Some(
            Diagnostic::error(Code(274), span, message)
                .help("draw a map with a stack in its key: `@samples[ustack, kstack] = count()`"),
        );
    }
    let adds_up = match &info.value {
        Some(MapValue::Aggregate { word, .. }) => Measure::Share.is_provided_by(cx.env.catalogue.aggregation_of(word)),
        Some(MapValue::Plain(ty)) => matches!(ty, Type::Int(_) | Type::Unknown),
        None => true,
    };
    let message = || format!("the values of `{}` are no numbers that add up", info.name);
    (!adds_up)
        .then(|| Diagnostic::error(Code(274), span, message()).help("draw a map of counts, sums or whole numbers"))
}
