//! End-to-end tests on the running kernel: scripts against workloads with known answers.
//!
//! In: the `.cases` files next to this one, the built `profiler` and `workload`. Out: the output of
//! `profiler`, compared with the true answers. A test that cannot run here prints `SKIPPED:
//! reason`.

mod alike;
mod built;
mod cases;
mod command_user;
mod distributions;
mod doctor;
mod doctor_script;
mod dwarf;
mod endings;
mod faults;
mod frames;
mod gpu;
mod hostile;
mod iterators;
mod java;
mod json;
mod kernel_functions;
mod limits;
mod lines;
mod loss;
mod machine;
mod merging;
mod modules;
mod moments;
mod namespaces;
mod node;
mod open_spans;
mod own_probes;
mod packets;
mod parameters;
mod probes;
mod progress;
mod prompt;
mod recipes;
mod records;
mod returns;
mod scope;
#[path = "../selection/mod.rs"]
mod selection;
mod shelf;
mod span_properties;
mod spans;
mod stack_files;
mod stacks;
mod stalled;
mod static_probes;
mod target;
mod thread_files;
mod trials;
mod turns;
mod typed_loads;
mod unwinding;
mod view_groups;
mod views;
mod visits;
mod wall;

use machine::skip;

/// Runs a file of cases. Cases that need the kernel are skipped when it is not available.
fn run(file: &str, text: &str) {
    let faults = cases::run(text);
    assert!(faults.is_empty(), "{file}: {} faults\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn counts_are_exact() {
    if !skip() {
        run("counts.cases", include_str!("counts.cases"));
    }
}

#[test]
fn values_are_true() {
    if !skip() {
        run("values.cases", include_str!("values.cases"));
    }
}

#[test]
fn words_answer_what_is_true() {
    if !skip() {
        run("words.cases", include_str!("words.cases"));
    }
}

#[test]
fn types_are_what_they_say() {
    if !skip() {
        run("types.cases", include_str!("types.cases"));
    }
}

#[test]
fn loops_run_as_written() {
    if !skip() {
        run("loops.cases", include_str!("loops.cases"));
    }
}

#[test]
fn the_core_language_means_what_it_says() {
    if !skip() {
        run("core.cases", include_str!("core.cases"));
    }
}

#[test]
fn parameters_have_the_values_that_are_given() {
    if !skip() {
        run("parameters.cases", include_str!("parameters.cases"));
    }
}

#[test]
fn mistakes_are_explained() {
    if !skip() {
        run("mistakes.cases", include_str!("mistakes.cases"));
    }
}
