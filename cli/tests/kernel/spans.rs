//! Spans against workloads that count their own begins, marks and ends.
//!
//! In: workloads, processes that are killed, keys that CPUs race for. Out: the ledger, which always
//! adds up.
//! Guarantee: numbers are compared with those that the workload counted itself, or with each other.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use super::machine::{Directory, Ended, PROFILER, Running, attached, profiler, run, skip, wait_for, workload};

/// A number of a span's ledger, from JSON.
pub fn ledger(ended: &Ended, span: &str, name: &str) -> u64 {
    let head = format!("{{\"type\": \"span\", \"data\": {{\"name\": \"{span}\"");
    let lines: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with(&head)).collect();
    let [line] = lines.as_slice() else { panic!("one line of {span}, in:\n{}\n{}", ended.stdout, ended.stderr) };
    assert!(!line.contains("open_in_map"), "counters and map agree: {line}");
    number(line, &format!("\"{name}\": ")).unwrap_or_else(|| panic!("{name} in {line}"))
}

/// The number after a text.
pub fn number(text: &str, before: &str) -> Option<u64> {
    let rest = text.split_once(before)?.1;
    rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
}

/// Asserts that the ledgers of a span add up.
pub fn adds_up(ended: &Ended, span: &str) {
    let of = |name| ledger(ended, span, name);
    let some = |name| if ended.stdout.contains(&format!("\"{name}\": ")) { of(name) } else { 0 };
    let closed = some("evicted") + some("abandoned") + some("ended");
    assert_eq!(of("started"), of("matched") + of("replaced") + of("expired") + closed + of("open"), "{}", ended.stdout);
}

fn traced(script: &str, command: &str) -> Ended {
    let ended = run(&["-q", "-f", "json", "-e", script, "-c", command]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    ended
}

/// The span over the functions of `workload spans`. Keys have no process, so that what is open
/// stays open when the process has ended, however long the run takes.
fn rounds() -> String {
    let path = workload();
    format!(
        "span round by (key: arg0) {{
           start    uprobe:{path}:workload_begin / pid == cpid /
           mark one uprobe:{path}:workload_mark / pid == cpid && arg1 == 1 /
           mark two uprobe:{path}:workload_mark / pid == cpid && arg1 == 2 / {{ twos = round.twos + 1 }}
           end      uprobe:{path}:workload_finish / pid == cpid /
           limit 100000
         }}\n"
    )
}

#[test]
fn spans_are_what_the_workload_says() {
    if skip() {
        return;
    }
    let script = rounds()
        + "round:start { @starts = count(); } round:one { @ones = count(); } round:two { @twos = count(); }
           round:replace { @replaced = count(); @old[round.twos] = count(); }
           round:end { @ends = count(); @by_twos[round.twos] = count(); }
           END { print((\"open\", inflight(round), inflight(round, start), inflight(round, one), inflight(round, two))); }";
    let ended = traced(&script, &format!("{} spans 2 4000", workload()));
    for (of_ledger, of_workload) in [
        ("matched", "matched"),
        ("replaced", "replaced"),
        ("open", "open"),
        ("unmatched_ends", "unmatched_ends"),
        ("unmatched_marks", "unmatched_marks"),
        ("started", "begins"),
    ] {
        let truth = number(&ended.stdout, &format!("{of_workload} "));
        assert_eq!(Some(ledger(&ended, "round", of_ledger)), truth, "{of_ledger}: {}", ended.stdout);
    }
    adds_up(&ended, "round");
    for line in [
        "{\"@starts\": 8000}",
        "{\"@ones\": 3000}",
        "{\"@twos\": 3000}",
        "{\"@replaced\": 1000}",
        "{\"@old\": [{\"key\": [0], \"value\": 1000}]}",
        "{\"@ends\": 6000}",
        "{\"@by_twos\": [",
        "{\"key\": [1], \"value\": 1000}",
        "{\"key\": [2], \"value\": 1000}",
        "{\"key\": [0], \"value\": 4000}",
        "[\"open\",1000,0,1000,0]",
    ] {
        assert!(ended.stdout.contains(line), "{line} in {}", ended.stdout);
    }
}

#[test]
fn two_cpus_that_race_for_keys_lose_no_event() {
    if skip() {
        return;
    }
    // Programs on system calls race without being preempted; programs on functions can be
    // preempted.
    let calls = "span call by (one: 1) {
        start tracepoint:syscalls:sys_enter_getppid /pid == cpid/ end tracepoint:syscalls:sys_exit_getppid /pid == cpid/ }
        call:start { @starts = count(); } call:end { @ends = count(); } call:replace { @replaced = count(); }";
    let ended = traced(calls, &format!("{} getppid 100000 4", workload()));
    let of = |name| ledger(&ended, "call", name);
    assert_eq!(of("started") + of("dropped_busy") + of("dropped"), 400_000, "{}", ended.stdout);
    assert_eq!(of("matched") + of("unmatched_ends"), 400_000, "{}", ended.stdout);
    for (map, name) in [("starts", "started"), ("ends", "matched"), ("replaced", "replaced")] {
        let counted = number(&ended.stdout, &format!("{{\"@{map}\": ")).unwrap_or(0);
        assert_eq!(counted, of(name), "each event runs its handlers once: {}", ended.stdout);
    }
    adds_up(&ended, "call");
    let script = rounds()
        + "END { print((\"open\", inflight(round), inflight(round, start), inflight(round, one), inflight(round, two))); }";
    let ended = traced(&script, &format!("{} spans 4 20000 3", workload()));
    let of = |name| ledger(&ended, "round", name);
    let truth = |name: &str| number(&ended.stdout, &format!("{name} ")).expect(name);
    assert_eq!(of("started") + of("dropped_busy"), truth("begins"), "{}", ended.stdout);
    assert_eq!(of("matched") + of("unmatched_ends"), truth("finishes"), "{}", ended.stdout);
    adds_up(&ended, "round");
    let stages = ended.stdout.split_once("[\"open\",").and_then(|(_, rest)| rest.split_once(']')).expect("a tuple").0;
    let stages: Vec<i64> = stages.split(',').map(|n| n.parse().expect("a number")).collect();
    assert_eq!(stages[0], of("open") as i64, "{}", ended.stdout);
    assert_eq!(stages[0], stages[1..].iter().sum::<i64>(), "stages add up: {}", ended.stdout);
    assert!(stages.iter().all(|open| *open >= 0), "{stages:?}");
}

#[test]
fn nothing_is_in_flight_after_the_load() {
    if skip() {
        return;
    }
    let script = "span call by tid { start tracepoint:syscalls:sys_enter_getppid /pid == cpid/ mark half rawtracepoint:sys_exit /pid == cpid/
        end tracepoint:syscalls:sys_exit_getppid /pid == cpid/ }
        END { print((\"open\", inflight(call), inflight(call, start), inflight(call, half))); }";
    let ended = traced(script, &format!("{} getppid 20000 4", workload()));
    assert!(ended.stdout.contains("[\"open\",0,0,0]"), "{}", ended.stdout);
    assert_eq!((ledger(&ended, "call", "started"), ledger(&ended, "call", "matched")), (80_000, 80_000));
}

#[test]
fn starts_beyond_the_limit_are_counted() {
    if skip() {
        return;
    }
    let script =
        "span call by (n: @n++) { start tracepoint:syscalls:sys_enter_getppid /pid == cpid/ end interval:1h limit 100 }
        call:start { @starts = count(); }";
    let options = ["-q", "--strict", "-e", script, "-c"];
    let command = format!("{} getppid 5000", workload());
    let ended = run(&[&options[..], &[&command]].concat());
    assert_eq!(ended.code(), 4, "{}", ended.stderr);
    let line = "span call: 100 started, 0 matched, 100 open; 4,900 starts dropped, `limit 100` was reached\n";
    assert!(ended.stderr.contains(line), "{}", ended.stderr);
    assert!(ended.stdout.contains("@starts: 100\n"), "{}", ended.stdout);
}

#[test]
fn starts_beyond_the_limit_take_the_room_of_the_oldest() {
    if skip() {
        return;
    }
    // Each start has its own key. Every third one is ended at once, so it is never evicted.
    let script = "span call by (n: (uint64)args.fd) {
          start tracepoint:syscalls:sys_enter_close /pid == cpid && args.fd >= 1000/ { at = nsecs; who = comm; }
          end tracepoint:syscalls:sys_exit_close /@fd % 3 == 0 && pid == cpid && @fd >= 1000/ by (n: (uint64)@fd)
          limit LIMIT evict
        }
        tracepoint:syscalls:sys_enter_close /pid == cpid/ { @fd = args.fd; }
        call:start { @starts = count(); }
        call:evict { @evicted = count(); @order += call.n > @last ? 0 : 1; @last = call.n; @sum = sum(call.n);
          @who[call.who, comm] = count(); @early += call.at + call.elapsed > nsecs ? 1 : 0; }
        END { print(inflight(call)); clear(@fd); clear(@last); }";
    for limit in [1, 50, 64, 65, 500, 1500] {
        let script = script.replace("LIMIT", &limit.to_string());
        let ended = traced(&script, &format!("{} closes 1000 3999", workload()));
        let of = |name| ledger(&ended, "call", name);
        assert_eq!((of("started"), of("matched"), of("dropped")), (2999, 999, 0), "{}", ended.stdout);
        let evicted = 2000 - of("open");
        assert_eq!(of("evicted"), evicted, "{}", ended.stdout);
        assert_eq!(of("open"), limit, "{}", ended.stdout);
        // 1000, 1001, 1003, 1004 and so on: the oldest open entry is always evicted first.
        let never_ended = (1000..3999u64).filter(|fd| fd % 3 != 0);
        let sum: u64 = never_ended.take(evicted as usize).sum();
        for line in [
            format!("{{\"@evicted\": {evicted}}}"),
            format!("{{\"@sum\": {sum}}}"),
            format!("{{\"@who\": [{{\"key\": [\"workload\",\"workload\"], \"value\": {evicted}}}]}}"),
            "{\"@early\": 0}".to_owned(),
        ] {
            assert!(ended.stdout.contains(&line), "{line} in {}", ended.stdout);
        }
        assert!(ended.stdout.contains("{\"@order\": 0}"), "the oldest goes first: {}", ended.stdout);
        adds_up(&ended, "call");
    }
}

#[test]
fn a_second_start_is_refused_where_the_span_says_so() {
    if skip() {
        return;
    }
    let script = "span first by pid { start tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { n = @n++; }
        end tracepoint:syscalls:sys_enter_exit_group /pid == cpid/ restart keep }
        first:end { printf(\"the first was %d\\n\", first.n); }";
    let ended = traced(script, &format!("{} getppid 1000", workload()));
    assert!(ended.stdout.contains("the first was 0"), "{}", ended.stdout);
    assert_eq!((ledger(&ended, "first", "started"), ledger(&ended, "first", "matched")), (1, 1));
    assert_eq!(ledger(&ended, "first", "kept"), 999);
}

#[test]
fn functions_that_call_themselves_meet_their_own_starts() {
    if skip() {
        return;
    }
    let path = workload();
    let script = format!(
        "span nested by tid {{ start uprobe:{path}:workload_nest {{ depth = arg0; }} end uretprobe:{path}:workload_nest {{ got = retval; }} restart nest }}
         nested:end {{ @same[nested.depth == nested.got] = count(); }} END {{ print((\"open\", inflight(nested))); }}"
    );
    let ended = traced(&script, &format!("{path} nest 30 50"));
    assert!(ended.stdout.contains("{\"@same\": [{\"key\": [true], \"value\": 1500}]}"), "{}", ended.stdout);
    assert!(ended.stdout.contains("[\"open\",0]"), "{}", ended.stdout);
    adds_up(&ended, "nested");
}

#[test]
fn what_never_ends_expires_without_traffic() {
    if skip() {
        return;
    }
    let script = "span nap by tid { start tracepoint:syscalls:sys_enter_nanosleep /pid == cpid/ { who = comm; }
        end tracepoint:syscalls:sys_exit_nanosleep /pid == cpid/ expire 100ms }
        nap:expire { @expired[nap.who] = count(); @early = sum(nap.elapsed < 100ms ? 1 : 0); @one[nap.tid] = count(); }
        nap:end { @ends = count(); }";
    // On a busy machine, a short nap may end before the tracer has looked.
    let naps_ms = [700, 4_000, 32_000];
    let run = |ms| traced(script, &format!("{} sleepers 8 {ms}", workload()));
    let ended = naps_ms.into_iter().map(run).find(|ended| ledger(ended, "nap", "expired") == 8);
    let ended = ended.expect("naps that expire");
    assert_eq!(ledger(&ended, "nap", "unmatched_ends"), 8, "their ends find nothing: {}", ended.stdout);
    assert_eq!(ended.stdout.matches("\"sleeper-").count(), 8, "{}", ended.stdout);
    assert!(ended.stdout.contains("{\"@early\": 0}"), "{}", ended.stdout);
    adds_up(&ended, "nap");
}

/// A process that has made a call of getppid.
fn caller() -> Child {
    let mut child = Command::new(workload())
        .arg("on-demand")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the workload");
    child.stdin.as_mut().expect("a pipe").write_all(b"5\n").expect("it reads");
    let mut said = BufReader::new(child.stdout.as_mut().expect("a pipe"));
    let mut line = String::new();
    while line != "done 5\n" {
        line.clear();
        assert!(said.read_line(&mut line).is_ok_and(|bytes| bytes > 0), "it ended");
    }
    child
}

/// No process waits for anything between its calls and its end, so it ends long before its span
/// expires.
#[test]
fn processes_that_are_killed_in_the_middle_are_accounted_for() {
    if skip() {
        return;
    }
    let directory = Directory::new("killed");
    let output = directory.path("output");
    let script = format!(
        "span life by pid {{ start tracepoint:syscalls:sys_enter_getppid /ppid == {0} && comm == \"workload\"/ restart keep
           end tracepoint:syscalls:sys_enter_exit_group /ppid == {0} && comm == \"workload\"/ expire 1s }}
         life:start {{ @starts = count(); }}
         interval:ms:20 {{ printf(\"%d started, %d open\", @starts, inflight(life)); }}",
        std::process::id()
    );
    let session = attached(&["-q", "-f", "json", "-o", &output, "-e", &script]);
    let call = || {
        let ended = Running::start(Command::new(workload()).args(["getppid", "5"])).end();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
    };
    (0..3).for_each(|_| call());
    for _ in 0..4 {
        let mut child = caller();
        child.kill().and_then(|()| child.wait()).expect("a child of ours");
    }
    let printed = || std::fs::read_to_string(&output).unwrap_or_default();
    wait_for("the end of all spans", || printed().contains("7 started, 0 open").then_some(()));
    call();
    session.signal("INT");
    let mut ended = session.end();
    ended.stdout = printed();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let of = |name| ledger(&ended, "life", name);
    assert_eq!((of("started"), of("matched"), of("expired"), of("open")), (8, 4, 4, 0), "{}", ended.stdout);
}

#[test]
fn a_number_that_is_given_again_is_another_process() {
    if skip() {
        return;
    }
    let namespace = ["--pid", "--fork", "--mount-proc"];
    let script = "span known by pid { start tracepoint:syscalls:sys_enter_getppid /pid == 301/
        end tracepoint:syscalls:sys_enter_openat /pid == 301 && comm == \"cat\"/ }
        span number by (n: (uint64)pid) { start tracepoint:syscalls:sys_enter_getppid /pid == 301/
        end tracepoint:syscalls:sys_enter_openat /pid == 301 && comm == \"cat\"/ }
        known:start { @pids[pid] = count(); }";
    let again = "echo 300 > /proc/sys/kernel/ns_last_pid || exit 9";
    let command =
        format!("sh -c 'for n in 1 2 3 4 5; do {again}; {} getppid 1; {again}; cat /dev/null; done'", workload());
    let mut line = Command::new("unshare");
    line.args(namespace).args([PROFILER, "run", "-q", "-f", "json", "-e", script, "-c", &command]);
    let is_refused = |ended: &Ended| ended.stderr.contains("unshare") || ended.stderr.contains("ns_last_pid");
    // The number is given to another process of the namespace if one starts just then.
    let ended = wait_for("a number that is given again", || {
        let ended = Running::start(&mut line).end();
        let is_again = ended.stdout.contains("{\"@pids\": [{\"key\": [301], \"value\": 5}]}");
        (is_again || is_refused(&ended)).then_some(ended)
    });
    if is_refused(&ended) {
        println!("SKIPPED: process numbers cannot be chosen here: {}", ended.stderr.trim());
        return;
    }
    assert!(ledger(&ended, "number", "matched") >= 5, "numbers alone would be taken for one process: {}", ended.stdout);
    // A long run has seen that some of the processes are gone.
    let left = ledger(&ended, "known", "open") + ledger(&ended, "known", "ended");
    assert_eq!((ledger(&ended, "known", "matched"), left), (0, 5), "{}", ended.stdout);
}

#[test]
fn one_probe_ends_the_old_before_it_starts_the_new() {
    if skip() {
        return;
    }
    // The time between two calls.
    let script = "span gap by tid { start tracepoint:syscalls:sys_enter_getppid /pid == cpid/ end t:syscalls:sys_enter_getppid /pid == cpid/ }
        gap:end { @gaps = count(); @zero = sum(gap.elapsed == 0 ? 1 : 0); } gap:replace { @replaced = count(); }";
    let ended = traced(script, &format!("{} getppid 1000", workload()));
    let of = |name| ledger(&ended, "gap", name);
    assert_eq!((of("started"), of("matched"), of("replaced"), of("open")), (1000, 999, 0, 1), "{}", ended.stdout);
    assert_eq!(of("unmatched_ends"), 1);
    assert!(ended.stdout.contains("{\"@zero\": 0}"), "{}", ended.stdout);
}

#[test]
fn handlers_are_blocks_of_their_own() {
    if skip() {
        return;
    }
    let script = "span call by tid { start tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { at = nsecs; s = str(\"kept\"); t = (1, tid); k = kstack(2); }
        end tracepoint:syscalls:sys_exit_getppid /pid == cpid/ { result = args.ret; } }
        call:end { $x = 1; @first = count(); if (call.elapsed >= 0) { return; } @never = count(); }
        call:end / call.result > 0 / { $x = \"text\"; @second[call.s, $x] = count(); }
        call:end / call.result < 0 / { @none = count(); }
        call:end { for $n : 0..3 { if ($n == 2) { return; } @loop += call.elapsed > 0 ? 1 : 0; } @never = count(); }
        call:end { @same[call.t.1 == call.tid, call.at <= nsecs] = count(); @stack[call.k] = count(); }
        tracepoint:syscalls:sys_exit_getppid /pid == cpid/ { @plain = count(); }
        END { print(\"end\"); }";
    let ended = run(&["-q", "-e", script, "-c", &format!("{} getppid 500", workload())]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    for line in ["@first: 500", "@second[kept, text]: 500", "@loop: 1000", "@same[true, true]: 500", "@plain: 500"] {
        assert_eq!(ended.lines(line), 1, "{line} in {}", ended.stdout);
    }
    assert!(!ended.stdout.contains("@never") && !ended.stdout.contains("@none"), "{}", ended.stdout);
    assert!(ended.stderr.contains("span call: 500 started, 500 matched\n"), "{}", ended.stderr);
}

#[test]
fn the_ledger_holds_when_a_run_is_interrupted_under_load() {
    if skip() {
        return;
    }
    let script = "span call by tid { start tracepoint:syscalls:sys_enter_* end tracepoint:syscalls:sys_exit_* expire 50ms limit 300 }
        call:end { @ends = count(); }";
    let load = Running::start(Command::new(workload()).args(["getppid", "100000000", "2"]));
    for _ in 0..3 {
        let tracer = Running::start(&mut profiler(&["-q", "-f", "json", "-e", script, "--duration", "300ms"]));
        let ended = tracer.end();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        adds_up(&ended, "call");
        assert!(ledger(&ended, "call", "matched") > 1000, "{}", ended.stdout);
    }
    load.signal("KILL");
    load.end();
}

#[test]
fn a_span_may_have_the_short_name_of_a_kind_of_probe() {
    if skip() {
        return;
    }
    let script = "span f by tid { start tracepoint:syscalls:sys_enter_getppid /pid == cpid/ end tracepoint:syscalls:sys_exit_getppid /pid == cpid/ }
        span w by tid { start f:start end f:end }
        f:end { @f = count(); @calls = sum(f.elapsed > 0 ? 1 : 0); } w:end { @w = count(); } END { print((\"open\", inflight(w))); }";
    let ended = traced(script, &format!("{} getppid 100", workload()));
    for line in ["{\"@f\": 100}", "{\"@calls\": 100}", "{\"@w\": 100}", "[\"open\",0]"] {
        assert!(ended.stdout.contains(line), "{line} in {}", ended.stdout);
    }
}
