//! Reads of kernel memory through BTF-typed pointers.
//!
//! In: scripts. Out: how many reads are direct loads, and how many call the helper.

use profiler_compiler::check::Options;
use profiler_compiler::emit::Note;
use profiler_compiler::ir::Helper;
use profiler_compiler::source::Source;
use profiler_compiler::{CATALOGUE, compile};

#[path = "support/fixture.rs"]
mod fixture;

/// The number of direct loads and helper calls in all programs of a script.
fn reads(script: &str, report_failures: bool) -> (usize, usize) {
    let (source, options) = (Source::new("t", script), Options { report_failures, ..Options::default() });
    let machine = fixture::Machine::new(true);
    let stages =
        compile::stages(&source, &CATALOGUE, &machine, &options).unwrap_or_else(|why| panic!("{script}: {why:?}"));
    let emitted = &stages.emitted;
    let notes = || emitted.functions.iter().chain(&emitted.subprograms).flat_map(|function| &function.notes);
    let count = |wanted: Note| notes().filter(|note| **note == Some(wanted)).count();
    (count(Note::Peek), count(Note::Helper(Helper::ProbeReadKernel)))
}

#[test]
fn members_are_loaded_where_the_verifier_knows_the_pointer() {
    let cases = [
        ("BEGIN { @ = curtask->pid; }", (1, 0)),
        ("BEGIN { @ = curtask.pid + curtask.idle; }", (2, 0)),
        // The two are the counts of the perf event itself.
        ("profile:hz:9 { @ = 1; }", (0, 2)),
        ("profile:hz:9 { @ = curtask->pid; }", (1, 2)),
        ("iter:task { @ = ctx.task.pid; }", (1, 0)),
        ("fentry:vfs_read { @ = args.file.pid; }", (1, 0)),
        ("fexit:vfs_read { @ = args.file.pid + args.file.idle; }", (2, 0)),
        // A value loses its type when it passes through a variable, a cast or a map, and so does
        // memory outside the object.
        ("BEGIN { $t = curtask; @ = $t->pid; }", (0, 1)),
        ("BEGIN { @ = ((struct parcel *)curtask)->values[0]; }", (0, 1)),
        ("BEGIN { @t = curtask; @ = @t->pid; }", (0, 1)),
        ("rawtracepoint:sched_switch { @ = args.prev->pid; }", (0, 1)),
        ("fentry:vfs_read { for ($i : 0..3) { @ = args.file.pid; } }", (0, 2)),
        ("struct task_struct { int pid; }; BEGIN { @ = curtask->pid; }", (0, 1)),
        // A stored pointer is a number.
        ("BEGIN { @ = &curtask->pid; }", (0, 0)),
    ];
    for (script, expected) in cases {
        assert_eq!(reads(script, false), expected, "{script}");
    }
    // The helper reports why a read failed.
    assert_eq!(reads("BEGIN { @ = curtask->pid; }", true), (0, 1));
}
