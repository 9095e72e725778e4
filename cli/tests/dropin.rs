//! The binary under the name `bpftrace`, as automation written for bpftrace uses it.
//!
//! In: a symbolic link of that name. Out: text, output streams and exit codes, compared with
//! bpftrace.
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
    assert!(text.split_whitespace().nth(1).is_some_and(|version| version.starts_with("v0.27.")), "{text}");
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
fn automation_is_said_when_all_probes_are_attached() {
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

/// Runs scripts, each with its results; prints of maps at the end are off.
fn all_print(link: &Link, cases: &[(&str, &str)]) {
    for (script, expected) in cases {
        let output = link.run(&["-q", "-e", script]);
        let found = stdout(&output);
        assert_eq!(found.trim_end(), *expected, "{script}\n{}", stderr(&output));
    }
}

#[test]
fn a_begin_that_ends_the_run_has_the_line_about_attached_probes() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    let script = "BEGIN { print(1); exit(); } interval:s:1 { }";
    assert_eq!(stderr(&link.run(&["-e", script])), "Attached 2 probes\n");
    assert_eq!(
        stdout(&link.run(&["-f", "json", "-e", script])),
        "{\"type\": \"attached_probes\", \"count\": 2, \"data\": {\"probes\": 2}}\n{\"type\": \"value\", \"data\": 1}\n"
    );
}

#[test]
fn samples_and_functions_are_those_of_the_command_alone() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    // Processes of other tests compute and return from the same function meanwhile.
    let script = "profile:hz:999 { @p[pid == cpid] = count(); }
        software:cpu-clock:1000000 { @s[pid == cpid] = count(); }
        uretprobe:libc:nanosleep, uprobe:libc:clock_gettime, uprobe:libc:write { @u[pid == cpid] = count(); }";
    let mut other = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh");
    let loops = link.0.join("loops.sh");
    std::fs::write(&loops, "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo x").expect("a file");
    let output = link.run(&["-q", "-e", script, "-c", &format!("sh {}", loops.display())]);
    other.kill().and_then(|()| other.wait()).expect("it ends");
    let text = stdout(&output);
    assert!(["@p[true]", "@s[true]", "@u[true]"].iter().all(|row| text.contains(row)), "{text}");
    assert!(!text.contains("[false]"), "{text}");
}

#[test]
fn scripts_print_what_they_print_under_bpftrace() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    all_print(
        &link,
        &[
            ("BEGIN { print((default_str_length, default_str_length())); }", "(1024, 1024)"),
            ("macro size(x) { sizeof(x) } struct x { int a; char b; } BEGIN { print(size(typeof(struct x))); }", "8"),
            ("BEGIN { @x = 5; print(len(@x)); delete(@x); print(len(@x)); }", "1\n0"),
            ("macro t(x, $y) { (x)$y + (x)5 } BEGIN { $a = 300; print(t(uint8, $a)); }", "49"),
            (
                "struct F { int a; int c[5]; struct { long d; } e; enum { P } p; } union U { char c; long l; }
                 BEGIN { print((sizeof(((struct F)0).c), sizeof(((struct F)0).e.d), sizeof(((struct F)0).c[1]))); print(sizeof(((union U)0).l)); }",
                "(20, 8, 4)\n8",
            ),
            ("enum E { A, B } BEGIN { print((sizeof(A), sizeof(enum E), (enum E)1)); }", "(8, 8, B)"),
            ("BEGIN { print(buf(\"a\\x00b\", 3)); print(buf(\"\\x00\\x01\", 2)); }", "a\\x00b\n\\x00\\x01"),
            ("BEGIN { $k = kstack(1); print(len($k)); }", "1"),
            (
                "struct foo { unsigned long long x_0:1; unsigned long long x_1:1; unsigned long long x_2:2; }
                 BEGIN { $v = (uint64)0x1e; $f = *(struct foo *)(&$v); print($f); }",
                "{ .x_0 = 0, .x_1 = 1, .x_2 = 3 }",
            ),
            (
                "BEGIN { $x = 5; $p = &$x; print(*$p); for $i : 0..3 { $x += $i; } print(*$p); print(&$x == $p); }",
                "5\n8\ntrue",
            ),
            ("BEGIN { print((probe == \"BEGIN\", probe == \"END\", strlen(probe))); }", "(true, false, 5)"),
            ("BEGIN { @x = \"none\"; @x = probe; $x = probe; $x = @x; print($x); clear(@x); }", "BEGIN"),
            (
                "struct F { float a; double b; int c; float d[3]; }
                 BEGIN { print((offsetof(struct F, b), offsetof(struct F, c), sizeof(struct F))); }",
                "(8, 16, 32)",
            ),
            (
                "BEGIN { $b = (struct sk_buff *)curtask; $c = (struct tcp_skb_cb *)$b->cb;
                 print((uint64)$c - (uint64)$b == offsetof(struct sk_buff, cb));
                 print($c.seq == *(uint32 *)((uint64)$b + offsetof(struct sk_buff, cb))); }",
                "true\ntrue",
            ),
            (
                "struct B { char c; int e:9; char d; int f:30; long g:40; long h:30; }
                 BEGIN { $b = (struct B *)curtask; $w = (uint64 *)curtask; print(sizeof(struct B));
                 print(($b.e & 0x1ff) == (($w[0] >> 8) & 0x1ff)); print((uint8)$b.d == (uint8)($w[0] >> 24));
                 print(($b.f & 0x3fffffff) == (($w[0] >> 32) & 0x3fffffff));
                 print(($b.g & 0xffffffffff) == ($w[1] & 0xffffffffff)); print(($b.h & 0x3fffffff) == ($w[2] & 0x3fffffff)); }",
                "24\ntrue\ntrue\ntrue\ntrue\ntrue",
            ),
            (
                "BEGIN { print((DT_DIR, AF_INET6, S_IFMT, O_CREAT, ENOENT, SIGKILL, CLONE_NEWNS, ICMP_ECHO, ETH_P_IP)); }",
                "(4, 10, 61440, 64, 2, 9, 131072, 8, 2048)",
            ),
            ("#define EMPTY\n#ifdef EMPTY\nBEGIN { print(1); }\n#else\nBEGIN { print(2); }\n#endif", "1"),
            ("#ifndef CONFIG_NO_SUCH\nBEGIN { print(1); }\n#endif\n#ifdef CONFIG_BPF\nBEGIN { print(2); }\n#endif", "1\n2"),
        ],
    );
}

#[test]
fn json_has_no_lines_that_bpftrace_does_not_write() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    let script = "config = { max_map_keys = 1 } BEGIN { @a[1] = 1; @a[2] = 2; system(\"exit 3\"); exit(); }";
    let loss = "Missing from these results:\n  updates of @a: map full, it holds 1 keys: 1\n";
    for (quiet, is_said) in [(&[][..], true), (&["-q"], false)] {
        let output = link.run(&[&["--unsafe", "-f", "json", "-e", script], quiet].concat());
        let (text, notes) = (stdout(&output), stderr(&output));
        assert!(text.ends_with("{\"type\": \"map\", \"data\": {\"@a\": {\"1\": 1}}}\n"), "{text}");
        assert!(!text.contains("quality") && !text.contains("error"), "{text}");
        assert!(notes.starts_with("ERROR: command exited with code 3\n"), "{notes}");
        assert_eq!(notes.contains(loss), is_said, "{notes}");
    }
    let own = Command::new(env!("CARGO_BIN_EXE_profiler")).args(["-f", "json", "--unsafe", "-e", script]).output();
    assert!(stdout(&own.expect("it runs")).contains("{\"type\": \"quality\""));
}

#[test]
fn an_address_is_watched_in_all_processes() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    let script = "watchpoint:0x10000000:8:rw { } BEGIN { print(1); } interval:ms:1 { exit(); }";
    let output = link.run(&["-q", "-e", script]);
    if output.status.code() != Some(0) && stderr(&output).contains("watchpoint") {
        return println!("SKIPPED: {}", stderr(&output));
    }
    assert_eq!((output.status.code(), stdout(&output).trim_end()), (Some(0), "1"), "{}", stderr(&output));
    let own = Command::new(env!("CARGO_BIN_EXE_profiler")).args(["check", "-e", script]).output().expect("it runs");
    assert!(stderr(&own).starts_with("error[E0433]"), "{}", stderr(&own));
}

#[test]
fn entries_of_aggregations_print_as_values() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    let script = "BEGIN { @c[\"x\"] = count(); @s[\"x\"] = sum(5); @a[\"x\"] = avg(3); @m[\"x\"] = min(4); @t[\"x\"] = stats(4);
        print(@c[\"x\"]); print(@s[\"x\"]); print(@a[\"x\"]); print(@m[\"x\"]); print(@t[\"x\"]); print(@c[\"y\"]); exit(); }";
    let settings = "config = { print_maps_on_exit = 0 } ";
    let text = link.run(&["-q", "-e", &format!("{settings}{script}")]);
    assert_eq!(stdout(&text), "1\n5\n3\n4\n{ .count = 1, .average = 4, .total = 4 }\n0\n", "{}", stderr(&text));
    let json = link.run(&["-q", "-f", "json", "-e", &format!("{settings}{script}")]);
    let value = |text: &str| format!("{{\"type\": \"value\", \"data\": {text}}}\n");
    let expected = ["1", "5", "3", "4", "{\"count\": 1, \"average\": 4, \"total\": 4}", "0"].map(value).concat();
    assert_eq!(stdout(&json), expected);
    // Under our own name, an entry has its key.
    let own = Command::new(env!("CARGO_BIN_EXE_profiler")).args(["-q", "-e", &format!("{settings}{script}")]).output();
    assert!(stdout(&own.expect("it runs")).starts_with("@c[x]: 1\n@s[x]: 5\n"));
}

#[test]
fn a_command_is_split_at_blanks_alone_and_an_empty_one_is_none() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    let output = link.run(&["-q", "-e", "BEGIN { }", "-c", "printf [%s] a \"b  c\""]);
    assert_eq!(stdout(&output).trim_end(), "[a][\"b][][c\"]", "{}", stderr(&output));
    let none = link.run(&["-q", "-e", "BEGIN { print(has_cpid); }", "-c", ""]);
    assert_eq!((none.status.code(), stdout(&none).trim_end()), (Some(0), "false"), "{}", stderr(&none));
}

#[test]
fn a_command_that_fails_is_reported() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    let output = link.run(&["-q", "--unsafe", "-e", "BEGIN { system(\"echo a; exit 3\"); system(\"true\"); exit(); }"]);
    assert_eq!((stdout(&output).trim_end(), stderr(&output).as_str()), ("a", "ERROR: command exited with code 3\n"));
}

#[test]
fn automation_is_said_too_when_begin_ends_the_run() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    let script = "BEGIN { printf(\"begin\\n\"); exit(); } interval:s:1 { }";
    let output = link.command(&["-q", "-e", script]).env("__BPFTRACE_NOTIFY_PROBES_ATTACHED", "1").output();
    assert_eq!(stdout(&output.expect("it runs")), "__BPFTRACE_NOTIFY_PROBES_ATTACHED\nbegin\n\n\n");
}

#[test]
fn a_user_signal_does_not_end_a_run() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    // The shell's parent is the run itself, which has no probe for the signal.
    let script = "BEGIN { system(\"kill -USR1 $PPID\"); } interval:ms:10 { printf(\"on\\n\"); exit(); }";
    let output = link.run(&["-q", "--unsafe", "-e", script]);
    assert_eq!((output.status.code(), stdout(&output).trim()), (Some(0), "on"), "{}", stderr(&output));
}

#[test]
fn exit_codes_say_what_kind_of_failure_it_was() {
    let link = Link::new();
    let with = |name: &str, value: &str| {
        link.command(&["-q", "-e", "BEGIN { exit(); }"]).env(name, value).output().expect("it runs")
    };
    for (name, value) in [("BPFTRACE_MAX_STRLEN", "abc"), ("BPFTRACE_STACK_MODE", "none"), ("BPFTRACE_LOG_SIZE", "bad")]
    {
        let output = with(name, value);
        assert_eq!(output.status.code(), Some(2), "{name}: {}", stderr(&output));
        assert!(stderr(&output).starts_with(&format!("error[E0212]: {name}: ")), "{}", stderr(&output));
        assert!(!stderr(&output).contains("-->"), "it is not in the script: {}", stderr(&output));
    }
    let cases: [(&[&str], i32, &str); 7] = [
        (&["--include", "/no/such.h", "-e", "BEGIN { exit(); }"], 2, "/no/such.h"),
        (&["-l", "nosuch:*"], 0, ""),
        (&["-d", "nosuch", "-e", "BEGIN { exit(); }"], 1, "invalid option for -d: nosuch"),
        (&["--no-feature", "nosuch", "-e", "BEGIN { exit(); }"], 1, "--no-feature can only have values"),
        (&["--traceable-functions", "/no/such", "-e", "BEGIN { exit(); }"], 1, "/no/such"),
        (&["-e", "BEGIN { exit(); }", "--", "--help"], 1, ""),
        (&["-e", "config = { log_size = bad } BEGIN { exit(); }"], 1, "`log_size` takes a number"),
    ];
    for (arguments, code, words) in cases {
        let output = link.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{arguments:?}: {}", stderr(&output));
    }
    if skip(&link) {
        return;
    }
    assert_eq!(with("BPFTRACE_LOG_SIZE", "5").status.code(), Some(0));
    let tests_only = link.run(&["-e", "test:one { }"]);
    assert_eq!(tests_only.status.code(), Some(255), "{}", stderr(&tests_only));
    let dry = link.run(&["--dry-run", "-e", "BEGIN { print(1); }"]);
    assert_eq!((dry.status.code(), stdout(&dry).trim(), stderr(&dry).trim()), (Some(0), "", ""));
    // Zero stands for the default.
    let zero = link.run(&[
        "-q",
        "-e",
        "config = { perf_rb_pages = 0; max_strlen = 0 } BEGIN { print(str(\"abcd\")); exit(); }",
    ]);
    assert_eq!((zero.status.code(), stdout(&zero).trim_end()), (Some(0), "abcd"), "{}", stderr(&zero));
}

#[test]
fn named_options_keep_their_64_bits() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    let script = "BEGIN { print((getopt(\"aa\", 20), getopt(\"bb\", -1), getopt(\"cc\", true))); }";
    let output = link.run(&["-q", "-e", script, "--", "--aa=0xffffffffffffffff", "--bb=-10", "--cc=False"]);
    assert_eq!(stdout(&output).trim_end(), "(18446744073709551615, -10, false)", "{}", stderr(&output));
}

#[test]
fn a_missing_command_and_an_index_out_of_bounds_are_warnings() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    let script = "BEGIN { if (has_cpid) { print(cpid); } print(cpid); $i = (uint64)100; print(comm[$i]);
        $t = (struct task_struct *)curtask; print($t.comm[$i]); print($t.comm[$i - 100] != 0); }";
    let output = link.run(&["-q", "-e", script]);
    assert_eq!(stdout(&output).trim_end(), "0\n0\n0\ntrue");
    let warnings: Vec<String> = stderr(&output).lines().map(str::to_owned).collect();
    assert_eq!(
        warnings,
        [
            "stdin:1:46-50: WARNING: No child command (`-c`); cpid is zero",
            "stdin:1:77-85: WARNING: Array access out of bounds. This can lead to unexpected results.",
            "stdin:2:51-62: WARNING: Array access out of bounds. This can lead to unexpected results.",
        ]
    );
    assert_eq!(stdout(&link.run(&["-q", "-e", "BEGIN { print(cpid > 0); }", "-c", "true"])).trim_end(), "true");
}

#[test]
fn headers_are_read_from_beside_the_script_and_from_given_directories() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    let directory = link.0.join("headers");
    std::fs::create_dir_all(directory.join("sub")).expect("a directory");
    let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).expect("a file");
    write("sub/more.h", "#pragma once\nstruct more { char c; long d; };\n");
    write(
        "own.h",
        "#ifndef OWN_H\n#define OWN_H\n#include <linux/types.h>\n#include \"sub/more.h\"\n#define LIMIT 41\n\
         #define TWICE(x) ((x) * 2)\nextern int of_the_library(int a, char *b);\nstatic inline int other(void);\n\
         struct own { __u32 a; int b[LIMIT]; struct more m; };\n#endif\n",
    );
    write("script.bt", "#include \"own.h\"\n#ifdef LIMIT\nBEGIN { print((sizeof(struct own), LIMIT)); }\n#endif\n");
    let at = |name: &str| directory.join(name).display().to_string();
    let (beside, print) = (at("script.bt"), "BEGIN { print((sizeof(struct own), LIMIT)); }");
    let (quoted, angular) = (format!("#include \"own.h\"\n{print}"), format!("#include <own.h>\n{print}"));
    for arguments in [
        &[beside.as_str()][..],
        &["-I", &at(""), "-e", &quoted],
        &["-I", &at(""), "-e", &angular],
        &["--include", &at("own.h"), "-e", print],
        &["--include", "own.h", "-I", &at(""), "-e", print],
    ] {
        let output = link.run(&[&["-q"], arguments].concat());
        assert_eq!(stdout(&output).trim_end(), "(184, 41)", "{arguments:?}: {}", stderr(&output));
    }
    let missing = link.run(&["-e", &quoted]);
    assert!(stderr(&missing).starts_with("error[E0154]: there is no header `own.h`\n --> stdin:1:11\n"));
    assert_eq!((missing.status.code(), stdout(&missing)), (Some(1), String::new()));
}

#[test]
fn a_function_is_a_symbol_and_a_string() {
    let link = Link::new();
    if skip(&link) {
        return;
    }
    let script = "BEGIN { @of[0] = ksym(kaddr(\"schedule\")); @us[0] = usym(0); }
        uprobe:libc:write, uprobe:libc:__libc_start_main {
            @of[tid] = func; @us[tid] = func; @n[@of[tid]] = count(); @m[@us[tid]] = count();
            if (func == \"write\") { printf(\"%s %s\\n\", probe, strcontains(probe, \"libc\") ? func : \"other\"); }
        }
        END { clear(@of); clear(@us); }";
    let output = link.run(&["-q", "-o", &link.0.join("out").display().to_string(), "-e", script, "-c", "echo x"]);
    let text = std::fs::read_to_string(link.0.join("out")).expect("results");
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert!(lines[0].starts_with("uprobe:") && lines[0].ends_with(":write write"), "{text}\n{}", stderr(&output));
    assert!(text.contains("@n[write]: 1") && text.contains("@m[write]: 1"), "{text}");
}
