//! How the programs of an object are attached.
//!
//! In: numbers and names chosen by the compiler. Out: what the runtime attaches.
//! Guarantee: event numbers are those of the kernel headers; nothing here depends on the running
//! kernel.

use serde::{Deserialize, Serialize};

use crate::scope::Scope;
use crate::source::Span;

/// A block of the script, which runs at one or more attach points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The name of its function in the object.
    pub name: String,
    /// The kernel program that it runs in. Blocks on the same event share one program.
    pub runs_in: String,
    /// The probes it serves, as bpftrace would print them (`tracepoint:syscalls:sys_enter_openat`).
    pub probes: Vec<String>,
    /// How many attach points count for `Attached N probes`.
    pub points: u32,
    /// How it is attached.
    pub attach: Attach,
    /// For returns of user functions: the program at their entries that counts
    /// [`Loss::Returns`](super::Loss::Returns).
    pub entry_counter: Option<String>,
    /// The block in the script.
    pub span: Span,
}

/// Bit offset of the process id in the cookie of a perf event at a function's returns; id 0 means
/// every process.
pub const PROCESS_SHIFT: u32 = 32;

/// `PERF_TYPE_SOFTWARE`.
pub const SOFTWARE: u32 = 1;

/// `PERF_COUNT_SW_CPU_CLOCK`.
pub const CPU_CLOCK: u64 = 0;

/// `PERF_COUNT_SW_TASK_CLOCK`. A per-CPU event of this type counts like the CPU clock.
const TASK_CLOCK: u64 = 1;

/// The minimum period of a clock event; the kernel raises shorter ones.
const SHORTEST_CLOCK_NS: u64 = 10_000;

/// How a program is attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attach {
    /// Run once by test run, before anything else is attached.
    Begin,
    /// Run once by test run, after everything else is detached.
    End,
    /// Run once by test run, when tests are requested; nothing is attached then.
    Test {
        /// The test's name.
        name: String,
    },
    /// Run repeatedly by test run, when benchmarks are requested; nothing is attached then.
    Bench {
        /// The benchmark's name.
        name: String,
    },
    /// Run by test run each time the runtime receives SIGUSR1.
    Signal,
    /// Run by test run from a timer of the runtime.
    Timer { period_ns: u64 },
    /// Run repeatedly by test run while the span has open starts, to close those that have expired.
    Sweep {
        /// The span's index.
        span: usize,
        period_ns: u64,
    },
    /// Run by test run for each key of this span whose thread or process has ended.
    Ended {
        /// The span's index.
        span: usize,
    },
    /// Attached to each of these raw tracepoints.
    RawTracepoint {
        /// Their names (`sched_switch`).
        names: Vec<String>,
    },
    /// A tracepoint through a perf event.
    Tracepoint {
        /// Category (`sched`).
        category: String,
        /// Event (`sched_switch`).
        event: String,
    },
    /// Entries or returns of functions in a file.
    Uprobe {
        /// The path of the file.
        path: String,
        /// At the return, not the entry.
        at_return: bool,
        /// File offsets, each with its cookie.
        sites: Vec<Site>,
        /// One multi link per process (the program's section is `uprobe.multi`); otherwise one perf
        /// event per site. Since 6.6.
        multi: bool,
        /// The processes that it is attached to.
        scope: Scope,
    },
    /// Entries or returns of kernel functions; the context is the registers.
    Kprobe {
        /// At the return, not the entry.
        at_return: bool,
        /// The functions, each with its cookie.
        sites: Vec<FunctionSite>,
        /// One multi link (the program's section is `kprobe.multi`); otherwise one perf event per
        /// site. Since 5.18.
        multi: bool,
    },
    /// The entry or exit of the kernel function named in the program's section; the context is the
    /// function's arguments.
    Trampoline {
        function: String,
        /// The id of the BPF program that has the function; `None` for a function of the kernel.
        program: Option<u32>,
        /// At the exit, where the return value follows the arguments.
        at_return: bool,
    },
    /// Run once for each kernel object of one kind that exists when the script starts or, if it is
    /// pinned, whenever the file is read.
    Iterator {
        /// The kind (`task`).
        objects: String,
        /// Only objects of these processes; empty for all, and one at most if it is pinned. Since
        /// 6.1.
        pids: Vec<u32>,
        /// The file in a BPF file system that it is pinned to.
        pin: Option<String>,
    },
    /// Run periodically, each time for every live thread, from an iterator that the runtime reads.
    Visits { period_ns: u64 },
    /// A hardware watchpoint on memory accesses.
    Watchpoint {
        /// First address.
        address: u64,
        /// Length in bytes; ignored for execution.
        length_bytes: u8,
        /// The kinds of access.
        mode: Watch,
        /// Only accesses by these processes; empty for all, which is possible only for kernel
        /// addresses.
        pids: Vec<u32>,
    },
    /// A perf event on each CPU.
    PerfEvent {
        /// `PERF_TYPE_*`.
        kind: u32,
        /// `PERF_COUNT_*`.
        config: u64,
        /// Sampling frequency or period.
        rate: Rate,
    },
}

impl Attach {
    /// Whether the program runs at events. These all start and stop at the same time, by the gate.
    /// The other programs (`BEGIN`, `END`, tests and iterators) are started by the runtime, each
    /// once.
    pub fn is_gated(&self) -> bool {
        !matches!(self, Attach::Begin | Attach::End | Attach::Iterator { .. }) && !self.is_trial()
    }

    /// Whether the compiler generated it to close the open starts of a span; it is not in the
    /// script.
    pub fn is_of_span(&self) -> bool {
        matches!(self, Attach::Sweep { .. } | Attach::Ended { .. })
    }

    /// Whether it is a test or a benchmark; normal runs ignore these.
    pub fn is_trial(&self) -> bool {
        matches!(self, Attach::Test { .. } | Attach::Bench { .. })
    }

    /// Whether the program runs when a function returns.
    pub fn at_return(&self) -> bool {
        matches!(
            self,
            Attach::Uprobe { at_return: true, .. }
                | Attach::Kprobe { at_return: true, .. }
                | Attach::Trampoline { at_return: true, .. }
        )
    }

    /// The period in nanoseconds on each CPU, if the program is attached to the clock of all CPUs.
    pub fn clock_period_ns(&self) -> Option<u64> {
        let Attach::PerfEvent { kind: SOFTWARE, config: CPU_CLOCK | TASK_CLOCK, rate } = self else { return None };
        let period_ns = match rate {
            Rate::Hertz(hertz) => 1_000_000_000 / hertz.max(&1),
            Rate::Period(ns) => *ns,
        };
        Some(period_ns.max(SHORTEST_CLOCK_NS))
    }

    /// Whether the kernel drops samples of a CPU's clock while the program runs on that CPU.
    pub fn holds_up_samples(&self) -> bool {
        let through_perf = matches!(
            self,
            Attach::Tracepoint { .. } | Attach::Kprobe { .. } | Attach::Watchpoint { .. } | Attach::PerfEvent { .. }
        );
        // Interrupts of two timers do not nest.
        through_perf && self.clock_period_ns().is_none()
    }

    /// The kernel's name for this kind of function probe; `None` if it does not probe a function.
    pub fn function_mechanism(&self) -> Option<&'static str> {
        Some(match self {
            Attach::Uprobe { multi: true, .. } => "uprobe.multi",
            Attach::Uprobe { .. } => "uprobe",
            Attach::Kprobe { multi: true, .. } => "kprobe.multi",
            Attach::Kprobe { .. } => "kprobe",
            Attach::Trampoline { at_return: false, .. } => "fentry",
            Attach::Trampoline { .. } => "fexit",
            _ => return None,
        })
    }
}

/// One attach point of a kprobe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSite {
    pub function: String,
    /// Its module, if the script names one; `vmlinux` is the kernel itself.
    pub module: Option<String>,
    /// How the kernel finds it.
    pub found_by: FoundBy,
    /// Byte offset from the function's entry.
    pub offset_bytes: u64,
    /// The value of `bpf_get_attach_cookie` at this site.
    pub cookie: u64,
}

/// How a kernel function is found when a kprobe is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FoundBy {
    /// By its name.
    Name,
    /// Each function of this name, since several have it.
    EachOfName,
    /// By this address; the name is only printed.
    Address(u64),
}

/// One attach point of a uprobe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Offset in the file.
    pub file_offset: u64,
    /// The function name or `0x…`.
    pub name: String,
    /// The value of `bpf_get_attach_cookie` at this site.
    pub cookie: u64,
    /// File offset of a 16-bit semaphore that the kernel increments while the site is probed; 0 for
    /// none.
    pub semaphore_offset: u64,
}

/// Kinds of memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    pub read: bool,
    pub write: bool,
    /// Execution.
    pub execute: bool,
}

/// How often a perf event fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rate {
    /// Frequency in events per second.
    Hertz(u64),
    /// Period in event counts (ns for clocks).
    Period(u64),
}
