//! Bad input to every command: each run ends cleanly, with a message that names the problem.
//!
//! In: tables of commands and environments. Out: exit codes and messages.
//! Guarantee: the test fails when a command dies from a signal or prints `panicked`. A test that
//! needs another user prints `SKIPPED: reason`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Commands that take a script; the script follows.
const WITH_SCRIPT: [&[&str]; 7] = [
    &["run"],
    &["check"],
    &["check", "--json"],
    &["build", "-o", "/dev/null"],
    &["doctor", "--duration", "10ms"],
    &["fmt", "--check"],
    &["run", "-d", "ast"],
];

/// Command lines that write to standard output and need no other input.
const WRITERS: [&[&str]; 15] = [
    &[],
    &["help"],
    &["help", "run"],
    &["help", "hist"],
    &["run", "--help"],
    &["--version"],
    &["explain", "E0203"],
    &["completions", "bash"],
    &["man"],
    &["man", "run"],
    &["list", "software:*"],
    &["doctor"],
    &["check", "--json", "-e", "BEGIN { }"],
    &["run", "-d", "ast", "-e", "BEGIN { }"],
    &["fmt", "-"],
];

fn profiler(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command with a small script on standard input and checks that it ends cleanly.
fn ends(command: &mut Command) -> (i32, Output) {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the binary runs");
    // Most commands do not read their input.
    let _ = child.stdin.take().expect("a pipe").write_all(b"BEGIN { @a = 1; exit(); }\n");
    let output = child.wait_with_output().expect("it ends");
    let (code, words) = (output.status.code(), text(&output.stderr));
    assert!(code.is_some_and(|code| code < 5) && !words.contains("panicked"), "{command:?}: {code:?}\n{words}");
    (code.unwrap_or_default(), output)
}

struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("profiler-bad-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Directory(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("a file");
        path.display().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_no_script_is_refused_with_its_code() {
    let directory = Directory::new();
    let line = "BEGIN { @x = 1; }\n";
    let cases = [
        (directory.0.join("missing").display().to_string(), "E0001"),
        (directory.0.display().to_string(), "E0001"),
        ("/proc/self/mem".to_owned(), "E0001"),
        (directory.file("binary", b"\x7fELF\0\0"), "E0003"),
        (directory.file("latin1", b"// \xe9\nBEGIN { }"), "E0003"),
        (directory.file("empty", b" \n"), "E0004"),
        (directory.file("ten-megabytes", line.repeat((10 << 20) / line.len()).as_bytes()), "E0002"),
        (directory.file("one-line", &vec![b'('; 10 << 20]), "E0002"),
        (directory.file("deep", &vec![b'{'; 1 << 20]), "E0105"),
        (directory.file("controls", b"BEGIN { \x01\x02 }"), "E0110"),
    ];
    for start in WITH_SCRIPT {
        for (path, code) in &cases {
            let (exit, output) = ends(profiler(start).arg(path));
            let words = text(&output.stderr) + &text(&output.stdout);
            assert_eq!(exit, 1, "{start:?} {path}: {words}");
            assert!(words.contains(code) || *code == "E0105", "{start:?} {path} lacks {code}: {words}");
        }
    }
}

#[test]
fn a_script_of_a_megabyte_is_checked_and_formatted() {
    let directory = Directory::new();
    let block = format!("BEGIN {{ {} }}\n", "@x = 1; ".repeat(400));
    let path = directory.file("large", block.repeat((1 << 20) / block.len()).as_bytes());
    assert_eq!(ends(profiler(&["fmt", "--check"]).arg(&path)).0, 1);
    let wrong = directory.file("wrong", "BEGIN { @x = ; }\n".repeat(100_000).as_bytes());
    let (exit, output) = ends(profiler(&["check"]).arg(&wrong));
    assert!(exit == 1 && output.stderr.len() < 50_000, "{} bytes", output.stderr.len());
}

#[test]
fn garbage_on_the_command_line_ends_with_two_and_names_it() {
    let commands =
        ["run", "check", "list", "build", "doctor", "explain", "completions", "man", "help", "fmt", "lsp", "nonsense"];
    for command in commands {
        for garbage in ["--frobnicate", "--json=maybe", "-Z", "--", ""] {
            let mut words = vec![command];
            // Skip the commands that are valid without arguments.
            words.extend((!garbage.is_empty()).then_some(garbage));
            let alone = garbage == "--" || garbage.is_empty();
            if alone && matches!(command, "list" | "doctor" | "man" | "help" | "lsp") {
                continue;
            }
            let (exit, output) = ends(&mut profiler(&words));
            assert_eq!(exit, 2, "{words:?}: {}", text(&output.stderr));
            assert!(text(&output.stderr).starts_with("error: "), "{words:?}: {}", text(&output.stderr));
        }
        let (exit, output) = ends(profiler(&[command]).arg(OsStr::from_bytes(b"a\xff")));
        assert_eq!((exit, text(&output.stderr).contains(r"not UTF-8: `a\xff`")), (2, true), "{command}");
    }
    for (words, exit) in [
        (&["explain", "E9999"][..], 2),
        (&["help", "\u{1b}[31m"], 2),
        (&["man", "nonsense"], 2),
        (&["completions", "cmd.exe"], 2),
        (&["list", "nonsense:*"], 1),
        (&["list", ":::::"], 1),
        (&["run", "--duration", "never", "-e", "BEGIN { }"], 2),
        (&["run", "-p", "99999999999", "-e", "BEGIN { }"], 2),
        (&["run", "-e", ""], 1),
        (&["check", "-e", "\u{0}"[..0].trim()], 1),
    ] {
        let (found, output) = ends(&mut profiler(words));
        assert_eq!(found, exit, "{words:?}: {}", text(&output.stderr));
        assert!(!text(&output.stderr).contains('\u{1b}'), "{words:?} passes escapes on");
    }
}

#[test]
fn a_reader_that_is_gone_is_no_failure_and_a_full_disk_is_one() {
    for words in WRITERS {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let (exit, output) = ends(profiler(words).stdout(writer));
        assert!(exit == 0 || words == ["doctor"], "{words:?}: {}", text(&output.stderr));
        let full = File::options().write(true).open("/dev/full").expect("a device");
        let (exit, output) = ends(profiler(words).stdout(full));
        assert_eq!(exit, 1, "{words:?}: {}", text(&output.stderr));
    }
}

#[test]
fn closed_streams_are_survived() {
    for words in
        WRITERS.iter().chain(&[&["check", "-e", "BEGIN { @x = ; }"][..], &["frobnicate"], &["fmt", "/no/such"]])
    {
        for closed in [">&-", "2>&-", "<&-", "<&- >&- 2>&-"] {
            let line = format!("exec \"$0\" \"$@\" {closed}");
            let mut shell = Command::new("sh");
            shell.args(["-c", &line, env!("CARGO_BIN_EXE_profiler")]).args(*words);
            ends(shell.stdout(Stdio::null()).stderr(Stdio::null()));
        }
    }
}

#[test]
fn strange_terminals_change_no_text() {
    for words in [&["help", "run"][..], &["check", "-e", "BEGIN { @x = cuont(); }"], &["list", "software:*"]] {
        let usual = ends(&mut profiler(words)).1;
        for (term, columns) in
            [("dumb", "20"), ("", "0"), ("no-such-terminal", "-1"), ("xterm", "99999999999999999999")]
        {
            let mut command = profiler(words);
            let strange = ends(command.env("TERM", term).env("COLUMNS", columns).env("LINES", columns)).1;
            assert_eq!(
                (strange.stdout, strange.stderr),
                (usual.stdout.clone(), usual.stderr.clone()),
                "{words:?} {term}"
            );
        }
    }
}

/// Runs a command as the unprivileged user `nobody`; `None` when this user cannot switch to it.
fn unprivileged(words: &[&str]) -> Option<(i32, Output)> {
    const NOBODY: u32 = 65534;
    let mut command = profiler(words);
    let output = command.uid(NOBODY).gid(NOBODY).output();
    match output {
        Ok(output) => Some((output.status.code().unwrap_or(-1), output)),
        Err(error) => {
            println!("SKIPPED: nobody cannot run the binary: {error}");
            None
        }
    }
}

#[test]
fn without_rights_what_needs_none_works_and_the_rest_names_the_capability() {
    for words in [
        &["help"][..],
        &["explain", "E0203"],
        &["list", "software:*"],
        &["check", "-e", "BEGIN { exit(); }"],
        &["run", "-d", "bpf", "-e", "BEGIN { exit(); }"],
        // The kernel's BTF describes the record when tracefs cannot be read.
        &["check", "-e", "tracepoint:sched:sched_switch { @[args.next_pid] = count(); }"],
    ] {
        let Some((exit, output)) = unprivileged(words) else { return };
        assert_eq!(exit, 0, "{words:?}: {}", text(&output.stderr));
    }
    for (words, capability) in
        [(&["run", "-e", "BEGIN { exit(); }"][..], "CAP_BPF"), (&["list", "tracepoint:sched:*"], "CAP_DAC_READ_SEARCH")]
    {
        let Some((exit, output)) = unprivileged(words) else { return };
        // Nothing is refused when tracefs is readable by everyone or not mounted.
        if words[0] != "run" && std::fs::read_dir("/sys/kernel/tracing/events").is_err() {
            println!("SKIPPED: there is no tracefs here");
            continue;
        }
        assert_eq!(exit, 3, "{words:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(capability), "{words:?}: {}", text(&output.stderr));
    }
}
