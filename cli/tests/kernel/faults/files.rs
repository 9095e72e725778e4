//! Files that change during a run.
//!
//! In: a library or program that is replaced or deleted while it is traced. Out: counts of the
//! traced file only.

use std::fs;

use super::super::machine::{self, Directory, Running, skip, workload};
use super::{OnDemand, copy_of_libc, number, without_losses_of_others};

/// Counts by process, at entry and return, and prints one stack of each process.
fn script(file: &str, function: &str) -> String {
    format!(
        "uprobe:{file}:{function} {{ @in[pid] = count(); if (@seen[pid] == 0) {{ printf(\"stack\\n\"); print(ustack(1)); @seen[pid] = 1; }} }}
         uretprobe:{file}:{function} {{ @out[pid] = count(); @right[pid] = sum(retval == pid); }}
         END {{ clear(@seen); }}"
    )
}

fn attached(file: &str, function: &str) -> Running {
    machine::attached(&["-q", "-e", &script(file, function)])
}

/// Renames a copy over the file, as a package update does.
fn replace(file: &str) {
    let new = format!("{file}.new");
    machine::copy(file, &new);
    fs::rename(&new, file).expect("a rename");
}

/// Runs three processes: one that mapped the file before it was replaced, one started after that,
/// and one started after the file was deleted. Only the first one maps the traced file.
fn counts_of_the_traced_file(file: &str, program: &str, libraries: Option<&str>, function: &str) -> (u32, String) {
    let mut before = OnDemand::start(program, libraries);
    let running = attached(file, function);
    before.call(100);
    replace(file);
    before.call(20);
    let mut after = OnDemand::start(program, libraries);
    after.call(7);
    fs::remove_file(file).expect("the file");
    before.call(3);
    after.call(7);
    running.signal("INT");
    let ended = running.end();
    assert_eq!((ended.code(), without_losses_of_others(&ended.stderr).as_str()), (0, ""));
    assert_eq!(number(&ended.stdout, &format!("@in[{}]", after.pid())), 0, "{}", ended.stdout);
    (before.pid(), ended.stdout)
}

#[test]
fn a_library_that_is_replaced_and_deleted_is_counted_where_it_is_still_in_use() {
    if skip() {
        return;
    }
    let directory = Directory::new("library");
    let libraries = directory.path("");
    let file = copy_of_libc(libraries.trim_end_matches('/'));
    let (pid, results) = counts_of_the_traced_file(&file, workload(), Some(&libraries), "getpid");
    for map in ["@in", "@out", "@right"] {
        assert_eq!(number(&results, &format!("{map}[{pid}]")), 123, "{results}");
    }
    // The process still maps the old file, so its symbols are read from there.
    assert!(results.contains("getpid+0"), "{results}");
}

#[test]
fn a_program_that_is_replaced_and_deleted_is_counted_where_it_still_runs() {
    if skip() {
        return;
    }
    let directory = Directory::new("program");
    let file = directory.path("copy");
    machine::copy(workload(), &file);
    let (pid, results) = counts_of_the_traced_file(&file, &file, None, "workload_step");
    assert_eq!(number(&results, &format!("@in[{pid}]")), 123, "{results}");
    assert_eq!(number(&results, &format!("@out[{pid}]")), 123, "{results}");
    assert!(results.contains("workload_step+0"), "{results}");
}

/// A package update replaced the file, but the daemon was not restarted: `-p` traces the file that
/// the process runs, not the one that the path names now.
#[test]
fn what_a_process_of_p_runs_is_traced_though_its_file_was_replaced_before() {
    if skip() {
        return;
    }
    let directory = Directory::new("updated");
    let libraries = directory.path("");
    let library = copy_of_libc(libraries.trim_end_matches('/'));
    let program = directory.path("copy");
    machine::copy(workload(), &program);
    let mut target = OnDemand::start(&program, Some(&libraries));
    let pid = target.pid().to_string();
    let mut expect = |state: &str, calls: u64| {
        for (file, function) in [(library.as_str(), "getpid"), ("libc", "getpid"), (&program, "workload_step")] {
            let script = format!(
                "uprobe:{file}:{function} {{ @in = count(); }} uretprobe:{file}:{function} {{ @out = count(); }}"
            );
            let running = machine::attached(&["-q", "-p", &pid, "-e", &script]);
            target.call(calls);
            running.signal("TERM");
            let ended = running.end();
            assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""), "{state} {file}");
            let counts = (number(&ended.stdout, "@in"), number(&ended.stdout, "@out"));
            assert_eq!(counts, (calls, calls), "{state} {file}");
        }
    };
    expect("as it was", 10);
    replace(&library);
    replace(&program);
    expect("replaced", 20);
    fs::remove_file(&library).expect("the file");
    fs::remove_file(&program).expect("the file");
    expect("deleted", 30);
}
