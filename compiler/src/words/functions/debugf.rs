//! `debugf(format, values...)`: writes a line to the kernel's trace buffer.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Arg, Helper};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `debugf`.
#[derive(Debug)]
pub(super) struct Debugf;

impl Function for Debugf {
    word!("debugf", "functions/debugf");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        let Some((format, values)) = cx.format_call("debugf", args, span) else { return typed::Expr::poison(span) };
        if values.len() > MAX_VALUES {
            let message = format!("`debugf` takes at most {MAX_VALUES} values");
            return cx.fail(Diagnostic::error(Code(387), span, message).help("`printf` takes any number"));
        }
        for (conversion, value) in format.conversions().zip(&values) {
            let fits = match (conversion.letter, &value.ty) {
                ('s', Type::Str { .. }) => true,
                (letter, ty) => ty.is_scalar() && "diuxXp".contains(letter),
            };
            if !fits && value.ty != Type::Unknown {
                let message = format!("the kernel cannot print {} with `%{}`", cx.one(&value.ty), conversion.letter);
                let help = "`debugf` has %d %i %u %x %X %p for numbers and %s for strings";
                return cx.fail(Diagnostic::error(Code(387), value.span, message).help(help));
            }
        }
        let Some(text) = cx.constant_str(&args[0]) else { return typed::Expr::poison(span) };
        let text = Constant::Str(String::from_utf8_lossy(&text).into_owned());
        typed::Expr::call(self.name(), values, vec![text], Type::None, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(Constant::Str(text)) = call.constants.first() else { return Value::None };
        let mut bytes = text.clone().into_bytes();
        bytes.push(0);
        let mut values = Vec::with_capacity(MAX_VALUES);
        for value in &call.args {
            values.push(if value.ty.is_scalar() {
                Arg::Value(cx.scalar(value))
            } else {
                let lowered = cx.expr(value);
                let at = cx.in_memory(lowered, &value.ty);
                cx.address_arg(at)
            });
        }
        values.resize(MAX_VALUES, Arg::Value(0.into()));
        let at = cx.constant_bytes(&bytes);
        let mut all = vec![cx.address_arg(at), Arg::Value((bytes.len() as i64).into())];
        all.append(&mut values);
        cx.b.call_void(Helper::TracePrintk, &all);
        Value::None
    }
}

/// Maximum number of values, because `bpf_trace_printk` takes no more.
const MAX_VALUES: usize = 3;
