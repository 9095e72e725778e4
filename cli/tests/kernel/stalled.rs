//! Files that cannot be read, or that break what reads them.
//!
//! In: a program on a file system that stops while it runs. Out: runs that end, with the
//! names of everything else; after a SIGKILL, nothing that stays.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::machine::{Directory, Running, assert_gone, attached, held, profiler, skip, wait_for, workload};

/// A program on a file system that answers until a line comes.
struct Served {
    server: Child,
    lines: Lines<BufReader<ChildStdout>>,
    process: u32,
    _directory: Directory,
}

impl Served {
    fn start(name: &str) -> Served {
        let directory = Directory::new(name);
        let place = directory.path("mounted");
        fs::create_dir(&place).expect("a directory");
        let mut server = Command::new(workload())
            .args(["act", "stalled", &place, workload(), "paced", "500", "600"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(server.stdout.take().expect("a pipe")).lines();
        let mut started = Served { server, lines, process: 0, _directory: directory };
        started.await_line("pid");
        started.process = started.await_line("process").parse().expect("a pid");
        started
    }

    /// The rest of the line that begins with a word.
    fn await_line(&mut self, word: &str) -> String {
        let mut texts = self.lines.by_ref().map(|line| line.expect("text"));
        let found = texts.find_map(|line| Some(line.strip_prefix(word)?.trim().to_owned()));
        found.unwrap_or_else(|| panic!("the workload did not print `{word}`"))
    }

    fn stall(&mut self) {
        writeln!(self.server.stdin.as_mut().expect("a pipe")).expect("it listens");
        self.await_line("stalled");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Its input ends.
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

fn has_no_fuse() -> bool {
    let is_missing = !Path::new("/dev/fuse").exists();
    if is_missing {
        println!("SKIPPED: the kernel has no FUSE");
    }
    is_missing
}

/// The processes that read files for another one.
fn readers(of: u32) -> BTreeSet<u32> {
    let threads = fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids = children.flat_map(|line| line.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>());
    pids.filter(|pid| is_reader(*pid)).collect()
}

/// Whether it is one, and not a zombie that is yet to be waited for.
fn is_reader(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.contains("(profiler-reader) ") && !stat.contains(") Z ")
}

/// Prints the stacks of two processes, again and again.
fn stacks_of(first: u32, second: u32) -> String {
    format!(
        "tracepoint:syscalls:sys_enter_getppid /pid == {first} || pid == {second}/ {{ \
            @stacks[pid, ustack(6)] = count(); \
        }} \
        interval:ms:100 {{ print(@stacks); clear(@stacks); }}"
    )
}

/// A run whose output is read as it comes.
struct Read {
    run: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Read {
    fn start(script: &str) -> Read {
        let mut command = profiler(&["-e", script]);
        let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(run.stdout.take().expect("a pipe")).lines();
        Read { run, lines }
    }

    /// Waits for a stack of a process with a function of the workload.
    fn await_names(&mut self, process: u32) {
        let mut texts = self.lines.by_ref().map(|line| line.expect("text"));
        let key = format!("@stacks[{process}, ");
        let mut is_of_process = false;
        let found = texts.any(|line| {
            if line.starts_with('@') {
                is_of_process = line.starts_with(&key);
            }
            is_of_process && line.contains("workload::")
        });
        assert!(found, "the run has ended");
    }

    /// What it says at its end, which an interrupt is.
    fn end(mut self) -> String {
        assert!(Command::new("kill").args(["-INT", &self.run.id().to_string()]).status().is_ok_and(|it| it.success()));
        assert!(self.lines.by_ref().all(|line| line.is_ok()));
        let mut text = String::new();
        self.run.stderr.take().expect("a pipe").read_to_string(&mut text).expect("text");
        assert!(self.run.wait().is_ok_and(|status| status.success()), "{text}");
        text
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        let _ = self.run.kill();
        let _ = self.run.wait();
    }
}

fn paced() -> Running {
    Running::start(Command::new(workload()).args(["paced", "500", "600"]))
}

#[test]
fn a_file_system_that_does_not_answer_costs_only_its_own_names() {
    if skip() || has_no_fuse() {
        return;
    }
    let (mut served, other) = (Served::start("stalled-names"), paced());
    served.stall();
    let mut run = Read::start(&stacks_of(served.process, other.pid()));
    served.await_line("asked");
    run.await_names(other.pid());
    let text = run.end();
    assert!(text.contains("\n  callers in user stacks: no unwind "), "{text}");
}

#[test]
fn a_run_that_is_killed_while_a_file_does_not_open_leaves_nothing() {
    if skip() || has_no_fuse() {
        return;
    }
    let (mut served, other) = (Served::start("stalled-killed"), paced());
    served.stall();
    let run = Running::start(&mut profiler(&["-e", &stacks_of(served.process, other.pid())]));
    served.await_line("asked");
    let ids = wait_for("a program that is attached", || Some(held(run.pid())).filter(|ids| !ids.is_empty()));
    run.signal("KILL");
    assert_eq!(run.end().status.code(), None, "it was killed");
    assert_gone(&ids);
}

#[test]
fn what_reads_files_holds_nothing_and_may_only_read() {
    if skip() {
        return;
    }
    let other = paced();
    let run = Running::start(&mut profiler(&["-e", &stacks_of(other.pid(), other.pid())]));
    let reader = wait_for("what reads", || readers(run.pid()).into_iter().next());
    let status = wait_for("the end of its rights", || {
        let status = fs::read_to_string(format!("/proc/{reader}/status")).ok()?;
        status.contains("NoNewPrivs:\t1").then_some(status).filter(|status| status.contains("Uid:\t65534"))
    });
    // CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE.
    let allowed = 1_u64 << 2 | 1 << 19 | 1 << 40;
    let capabilities = |label: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(label)).expect("a line of the status");
        u64::from_str_radix(line.trim(), 16).expect("a number")
    };
    wait_for("the end of its capabilities", || {
        let status = fs::read_to_string(format!("/proc/{reader}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("CapPrm:"))?;
        (u64::from_str_radix(line.trim(), 16).ok()? & !allowed == 0).then_some(())
    });
    assert_eq!(capabilities("CapInh:"), 0);
    assert!(held(reader).is_empty(), "it has descriptors of BPF");
    let descriptors = fs::read_dir(format!("/proc/{reader}/fd")).expect("its descriptors").flatten();
    let names: BTreeSet<String> = descriptors.filter_map(|fd| fd.file_name().into_string().ok()).collect();
    assert!(["0", "1", "2"].iter().all(|name| names.contains(*name)), "{names:?}");
    let kinds = |fd: &String| fs::read_link(format!("/proc/{reader}/fd/{fd}")).unwrap_or_default();
    let others: Vec<_> = names.iter().map(kinds).filter(|kind| kind.starts_with("anon_inode:")).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn what_reads_files_is_started_again_when_it_breaks() {
    if skip() {
        return;
    }
    let other = paced();
    let mut run = Read::start(&stacks_of(other.pid(), other.pid()));
    // Before it has read anything, and after it has.
    for _ in 0..2 {
        let reader = wait_for("what reads", || readers(run.run.id()).into_iter().next());
        assert!(Command::new("kill").args(["-KILL", &reader.to_string()]).status().is_ok_and(|it| it.success()));
        wait_for("its end", || (!readers(run.run.id()).contains(&reader)).then_some(()));
        run.await_names(other.pid());
    }
    run.end();
}

#[test]
fn a_script_without_names_starts_nothing() {
    if skip() {
        return;
    }
    let other = paced();
    let script = format!("tracepoint:syscalls:sys_enter_getppid /pid == {}/ {{ @ = count(); print(1); }}", other.pid());
    let run = attached(&["-e", &script]);
    assert_eq!(readers(run.pid()), BTreeSet::new());
    run.signal("INT");
    assert!(run.end().status.success());
}
