//! Long programs load: the verifier can merge the states after their branches.
//!
//! In: scripts with many independent conditions; in each script the branches affect the code after
//! them in one way. Out: the verifier's verdict. Guarantee: no program is too large, with fifty or
//! with two hundred branches; stacks add little to any.

use profiler_runtime::load::{LoadOptions, load};

use crate::can_load;
use crate::executors::forms;
use crate::loads::{Verdict, judge};

/// The condition of a branch: a bit of an unknown number.
fn bit(branch: u32) -> String {
    format!("($x & {})", 1u64 << (branch % 62))
}

/// A kind of branch: its name, the code of the nth branch, and the code that uses the results.
type Kind = (&'static str, fn(u32) -> String, &'static str);

const KINDS: [Kind; 12] = [
    ("constants", |n| format!("if {} {{ $y += 1; }} else {{ $y += 2; }}", bit(n)), "@ = hist($y);"),
    ("sums", |n| format!("if {} {{ $y += {}; }}", bit(n), 1u64 << (n % 50)), "@ = hist($y);"),
    ("products", |n| format!("if {} {{ $y += 1; }} else {{ $y = $y * 3; }}", bit(n)), "@[$y] = count();"),
    ("shifts", |n| format!("if {} {{ $y = $y << 1 | 1; }} else {{ $y = $y << 1; }}", bit(n)), "@ = hist($y);"),
    ("masks", |n| format!("if {} {{ $y |= {}; }}", bit(n), 1u64 << (n % 50)), "@ = hist($y);"),
    ("selections", |n| format!("$y += {} ? {} : 5;", bit(n), n * 7), "@ = lhist($y, 0, 1000, 10);"),
    ("comparisons", |n| format!("if {} {{ $y += {n}; }} if ($y > {}) {{ @c = count(); }}", bit(n), n * 7), ""),
    ("tuples", |n| format!("if {} {{ $t = ($t.0 + {}, $t.1); }}", bit(n), 1u64 << (n % 50)), "@ = hist($t.0);"),
    (
        "strings",
        |n| format!("if {} {{ $s = \"a{n}\"; }} if ($s == \"a1\") {{ @c = count(); }}", bit(n)),
        "@[$s] = count();",
    ),
    ("counts", |n| format!("if {} {{ @a = count(); }} else {{ @b[{n}] = count(); }}", bit(n)), ""),
    ("stacks", |n| format!("if {} {{ $y += {n}; @s[kstack, ustack] = count(); }}", bit(n)), "@ = hist($y);"),
    ("tests", |n| format!("if ($x & {}) {{ @a = count(); }}", 1u64 << (n / 2)), ""),
];

fn script(kind: &Kind, branches: u32) -> String {
    let (_, branch, end) = kind;
    let body: Vec<String> = (0..branches).map(branch).collect();
    let start = "$x = nsecs; $y = (uint64)0; $s = \"\"; $t = ((uint64)1, (uint64)2);";
    format!("rawtracepoint:sys_enter {{\n{start}\n{}\n{end}\n}}\n", body.join("\n"))
}

fn loads(kind: &Kind, branches: u32) {
    let text = script(kind, branches);
    match judge(&text) {
        Verdict::Loads => {}
        Verdict::TooLarge => panic!("{branches} {}: too large for the verifier", kind.0),
        Verdict::Refused(words) => panic!("{branches} {}: {words}", kind.0),
        Verdict::Declined(diagnostics) => panic!("{branches} {}: {diagnostics:?}", kind.0),
    }
}

#[test]
fn fifty_independent_branches_load() {
    if !can_load() {
        return;
    }
    for kind in &KINDS {
        loads(kind, 50);
    }
}

#[test]
fn two_hundred_independent_branches_load() {
    if !can_load() {
        return;
    }
    for kind in &KINDS[..2] {
        loads(kind, 200);
    }
}

/// Number of instructions that the verifier processes for a program that takes `count` stacks in
/// sequence.
fn work_for_stacks(count: usize) -> u32 {
    let text = format!("rawtracepoint:sys_enter {{ {} }}", "@s[kstack, ustack] = count(); ".repeat(count));
    let forms = forms(&text, false).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"));
    let loaded = load(&forms.object.elf, LoadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    loaded.verified_insns(&forms.object.programs[0].runs_in).expect("the kernel says")
}

/// The verifier processes the loops over a stack's frames, thousands of instructions, once and not
/// for each stack.
#[test]
fn a_stack_more_costs_the_verifier_some_hundred_instructions() {
    if !can_load() {
        return;
    }
    let (one, nine) = (work_for_stacks(1), work_for_stacks(9));
    println!("instructions: one pair of stacks {one}, nine pairs {nine}");
    assert!((nine - one) / 8 < 1000, "{one} {nine}");
}
