//! Static probes (USDT): of known programs, in programs that already run, and in bpftrace scripts.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::machine::{self, Directory, PROFILER, attached, skip, workload};

#[test]
fn every_site_and_operand_is_read() {
    if skip() {
        return;
    }
    if cfg!(not(target_arch = "x86_64")) {
        return println!("SKIPPED: the workload has static probes on x86-64 only");
    }
    super::run("static_probes.cases", include_str!("static_probes.cases"));
}

/// `workload static-probes`, which takes commands and reports how often `guarded` had a listener.
struct Workload {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Workload {
    fn start(program: &str) -> Workload {
        Workload::started(Command::new(program))
    }

    fn started(mut command: Command) -> Workload {
        let mut process =
            command.arg("static-probes").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut workload = Workload { process, input, output };
        assert_eq!(workload.answer(), "ready");
        workload
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        line.trim().to_string()
    }

    fn pass(&mut self, times: u64) -> String {
        writeln!(self.input, "{times}").expect("it reads");
        self.answer()
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_semaphore_is_up_as_long_as_somebody_listens_to_the_process() {
    if skip() || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    // A private copy: a listener of another test would raise the semaphore too.
    let directory = Directory::new("semaphore");
    let program = directory.path("listened");
    machine::copy(workload(), &program);
    let (mut one, mut other) = (Workload::start(&program), Workload::start(&program));
    assert_eq!(one.pass(5), "guarded 0");
    let script = format!("usdt:{program}:guarded {{ @n = count(); @sum = sum(arg0); }}");
    let pid = one.process.id().to_string();
    let running = attached(&["-q", "-p", &pid, "-e", &script]);
    assert_eq!(one.pass(7), "guarded 7");
    other.pass(3);
    running.signal("INT");
    let ended = running.end();
    assert_eq!((ended.stdout.trim(), ended.stderr.as_str()), ("@n: 7\n@sum: 21", ""));
    assert_eq!((one.pass(2), other.pass(2)), ("guarded 0".to_string(), "guarded 0".to_string()));
}

#[test]
fn a_star_means_the_files_that_a_process_runs() {
    if skip() || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let mut one = Workload::start(workload());
    let pid = one.process.id().to_string();
    for (binary, probe) in [("*", "usdt:*:step"), ("", "usdt::workload:step"), ("*", "usdt:workl*:workload:st*")] {
        let running = attached(&["-q", "-p", &pid, "-e", &format!("{probe} {{ @ = sum(arg0); }}")]);
        one.pass(10);
        running.signal("INT");
        assert_eq!(running.end().stdout.trim(), "@: 45", "`{binary}` in {probe}");
    }
    let line = format!("usdt:{}:workload:step\n", workload());
    assert!(listed(&["-p", &pid, "usdt:*"]).contains(&line));
    assert!(listed(&["usdt:*:workload:step"]).contains(&line), "of all processes");
    assert_eq!(listed(&[&format!("usdt:{}:step", workload())]), line);
    let verbose = listed(&["-v", &format!("usdt:{}:guarded", workload())]);
    assert!(verbose.ends_with("\n    uint64 arg0  8@%rax\n"), "{verbose}");
}

fn listed(arguments: &[&str]) -> String {
    let output = Command::new(PROFILER).arg("list").args(arguments).output().expect("it runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn files_of_a_service_with_mounts_of_its_own_have_the_path_that_leads_there() {
    if skip() || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    if !Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success()) {
        return println!("SKIPPED: no mount namespace can be made here");
    }
    let directory = Directory::new("own-mounts");
    let program = directory.path("listed");
    machine::copy(workload(), &program);
    let mut command = Command::new("unshare");
    command.args(["-m", &program]);
    let service = Workload::started(command);
    let (all, line) = (listed(&["usdt:*:workload:step"]), format!("usdt:{program}:workload:step"));
    assert!(all.lines().any(|found| found == line), "{all}");
    drop(service);
}

#[test]
fn scripts_of_bpftrace_start_without_the_functions_that_are_missing() {
    if skip() {
        return;
    }
    let directory = Directory::new("left-out");
    let text = format!("BEGIN {{ exit(); }} uprobe:{0}:gone, uprobe:{0}:workload_step {{ @ = count(); }}", workload());
    let old = machine::run(&[&directory.file("old.bt", &text)]);
    assert_eq!(old.code(), 0, "{}", old.stderr);
    assert!(old.stderr.starts_with("warning[W0903]: function `gone` in "), "{}", old.stderr);
    let new = machine::run(&[&directory.file("new.prof", &text)]);
    assert!(new.code() == 1 && new.stderr.starts_with("error[E0405]: function `gone` in "), "{}", new.stderr);
    let strict = format!("config = {{ missing_probes = \"error\" }} {text}");
    assert_eq!(machine::run(&[&directory.file("strict.bt", &strict)]).code(), 1);
    let nothing =
        machine::run(&[&directory.file("nothing.bt", "BEGIN { } uprobe:libc:gone, usdt:libc:gone { exit(); }")]);
    assert!(nothing.code() == 3 && nothing.stderr.contains("error[E0605]: none of this"), "{}", nothing.stderr);
    let threads = machine::run(&["--dry-run", "-e", "uprobe:libpthread:pthread_create { }"]);
    assert_eq!(threads.code(), 0, "{}", threads.stderr);
}
