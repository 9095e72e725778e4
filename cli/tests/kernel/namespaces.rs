//! Processes in other namespaces, or with another root.
//!
//! In: `unshare` and `chroot`. Out: the pids that scripts report in a namespace, and the library
//! that is probed in a process.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::machine::{Directory, Ended, PROFILER, Running, copy, run, skip, wait_for, workload};

/// Runs `profiler` as the first process of a new pid namespace; `None` if namespaces cannot be
/// created.
fn run_in_namespace(script: &str, options: &[&str]) -> Option<Ended> {
    let namespace = ["--pid", "--fork", "--mount-proc"];
    let possible = Command::new("unshare").args(namespace).arg("true").status().is_ok_and(|status| status.success());
    if !possible {
        println!("SKIPPED: no pid namespace can be made here");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(namespace).args([PROFILER, "run", "-q", "-e", script]).args(options);
    Some(Running::start(&mut command).end())
}

#[test]
fn a_process_has_the_number_of_the_namespace() {
    if skip() {
        return;
    }
    let script = "BEGIN { print((\"begin\", pid, tid, pid(init) == pid)); }
        tracepoint:syscalls:sys_enter_exit_group /pid == cpid/ { print((\"child\", pid, cpid, pid(init) == cpid)); }";
    let Some(ended) = run_in_namespace(script, &["-c", "true"]) else { return };
    let lines: Vec<&str> = ended.stdout.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, ["(begin, 1, 1, false)", "(child, 2, 2, false)"], "{}", ended.stderr);
}

#[test]
fn processes_elsewhere_have_the_number_0() {
    if skip() {
        return;
    }
    let script = "tracepoint:syscalls:sys_enter_getppid /comm == \"workload\"/ {
        @[pid] = count(); @calls++; if (@calls >= 1000) { exit(); } }";
    let _outside = Running::start(Command::new(workload()).args(["getppid", "1000000000000"]));
    let Some(ended) = run_in_namespace(script, &[]) else { return };
    let keys: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with("@[")).collect();
    assert!(!keys.is_empty() && keys.iter().all(|line| line.starts_with("@[0]: ")), "{keys:?}");
}

/// A directory with the workload and its libraries, as the root of a process.
fn root() -> Directory {
    let root = Directory::new("root");
    copy(workload(), &root.path("workload"));
    let listed = Command::new("ldd").arg(workload()).output().expect("glibc's own tool");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.path(library.trim_start_matches('/'));
        fs::create_dir_all(Path::new(&to).parent().expect("a directory")).expect("directories");
        copy(library, &to);
    }
    root
}

#[test]
fn a_library_is_that_of_the_root_of_the_process() {
    if skip() {
        return;
    }
    let root = root();
    let at = root.path("");
    for tool in [&["chroot"][..], &["unshare", "--mount", "chroot"]] {
        let changed = [tool, &[at.as_str()]].concat();
        let arguments = ["/workload", "getppid", "1000000000000"];
        let probed = Running::start(Command::new(changed[0]).args(&changed[1..]).args(arguments));
        let pid = probed.pid();
        let maps = || fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        // The tools have a C library of their own, until they execute the next one.
        wait_for("its libc", || ["/workload", "libc.so.6"].iter().all(|name| maps().contains(name)).then_some(()));
        let library = maps().lines().find_map(|line| Some(line[line.find("/lib")?..].to_owned())).expect("a path");
        let path = library.rsplit(at.as_str()).next().expect("one part").to_owned();
        let directory = path.rsplit_once('/').expect("a directory").0;
        for name in ["libc".to_owned(), format!("/{}/libc.so.6", directory.trim_start_matches('/'))] {
            let script = format!(
                "uprobe:{name}:syscall {{ @calls++; if (@calls > 100) {{ exit(); }} }} interval:s:20 {{ exit(); }}"
            );
            let ended = run(&["-q", "-e", &script, "-p", &pid.to_string()]);
            assert!(ended.stdout.contains("@calls: 101"), "{changed:?} {name}: {}{}", ended.stdout, ended.stderr);
        }
    }
}
