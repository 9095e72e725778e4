//! A running `profiler` or bpftrace, and the path of the workload.
//!
//! In: a script. Out: its standard output and standard error.
//! Guarantee: no process outlives its test.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::patience::Limit;

const PROFILER: &str = env!("CARGO_BIN_EXE_profiler");

/// A running tracer.
#[derive(Debug)]
pub struct Started {
    child: Child,
    stdout: Stream,
    stderr: Stream,
}

/// What was read from a pipe so far.
#[derive(Debug)]
struct Stream {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    fn new(mut pipe: impl Read + Send + 'static) -> Stream {
        let text = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&text);
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut bytes) {
                kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&bytes[..count]);
            }
        });
        Stream { text, reader: Some(reader) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    fn whole(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader");
        }
        self.text()
    }
}

impl Started {
    /// Starts `profiler run SCRIPT`.
    pub fn start(script: &Path) -> Started {
        Started::from(Command::new(PROFILER).arg("run").arg(script))
    }

    pub fn from(command: &mut Command) -> Started {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the tracer");
        let stdout = Stream::new(child.stdout.take().expect("a pipe"));
        let stderr = Stream::new(child.stderr.take().expect("a pipe"));
        Started { child, stdout, stderr }
    }

    /// Waits until its probes are attached; `false` if it exits without that. bpftrace does not say
    /// so: it waits for events then.
    pub fn is_attached(&mut self) -> bool {
        /// `epoll_wait` on x86-64, the only machine of these tests.
        const EPOLL_WAIT: &str = "232 ";
        let current = format!("/proc/{}/syscall", self.child.id());
        wait_for("the attachment", || {
            let awaits_events = || std::fs::read_to_string(&current).is_ok_and(|call| call.starts_with(EPOLL_WAIT));
            if self.stderr.text().contains("Attached ") || awaits_events() {
                return Some(true);
            }
            let exited = self.child.try_wait().expect("a child of ours");
            // It may have attached its probes and exited at once, and said so before this looked.
            exited.map(|_| self.stderr.whole().contains("Attached "))
        })
    }

    /// Waits until its standard output satisfies `is_shown`.
    pub fn wait_for(&mut self, is_shown: impl Fn(&str) -> bool) {
        wait_for("the report", || is_shown(&self.stdout.text()).then_some(()));
    }

    /// Whether its standard output satisfies `is_shown` soon.
    pub fn shows(&mut self, is_shown: impl Fn(&str) -> bool) -> bool {
        wait_within(Duration::from_secs(5), || is_shown(&self.stdout.text()).then_some(())).is_some()
    }

    /// Ends it as Control-C does; returns standard output and standard error.
    pub fn end(mut self) -> (String, String) {
        assert!(self.ends(), "the end never came");
        (self.stdout.whole(), self.stderr.whole())
    }

    /// Whether it ends when Control-C is pressed.
    pub fn ends(&mut self) -> bool {
        // It may have exited already.
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).stderr(Stdio::null()).status();
        wait_within(Duration::from_secs(30), || self.child.try_wait().expect("a child of ours")).is_some()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Polls until `look` returns a value; fails after the timeout.
fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_within(Duration::from_secs(30), look).unwrap_or_else(|| panic!("{what} never came"))
}

/// Polls until `look` returns a value; `None` after the timeout, which is longer on a slow machine.
fn wait_within<T>(timeout: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let mut limit = Limit::of(timeout);
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if !limit.lasts() {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}
