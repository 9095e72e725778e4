//! `clear(@x)`: removes all entries of a map.

use crate::ast;
use crate::catalogue::{Function, WholeMap};
use crate::check;
use crate::lower::{self, Channel, Value};
use crate::object::{Constant, Event};
use crate::results::{Perform, Record, Sink};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `clear`.
#[derive(Debug)]
pub(super) struct Clear;

impl Function for Clear {
    word!("clear", "functions/clear");

    fn whole_map(&self, _call: &typed::Call) -> Option<WholeMap> {
        Some(WholeMap::Empties)
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        let Some(map) = cx.only_map("clear", args, span) else { return typed::Expr::poison(span) };
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

impl Perform for Clear {
    fn perform(&self, event: &Event, _record: &Record<'_>, sink: &mut dyn Sink) {
        if let Some(Constant::Map(map)) = event.constants.first() {
            sink.clear_map(*map);
        }
    }
}
