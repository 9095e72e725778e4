//! Look-ups of the same key in one run of a program.
//!
//! In: scripts. Out: how many look-ups their programs have.

use profiler_compiler::check::Options;
use profiler_compiler::emit::Note;
use profiler_compiler::ir::Helper;
use profiler_compiler::source::Source;
use profiler_compiler::{CATALOGUE, compile};

#[path = "support/fixture.rs"]
mod fixture;

/// The number of look-ups in all programs of a script.
fn look_ups(script: &str) -> usize {
    let (source, machine) = (Source::new("t", script), fixture::Machine::new(true));
    let stages = compile::stages(&source, &CATALOGUE, &machine, &Options::default())
        .unwrap_or_else(|why| panic!("{script}: {why:?}"));
    let emitted = &stages.emitted;
    let notes = emitted.functions.iter().chain(&emitted.subprograms).flat_map(|function| &function.notes);
    notes.filter(|note| **note == Some(Note::Helper(Helper::MapLookupElem))).count()
}

#[test]
fn a_key_is_looked_up_once_and_again_after_it_was_inserted() {
    let of_process = |body: &str| format!("state s by (n: u64) {{ a: u64, b: u64 }} BEGIN {{ {body} }}");
    let cases = [
        ("@a = s[pid].a; @b = s[pid].b;", 1),
        // The second is the one after an insertion: another CPU may have been faster.
        ("s[pid].a = 1; s[pid].b = 2;", 2),
        // An insertion in a branch does not make the first look-up void after it.
        ("if (s[pid].a == 0) { s[pid].b = 2; } @b = s[pid].b;", 2),
        ("if (s[pid].a == 0) { s[pid].a = 1; } else { s[pid].b = 2; } @a = s[pid].a;", 3),
        // That of another key does: it may be the same.
        ("if (s[pid].a == 0) { s[tid].b = 2; } @b = s[pid].b;", 4),
        // A key that changes is looked up each time.
        ("$n = pid; @a = s[$n].a; @b = s[$n].b;", 2),
    ];
    for (body, expected) in cases {
        assert_eq!(look_ups(&of_process(body)), expected, "{body}");
    }
    // What was removed may be there again, at another place.
    assert_eq!(look_ups(&of_process("if (s[pid].a == 0) { s[pid].b = 2; } delete(s[1]); @b = s[pid].b;")), 4);
}
