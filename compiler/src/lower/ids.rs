//! Process and thread ids.
//!
//! In: the kernel's pid namespaces. Out: both ids in one register.
//! Guarantee: the ids are those that the profiler's user sees with `ps`; 0 for a process that is
//! not in the profiler's pid namespace.

use crate::ir::{Arg, Helper, Size, VReg};
use crate::lower::{Body, visited};

/// Process id in the high half, thread id in the low half, in the initial pid namespace.
pub fn initial(cx: &mut Body<'_, '_>) -> VReg {
    if visited::is_visit(cx) {
        return visited::initial_ids(cx);
    }
    cx.b.call(Helper::GetCurrentPidTgid, &[])
}

/// Process id in the high half, thread id in the low half, in the profiler's pid namespace.
pub fn namespaced(cx: &mut Body<'_, '_>) -> VReg {
    let Some((device, inode)) = cx.shared.target.pid_namespace() else { return initial(cx) };
    if visited::is_visit(cx) {
        return visited::namespaced_ids(cx);
    }
    let to = cx.brief_word("ids");
    let to_arg = cx.address_arg(to);
    // `struct bpf_pidns_info` begins with the thread id. The kernel zeroes it if the process is
    // in another namespace.
    let number = |n: u64| Arg::Value((n as i64).into());
    cx.b.call_void(Helper::GetNsCurrentPidTgid, &[number(device), number(inode), to_arg, number(8)]);
    cx.b.load(to, Size::B8)
}

/// User id in the low half, group id in the high half.
pub fn user_and_group(cx: &mut Body<'_, '_>) -> VReg {
    if visited::is_visit(cx) {
        return visited::user_and_group(cx);
    }
    cx.b.call(Helper::GetCurrentUidGid, &[])
}

/// The thread that the program is about, as a typed pointer.
pub fn task(cx: &mut Body<'_, '_>) -> VReg {
    if visited::is_visit(cx) {
        return visited::task(cx);
    }
    // Since 5.11.
    cx.b.call(Helper::GetCurrentTaskBtf, &[])
}

/// The id of the cgroup in the unified hierarchy.
pub fn cgroup(cx: &mut Body<'_, '_>) -> VReg {
    if visited::is_visit(cx) {
        return visited::cgroup(cx);
    }
    cx.b.call(Helper::GetCurrentCgroupId, &[])
}
