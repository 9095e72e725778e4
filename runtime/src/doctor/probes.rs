//! One canary a kind of probe.
//!
//! In: the machine. Out: a row a kind. Guarantee: what is done to make a probe fire touches this process only.

use std::hint::black_box;
use std::io::Read as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::canary::{Stopped, sing};
use super::{NOT_PERMITTED, Row, State};
use crate::host::Host;
use crate::load::LoadError;
use crate::session::RunError;

/// The variable that the watchpoint watches.
static WATCHED: AtomicU64 = AtomicU64::new(0);

/// A kind of probe on trial.
struct Trial {
    name: &'static str,
    /// The probe, with `PID` and `ADDRESS` to be filled in.
    probe: &'static str,
    deed: fn(),
    /// Without it, next to nothing works.
    needed: bool,
    /// What to use instead.
    advice: &'static str,
}

const INSTEAD_OF_FUNCTIONS: &str =
    "`fn:NAME` takes fentry or kprobe, whichever is there; tracepoints and rawtracepoints always are";

const TRIALS: &[Trial] = &[
    Trial { name: "begin", probe: "BEGIN", deed: nothing, needed: true, advice: "" },
    Trial { name: "interval", probe: "interval:ms:5", deed: nothing, needed: true, advice: "" },
    Trial {
        name: "tracepoint of a system call",
        probe: "tracepoint:syscalls:sys_enter_getppid / pid == PID /",
        deed: ask_for_parent,
        needed: true,
        advice: "mount tracefs: `mount -t tracefs nodev /sys/kernel/tracing`",
    },
    Trial {
        name: "tracepoint with arguments",
        probe: "tracepoint:sched:sched_switch / pid == PID && args.next_pid >= 0 /",
        deed: nap,
        needed: false,
        advice: "`rawtracepoint:` needs no tracefs and gives the same events",
    },
    Trial {
        name: "rawtracepoint",
        probe: "rawtracepoint:sched_switch / pid == PID /",
        deed: nap,
        needed: true,
        advice: "",
    },
    Trial {
        name: "kprobe",
        probe: "kprobe:vfs_read / pid == PID /",
        deed: read,
        needed: false,
        advice: INSTEAD_OF_FUNCTIONS,
    },
    Trial {
        name: "kretprobe",
        probe: "kretprobe:vfs_read / pid == PID /",
        deed: read,
        needed: false,
        advice: INSTEAD_OF_FUNCTIONS,
    },
    Trial {
        name: "kprobe at many functions",
        probe: "kprobe:vfs_rea* / pid == PID /",
        deed: read,
        needed: false,
        advice: "name the functions one by one, or use a tracepoint",
    },
    Trial {
        name: "fentry",
        probe: "fentry:vfs_read / pid == PID /",
        deed: read,
        needed: false,
        advice: INSTEAD_OF_FUNCTIONS,
    },
    Trial {
        name: "fexit",
        probe: "fexit:vfs_read / pid == PID /",
        deed: read,
        needed: false,
        advice: INSTEAD_OF_FUNCTIONS,
    },
    Trial {
        name: "uprobe",
        probe: "uprobe:libc:getpid / pid == PID /",
        deed: ask_for_itself,
        needed: false,
        advice: "uprobes need CONFIG_UPROBE_EVENTS",
    },
    Trial {
        name: "uretprobe",
        probe: "uretprobe:libc:getpid / pid == PID /",
        deed: ask_for_itself,
        needed: false,
        advice: "uprobes need CONFIG_UPROBE_EVENTS",
    },
    Trial {
        name: "profile",
        probe: "profile:hz:999 / pid == PID /",
        deed: work,
        needed: false,
        advice: "`interval:` fires on one CPU",
    },
    Trial {
        name: "software event",
        probe: "software:page-faults:1 / pid == PID /",
        deed: touch,
        needed: false,
        advice: "",
    },
    Trial {
        name: "hardware event",
        probe: "hardware:cpu-cycles:100000 / pid == PID /",
        deed: work,
        needed: false,
        advice: "virtual machines often have no counters; `profile:hz:99` samples by the clock",
    },
    Trial {
        name: "watchpoint",
        probe: "watchpoint:ADDRESS:8:w / pid == PID /",
        deed: store,
        needed: false,
        advice: "processors and virtual machines have few or no debug registers",
    },
    Trial {
        name: "iterator over threads",
        probe: "iter:task / ctx.task.tgid == PID /",
        deed: nothing,
        needed: false,
        advice: "needs BTF and a kernel since 5.8",
    },
];

/// Tries every kind.
pub(super) fn rows(host: &Host) -> Vec<Row> {
    TRIALS.iter().map(|trial| row(host, trial)).collect()
}

fn row(host: &Host, trial: &Trial) -> Row {
    let address = format!("0x{:x}", WATCHED.as_ptr() as usize);
    let probe = trial.probe.replace("PID", &std::process::id().to_string()).replace("ADDRESS", &address);
    let stopped = match sing(host, &format!("{probe} {{ printf(\"x\"); exit(); }}"), &trial.deed) {
        Ok(time) => return Row::works(trial.name, format!("event after {}", shown(time))),
        Err(stopped) => stopped,
    };
    let (finding, advice) = match stopped {
        // The row says already which kind of probe it is about.
        Stopped::Refused(words) => match words.split_once(" on this kernel: it ") {
            Some((_, why)) => (format!("the kernel {why}"), trial.advice),
            None => (words, trial.advice),
        },
        // The row of privileges says which, and how to get them.
        Stopped::Kernel(RunError::Load(LoadError::Privilege { .. })) => (NOT_PERMITTED.to_owned(), ""),
        // What it means says what to do, too.
        Stopped::Kernel(RunError::Attach(error)) if !error.meaning.is_empty() => (error.meaning.to_owned(), ""),
        Stopped::Kernel(error) => (error.to_string(), trial.advice),
        Stopped::Silence => ("it was loaded and attached, but no event came".to_owned(), trial.advice),
    };
    Row::fails(trial.name, if trial.needed { State::Broken } else { State::Missing }, finding, advice)
}

fn shown(time: Duration) -> String {
    let us = time.as_micros();
    if us < 1000 { format!("{us} us") } else { format!("{}.{} ms", us / 1000, us % 1000 / 100) }
}

fn nothing() {}

fn ask_for_parent() {
    black_box(std::os::unix::process::parent_id());
}

fn ask_for_itself() {
    black_box(std::process::id());
}

fn nap() {
    std::thread::sleep(Duration::from_millis(1));
}

fn read() {
    // A read that fails is a read as well.
    let _ = std::fs::File::open("/dev/zero").and_then(|mut file| file.read(&mut [0; 16]));
}

/// Uses a processor for as long as a sample takes to come.
fn work() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(20) {
        black_box(start);
    }
}

/// Pages that this process has not used yet.
fn touch() {
    black_box(vec![1_u8; 1 << 20]);
}

fn store() {
    WATCHED.fetch_add(1, Ordering::Relaxed);
}
