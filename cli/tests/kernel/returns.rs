//! Returns of user functions that never come: beyond the kernel's limit, and of functions that are
//! left by a jump.
//!
//! In: recursive workloads. Out: each entry is matched, or counted with the reason why it was not.

use super::machine::{run, skip, workload};
use super::spans::{adds_up, ledger};

#[test]
fn returns_that_the_kernel_leaves_out_are_counted_and_make_strict_fail() {
    if skip() {
        return;
    }
    let path = workload();
    let script = format!("uretprobe:{path}:workload_nest {{ @ = count(); }}");
    // The kernel follows 64 returns of a thread: 5 × 64 of 5 × 100.
    let ended = run(&["-q", "--strict", "-e", &script, "-c", &format!("{path} nest 100 5")]);
    assert_eq!(ended.code(), 4, "{}", ended.stderr);
    assert_eq!(ended.lines("@: 320"), 1, "{}", ended.stdout);
    let line = format!(
        "returns of uretprobe:{path}:workload_nest: nested deeper than 64, which the kernel does not follow: 180\n"
    );
    assert!(ended.stderr.contains(&line), "{}", ended.stderr);
    // At the limit nothing is missing.
    let ended = run(&["-q", "--strict", "-e", &script, "-c", &format!("{path} nest 64 5")]);
    assert_eq!((ended.code(), ended.lines("@: 320")), (0, 1), "{}{}", ended.stdout, ended.stderr);
}

/// The span of a recursive function.
fn nested(function: &str) -> String {
    let path = workload();
    format!(
        "span nested by tid {{ start uprobe:{path}:{function} / pid == cpid / {{ depth = arg0; }}
           end uretprobe:{path}:{function} / pid == cpid / restart nest }}
         nested:end {{ @ends = count(); @depths = sum(nested.depth); }} END {{ print((\"open\", inflight(nested))); }}"
    )
}

#[test]
fn functions_deeper_than_the_kernel_follows_keep_in_step() {
    if skip() {
        return;
    }
    let command = format!("{} nest 100 5", workload());
    let ended = run(&["-q", "-f", "json", "--strict", "-e", &nested("workload_nest"), "-c", &command]);
    assert_eq!(ended.code(), 4, "{}", ended.stderr);
    let of = |name| ledger(&ended, "nested", name);
    assert_eq!((of("started"), of("matched"), of("dropped_deep")), (320, 320, 180), "{}", ended.stdout);
    assert_eq!((of("open"), of("unmatched_ends"), of("abandoned")), (0, 0, 0), "{}", ended.stdout);
    // Each end matches its own start: 100 down to 37.
    let depths: u64 = (37..=100).sum::<u64>() * 5;
    assert!(ended.stdout.contains(&format!("{{\"@depths\": {depths}}}")), "{}", ended.stdout);
    assert!(ended.stdout.contains("[\"open\",0]"), "{}", ended.stdout);
    adds_up(&ended, "nested");
}

#[test]
fn functions_that_are_left_by_a_jump_are_counted_and_later_ones_are_matched() {
    if skip() || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    for depth in [3u64, 40] {
        let command = format!("{} leaps {depth} 50", workload());
        let ended = run(&["-q", "-f", "json", "-e", &nested("workload_dive"), "-c", &command]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let of = |name| ledger(&ended, "nested", name);
        let calls = depth * 50;
        assert_eq!((of("started"), of("matched"), of("abandoned")), (3 * calls, calls, 2 * calls), "{}", ended.stdout);
        assert_eq!((of("open"), of("unmatched_ends"), of("dropped_deep")), (0, 0, 0), "{}", ended.stdout);
        let depths: u64 = (1..=depth).sum::<u64>() * 50;
        assert!(ended.stdout.contains(&format!("{{\"@depths\": {depths}}}")), "{}", ended.stdout);
        adds_up(&ended, "nested");
    }
}

#[test]
fn what_threads_leave_when_they_end_inside_does_not_touch_others() {
    if skip() || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let command = format!("{} stranded 20 30", workload());
    let ended = run(&["-q", "-f", "json", "-e", &nested("workload_dive"), "-c", &command]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let of = |name| ledger(&ended, "nested", name);
    assert_eq!((of("started"), of("matched"), of("unmatched_ends")), (620, 20, 0), "{}", ended.stdout);
    assert_eq!(of("open") + of("abandoned"), 600, "{}", ended.stdout);
    adds_up(&ended, "nested");
}

#[test]
fn a_function_that_jumps_to_another_is_not_taken_for_one_that_was_left() {
    if skip() || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let path = workload();
    let script = format!(
        "span nested by tid {{ start uprobe:{path}:workload_relay, uprobe:{path}:workload_step / pid == cpid / {{ who = func; }}
           end uretprobe:{path}:workload_relay, uretprobe:{path}:workload_step / pid == cpid / restart nest }}
         nested:end {{ @ends[nested.who] = count(); }}"
    );
    let ended = run(&["-q", "-f", "json", "-e", &script, "-c", &format!("{path} relays 100")]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let of = |name| ledger(&ended, "nested", name);
    assert_eq!((of("started"), of("matched"), of("abandoned"), of("open")), (200, 200, 0, 0), "{}", ended.stdout);
    for function in ["workload_relay", "workload_step"] {
        assert!(ended.stdout.contains(&format!("{{\"key\": [\"{function}\"], \"value\": 100}}")), "{}", ended.stdout);
    }
}

#[test]
fn stages_of_calls_that_were_left_are_counted_out() {
    if skip() || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let path = workload();
    let script = format!(
        "span nested by (pid, tid) {{ start uprobe:{path}:workload_dive / pid == cpid /
           mark deep uprobe:{path}:workload_dive / pid == cpid && arg0 == 1 /
           end uretprobe:{path}:workload_dive / pid == cpid / restart nest }}
         nested:end {{ @laps = sum(nested.lap > 0 ? 1 : 0); }}
         END {{ print((\"stages\", inflight(nested), inflight(nested, start), inflight(nested, deep))); }}"
    );
    let ended = run(&["-q", "-f", "json", "-e", &script, "-c", &format!("{path} leaps 10 20")]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("[\"stages\",0,0,0]"), "{}", ended.stdout);
    let of = |name| ledger(&ended, "nested", name);
    assert_eq!((of("started"), of("matched"), of("abandoned")), (600, 200, 400), "{}", ended.stdout);
    adds_up(&ended, "nested");
}

#[test]
fn starts_that_are_no_calls_nest_as_deep_and_are_counted_beyond() {
    if skip() {
        return;
    }
    let script = "span nested by tid { start tracepoint:syscalls:sys_enter_getppid / pid == cpid /
        end tracepoint:syscalls:sys_enter_getpgid / pid == cpid / restart nest }";
    let ended = run(&["-q", "-f", "json", "-e", script, "-c", &format!("{} getppid 100", workload())]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let of = |name| ledger(&ended, "nested", name);
    assert_eq!((of("started"), of("dropped_deep"), of("open")), (64, 36, 64), "{}", ended.stdout);
}
