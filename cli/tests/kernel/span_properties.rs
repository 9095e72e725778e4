//! Span ledgers under several faults at once, with several seeds: they add up exactly.
//!
//! In: workloads that count their operations, processes that are killed, ring buffers that
//! overflow, programs that the kernel skips. Out: ledgers.
//! Guarantee: each number is compared with an independent count: by the workload, by handlers, by
//! plain probes at the same places, or in the span's own map.

use super::kernel_functions::is_since;
use super::machine::{Directory, Ended, copy, patience, run, run_beside, skip, workload};
use super::spans::{adds_up, ledger, number};

/// Runs a script with `-f json`; its ledgers must agree with its maps.
fn traced(script: &str, command: &str) -> Ended {
    let ended = run(&["-q", "-f", "json", "--unsafe", "-e", script, "-c", command]);
    assert_eq!(ended.code(), 0, "{script}\n{}", ended.stderr);
    ended
}

/// The value of a scalar map; 0 if nothing was counted.
fn scalar(ended: &Ended, map: &str) -> u64 {
    number(&ended.stdout, &format!("{{\"@{map}\": ")).unwrap_or(0)
}

/// Asserts that each event ran its handlers as often as the ledger states.
fn handlers_agree(ended: &Ended, span: &str) {
    for (map, name) in [("starts", "started"), ("ends", "matched"), ("replaced", "replaced"), ("expired", "expired")] {
        assert_eq!(scalar(ended, map), ledger(ended, span, name), "@{map} in\n{}", ended.stdout);
    }
    if ended.stdout.contains("\"evicted\": ") {
        assert_eq!(scalar(ended, "evicted"), ledger(ended, span, "evicted"), "{}", ended.stdout);
    }
}

/// The next number of a pseudorandom sequence.
fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 33
}

#[test]
fn output_that_is_lost_takes_nothing_from_the_ledger() {
    if skip() {
        return;
    }
    let (path, directory) = (workload(), Directory::new("span-flood"));
    let truth_file = directory.path("truth");
    let handlers: String = [("start", "starts"), ("one", "ones"), ("replace", "replaced"), ("end", "ends")]
        .map(|(event, map)| {
            format!("round:{event} {{ printf(\"{event} %d {:>400}\\n\", round.key); @{map} = count(); }}\n", "")
        })
        .concat();
    let script = format!(
        "config = {{ perf_rb_pages = 1 }}
         span round by (pid, key: arg0) {{
           start    uprobe:{path}:workload_begin / pid == cpid /
           mark one uprobe:{path}:workload_mark / pid == cpid && arg1 == 1 / {{ was = round.elapsed > 0; }}
           end      uprobe:{path}:workload_finish / pid == cpid /
           limit 100000
         }}
         {handlers}"
    );
    for threads in [1, 2] {
        let rounds = 40_000 / threads;
        let ended = traced(&script, &format!("sh -c 'exec {path} spans {threads} {rounds} >{truth_file}'"));
        let truth = std::fs::read_to_string(&truth_file).expect("what the workload printed");
        let of_workload = |name: &str| number(&truth, &format!("{name} ")).expect(name);
        let lost: u64 = ended
            .stdout
            .split("{\"what\": \"events of uprobe:")
            .skip(1)
            .map(|entry| number(entry, "\"count\": ").expect("a number"))
            .sum();
        assert!(lost > 0, "the ring was never full, so nothing was tested");
        let received = ended.stdout.matches("{\"type\": \"printf\"").count() as u64;
        let events = ["starts", "ones", "replaced", "ends"].map(|map| scalar(&ended, map));
        assert_eq!(received + lost, events.iter().sum::<u64>(), "{threads} threads");
        for (of_ledger, name) in [
            ("started", "begins"),
            ("matched", "matched"),
            ("replaced", "replaced"),
            ("unmatched_ends", "unmatched_ends"),
        ] {
            assert_eq!(ledger(&ended, "round", of_ledger), of_workload(name), "{of_ledger}, {threads} threads");
        }
        // A long run may have seen that the process has ended.
        let left = ledger(&ended, "round", "open") + ledger(&ended, "round", "ended");
        assert_eq!(left, of_workload("open"), "{threads} threads");
        handlers_agree(&ended, "round");
        adds_up(&ended, "round");
    }
}

/// A signal that a handler sends is generated inside of its program. There, the kernel skips
/// programs of other tracepoints.
#[test]
fn what_the_kernel_skips_is_reported_and_the_rest_adds_up() {
    if skip() {
        return;
    }
    // Since 6.12, a system call with a kernel stack is attached as a perf tracepoint. Before, it is
    // attached in a way that allows other programs to run inside.
    if !is_since((6, 12)) {
        println!("SKIPPED: this kernel does not skip such programs (since 6.12)");
        return;
    }
    let keys = ["tid", "(pid, n: tid)"];
    for (key, chance) in keys.into_iter().flat_map(|key| [(key, 1), (key, 3)]) {
        let script = format!(
            "span call by {key} {{
               start tracepoint:syscalls:sys_enter_getppid / pid == cpid && args.__syscall_nr > 0 / {{ s = kstack(1); }}
               mark half rawtracepoint:sys_exit / pid == cpid && rand % {chance} == 0 /
               end tracepoint:signal:signal_generate / pid == cpid && args.sig == 28 / by {key}
               end tracepoint:syscalls:sys_exit_getppid / pid == cpid && rand % {chance} == 1 /
             }}
             call:start {{ @starts = count(); if (rand % {chance} == 0) {{ signal(\"WINCH\"); @sent = count(); }} }}
             call:end {{ @ends = count(); }} call:replace {{ @replaced = count(); }}
             rawtracepoint:signal_generate {{ @signals = count(); }}"
        );
        let ended = traced(&script, &format!("{} getppid 3000", workload()));
        let skipped = "runs of tracepoint:signal:signal_generate: skipped by the kernel\", \"count\": ";
        // A timer of another process may send it a signal meanwhile, in an interrupt.
        let (skipped, all) = (number(&ended.stdout, skipped).unwrap_or(0), scalar(&ended, "signals"));
        assert!((scalar(&ended, "sent")..=all).contains(&skipped), "{}", ended.stdout);
        let of = |name| ledger(&ended, "call", name);
        assert_eq!((of("started"), of("unmatched_ends")), (3000, 0), "{}", ended.stdout);
        assert_eq!(of("matched") == 0, chance == 1, "{}", ended.stdout);
        assert!(of("open") <= 1, "{}", ended.stdout);
        handlers_agree(&ended, "call");
        adds_up(&ended, "call");
    }
}

#[test]
fn descriptors_whose_numbers_are_given_again_are_told_apart() {
    if skip() {
        return;
    }
    // `dup3` onto an open number either starts under a live key, or ends the old key first.
    let ends_first = "end tracepoint:syscalls:sys_enter_dup3 / comm == \"descriptor\" / by (pid, fd: args.newfd)";
    for (seed, ends) in [(1, ""), (2, ends_first), (3, ""), (4, ends_first)] {
        let script = format!(
            "span file by (pid, fd: args.fd) {{
               start     tracepoint:syscalls:sys_exit_openat, tracepoint:syscalls:sys_exit_dup3
                         / comm == \"descriptor\" && args.ret >= 0 / by (pid, fd: args.ret)
               mark read tracepoint:syscalls:sys_enter_read / comm == \"descriptor\" /
                         {{ strange = file.id != 0 && file.id != args.count; id = args.count; }}
               end       tracepoint:syscalls:sys_enter_close / comm == \"descriptor\" /
               {ends}
             }}
             file:start {{ @starts = count(); @numbers[file.fd] = count(); }} file:end {{ @ends = count(); }}
             file:replace {{ @replaced = count(); }}
             file:read {{ @reads = count(); @strange = sum(file.strange ? 1 : 0); }}
             END {{ printf(\"%d numbers\", len(@numbers)); clear(@numbers); }}"
        );
        let ended = traced(&script, &format!("{} descriptors 2 6000 {seed}", workload()));
        let truth = |name: &str| number(&ended.stdout, &format!("{name} ")).expect(name);
        let of = |name| ledger(&ended, "file", name);
        let (closed, replaced) = if ends.is_empty() { (0, truth("duplicated")) } else { (truth("duplicated"), 0) };
        assert_eq!(of("started"), truth("opened") + truth("duplicated"), "{}", ended.stdout);
        assert_eq!((of("matched"), of("replaced")), (truth("closed") + closed, replaced), "{}", ended.stdout);
        assert_eq!(
            (of("open"), of("unmatched_ends")),
            (truth("left_open"), truth("closed_in_vain")),
            "{}",
            ended.stdout
        );
        assert_eq!((scalar(&ended, "reads"), of("unmatched_marks")), (truth("reads"), 0), "{}", ended.stdout);
        assert_eq!(scalar(&ended, "strange"), 0, "each was met by its own reads only: {}", ended.stdout);
        let numbers = number(&ended.stdout, "\"data\": \"").expect("how many numbers there were");
        assert!(numbers <= 40, "numbers are given again: {}", ended.stdout);
        handlers_agree(&ended, "file");
        adds_up(&ended, "file");
    }
}

/// A duration in the format of `sleep`, longer on slow machines.
fn seconds(ms: u64) -> String {
    let ms = u64::from(patience()) * ms;
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// Clauses, and whether nothing may stay open at the end.
const CLAUSES: [(&str, bool); 9] = [
    ("", false),
    ("restart keep", false),
    ("limit 3", false),
    ("expire 20ms", true),
    ("restart keep limit 4 expire 5ms", true),
    ("limit 1", false),
    ("limit 1 evict", false),
    ("restart keep limit 2 evict", false),
    ("limit 3 evict expire 10ms", true),
];

/// A command that runs and kills six processes, three at a time, which live for up to `times` 200
/// ms.
fn lives(path: &str, keys: u64, random: &mut u64, times: u64) -> String {
    let lives: Vec<String> = (0..3)
        .map(|_| {
            let mut life = || seconds((20 + next(random) % 80) * times);
            let (first, second) = (life(), life());
            format!(
                "for s in {first} {second}; do {path} spans 2 100000000 {keys} & (sleep $s; kill -9 $!) & done; wait; "
            )
        })
        .collect();
    format!("{} sleep {}; :", lives.concat(), seconds(200 * times))
}

#[test]
fn processes_that_race_for_keys_and_are_killed_leave_sums_that_hold() {
    if skip() {
        return;
    }
    let directory = Directory::new("races");
    let path = directory.path("workload");
    copy(workload(), &path);
    let mut random = 5;
    for (clauses, drains) in CLAUSES {
        let script = format!(
            "span round by (key: arg0) {{
               start    uprobe:{path}:workload_begin  {{ who = comm; }}
               mark one uprobe:{path}:workload_mark / arg1 == 1 / {{ ones = round.ones + 1; }}
               mark two uprobe:{path}:workload_mark / arg1 == 2 /
               end      uprobe:{path}:workload_finish
               {clauses}
             }}
             uprobe:{path}:workload_begin {{ @begins = count(); }} uprobe:{path}:workload_finish {{ @finishes = count(); }}
             uprobe:{path}:workload_mark {{ @marks = count(); }}
             round:one, round:two {{ @passed = count(); @ones = max(round.ones); }}
             round:start {{ @starts = count(); }} round:end {{ @ends = count(); @who[round.who] = count(); }}
             {} {} {}
             END {{ print((\"open\", inflight(round), inflight(round, start), inflight(round, one), inflight(round, two))); }}",
            if clauses.contains("keep") { "" } else { "round:replace { @replaced = count(); }" },
            if drains { "round:expire { @expired = count(); }" } else { "" },
            if clauses.contains("evict") { "round:evict { @evicted = count(); @gone = max(round.ones); }" } else { "" },
        );
        let keys = 1 + next(&mut random) % 5;
        // On a busy machine a process may be killed before it has done anything, and the run may
        // end before what has expired is closed: the next processes, and the rest at the end, last
        // longer.
        let is_enough = |ended: &Ended| {
            let is_over = !drains || ledger(ended, "round", "open") == 0;
            ended.code() != 0 || scalar(ended, "begins") > 100 && is_over
        };
        let ended = (0..6)
            .map(|tries| {
                run_beside(
                    &["-q", "-f", "json", "--unsafe", "-e", &script],
                    &lives(&path, keys, &mut random, 1 << tries),
                )
            })
            .find(is_enough)
            .unwrap_or_else(|| panic!("{clauses}: no process began anything, or it did not expire"));
        assert_eq!(ended.code(), 0, "{script}\n{}", ended.stderr);
        let of = |name| ledger(&ended, "round", name);
        let kept = if clauses.contains("keep") { of("kept") } else { 0 };
        let refused = kept + of("dropped") + of("dropped_busy");
        assert_eq!(of("started") + refused, scalar(&ended, "begins"), "{clauses}: {}", ended.stdout);
        assert_eq!(of("matched") + of("unmatched_ends"), scalar(&ended, "finishes"), "{clauses}: {}", ended.stdout);
        assert_eq!(
            scalar(&ended, "passed") + of("unmatched_marks"),
            scalar(&ended, "marks"),
            "{clauses}: {}",
            ended.stdout
        );
        handlers_agree(&ended, "round");
        adds_up(&ended, "round");
        let stages =
            ended.stdout.split_once("[\"open\",").and_then(|(_, rest)| rest.split_once(']')).expect("a tuple").0;
        let stages: Vec<u64> = stages.split(',').map(|n| n.parse().expect("no stage is below zero")).collect();
        assert_eq!(stages[0], stages[1..].iter().sum::<u64>(), "{clauses}: {stages:?}");
        assert_eq!(stages[0], of("open"), "{clauses}: {}", ended.stdout);
        assert!(stages[0] <= keys && (stages[0] == 0 || !drains), "{clauses}: {}", ended.stdout);
    }
}
