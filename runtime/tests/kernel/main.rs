//! The running product on the running kernel: scripts against workloads whose answers are known.
//!
//! In: the `.cases` files beside this one, the built `profiler` and `workload`. Out: what `profiler` prints, compared with
//! what is true. A test that cannot run here says `SKIPPED: reason`.

mod built;
mod cases;
mod distributions;
mod doctor;
mod doctor_script;
mod endings;
mod faults;
mod iterators;
mod kernel_functions;
mod limits;
mod loss;
mod machine;
mod modules;
mod namespaces;
mod own_probes;
mod parameters;
mod probes;
mod progress;
mod prompt;
mod recipes;
mod records;
mod span_properties;
mod spans;
mod static_probes;
mod trials;
mod view_groups;
mod views;

use machine::skip;

/// Runs a file of cases; those that need the kernel are skipped where it is out of reach.
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
