//! Who runs: process and thread numbers.
//!
//! In: the machine's pid namespaces. Out: both numbers in one register.
//! Guarantee: the numbers are those that the profiler's user sees with `ps`; 0 for a process that is not in the profiler's
//! pid namespace.

use crate::ir::{Arg, Helper, Size, VReg};
use crate::lower::Body;

impl Body<'_, '_> {
    /// Process in the high half, thread in the low half, in the initial pid namespace.
    pub fn initial_ids(&mut self) -> VReg {
        self.b.call(Helper::GetCurrentPidTgid, &[])
    }

    /// The same in the profiler's pid namespace.
    pub fn process_ids(&mut self) -> VReg {
        let Some((device, inode)) = self.shared.target.pid_namespace() else { return self.initial_ids() };
        let to = self.memory(8, "ids");
        let to_arg = self.address_arg(to);
        // `struct bpf_pidns_info` begins with the thread; the kernel clears it when the process is elsewhere.
        let number = |n: u64| Arg::Value((n as i64).into());
        self.b.call_void(Helper::GetNsCurrentPidTgid, &[number(device), number(inode), to_arg, number(8)]);
        self.b.load(to, Size::B8)
    }
}
