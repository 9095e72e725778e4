//! Spans and views of modules, from the side of a script that uses the module.
//!
//! In: a module, a script that uses it, a workload with a known number of calls. Out: counts and
//! tables.

use super::machine::{Directory, run, skip, workload};

const MODULE: &str = "// Calls of getppid.
pub span call by tid {
  start tracepoint:syscalls:sys_enter_getppid / pid == cpid / { who = pid; }
  end   tracepoint:syscalls:sys_exit_getppid
}
span quick by tid { start call:start end call:end }
quick:end { @quick[comm] = count(); }
call:end { @all[call.who] = count(); }
pub view \"calls\" { of @all  show count }
view \"its own\" { of @quick  show count }
";

#[test]
fn handlers_of_a_modules_span_run_for_each_of_its_events_and_its_public_views_are_shown() {
    if skip() {
        return;
    }
    let directory = Directory::new("module-spans");
    directory.file("calls.prof", MODULE);
    let script = directory.file(
        "script.prof",
        "use calls as seen
        span outer by tid { start seen.call:start end seen.call:end }
        seen.call:start { @starts = count(); }
        seen.call:end / seen.call.who == cpid / { @ends = count(); @open = inflight(seen.call); }
        outer:end { @outer = count(); }",
    );
    let command = format!("{} getppid 500", workload());
    let ended = run(&["-q", "-c", &command, &script, "--strict"]);
    let mut lines: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with('@')).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["@ends: 500", "@open: 0", "@outer: 500", "@starts: 500"], "{}", ended.stderr);
    let shown = |words: &[&str]| {
        let lines: Vec<&str> = ended.stdout.lines().map(str::trim).collect();
        lines.windows(words.len()).any(|window| window == words)
    };
    assert!(shown(&["calls", "count", "500"]) && !shown(&["its own"]), "{}", ended.stdout);
    let alone = run(&["-q", "-c", &command, &directory.path("calls.prof")]);
    assert!(alone.stdout.contains("calls\n") && alone.stdout.contains("its own\n"), "{}", alone.stdout);
}
