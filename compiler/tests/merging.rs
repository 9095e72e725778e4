//! Which blocks share a BPF program.
//!
//! In: scripts for the test target. Out: the blocks of each program, in execution order.
//! Guarantee: blocks on the same events share a program; the order of the script is kept.

use profiler_compiler::check::Options;
use profiler_compiler::compile::stages;
use profiler_compiler::object::Object;
use profiler_compiler::source::Source;
use profiler_compiler::{CATALOGUE, ir};

#[path = "support/fixture.rs"]
mod fixture;

fn compiled(script: &str) -> (Object, ir::Program) {
    let machine = fixture::Machine::new(true);
    let made = stages(&Source::new("merging.prof", script), &CATALOGUE, &machine, &Options::default());
    let made = made.unwrap_or_else(|diagnostics| panic!("{script}: {diagnostics:?}"));
    (made.object, made.ir)
}

/// The blocks of each program, by number.
fn programs(script: &str) -> Vec<Vec<usize>> {
    let object = compiled(script).0;
    object.kernel_programs().map(|(first, _)| object.blocks_with(first).map(|(index, _)| index).collect()).collect()
}

/// A script with a block at each of these probes.
fn blocks(probes: &[&str]) -> String {
    probes.iter().fold(String::new(), |text, probe| text + &format!("{probe} {{ @ = count(); }}\n"))
}

#[test]
fn blocks_at_the_same_events_share_a_program() {
    for probe in [
        "uprobe:/bin/app:work",
        "uprobe:/bin/app:work*",
        "uretprobe:/bin/app:work",
        "usdt:/bin/app:app:done",
        "usdt:/bin/app:*",
        "kprobe:vfs_read",
        "kprobe:vfs_*",
        "kretprobe:vfs_read",
        "fentry:vfs_read",
        "fexit:vfs_read",
        "tracepoint:sched:sched_switch",
        "tracepoint:syscalls:sys_enter_*",
        "rawtracepoint:sched_switch",
        "profile:hz:99",
        "interval:s:1",
        "software:page-faults:100",
        "hardware:cycles:1000000",
    ] {
        assert_eq!(programs(&blocks(&[probe; 3])), [[0, 1, 2]], "{probe}");
    }
}

#[test]
fn a_function_with_two_names_is_one_event() {
    assert_eq!(programs(&blocks(&["uprobe:/bin/app:work", "uprobe:app:same_as_work"])), [[0, 1]]);
}

#[test]
fn other_events_have_other_programs() {
    for [one, other] in [
        ["uprobe:/bin/app:work", "uretprobe:/bin/app:work"],
        ["uprobe:/bin/app:work", "uprobe:/bin/app:main"],
        ["uprobe:/bin/app:work", "uprobe:/bin/app:work*"],
        ["uprobe:/bin/app:work / pid == 1 /", "uprobe:/bin/app:work / pid == 2 /"],
        ["kprobe:vfs_read", "kretprobe:vfs_read"],
        ["kprobe:vfs_read", "kprobe:vfs_read+4"],
        ["fentry:vfs_read", "fexit:vfs_read"],
        ["profile:hz:99", "profile:hz:100"],
        ["interval:s:1", "interval:s:2"],
        ["BEGIN", "BEGIN"],
        ["iter:task", "iter:task"],
    ] {
        assert_eq!(programs(&blocks(&[one, other])), [[0], [1]], "{one} {other}");
    }
}

#[test]
fn a_block_never_runs_before_an_earlier_one_of_the_same_event() {
    for [one, other] in [
        ["uprobe:/bin/app:work", "uprobe:/bin/app:work*"],
        ["kprobe:vfs_read", "kprobe:vfs_*"],
        ["interval:s:1", "interval:s:2"],
    ] {
        assert_eq!(programs(&blocks(&[one, one, other, other, one, one])), [[0, 1], [2, 3], [4, 5]], "{one} {other}");
    }
    // These have no event in common.
    let (one, other) = ("uprobe:/bin/app:work", "uprobe:/bin/app:main");
    assert_eq!(programs(&blocks(&[one, other, one, other])), [[0, 2], [1, 3]]);
}

#[test]
fn a_program_looks_at_the_gate_once() {
    for probe in ["uprobe:/bin/app:work", "kprobe:vfs_read", "interval:s:1", "tracepoint:syscalls:sys_enter_read"] {
        let (object, ir) = compiled(&blocks(&[probe; 3]));
        let loads = |function: &ir::Function| {
            let insts = function.blocks.iter().flat_map(|block| &block.insts);
            let is_gate = |inst: &ir::Inst| matches!(inst, ir::Inst::DataAddr { section: ir::Section::Bss, offset, .. } if *offset == object.gate_offset);
            insts.filter(|(inst, _)| is_gate(inst)).count()
        };
        let counts: Vec<usize> = ir.functions.iter().chain(&ir.subprograms).map(loads).collect();
        assert_eq!(counts, [1, 0, 0, 0], "{probe}");
    }
}
