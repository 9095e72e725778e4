//! Files that no path leads to while a process has them mapped.
//!
//! In: tests/unwind/mapped.c and two libraries. Out: complete stacks with the names of the mapped
//! files.

use std::fs;
use std::process::Command;

use super::{Directory, compiled, skip_walks, stacks, succeeds, until_warm, warm_ms};
use crate::machine::{Running, run};

/// The compiled program, and libraries whose only functions, `odd_one` and `even_one`, have the
/// same address and frames of other sizes.
fn files(directory: &Directory) -> Option<[String; 3]> {
    let library = |name: &str, size: u32| {
        let (name, size) = (format!("-DNAME={name}"), format!("-DSIZE={size}"));
        compiled(directory, "cc", &["-shared", "-fPIC", &name, &size], "library.c", &size[2..])
    };
    Some([compiled(directory, "cc", &[], "mapped.c", "mapped")?, library("odd_one", 64)?, library("even_one", 3000)?])
}

/// What a program does before its stacks are printed.
enum Then {
    Stays,
    /// It is killed. Some kernels tell of an end while the process still has its memory.
    Ends,
}

/// Traces a program.
fn assert_named(program: &mut Command, then: &Then, what: &str) {
    let program = Running::start(program);
    let (pid, probe) = (program.pid(), "tracepoint:syscalls:sys_enter_close");
    let last = match then {
        Then::Stays => "exit();",
        Then::Ends => r#"signal("KILL");"#,
    };
    let script = until_warm(probe, &format!("pid == {pid} && args.fd - 1000000"))
        + &format!(
            "{probe} / pid == {pid} && args.fd > 1000000 / {{
                @call[args.fd - 1000000, dw_ustack] = count();
                if (args.fd == 1000002) {{ {last} }} }}
            tracepoint:sched:sched_process_exit / pid == {pid} && tid == {pid} / {{ @ended = 1; }}
            interval:ms:200 / @ended == 1 / {{ clear(@ended); exit(); }}"
        );
    let ended = run(&["-q", "--unsafe", "-e", &script]);
    assert_eq!(ended.code(), 0, "{what}: {}", ended.stderr);
    let found = stacks(&ended.stdout);
    assert!(found.iter().map(|stack| stack.id).eq([1, 2]), "{what}: {found:?} {}", ended.stderr);
    for stack in found {
        let is_named = stack.names().take(5).eq(["syscall", "leaf", "odd_one", "call", "main"]);
        assert!(is_named && stack.reaches("_start"), "{what}: {stack:#?}\n{}", ended.stderr);
    }
}

/// The limit of the first phase, which begins before the tracer.
fn limit_ms() -> String {
    (6 * warm_ms()).to_string()
}

#[test]
fn frames_in_a_replaced_library_have_the_names_of_the_mapped_file() {
    if skip_walks() {
        return;
    }
    for when in ["before", "after"] {
        let directory = Directory::new("unwinding-replaced");
        let Some([program, odd, even]) = files(&directory) else { return };
        assert_named(Command::new(&program).args([when, &odd, &even, &limit_ms()]), &Then::Stays, when);
        assert!(fs::metadata(&even).is_err(), "it was renamed");
    }
}

#[test]
fn frames_in_a_replaced_library_have_names_when_the_process_has_ended() {
    if skip_walks() {
        return;
    }
    let directory = Directory::new("unwinding-ended");
    let Some([program, odd, even]) = files(&directory) else { return };
    assert_named(Command::new(&program).args(["after", &odd, &even, &limit_ms()]), &Then::Ends, "after its end");
    assert!(fs::metadata(&even).is_err(), "it was renamed");
}

#[test]
fn a_program_in_another_mount_namespace_has_names_and_complete_stacks() {
    if skip_walks() {
        return;
    }
    if !succeeds("unshare", &["-m", "true"]) {
        return println!("SKIPPED: no mount namespace can be made here");
    }
    let directory = Directory::new("unwinding-elsewhere");
    let Some([program, odd, _]) = files(&directory) else { return };
    let mounted = directory.path("mounted");
    fs::create_dir(&mounted).expect("a directory");
    let hidden = format!(
        "mount -t tmpfs none {mounted} && cp {program} {mounted}/program && cp {odd} {mounted}/library &&
        exec {mounted}/program before {mounted}/library {mounted}/library {}",
        limit_ms()
    );
    for then in [Then::Stays, Then::Ends] {
        assert_named(Command::new("unshare").args(["-m", "sh", "-c", &hidden]), &then, "elsewhere");
    }
    assert_eq!(fs::read_dir(&mounted).expect("a directory").count(), 0, "only the process sees what is mounted");
}
