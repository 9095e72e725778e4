//! `comm(pid)`: the name of another thread.

use crate::ast;
use crate::btf::Kind;
use crate::catalogue::{Builtin as _, Function};
use crate::check;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Arg, BinOp, CmpOp, Helper, Likely, Size, Width};
use crate::lower::{self, Value};
use crate::object::{Attach, Constant};
use crate::source::Span;
use crate::typed;
use crate::types::{Space, Type};
use crate::words::builtins;

/// `comm`.
#[derive(Debug)]
pub(super) struct Comm;

/// The functions of the kernel that find a thread and release it.
const KERNEL_FUNCTIONS: [Helper; 2] = [Helper::TaskFromPid, Helper::TaskRelease];

/// Since 6.12: programs of perf events may call them too.
const PERF_EVENTS_SINCE: (u32, u32) = (6, 12);

/// The value for a thread that does not exist, as bpftrace has it.
const ABSENT: &[u8] = b"N/A";

impl Function for Comm {
    word!("comm", "functions/comm");

    fn check(&'static self, cx: &mut check::Body<'_, '_>, args: &[ast::Expr], span: Span) -> typed::Expr {
        if args.is_empty() {
            return builtins::comm::Comm.check(cx, span);
        }
        if !cx.arity("comm", args.len(), 0..=1, span) {
            return typed::Expr::poison(span);
        }
        let Some(pid) = cx.int_arg("comm", &args[0]) else { return typed::Expr::poison(span) };
        let allowed = match cx.seed.attach {
            Attach::Trampoline { .. } | Attach::Iterator { .. } => true,
            Attach::Tracepoint { .. } | Attach::PerfEvent { .. } | Attach::Watchpoint { .. } => {
                cx.env.target.kernel() >= PERF_EVENTS_SINCE
            }
            _ => false,
        };
        let Some(offset) = comm_offset(cx).filter(|_| allowed) else {
            let message = "the kernel does not look up names of other threads for this probe";
            let help = "it does in `fentry`, `fexit` and iterators since 6.2, in `profile` and other perf events since \
                6.12; else store the name where it is available: `@name[pid] = comm`";
            return cx.fail(Diagnostic::error(Code(391), span, message).help(help));
        };
        let ty = Type::Str { capacity_bytes: builtins::comm::COMM_BYTES };
        typed::Expr::call(self.name(), vec![pid], vec![Constant::Int(offset)], ty, span)
    }

    fn lower(&self, cx: &mut lower::Body<'_, '_>, call: &typed::Call, ty: &Type) -> Value {
        let ([pid], [Constant::Int(offset)]) = (call.args.as_slice(), call.constants.as_slice()) else {
            return Value::None;
        };
        lower::kernel_functions::know(cx, &KERNEL_FUNCTIONS);
        let to = cx.allocate(ty);
        let pid = cx.scalar(pid);
        let task = cx.b.call(Helper::TaskFromPid, &[Arg::Value(pid)]);
        let (found, absent, done) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
        cx.b.branch(CmpOp::Ne, Width::W64, task, 0, found, absent, Likely::Then);
        cx.b.switch_to(found);
        let name = cx.b.bin(BinOp::Add, Width::W64, task, *offset);
        // The kernel fills a name up with zero bytes.
        lower::memory::probe_read(cx, to, name, builtins::comm::COMM_BYTES, Space::Kernel);
        // Verifier: a thread that is found must be released.
        cx.b.call_void(Helper::TaskRelease, &[Arg::Value(task.into())]);
        cx.b.jump(done);
        cx.b.switch_to(absent);
        cx.zero(to, builtins::comm::COMM_BYTES);
        for (at, byte) in (0..).zip(ABSENT) {
            cx.b.store(to.plus(at), i64::from(*byte), Size::B1);
        }
        cx.b.jump(done);
        cx.b.switch_to(done);
        Value::Memory(to)
    }
}

/// The offset of a thread's name in its `task_struct`; `None` if the kernel lacks the functions.
fn comm_offset(cx: &check::Body<'_, '_>) -> Option<i64> {
    let btf = cx.env.target.btf()?;
    let has = |helper: &Helper| helper.kernel_function().is_some_and(|name| btf.find(Kind::Function, name).is_some());
    let task = btf.find(Kind::Struct, "task_struct")?;
    let offset = btf.find_member(task, "comm")?.byte_offset();
    KERNEL_FUNCTIONS.iter().all(has).then(|| i64::from(offset))
}
