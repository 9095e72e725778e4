//! Reports of reads that failed, when the user asks for them (`-k`).
//!
//! In: the results of helpers and of look-ups. Out: a record for each failure, which user space shows at its place in the script.
//! Guarantee: nothing is added to programs whose user did not ask.

use crate::ast;
use crate::check;
use crate::ir::{CmpOp, Helper, Likely, VReg, Width};
use crate::lower::{self, Body, Value};
use crate::numbers::ERRORS;
use crate::object::{Constant, Event};
use crate::source::Span;
use crate::typed;
use crate::types::Type;
use crate::value;
use crate::words::{Doc, Function, HelperFailure, Record, Sink};

impl Body<'_, '_> {
    /// Reports a read whose result is a negated error number.
    pub(super) fn report_failed_read(&mut self, helper: Helper, result: VReg) {
        if self.shared.program.reports_failures {
            let name = match helper {
                Helper::ProbeReadKernel => "probe_read_kernel",
                Helper::ProbeReadUser => "probe_read_user",
                Helper::ProbeReadKernelStr => "probe_read_kernel_str",
                _ => "probe_read_user_str",
            };
            self.report_when(CmpOp::SLt, result, name, result);
        }
    }

    /// Reports a look-up that found nothing.
    pub(super) fn report_missing_key(&mut self, found: VReg) {
        if self.shared.program.reports_failures {
            let zero = self.b.copy(0);
            self.report_when(CmpOp::Eq, found, "map_lookup_elem", zero);
        }
    }

    fn report_when(&mut self, op: CmpOp, value: VReg, helper: &str, code: VReg) {
        let (failed, done) = (self.b.new_block(), self.b.new_block());
        self.b.branch(op, Width::W64, value, 0, failed, done, Likely::Otherwise);
        self.b.switch_to(failed);
        self.send_number(&Failed, &[Constant::Str(helper.to_owned())], code.into());
        self.b.jump(done);
        self.b.switch_to(done);
    }
}

/// What makes the records: no word of the language.
#[derive(Debug)]
struct Failed;

impl Function for Failed {
    fn name(&self) -> &'static str {
        "helper_error"
    }

    fn doc(&self) -> Doc {
        Doc { signature: "", summary: "", page: "" }
    }

    fn check(&'static self, _cx: &mut check::Body<'_, '_>, _args: &[ast::Expr], span: Span) -> typed::Expr {
        check::Body::poison(span)
    }

    fn lower(&self, _cx: &mut lower::Body<'_, '_>, _call: &typed::Call, _ty: &Type) -> Value {
        Value::None
    }

    fn perform(&self, event: &Event, record: &Record<'_>, sink: &mut dyn Sink) {
        let ([Constant::Str(helper)], value::Value::Int(code)) = (event.constants.as_slice(), record.value(0)) else {
            return;
        };
        let words = match usize::try_from(code.unsigned_abs()).ok().and_then(|number| ERRORS.get(number)) {
            _ if code == 0 => "Can't lookup map element because it does not exist.",
            Some(words) => words,
            None => "Unknown error",
        };
        sink.helper_failed(&HelperFailure { helper, code, words }, event.span);
    }
}
