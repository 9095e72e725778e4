//! The simulated system that a program observes: process, CPU, clock.
//!
//! In: values that the caller sets between runs. Out: helper results and recorded side effects of
//! programs.
//! Guarantee: nothing here depends on the machine that runs the evaluator.

/// A `trace_printk` call that a program made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traced {
    /// The format string, without its NUL.
    pub format: Vec<u8>,
    /// The three values.
    pub values: [u64; 3],
}

/// The settable state.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Process id in the high half, thread id in the low half.
    pub pid_tgid: u64,
    /// Group id in the high half, user id in the low half.
    pub uid_gid: u64,
    /// The same in the pid namespace that a program asks for, if the process is in that namespace.
    pub namespace_pid_tgid: Option<u64>,
    /// The command name, padded with NULs.
    pub comm: [u8; 16],
    /// The monotonic clock, in nanoseconds.
    pub clock_ns: u64,
    /// The time by which each read advances the clock, in nanoseconds.
    pub clock_step_ns: u64,
    /// Offset of the boot-time clock from the monotonic clock, in nanoseconds.
    pub boot_offset_ns: u64,
    /// Offset of the TAI clock from the monotonic clock, in nanoseconds.
    pub tai_offset_ns: u64,
    /// State of the random number generator; not 0.
    pub random_state: u64,
    /// The CPU that programs run on; less than `cpus`.
    pub cpu: u32,
    /// Number of CPUs. Must be set before per-CPU maps are used.
    pub cpus: u32,
    /// The NUMA node of the CPU.
    pub numa_node: u32,
    /// The id of the current cgroup.
    pub cgroup_id: u64,
    /// The ids of its ancestors, the root first.
    pub ancestor_cgroup_ids: Vec<u64>,
    /// Address of the current task.
    pub task: u64,
    /// Address of the task's saved registers.
    pub task_registers: u64,
    /// Address of the probed function.
    pub function_address: u64,
    /// The cookie of the attachment.
    pub cookie: u64,
    /// The kernel stack, innermost frame first; without one, `get_stackid` fails.
    pub kernel_stack: Option<Vec<u64>>,
    /// The user stack, in the same order.
    pub user_stack: Option<Vec<u64>>,
    /// Output: the signals sent, in order.
    pub signals: Vec<u32>,
    /// Output: the bytes that iterator programs wrote for their reader.
    pub sequence: Vec<u8>,
    /// Output: the traced lines, in order.
    pub traced: Vec<Traced>,
}

impl Default for Environment {
    fn default() -> Environment {
        let mut comm = [0; 16];
        comm[..4].copy_from_slice(b"bash");
        Environment {
            pid_tgid: (1234 << 32) + 1235,
            uid_gid: (100 << 32) + 1000,
            namespace_pid_tgid: None,
            comm,
            clock_ns: 1_000_000_000,
            clock_step_ns: 0,
            boot_offset_ns: 0,
            tai_offset_ns: 0,
            random_state: 1,
            cpu: 0,
            cpus: 2,
            numa_node: 0,
            cgroup_id: 77,
            ancestor_cgroup_ids: vec![1, 77],
            task: 0xffff_8880_0000_1000,
            task_registers: 0xffff_c900_0000_3f58,
            function_address: 0xffff_ffff_8110_0000,
            cookie: 0,
            kernel_stack: Some(vec![0xffff_ffff_8110_0000]),
            user_stack: Some(vec![0x40_1000]),
            signals: Vec::new(),
            sequence: Vec::new(),
            traced: Vec::new(),
        }
    }
}

impl Environment {
    /// Reads the monotonic clock, which advances it.
    pub(super) fn look_at_clock(&mut self) -> u64 {
        let now_ns = self.clock_ns;
        self.clock_ns = now_ns.wrapping_add(self.clock_step_ns);
        now_ns
    }

    /// The next random number (xorshift64).
    pub(super) fn random(&mut self) -> u32 {
        let mut x = self.random_state;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random_state = x;
        (x >> 32) as u32
    }
}
