//! `print(value), print(@x[, top[, div]]), print(@x[key])`: prints a value, a map or an entry.

use crate::ast;
use crate::catalogue::{Function, WholeMap};
use crate::check::{self, Dialect};
use crate::diagnostic::{Code, Diagnostic};
use crate::lower::{self, Channel, Value};
use crate::object::{Constant, Event};
use crate::results::{Perform, Record, Sink};
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `print`.
#[derive(Debug)]
pub(super) struct Print;

impl Function for Print {
    word!("print", "functions/print");

    fn whole_map(&self, call: &typed::Call) -> Option<WholeMap> {
        call.args.is_empty().then_some(WholeMap::Shows)
    }

    fn reads_in_user_space(&self, _args: &[ast::Expr]) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("print", args.len(), 1..=3, span) {
            return typed::Expr::poison(span);
        }
        // A scalar is printed as a map too: `@x: 5`.
        if let Some(map) = cx.whole_map(&args[0]) {
            let mut constants = vec![Constant::Map(map.0)];
            for arg in &args[1..] {
                let Some(n) = cx.constant_int(arg).filter(|n| *n >= 0) else {
                    let message = "`print` takes constants for the number of entries and the divisor";
                    return cx.fail(Diagnostic::error(Code(335), arg.span, message).help(self.doc().signature()));
                };
                constants.push(Constant::Int(n));
            }
            return typed::Expr::call(self.name(), Vec::new(), constants, Type::None, span);
        }
        if let Some(arg) = args.get(1) {
            let message = "only a whole map is printed with further arguments";
            return cx.fail(Diagnostic::error(Code(336), arg.span, message).help(self.doc().signature()));
        }
        if let Some((map, key)) = cx.aggregate_entry(&args[0]) {
            let is_bare = cx.env.options.dialect == Dialect::Bpftrace;
            let constants = vec![Constant::Map(map.0), Constant::Int(is_bare.into())];
            return typed::Expr::call(self.name(), vec![key], constants, Type::None, span);
        }
        let value = cx.printed(&args[0]);
        typed::Expr::call(self.name(), vec![value], Vec::new(), Type::None, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        // A map is read when the request is handled, so data must not crowd out the request; a
        // value is data.
        let channel = if call.constants.is_empty() { Channel::Data } else { Channel::Control };
        lower::events::send(cx, channel, self.name(), &call.constants, &call.args);
        Value::None
    }

    fn in_user_space(&'static self) -> Option<&'static dyn Perform> {
        Some(self)
    }
}

impl Perform for Print {
    fn perform(&self, event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        let number = |at: usize| match event.constants.get(at) {
            Some(Constant::Int(n)) => *n as u64,
            _ => 0,
        };
        match (event.constants.first(), event.fields.first()) {
            (Some(Constant::Map(map)), None) => sink.print_map(*map, number(1), number(2)),
            (Some(Constant::Map(map)), Some(key)) => sink.print_entry(*map, record.field_bytes(key), number(1) == 1),
            _ => sink.value(&record.value(0)),
        }
    }
}
