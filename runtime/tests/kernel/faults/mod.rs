//! Things that break on purpose while a run is under way.
//!
//! In: processes that are killed, files that are replaced, readers that starve, storms, disks that are full. Out: exact
//! results or a counted loss; every run ends, and nothing of it stays.

mod ends;
mod files;
mod leftovers;
mod pressure;
mod processes;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use super::machine::{self, Ended, workload};

/// Far longer than a step takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// `workload on-demand`, by itself or as the command of a profiler: each step does a stated number of calls and is answered
/// when they are done.
struct OnDemand {
    process: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    done: u64,
}

impl OnDemand {
    /// Starts it in a process of its own; `folder`, when there is one, is where it finds its libraries first.
    fn start(program: &str, folder: Option<&str>) -> OnDemand {
        let mut command = Command::new(program);
        command.arg("on-demand").stderr(Stdio::null());
        if let Some(folder) = folder {
            command.env("LD_LIBRARY_PATH", folder);
        }
        OnDemand::within(&mut command)
    }

    /// A command whose standard streams are those of `workload on-demand`.
    fn within(command: &mut Command) -> OnDemand {
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

    fn pid(&self) -> u32 {
        self.process.id()
    }

    fn answer(&self) -> String {
        self.answers.recv_timeout(PATIENCE).expect("an answer")
    }

    /// Has it make so many more calls, and waits until they are made.
    fn call(&mut self, calls: u64) {
        self.done += calls;
        writeln!(self.input.as_mut().expect("a pipe"), "{calls}").expect("it reads");
        assert_eq!(self.answer(), format!("done {}", self.done));
    }

    /// Kills it; it stays a zombie until [`OnDemand`] is dropped.
    fn kill(&mut self) {
        self.process.kill().expect("a process of ours");
    }

    /// Closes its input, which ends it.
    fn end(&mut self) -> i32 {
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

/// The numbers that a map without keys, or one of its keys, shows; 0 when it is not there.
fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.map_or(0, |number| number.parse().expect("a number"))
}

/// What standard error reports as lost for these words; 0 when they are not there.
fn lost(ended: &Ended, words: &str) -> u64 {
    ended
        .stderr
        .lines()
        .map(str::trim)
        .find_map(|line| line.strip_prefix(words)?.strip_prefix(": "))
        .map_or(0, |n| n.parse().expect("a number"))
}

/// How many lines of `text` are `line`.
fn lines(text: &str, line: &str) -> u64 {
    text.lines().filter(|l| *l == line).count() as u64
}

/// A field of `/proc/PID/status` in kB.
fn memory_kb(pid: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Processors that run.
fn processors() -> u64 {
    fs::read_to_string("/proc/cpuinfo").expect("CPUs").matches("processor\t:").count() as u64
}

/// The folder of the library that the workload calls into, and a copy of that library in `folder`.
fn copy_of_libc(folder: &str) -> String {
    let maps = fs::read_to_string("/proc/self/maps").expect("own mappings");
    let path = maps.lines().find_map(|line| line.find('/').map(|at| &line[at..]).filter(|p| p.ends_with("/libc.so.6")));
    let copy = format!("{folder}/libc.so.6");
    machine::copy(path.expect("this test is linked with libc"), &copy);
    copy
}

/// A script that counts the calls of `workload on-demand` in every way that this machine has.
fn counting_script(filter: &str) -> String {
    let workload = workload();
    format!(
        "tracepoint:syscalls:sys_enter_getppid {filter} {{ @calls = count(); @stacks[kstack(3)] = count(); }}
         uprobe:{workload}:workload_step {filter} {{ @steps = count(); @last = max(arg0); @users[ustack(3)] = count(); }}
         uretprobe:{workload}:workload_step {filter} {{ @sum = sum(retval); }}
         profile:hz:997 {filter} {{ @samples[ustack(3)] = count(); }}
         END {{ clear(@samples); clear(@stacks); printf(\"users %d\\n\", len(@users)); }}"
    )
}
