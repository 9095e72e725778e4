//! `debugf(format, values...)`: writes a line to the kernel's trace buffer.

use crate::ast;
use crate::catalogue::Function;
use crate::check;
use crate::ir::{Arg, Helper};
use crate::lower::{self, Value};
use crate::object::Constant;
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::words::functions::kernel_format;

/// `debugf`.
#[derive(Debug)]
pub(super) struct Debugf;

impl Function for Debugf {
    word!("debugf", "functions/debugf");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        let Some((format, values)) = cx.format_call("debugf", args, span) else { return typed::Expr::poison(span) };
        if let Some(fault) = kernel_format::fault(cx, &format, &values, MAX_VALUES, span) {
            return cx.fail(fault);
        }
        typed::Expr::call(self.name(), values, vec![Constant::Format(format)], Type::None, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        let Some(Constant::Format(format)) = call.constants.first() else { return Value::None };
        let bytes = kernel_format::bytes(format);
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
