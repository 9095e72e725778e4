//! Stacks of processes that end before they have tables of their own.
//!
//! In: programs that one after the other run for some milliseconds. Out: as soon as one of them has
//! a complete stack, all later ones have, and it is theirs.

use std::process::Command;

use super::{Directory, Stack, chain_of, skip_walks, stacks, traced};
use crate::machine::{Running, run, workload};

/// Complete stacks of a run.
const COMPLETE: usize = 40;

/// A shell that runs `workload unwind`, which is at this path, with these arguments and a number
/// again and again.
fn runs(workload: &str, arguments: &str) -> String {
    let run = format!("{workload} unwind {arguments} $i");
    format!("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); {run}; done")
}

/// Takes stacks of the children of a process under the number `id`, until enough of them have more
/// than `few` frames.
fn script(probe: &str, parent: &str, (id, few): (&str, usize)) -> String {
    format!(
        "{probe} / comm == \"workload\" && curtask->real_parent->tgid == {parent} / {{
            if ({id} > 0) {{ @call[{id}, dw_ustack] = count(); @complete += len(dw_ustack) > {few}; }}
            if (@complete >= {COMPLETE}) {{ exit(); }} }}"
    )
}

/// Fails unless the stacks with this function are complete and true from the first complete one on,
/// and those before say why they are not. The last program may be killed before it prints its
/// functions, so not all have a truth.
fn assert_complete<'t>(found: &[Stack], function: &str, truth: impl Fn(u64) -> Option<&'t Vec<String>>) {
    let mut found: Vec<&Stack> = found.iter().filter(|stack| stack.names().any(|name| name == function)).collect();
    found.sort_by_key(|stack| stack.id);
    let first = found.iter().position(|stack| stack.reaches("_start"));
    let (early, later) = found.split_at(first.unwrap_or(found.len()));
    assert!(later.len() >= COMPLETE / 4, "after {}: {later:#?}", early.len());
    assert!(early.iter().all(|stack| stack.end.is_some()), "{early:#?}");
    for stack in later {
        let truth = truth(stack.id);
        let is_true = truth.is_none_or(|truth| chain_of(stack) == *truth);
        assert!(is_true && stack.reaches("_start"), "{truth:?} {stack:#?}");
    }
}

#[test]
fn later_runs_of_a_program_have_complete_stacks() {
    if skip_walks() {
        return;
    }
    let script = script("tracepoint:syscalls:sys_enter_close", "cpid", ("(int64)args.fd - 1000000", 8));
    let traced = traced(&script, &format!("sh -c '{}'", runs(workload(), "chains 5 1 0")));
    assert_complete(&traced.stacks, "workload_leaf", |id| traced.truth.get(&id));
}

/// A mounted directory.
struct Mounted(String);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Containers have such file systems: what the kernel maps is another file than the one that was
/// opened.
#[test]
fn runs_of_a_program_on_a_file_system_over_others_are_complete() {
    if skip_walks() {
        return;
    }
    let directory = Directory::new("unwinding-overlay");
    let [lower, empty, merged] = ["lower", "empty", "merged"].map(|name| directory.path(name));
    for path in [&lower, &empty, &merged] {
        std::fs::create_dir(path).expect("a directory of ours");
    }
    std::fs::copy(workload(), format!("{lower}/workload")).expect("it is readable");
    let layers = format!("lowerdir={lower}:{empty}");
    let mount = Command::new("mount").args(["-t", "overlay", "-o", &layers, "overlay", &merged]).output();
    let mount = mount.expect("it runs");
    if !mount.status.success() {
        println!("SKIPPED: no overlay can be mounted: {}", String::from_utf8_lossy(&mount.stderr).trim());
        return;
    }
    let _mounted = Mounted(merged.clone());
    let script = script("tracepoint:syscalls:sys_enter_close", "cpid", ("(int64)args.fd - 1000000", 8));
    let traced = traced(&script, &format!("sh -c '{}'", runs(&format!("{merged}/workload"), "chains 5 1 0")));
    assert_complete(&traced.stacks, "workload_leaf", |id| traced.truth.get(&id));
}

/// Files are found with interrupts switched off too. A third of the samples or more is in the
/// function.
#[test]
fn samples_of_later_runs_are_complete() {
    if skip_walks() {
        return;
    }
    let spin = ["unwind", "spin", "5", "5", "0", "1"];
    let printed = Command::new(workload()).args(spin).output().expect("it runs").stdout;
    let printed = String::from_utf8(printed).expect("text");
    let names = printed.trim_end().split(' ').skip(2).map(str::to_owned).collect();
    let shell = Running::start(Command::new("sh").args(["-c", &runs(workload(), "spin 5 5 0")]));
    let script = script("profile:hz:997", &shell.pid().to_string(), ("nsecs", 30));
    let ended = run(&["-q", "-e", &script]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert_complete(&stacks(&ended.stdout), "workload_spin", |_| Some(&names));
}
