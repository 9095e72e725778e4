//! `override(value)`: the probed function does not run, and its caller gets the value; needs
//! --unsafe.

use crate::ast;
use crate::btf::Kind;
use crate::catalogue::Function;
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Arg, Helper};
use crate::lower::{self, Value};
use crate::object::Attach;
use crate::source::Span;
use crate::typed;
use crate::types::Type;

/// `override`.
#[derive(Debug)]
pub(super) struct Override;

impl Function for Override {
    word!("override", "functions/override");

    fn is_unsafe(&self) -> bool {
        true
    }

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if !cx.arity("override", args.len(), 1..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(value) = cx.int_arg("override", &args[0]) else { return typed::Expr::poison(span) };
        if !matches!(cx.seed.attach, Attach::Kprobe { at_return: false, .. }) {
            let message = "`override` works in `kprobe` only, at the start of a function";
            return cx.fail(Diagnostic::error(Code(391), span, message));
        }
        let can = |btf: &crate::btf::Btf| btf.find(Kind::Function, "bpf_override_return").is_some();
        if !cx.env.target.btf().is_none_or(can) {
            let message = "this kernel does not allow programs to override functions";
            let help = "it was built without CONFIG_BPF_KPROBE_OVERRIDE";
            return cx.fail(Diagnostic::error(Code(391), span, message).help(help));
        }
        let value = typed::Expr::convert(value, &Type::U64);
        typed::Expr::call(self.name(), vec![value], Vec::new(), Type::None, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, _ty: &Type) -> Value {
        if let Some(value) = call.args.first() {
            let value = cx.scalar(value);
            cx.b.call_void(Helper::OverrideReturn, &[Arg::Context, Arg::Value(value)]);
        }
        Value::None
    }
}
