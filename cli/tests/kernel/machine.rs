//! Helpers that run commands for the tests.
//!
//! In: command lines. Out: the output of `profiler`, its processes, and the BPF objects that it
//! holds.
//! Guarantee: no process outlives the test that started it.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

pub const PROFILER: &str = env!("CARGO_BIN_EXE_profiler");

mod alone;
#[path = "../patience/mod.rs"]
mod patience;
#[path = "../workload/mod.rs"]
mod workload;
pub use alone::Alone;
pub use patience::{Limit, patience, slowness};
pub use workload::workload;

/// The timeout, far longer than any step takes: what still runs then counts as a hang.
fn limit() -> Limit {
    Limit::of(Duration::from_secs(60))
}

/// The output of a command, and how it ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// The exit code; 128 plus the signal number if a signal ended it, as in shells.
    pub fn code(&self) -> i32 {
        use std::os::unix::process::ExitStatusExt as _;
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// The number of lines of standard output that equal `line`.
    pub fn lines(&self, line: &str) -> u64 {
        self.stdout.lines().filter(|l| *l == line).count() as u64
    }
}

/// A process that is killed if the test fails before the process ends.
#[derive(Debug)]
pub struct Running {
    _beside: alone::Beside,
    child: Child,
    readers: Vec<thread::JoinHandle<String>>,
}

impl Running {
    /// Starts a command and captures its output.
    pub fn start(command: &mut Command) -> Running {
        let beside = alone::Beside::start();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = child.stdout.take().map(reader);
        let stderr = child.stderr.take().map(reader);
        Running { _beside: beside, child, readers: stdout.into_iter().chain(stderr).collect() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal. The process has not been reaped, so the pid is still its own.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill -{name}");
    }

    /// Waits for the process to end.
    pub fn end(mut self) -> Ended {
        let mut limit = limit();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                break status;
            }
            assert!(limit.lasts(), "it hangs");
            thread::sleep(Duration::from_millis(2));
        };
        let mut texts = self.readers.drain(..).map(|reader| reader.join().expect("a reader"));
        let (stdout, stderr) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
        drop(texts);
        Ended { status, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reader(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A broken pipe keeps the data read before it.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// `profiler run ARGUMENTS`, not yet started. Stacks do not depend on the debug information that
/// the host has.
pub fn profiler(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROFILER);
    command.arg("run").args(arguments).env("BPFTRACE_SHOW_DEBUG_INFO", "false");
    command
}

/// Starts `profiler run ARGUMENTS` and waits until all of its probes are attached.
pub fn attached(arguments: &[&str]) -> Running {
    started(profiler(arguments))
}

/// Starts a tracer and waits until all of its probes are attached.
fn started(mut tracer: Command) -> Running {
    let directory = Directory::new("ready");
    let socket = directory.path("socket");
    let listener = UnixDatagram::bind(&socket).expect("a socket");
    listener.set_nonblocking(true).expect("a socket");
    let mut running = Running::start(tracer.env("NOTIFY_SOCKET", &socket));
    let is_ready = wait_for("readiness", || match listener.recv(&mut [0; 64]) {
        Ok(_) => Some(true),
        Err(_) => running.child.try_wait().expect("a child of ours").map(|_| false),
    });
    assert!(is_ready, "it ended before its probes were attached: {}", running.end().stderr);
    running
}

/// Runs `profiler run ARGUMENTS` to its end.
pub fn run(arguments: &[&str]) -> Ended {
    Running::start(&mut profiler(arguments)).end()
}

/// Runs `profiler run ARGUMENTS` while a shell command runs, and interrupts it when that command
/// has ended. `-c` would probe only the shell.
pub fn run_beside(arguments: &[&str], command: &str) -> Ended {
    tracer_beside(profiler(arguments), command)
}

/// The same for a tracer that is not yet started.
pub fn tracer_beside(tracer: Command, command: &str) -> Ended {
    let profiler = started(tracer);
    let ended = Running::start(Command::new("sh").args(["-c", command])).end();
    assert_eq!(ended.code(), 0, "{command}: {}", ended.stderr);
    profiler.signal("INT");
    profiler.end()
}

/// Polls until `look` returns a value; fails after the timeout.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut limit = limit();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(limit.lasts(), "{what} never came");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Repeats a test with twice as many calls until it has seen what it is about (`true`): on a busy
/// machine the timers may come only after a short workload has ended.
pub fn with_enough_calls(first: u64, test: impl Fn(u64) -> bool) {
    let is_seen = (0..7).any(|doublings| test(first << doublings));
    assert!(is_seen, "the timers came too late for {} calls", first << 6);
}

/// Whether these tests must be skipped because BPF is not available; prints the reason.
pub fn skip() -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let privileged = fs::read_to_string("/proc/self/status")
            .is_ok_and(|status| status.lines().any(|line| line.starts_with("Uid:\t0\t0\t")));
        if !privileged {
            return Some("programs load and attach as root only".into());
        }
        if !Path::new("/sys/kernel/tracing/events/syscalls").exists() {
            return Some("the kernel's tracepoints cannot be read (is tracefs mounted?)".into());
        }
        None
    });
    if let Some(reason) = reason {
        println!("SKIPPED: {reason}");
    }
    reason.is_some()
}

/// Ids of the BPF programs, links and maps that a process holds, from the fdinfo of its
/// descriptors.
pub fn held(pid: u32) -> BTreeSet<(&'static str, u32)> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return BTreeSet::new() };
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok());
    let mut ids = BTreeSet::new();
    for text in texts {
        for line in text.lines() {
            let Some((name, value)) = line.split_once(":\t") else { continue };
            let Ok(id) = value.trim().parse() else { continue };
            match name {
                "prog_id" => drop(ids.insert(("prog", id))),
                "link_id" => drop(ids.insert(("link", id))),
                "map_id" => drop(ids.insert(("map", id))),
                _ => {}
            }
        }
    }
    ids
}

/// Fails unless the kernel soon frees all of `ids`. It frees a program some milliseconds after its
/// last descriptor is closed.
pub fn assert_gone(ids: &BTreeSet<(&'static str, u32)>) {
    if Command::new("bpftool").arg("version").output().is_err() {
        println!("SKIPPED: bpftool is not installed, so what the kernel holds is unknown");
        return;
    }
    for (kind, id) in ids {
        wait_for(&format!("the end of {kind} {id}"), || {
            let shown = Command::new("bpftool").args([*kind, "show", "id", &id.to_string()]).output().expect("bpftool");
            (!shown.status.success()).then_some(())
        });
    }
}

/// Copies a program or a library with a separate `cp` process. If this process wrote the file, a
/// command that another test forks meanwhile would inherit the open descriptor, and the kernel
/// refuses to execute a file that is open for writing.
pub fn copy(from: &str, to: &str) {
    let status = Command::new("cp").args([from, to]).status();
    assert!(status.is_ok_and(|status| status.success()), "cp {from} {to}");
}

/// A private directory for each test, removed at its end.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    pub fn new(name: &str) -> Directory {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("profiler-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Directory(path)
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file to the directory; returns its path.
    pub fn file(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        fs::write(&path, content).expect("a file");
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
