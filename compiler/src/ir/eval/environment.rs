//! What the world looks like to a program: who runs, where, when.
//!
//! In: set by the caller between runs. Out: the answers of the helpers, and what programs did to the world.
//! Guarantee: nothing here depends on the machine that evaluates.

/// A line that a program traced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traced {
    /// The format, up to its NUL.
    pub format: Vec<u8>,
    /// The three values.
    pub values: [u64; 3],
}

/// The settable world.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Process in the high half, thread in the low half.
    pub pid_tgid: u64,
    /// Group in the high half, user in the low half.
    pub uid_gid: u64,
    /// As in the pid namespace that a program asks for, when the process is in it.
    pub namespace_pid_tgid: Option<u64>,
    /// The command's name, padded with NULs.
    pub comm: [u8; 16],
    /// The monotonic clock.
    pub clock_ns: u64,
    /// How far each look moves the clock.
    pub clock_step_ns: u64,
    /// How far the boot-time clock is ahead.
    pub boot_offset_ns: u64,
    /// How far the atomic clock is ahead.
    pub tai_offset_ns: u64,
    /// State of the random numbers; not 0.
    pub random_state: u64,
    /// The CPU that programs run on; less than `cpus`.
    pub cpu: u32,
    /// Number of CPUs. To be set before per-CPU maps are used.
    pub cpus: u32,
    /// The CPU's memory node.
    pub numa_node: u32,
    /// The current control group.
    pub cgroup_id: u64,
    /// Its ancestors, the root first.
    pub ancestor_cgroup_ids: Vec<u64>,
    /// Address of the current task.
    pub task: u64,
    /// Address of the task's saved registers.
    pub task_registers: u64,
    /// Address of the probed function.
    pub function_address: u64,
    /// The cookie of the attachment.
    pub cookie: u64,
    /// The kernel stack, innermost first; without one, `get_stackid` fails.
    pub kernel_stack: Option<Vec<u64>>,
    /// The user stack.
    pub user_stack: Option<Vec<u64>>,
    /// Out: signals sent, in order.
    pub signals: Vec<u32>,
    /// Out: what programs of iterators gave to their reader.
    pub sequence: Vec<u8>,
    /// Out: lines traced, in order.
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
    /// The monotonic clock; looking moves it.
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
