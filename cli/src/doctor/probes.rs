//! Runs one self-test per probe kind.
//!
//! In: the machine. Out: one row per kind. Guarantee: triggering the probes affects this process
//! only.

use std::hint::black_box;
use std::io::Read as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use profiler_compiler::CATALOGUE;
use profiler_compiler::catalogue::{Advice, SelfTest, Trigger};
use profiler_compiler::target::Target as _;

use super::self_test::{self, Stopped};
use super::{NOT_PERMITTED, Row, State};
use profiler_runtime::host::Host;
use profiler_runtime::load::LoadError;
use profiler_runtime::session::RunError;

/// The variable that the watchpoint test watches.
static WATCHED: AtomicU64 = AtomicU64::new(0);

const INSTEAD_OF_FUNCTIONS: &str =
    "`fn:NAME` uses fentry or kprobe, whichever is available; tracepoints and rawtracepoints always are";

/// Like the advice for one kind, for kernels on which `fn:NAME` would fail too.
const INSTEAD_OF_ALL_FUNCTIONS: &str = "no function of this kernel can be probed, not even by `fn:NAME`: use tracepoints and rawtracepoints; functions of programs can be probed with `uprobe`";

/// Runs all self-tests.
pub(super) fn rows(host: &Host) -> Vec<Row> {
    // The tests without which almost nothing works come first.
    let mut tests: Vec<SelfTest> = CATALOGUE.probes.iter().flat_map(|kind| kind.self_tests()).collect();
    tests.sort_by_key(|test| !test.is_needed);
    tests.iter().map(|test| row(host, test)).collect()
}

fn row(host: &Host, trial: &SelfTest) -> Row {
    let address = format!("0x{:x}", WATCHED.as_ptr() as usize);
    let probe = trial.probe.replace("PID", &std::process::id().to_string()).replace("ADDRESS", &address);
    let stopped =
        match self_test::run(host, &format!("{probe} {{ printf(\"x\"); exit(); }}"), trial.is_for_process, &|| {
            act(trial.trigger);
        }) {
            Ok(time) => return Row::works(trial.title, format!("event after {}", shown(time))),
            Err(stopped) => stopped,
        };
    let probing = host.function_probing();
    let has_neither = probing.kprobe.is_err() && probing.fentry.is_err();
    let own_advice = match trial.advice {
        Advice::Text(advice) => advice,
        Advice::OtherFunctionProbes if has_neither => INSTEAD_OF_ALL_FUNCTIONS,
        Advice::OtherFunctionProbes => INSTEAD_OF_FUNCTIONS,
    };
    let (finding, advice) = match stopped {
        // The row already names the probe kind.
        Stopped::Refused(words) => match words.split_once(" on this kernel: it ") {
            Some((_, why)) => (format!("the kernel {why}"), own_advice),
            None => (words, own_advice),
        },
        // The row of privileges names the missing ones and how to get them.
        Stopped::Kernel(RunError::Load(LoadError::Privilege { .. })) => (NOT_PERMITTED.to_owned(), ""),
        // The explanation includes advice.
        Stopped::Kernel(RunError::Attach(error)) if !error.meaning.is_empty() => (error.meaning.to_owned(), ""),
        Stopped::Kernel(error) => (error.to_string(), own_advice),
        Stopped::Silence => ("loaded and attached, but no event was received".to_owned(), own_advice),
    };
    Row::fails(trial.title, if trial.is_needed { State::Broken } else { State::Missing }, finding, advice)
}

fn shown(time: Duration) -> String {
    let us = time.as_micros();
    if us < 1000 { format!("{us} us") } else { format!("{}.{} ms", us / 1000, us % 1000 / 100) }
}

/// Causes the event of a self-test.
fn act(trigger: Trigger) {
    match trigger {
        Trigger::Nothing => {}
        Trigger::GetParent => _ = black_box(std::os::unix::process::parent_id()),
        Trigger::GetPid => _ = black_box(std::process::id()),
        Trigger::Sleep => std::thread::sleep(Duration::from_millis(1)),
        Trigger::Read => read(),
        Trigger::Compute => compute(),
        // Pages that this process has not used yet.
        Trigger::Touch => _ = black_box(vec![1_u8; 1 << 20]),
        Trigger::Store => _ = WATCHED.fetch_add(1, Ordering::Relaxed),
    }
}

fn read() {
    // A failing read also triggers the probe.
    let _ = std::fs::File::open("/dev/zero").and_then(|mut file| file.read(&mut [0; 16]));
}

/// Keeps a processor busy until a sample is due.
fn compute() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(20) {
        black_box(start);
    }
}
