//! Counts the function returns that the kernel does not follow.
//!
//! In: a probe at returns of user functions. Out: a program for the entries of the same functions.
//! Guarantee: it counts an entry exactly when the kernel decides not to call the probe at its
//! return.
//!
//! The kernel follows 64 pending returns per thread (`MAX_URETPROBE_DEPTH`), those of all tracers
//! together, and silently ignores entries beyond that. It decides after the entry's programs have
//! run, by a counter in the task that they can read. An entry traps for the return probe anyway, so
//! the program costs its own run and no extra trap.

use crate::btf::{Btf, Kind};
use crate::ir::build::FunctionBuilder;
use crate::ir::{self, Addr, CmpOp, Helper, Likely, Size, Width};
use crate::lower::shared::Shared;
use crate::lower::{Body, prologue};
use crate::object::{Attach, Loss, MAX_FOLLOWED_RETURNS};

/// Offsets of the kernel's counter of a task's followed returns: `task_struct.utask`,
/// `uprobe_task.depth`.
struct Followed {
    of_task: i32,
    depth: i32,
}

fn followed(btf: &Btf) -> Option<Followed> {
    let member = |owner: &str, name: &str| {
        let owner = btf.find(Kind::Struct, owner)?;
        i32::try_from(btf.find_member(owner, name)?.byte_offset()).ok()
    };
    Some(Followed { of_task: member("task_struct", "utask")?, depth: member("uprobe_task", "depth")? })
}

impl Shared<'_> {
    /// The name of the counting program, for a probe at returns of user functions. `None` for other
    /// probes, and if the kernel has no BTF for these types. For several blocks that share a
    /// program, only the first has one.
    pub(super) fn returns_counter(&mut self, index: usize) -> Option<String> {
        let probe = &self.program.probes[index];
        let Attach::Uprobe { at_return: true, multi, .. } = &probe.attach else { return None };
        if self.merged.is_later(index) {
            return None;
        }
        let followed = followed(self.target.btf()?)?;
        let name = format!("deep{index}");
        let section = if *multi { "uprobe.multi" } else { "uprobe" };
        let mut body = Body::new(self, index);
        body.b = FunctionBuilder::new(&name, section, probe.span);
        prologue::only_while_open(&mut body);
        prologue::only_its_processes(&mut body);
        count_beyond(&mut body, &followed, index);
        let function: ir::Function = body.b.finish();
        self.entry_counters.push(function);
        Some(name)
    }
}

fn count_beyond(body: &mut Body<'_, '_>, followed: &Followed, program: usize) {
    let (some, beyond, exit) = (body.b.new_block(), body.b.new_block(), body.b.new_block());
    // Since 5.11: a typed task pointer, whose fields need no probe read.
    let task = body.b.call(Helper::GetCurrentTaskBtf, &[]);
    let of_task = body.b.load(Addr::reg(task, followed.of_task), Size::B8);
    body.b.branch(CmpOp::Ne, Width::W64, of_task, 0, some, exit, Likely::Then);
    body.b.switch_to(some);
    let depth = body.b.load(Addr::reg(of_task, followed.depth), Size::B4);
    body.b.branch(CmpOp::Ge, Width::W64, depth, i64::from(MAX_FOLLOWED_RETURNS), beyond, exit, Likely::Otherwise);
    body.b.switch_to(beyond);
    body.count_loss(Loss::Returns { program });
    body.b.jump(exit);
    body.b.switch_to(exit);
    body.b.ret(0);
}
