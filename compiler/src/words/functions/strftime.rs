//! `strftime(format, nsecs)`: formats a time since boot as wall-clock time.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::Size;
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `strftime`.
#[derive(Debug)]
pub(super) struct Strftime;

impl Function for Strftime {
    word!("strftime", "functions/strftime");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("strftime", args.len(), 2..=2, span) {
            return typed::Expr::poison(span);
        }
        let Some(format) = cx.constant_str(&args[0]) else {
            return cx.fail(Diagnostic::error(Code(339), args[0].span, "the format must be a string constant"));
        };
        let Some(time) = cx.int_arg("strftime", &args[1]) else { return typed::Expr::poison(span) };
        let time = typed::Expr::convert(time, &Type::U64);
        let format = String::from_utf8_lossy(&format).into_owned();
        typed::Expr::call(self.name(), vec![time], vec![Constant::Str(format)], Type::Timestamp, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let ([time], [Constant::Str(format)]) = (call.args.as_slice(), call.constants.as_slice()) else {
            return Value::None;
        };
        let time = cx.scalar(time);
        let index = cx.string_index(format);
        let to = cx.allocate(ty);
        cx.b.store(to, time, Size::B8);
        cx.b.store(to.plus(8), index as i64, Size::B8);
        Value::Memory(to)
    }
}
