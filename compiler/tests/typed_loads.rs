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

/// A kernel with `bpf_rdonly_cast`, and one without.
const KERNELS: [(u32, u32); 2] = [(6, 2), (6, 1)];

/// The number of direct loads and helper calls in all programs of a script.
fn reads(script: &str, kernel: (u32, u32), report_failures: bool) -> (usize, usize) {
    let (source, options) = (Source::new("t", script), Options { report_failures, ..Options::default() });
    let mut machine = fixture::Machine::new(true);
    machine.kernel = kernel;
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
        // An argument that is a pointer becomes a number without a helper.
        ("iter:task { @ = ctx.task; }", (0, 0)),
        ("fentry:vfs_read { @ = args.file; }", (0, 0)),
        ("fentry:vfs_read { @ = args.file.pid; }", (1, 0)),
        ("fexit:vfs_read { @ = args.file.pid + args.file.idle; }", (2, 0)),
        // The verifier does not know the types of the script.
        ("struct task_struct { int pid; }; BEGIN { @ = curtask->pid; }", (0, 1)),
        // A stored pointer is a number.
        ("BEGIN { @ = &curtask->pid; }", (0, 0)),
    ];
    for (script, expected) in cases {
        for kernel in KERNELS {
            assert_eq!(reads(script, kernel, false), expected, "{script} on {kernel:?}");
            // The helper reports why a read failed.
            let (peeks, calls) = reads(script, kernel, true);
            assert_eq!((peeks, calls >= expected.1 + expected.0.min(1)), (0, true), "{script} on {kernel:?}");
        }
    }
}

/// A value loses its type when it passes through a variable, a cast or a map, and arguments of raw
/// tracepoints have none.
#[test]
fn numbers_are_given_the_types_of_the_script() {
    let cases = [
        ("BEGIN { $t = curtask; @ = $t->pid; }", (1, 1)),
        ("BEGIN { @t = curtask; @ = @t->pid; }", (1, 1)),
        ("BEGIN { @ = ((struct parcel *)curtask)->task->pid; }", (2, 2)),
        ("BEGIN { $p = (struct parcel *)curtask; @ = $p->task; }", (1, 1)),
        ("BEGIN { $p = (struct parcel *)curtask; @ = $p->text; }", (1, 1)),
        ("rawtracepoint:sched_switch { @ = args.prev->pid; }", (1, 1)),
        ("BEGIN { @ = ((struct parcel *)curtask)->values[0]; }", (1, 1)),
        // Pointers in an array.
        ("BEGIN { $p = (struct parcel **)curtask; @ = $p[1]->task->pid; }", (3, 3)),
        ("fentry:vfs_read { for ($i : 0..3) { @ = args.file.pid; } }", (1, 1)),
    ];
    for (script, (loads, calls)) in cases {
        assert_eq!(reads(script, KERNELS[0], false), (loads, 0), "{script}");
        assert_eq!(reads(script, KERNELS[1], false), (0, calls), "{script}");
        assert_eq!(reads(script, KERNELS[0], true), (0, calls), "{script}");
    }
}
