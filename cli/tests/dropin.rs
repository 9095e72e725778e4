//! The binary under the name `bpftrace`, as automation written for bpftrace uses it.
//!
//! In: a symbolic link of that name. Out: text, output streams and exit codes, compared with
//! bpftrace 0.26.
//! Guarantee: the link is removed afterwards. Tests that need the kernel print `SKIPPED: reason`
//! when it is not available.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A directory that contains the link.
struct Link(PathBuf);

impl Link {
    fn new() -> Link {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("profiler-dropin-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        symlink(env!("CARGO_BIN_EXE_profiler"), directory.join("bpftrace")).expect("a link");
        Link(directory)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.0.join("bpftrace"));
        command.args(arguments).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it runs")
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether the kernel is not available; prints the reason.
fn skip(link: &Link) -> bool {
    let output = link.run(&["-q", "-e", "BEGIN { exit(); }"]);
    let refused = output.status.code() != Some(0);
    if refused {
        println!("SKIPPED: {}", stderr(&output).lines().next().unwrap_or_default());
    }
    refused
}

#[test]
fn the_version_is_the_second_word() {
    let output = Link::new().run(&["--version"]);
    let text = stdout(&output);
    assert_eq!(text.split_whitespace().next(), Some("bpftrace"));
    assert!(text.split_whitespace().nth(1).is_some_and(|version| version.starts_with("v0.26.")), "{text}");
}

#[test]
fn a_wrong_command_line_shows_the_usage_and_ends_with_one() {
    let link = Link::new();
    for arguments in [&["-idonotexist"][..], &[], &["-p", "1", "-c", "true", "-e", "BEGIN { }"]] {
        let output = link.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&output).contains("USAGE:"), "{arguments:?}: {}", stderr(&output));
    }
    let output = link.run(&["no_such_file.bt"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "ERROR: failed to open file 'no_such_file.bt': No such file or directory\n");
}

#[test]
fn a_script_that_does_not_compile_ends_with_one() {
    let output = Link::new().run(&["-e", "BEGIN { prinft(1); }"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("prinft") && stdout(&output).is_empty(), "{}", stderr(&output));
}

#[test]
fn results_and_exit_codes_are_those_of_the_script() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    let output = link.run(&["-e", "BEGIN { printf(\"%d %s\\n\", $1, str($2)); @x = 2; exit(3); }", "7", "word"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(stdout(&output), "7 word\n\n\n@x: 2\n");
    let json = link.run(&["-q", "-f", "json", "-e", "BEGIN { print((1, \"a\")); @x[1] = 2; }"]);
    assert_eq!(
        stdout(&json),
        "{\"type\": \"value\", \"data\": [1,\"a\"]}\n{\"type\": \"map\", \"data\": {\"@x\": {\"1\": 2}}}\n"
    );
}

#[test]
fn a_script_of_begin_and_end_alone_ends_by_itself() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    let output = link.run(&["-e", "BEGIN { printf(\"begin\\n\"); } END { printf(\"end\\n\"); }"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "begin\nend\n\n\n"));
    assert_eq!(stderr(&output), "Attached 2 probes\n");
}

#[test]
fn the_script_may_come_from_a_pipe() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    let mut child = link.command(&["-q", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    child.stdin.take().expect("a pipe").write_all(b"BEGIN { printf(\"piped\\n\"); }").expect("written");
    assert_eq!(stdout(&child.wait_with_output().expect("it ends")), "piped\n\n\n");
}

#[test]
fn automation_is_told_when_all_probes_are_attached() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    let socket = link.0.join("notify");
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let output = link
        .command(&["-q", "-e", "interval:ms:10 { printf(\"tick\\n\"); exit(); }"])
        .env("__BPFTRACE_NOTIFY_PROBES_ATTACHED", "1")
        .env("NOTIFY_SOCKET", &socket)
        .output()
        .expect("it runs");
    assert_eq!(stdout(&output), "__BPFTRACE_NOTIFY_PROBES_ATTACHED\ntick\n\n\n");
    let mut message = [0; 64];
    let len = manager.recv(&mut message).expect("a message");
    assert_eq!(&message[..len], b"READY=1");
}

#[test]
fn listings_have_a_probe_a_line() {
    let link = Link::new();
    let output = link.run(&["-l", "-e", "interval:s:1 { } hardware:cache-misses:10 { } software:faults:5 { }"]);
    assert_eq!(stdout(&output), "interval:s:\nhardware:cache-misses:\nsoftware:faults:\n", "{}", stderr(&output));
    assert_eq!(stdout(&link.run(&["-l", "software:cpu-c*"])), "software:cpu-clock:\n");
    let nothing = link.run(&["-l", "software:nothing*"]);
    assert_eq!((nothing.status.code(), stdout(&nothing).as_str()), (Some(0), ""));
    let types = link.run(&["-lv", "struct task_struct"]);
    if types.status.code() == Some(0) {
        assert!(stdout(&types).starts_with("vmlinux: struct task_struct {\n"), "{}", stdout(&types));
    } else {
        println!("SKIPPED: {}", stderr(&types));
    }
}

#[test]
fn the_report_on_the_kernel_is_true() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    let output = link.run(&["--info"]);
    let text = stdout(&output);
    let says = |name: &str| {
        let answer = text.lines().find_map(|line| line.strip_prefix(&format!("  {name}: ")));
        answer.unwrap_or_else(|| panic!("no line `{name}` in {text}")).to_owned()
    };
    assert_eq!((output.status.code(), says("hash"), says("ringbuf")), (Some(0), "yes".to_owned(), "yes".to_owned()));
    assert_eq!(says("btf"), if std::path::Path::new("/sys/kernel/btf/vmlinux").exists() { "yes" } else { "no" });
    let kprobe = link.run(&["-q", "--dry-run", "-e", "kprobe:vfs_read { }"]);
    assert_eq!(says("kprobe") == "yes", kprobe.status.code() == Some(0), "{}", stderr(&kprobe));
    let entry = link.run(&["-q", "--dry-run", "-e", "fentry:vfs_read { }"]);
    assert_eq!(says("fentry") == "yes", entry.status.code() == Some(0), "{}", stderr(&entry));
}
