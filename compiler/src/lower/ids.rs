//! Process and thread ids.
//!
//! In: the kernel's pid namespaces. Out: both ids in one register.
//! Guarantee: the ids are those that the profiler's user sees with `ps`; 0 for a process that is
//! not in the profiler's pid namespace.

use crate::ir::{Arg, Helper, Size, VReg};
use crate::lower::Body;

/// Process id in the high half, thread id in the low half, in the initial pid namespace.
pub fn initial(cx: &mut Body<'_, '_>) -> VReg {
    cx.b.call(Helper::GetCurrentPidTgid, &[])
}

/// Process id in the high half, thread id in the low half, in the profiler's pid namespace.
pub fn namespaced(cx: &mut Body<'_, '_>) -> VReg {
    let Some((device, inode)) = cx.shared.target.pid_namespace() else { return initial(cx) };
    let to = cx.memory(8, "ids");
    let to_arg = cx.address_arg(to);
    // `struct bpf_pidns_info` begins with the thread id. The kernel zeroes it if the process is
    // in another namespace.
    let number = |n: u64| Arg::Value((n as i64).into());
    cx.b.call_void(Helper::GetNsCurrentPidTgid, &[number(device), number(inode), to_arg, number(8)]);
    cx.b.load(to, Size::B8)
}
