//! Output destinations that go away.
//!
//! In: a reader that closes the pipe, a full disk. Out: a quiet exit, or an error that names the
//! reason; nothing stays attached.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::super::machine::{
    Directory, Ended, PROFILER, Running, assert_gone, held, profiler, skip, wait_for, workload,
};

/// Prints as fast as it can.
const FLOOD: &str = "tracepoint:syscalls:sys_enter_getppid /pid == cpid && comm == \"workload\"/ {
    printf(\"call %s\\n\", comm); @calls = count(); }";

fn endless() -> String {
    format!("{} getppid 1000000000000", workload())
}

#[test]
fn head_ends_a_flood_quietly() {
    if skip() {
        return;
    }
    for format in ["text", "json"] {
        let mut child = profiler(&["-q", "-f", format, "-e", FLOOD, "-c", &endless()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("profiler");
        let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        let ids = held(child.id());
        drop(reader);
        let output = child.wait_with_output().expect("it ends");
        assert!(line.contains("call workload"), "{line}");
        // Losses of the flood are reported; the closed pipe is not.
        let words = String::from_utf8_lossy(&output.stderr);
        let of_losses = |line: &str| ["Lost ", "Missing ", "  events of "].iter().any(|start| line.starts_with(start));
        assert!(words.lines().all(of_losses), "{format}: {words}");
        assert_eq!(output.status.code(), Some(0), "{format}: {words}");
        assert_gone(&ids);
    }
}

/// The reader goes away before anything is printed, except the maps at the end.
#[test]
fn maps_that_nobody_reads_are_no_error() {
    if skip() {
        return;
    }
    let script = "tracepoint:syscalls:sys_enter_getppid { @calls[tid] = count(); } END { printf(\"end\\n\"); }";
    let mut child =
        profiler(&["-q", "-e", script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("profiler");
    let ids = wait_for("a link", || Some(held(child.id())).filter(|ids| ids.iter().any(|(kind, _)| *kind == "link")));
    drop(child.stdout.take());
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    assert_gone(&ids);
}

/// A file system of a few pages, unmounted when dropped.
struct SmallDisk(Directory);

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let directory = Directory::new("disk");
        let path = directory.path("");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "profiler-test", &path]).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(SmallDisk(directory));
        }
        println!("SKIPPED: a small file system cannot be mounted here");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path("")).status();
    }
}

/// The flood begins when it is known what the run holds: a full disk ends it soon.
fn run_until_full(arguments: &[&str], stdout: Stdio) -> Ended {
    let directory = Directory::new("begin");
    let begin = directory.path("begin");
    let command = format!("sh -c 'while [ ! -e {begin} ]; do sleep 0.01; done; exec {}'", endless());
    let mut child = profiler(&["-q", "-e", FLOOD, "-c", &command]);
    let child = child.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).spawn();
    let child = child.expect("profiler");
    let pid = child.id();
    let ids = wait_for("a link", || Some(held(pid)).filter(|ids| ids.iter().any(|(kind, _)| *kind == "link")));
    directory.file("begin", "");
    let output = child.wait_with_output().expect("it ends");
    assert_gone(&ids);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Ended { status: output.status, stdout: String::new(), stderr }
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    if skip() {
        return;
    }
    let Some(disk) = SmallDisk::mount() else { return };
    let file = disk.0.path("results");
    for format in ["text", "json"] {
        let ended = run_until_full(&["-f", format, "-o", &file], Stdio::null());
        assert_eq!(ended.code(), 1, "{format}: {}", ended.stderr);
        let words = format!("error: cannot write to `{file}`: no space is left\n");
        assert!(ended.stderr.ends_with(&words), "{format}: {}", ended.stderr);
        // The file holds what fit, starting with the first line.
        let results = fs::read_to_string(&file).expect("results");
        let first = if format == "text" { "call workload\n" } else { "{\"type\": \"printf\", " };
        assert!(results.starts_with(first) && results.len() > 100_000, "{format}: {} bytes", results.len());
    }
}

#[test]
fn standard_output_without_room_is_an_error() {
    if skip() {
        return;
    }
    let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let ended = run_until_full(&[], full.into());
    assert_eq!(ended.code(), 1, "{}", ended.stderr);
    assert!(
        ended.stderr.ends_with("error: cannot write to `standard output`: no space is left\n")
            || ended.stderr.ends_with("error: cannot write to standard output: no space is left\n"),
        "{}",
        ended.stderr
    );
    // Only maps, printed at the end.
    let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let mut command = profiler(&["-q", "-e", "BEGIN { @x = 1; exit(); }"]);
    let output =
        command.stdout(full).stderr(Stdio::piped()).spawn().expect("profiler").wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let running = Running::start(&mut profiler(&["-q", "-o", "/dev/full", "-e", "BEGIN { @x = 1; exit(); }"]));
    let ended = running.end();
    assert_eq!((ended.code(), ended.stderr.as_str()), (1, "error: cannot write to `/dev/full`: no space is left\n"));
}

/// With each limit, a different step is the first to run out of descriptors.
#[test]
fn too_few_descriptors_are_told_and_leave_nothing() {
    if skip() {
        return;
    }
    let script =
        format!("tracepoint:sched:* {{ @ = count(); }} uprobe:{}:workload_step {{ @u = count(); }}", workload());
    let command = format!("{} getppid 10", workload());
    for limit in 5..32 {
        let line = format!("ulimit -n {limit}; exec '{PROFILER}' run -q -e '{script}' -c '{command}'");
        let ended = Running::start(Command::new("sh").args(["-c", &line])).end();
        assert!(
            [1, 3].contains(&ended.code()) && ended.stdout.is_empty(),
            "{limit}: {} {}",
            ended.code(),
            ended.stderr
        );
        assert!(ended.stderr.to_lowercase().contains("open files"), "{limit}: {}", ended.stderr);
        // A file that cannot be opened is reported at its probe.
        let is_short = ended.stderr.lines().count() <= 2 || ended.stderr.starts_with("error[E0406]");
        assert!(is_short && !ended.stderr.contains("libbpf"), "{limit}: {}", ended.stderr);
    }
}
