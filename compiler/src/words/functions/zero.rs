//! `zero(@x)`: sets all values of a map to zero and keeps its keys.

use crate::ast;
use crate::catalogue::{Function, WholeMap};
use crate::check;
use crate::lower::{self, Channel, Value};
use crate::object::{Constant, Event};
use crate::results::{Perform, Record, Sink};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `zero`.
#[derive(Debug)]
pub(super) struct Zero;

impl Function for Zero {
    word!("zero", "functions/zero");

    fn whole_map(&self, _call: &typed::Call) -> Option<WholeMap> {
        Some(WholeMap::Empties)
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        let Some(map) = cx.only_map("zero", args, span) else { return typed::Expr::poison(span) };
        if !cx.is_in_one_place(map, "`zero`", args[0].span) {
            return typed::Expr::poison(span);
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

impl Perform for Zero {
    fn perform(&self, event: &Event, _record: &Record<'_>, sink: &mut dyn Sink) {
        if let Some(Constant::Map(map)) = event.constants.first() {
            sink.zero_map(*map);
        }
    }
}
