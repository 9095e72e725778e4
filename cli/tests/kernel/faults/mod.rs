//! Fault injection during a run.
//!
//! In: processes that are killed, files that are replaced, readers that starve, event storms, full
//! disks. Out: exact results or a counted loss; every run ends and leaves nothing in the kernel.

mod ends;
mod files;
mod leftovers;
mod pressure;
mod processes;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::machine::{self, Ended, workload};

/// Timeout of a step, far longer than a step takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// `workload on-demand`, by itself or as the command of a profiler. Each step makes a stated number
/// of calls and is acknowledged when they are done.
pub(super) struct OnDemand {
    process: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    done: u64,
}

impl OnDemand {
    /// Starts it as a separate process. If `directory` is given, libraries are searched there
    /// first.
    pub(super) fn start(program: &str, directory: Option<&str>) -> OnDemand {
        let mut command = Command::new(program);
        command.arg("on-demand").stderr(Stdio::null());
        if let Some(directory) = directory {
            command.env("LD_LIBRARY_PATH", directory);
        }
        OnDemand::within(&mut command)
    }

    /// Starts a command whose standard streams are those of `workload on-demand`.
    pub(super) fn within(command: &mut Command) -> OnDemand {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let input = process.stdin.take();
        let (send, answers) = channel();
        let output: ChildStdout = process.stdout.take().expect("a pipe");
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
        });
        let started = OnDemand { process, input, answers, done: 0 };
        assert_eq!(started.answer(), "ready");
        started
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Closes its input and waits for the end of its output. Returns the lines that were not
    /// acknowledgements.
    pub(super) fn end_with_output(&mut self) -> String {
        self.end();
        let mut rest = String::new();
        while let Ok(line) = self.answers.recv_timeout(PATIENCE) {
            rest += &line;
            rest.push('\n');
        }
        rest
    }

    fn answer(&self) -> String {
        let mut limit = machine::Limit::of(PATIENCE);
        loop {
            match self.answers.recv_timeout(Duration::from_millis(500)) {
                Err(RecvTimeoutError::Timeout) if limit.lasts() => {}
                answer => return answer.expect("an answer"),
            }
        }
    }

    /// Makes `calls` more calls, and waits until they are done.
    pub(super) fn call(&mut self, calls: u64) {
        self.done += calls;
        writeln!(self.input.as_mut().expect("a pipe"), "{calls}").expect("it reads");
        assert_eq!(self.answer(), format!("done {}", self.done));
    }

    /// Kills it. It stays a zombie until [`OnDemand`] is dropped.
    pub(super) fn kill(&mut self) {
        self.process.kill().expect("a process of ours");
    }

    /// Closes its input, which makes it exit.
    pub(super) fn end(&mut self) -> i32 {
        drop(self.input.take());
        self.process.wait().expect("a process of ours").code().unwrap_or(-1)
    }
}

impl Drop for OnDemand {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The value of a scalar map or of one map entry; 0 if it is not printed.
pub(super) fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.map_or(0, |number| number.parse().expect("a number"))
}

/// The loss that standard error reports under this label; 0 if there is none.
fn lost(ended: &Ended, words: &str) -> u64 {
    ended
        .stderr
        .lines()
        .map(str::trim)
        .find_map(|line| line.strip_prefix(words)?.strip_prefix(": "))
        .map_or(0, |n| n.parse().expect("a number"))
}

/// The number of lines of `text` that equal `line`.
fn lines(text: &str, line: &str) -> u64 {
    text.lines().filter(|l| *l == line).count() as u64
}

/// A field of `/proc/PID/status` in kB.
fn memory_kb(pid: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// The number of online processors.
fn processors() -> u64 {
    fs::read_to_string("/proc/cpuinfo").expect("CPUs").matches("processor\t:").count() as u64
}

/// The directory of the library that the workload calls, and the path of a copy of that library in
/// `directory`.
fn copy_of_libc(directory: &str) -> String {
    let maps = fs::read_to_string("/proc/self/maps").expect("own mappings");
    let path = maps.lines().find_map(|line| line.find('/').map(|at| &line[at..]).filter(|p| p.ends_with("/libc.so.6")));
    let copy = format!("{directory}/libc.so.6");
    machine::copy(path.expect("this test is linked with libc"), &copy);
    copy
}

/// Standard error of a run that lost nothing of what it counts. Some hosts hide threads of their
/// own from perf, so the context switches of those threads are missing. The mappings of all
/// processes are recorded, and if many programs start at once, a run may lose some.
fn without_losses_of_others(stderr: &str) -> String {
    let of_others = |line: &str| {
        [
            "runs of software:context-switches:1: skipped by the kernel: ",
            "records of process mappings: ring buffer full: ",
        ]
        .iter()
        .any(|start| line.trim().starts_with(start))
    };
    let rest: Vec<&str> = stderr.lines().filter(|line| !of_others(line)).collect();
    if rest == ["Missing from these results:"] { String::new() } else { rest.join("\n") }
}

/// A script that counts the calls of `workload on-demand` with every probe kind that this machine
/// supports. The perf event is not a clock: late ticks on a busy machine are reported, and the
/// tests expect no reports.
fn counting_script(filter: &str) -> String {
    let workload = workload();
    format!(
        "tracepoint:syscalls:sys_enter_getppid {filter} {{ @calls = count(); @stacks[kstack(3)] = count(); }}
         uprobe:{workload}:workload_step {filter} {{ @steps = count(); @last = max(arg0); @users[ustack(1)] = count(); }}
         uretprobe:{workload}:workload_step {filter} {{ @sum = sum(retval); }}
         software:context-switches:1 {filter} {{ @samples[ustack(1)] = count(); }}
         END {{ clear(@samples); clear(@stacks); printf(\"users %d\\n\", len(@users)); }}"
    )
}
