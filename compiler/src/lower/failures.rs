//! Reports of failed reads and of indices out of bounds, if the user asks for them (`-k`); scripts
//! for bpftrace report the latter always.
//!
//! In: the results of helpers and of look-ups. Out: a record for each failure, which user space
//! reports with its position in the script.
//! Guarantee: programs are unchanged if nothing is to be reported.

use crate::ir::{CmpOp, Helper, Likely, Operand, VReg, Width};
use crate::lower::{Body, Channel, events};
use crate::object::Constant;
use crate::results;

/// The kernel's error number for an entry that does not exist.
const ENOENT: i64 = 2;

/// Reports a read whose result is a negated error number.
pub(super) fn failed_read(cx: &mut Body<'_, '_>, helper: Helper, result: VReg) {
    if cx.shared.program.reports_failures {
        let name = match helper {
            Helper::ProbeReadKernel => "probe_read_kernel",
            Helper::ProbeReadUser => "probe_read_user",
            Helper::ProbeReadKernelStr => "probe_read_kernel_str",
            _ => "probe_read_user_str",
        };
        report_when(cx, CmpOp::SLt, result, name, result);
    }
}

/// Reports a look-up that found nothing.
pub(super) fn missing_key(cx: &mut Body<'_, '_>, found: VReg) {
    if cx.shared.program.reports_failures {
        let zero = cx.b.copy(0);
        report_when(cx, CmpOp::Eq, found, "map_lookup_elem", zero);
    }
}

/// Reports that an entry was not there to be deleted. `removed` is 0 then.
pub(crate) fn missing_entry(cx: &mut Body<'_, '_>, removed: VReg) {
    if cx.shared.program.reports_failures {
        let code = cx.b.copy(-ENOENT);
        report_when(cx, CmpOp::Eq, removed, "map_delete_elem", code);
    }
}

/// Reports, in a block that runs only then, that an index is out of bounds.
pub(super) fn out_of_bounds(cx: &mut Body<'_, '_>) {
    if cx.shared.program.reports_bounds {
        warn(cx, "Array access out of bounds. This can lead to unexpected results.");
    }
}

/// Prints a warning with its position in the script.
pub fn warn(cx: &mut Body<'_, '_>, words: &str) {
    events::send_number(cx, Channel::Data, results::WARNING, &[Constant::Str(words.to_owned())], Operand::Imm(0));
}

fn report_when(cx: &mut Body<'_, '_>, op: CmpOp, value: VReg, helper: &str, code: VReg) {
    let (failed, done) = (cx.b.new_block(), cx.b.new_block());
    cx.b.branch(op, Width::W64, value, 0, failed, done, Likely::Otherwise);
    cx.b.switch_to(failed);
    events::send_number(cx, Channel::Data, results::HELPER_ERROR, &[Constant::Str(helper.to_owned())], code.into());
    cx.b.jump(done);
    cx.b.switch_to(done);
}
