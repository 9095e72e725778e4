//! What tracers have been seen to count wrongly, in the recipes of several shelves: calls that end
//! by a signal or that seccomp refuses, sockets that are bound, stacked or closing, requests that
//! merge, layered file systems, quotas, CPUs without ticks, control characters in names.

use std::process::Command;
use std::time::Instant;

use super::super::machine::{Directory, run, run_beside, skip, with_enough_calls};
use super::super::recipes::Outcome;
use super::{Case, Is, Row, find};

/// When a handler returns, the kernel reports an exit without a number, with the interrupted code's
/// error.
#[test]
fn a_call_that_a_signal_ends_is_counted_once() {
    if skip() {
        return;
    }
    let failed = [("failed", Is::Truth("pauses")), ("calls", Is::Truth("pauses"))];
    let error = [("error", Is::Text("interrupted by a signal")), ("count", Is::Truth("pauses"))];
    let outcome = Case {
        load: "act alarms 10",
        recipe: &["syscall/errors", "--pid", "PID"],
        rows: &[
            Row { view: "calls that fail", keys: &[("call", "pause")], cells: &failed },
            Row { view: "errors", keys: &[("call", "pause")], cells: &error },
        ],
        lines: &[],
    }
    .check();
    assert!(!outcome.text.contains("Unknown syscall"), "{}", outcome.text);
    let outcome = Case {
        load: "act alarms 10",
        recipe: &["host/overview", "--every", "1h", "--top", "1000"],
        rows: &[Row {
            view: "failed system calls",
            keys: &[("process", "workload"), ("pid", "=pid"), ("call", "pause")],
            cells: &[("error", Is::Text("interrupted by a signal")), ("count", Is::Truth("pauses"))],
        }],
        lines: &[],
    }
    .check();
    assert!(!outcome.text.contains("Unknown syscall"), "{}", outcome.text);
}

#[test]
fn an_open_that_a_signal_ends_says_so() {
    if skip() {
        return;
    }
    let directory = Directory::new("fifo");
    let load = format!("act fifo {}", directory.path("fifo"));
    for recipe in [&["proc/opens", "--pid", "PID", "--failed"][..], &["io/slow", "--pid", "PID"]] {
        let lines = [(&["/fifo: interrupted by a signal"][..], 1)];
        Case { load: &load, recipe, rows: &[], lines: &lines }.check();
    }
}

/// The kernel reports no entry of them.
#[test]
fn calls_that_seccomp_refuses_are_counted() {
    if skip() {
        return;
    }
    let cells = [("calls", Is::Truth("refused"))];
    for (recipe, view) in [("syscall/counts", "system calls"), ("syscall/latency", "calls that seccomp refused")] {
        Case {
            load: "act refused 70",
            recipe: &[recipe, "--pid", "PID"],
            rows: &[Row { view, keys: &[("process", "workload"), ("call", "getppid")], cells: &cells }],
            lines: &[],
        }
        .check();
    }
}

#[test]
fn a_signal_to_a_thread_is_one_to_its_process() {
    if skip() {
        return;
    }
    let cells = [
        ("pid", Is::Truth("pid")),
        ("by", Is::Text("tgkill")),
        ("tid", Is::Truth("thread")),
        ("result", Is::Text("ignored")),
        ("count", Is::Number(7.0)),
    ];
    Case {
        load: "act thread-signals 7",
        recipe: &["proc/signals", "--to", "PID"],
        rows: &[Row { view: "signals", keys: &[("signal", "Urgent I/O condition")], cells: &cells }],
        lines: &[],
    }
    .check();
}

/// A listener for MPTCP has both kinds of clients.
#[test]
fn connections_of_mptcp_are_connections() {
    if skip() {
        return;
    }
    if run(&["-q", "-e", "BEGIN { print(sizeof(struct mptcp_sock)); exit(); }"]).code() != 0 {
        println!("SKIPPED: this kernel has no MPTCP");
        return;
    }
    for kind in ["plain", "mptcp"] {
        let load = format!("act mptcp {kind} 4 60");
        let waits = [
            ("accepted", Is::Truth("clients")),
            ("max", Is::AtMost("most_ns")),
            ("waited", Is::Above(59.4e6)),
            ("queue max", Is::Number(3.0)),
            ("limit", Is::Number(8.0)),
        ];
        let requests = [("requests", Is::Truth("clients")), ("unanswered", Is::Nothing)];
        for (recipe, view, keys, cells) in [
            ("net/accept-queue", "waiting to be accepted", &[("port", "=port")][..], &waits[..]),
            ("net/requests", "requests by port", &[("port", "=port")], &requests),
            ("pool/queue-depth", "queue and service", &[("process", "workload")], &requests[..1]),
        ] {
            let rows = [Row { view, keys, cells }];
            Case { load: &load, recipe: &[recipe, "--pid", "PID"], rows: &rows, lines: &[] }.check();
        }
    }
}

/// What a client receives is an answer, whatever name or port it has.
#[test]
fn a_client_that_is_bound_is_no_server() {
    if skip() {
        return;
    }
    let row = |port, requests| Row {
        view: "requests by port",
        keys: port,
        cells: match requests {
            "requests" => &[("requests", Is::Truth("requests")), ("unanswered", Is::Nothing)],
            _ => &[("requests", Is::Truth("unix_requests")), ("unanswered", Is::Nothing)],
        },
    };
    let rows = [row(&[("port", "=port")], "requests"), row(&[("port", "0")], "unix_requests")];
    let outcome =
        Case { load: "act bound 5", recipe: &["net/requests", "--pid", "PID"], rows: &rows, lines: &[] }.check();
    assert_eq!(outcome.rows("requests by port").len(), 2, "{}", outcome.text);
}

/// A socket that is closing has given up its number.
#[test]
fn a_reset_has_the_port_of_the_server() {
    if skip() {
        return;
    }
    let cells = [("count", Is::Truth("resets")), ("peer", Is::Text("127.0.0.1"))];
    let row = |what| Row { view: "trouble", keys: what, cells: &cells };
    let rows =
        [row(&[("what", "reset by us"), ("port", "=port")]), row(&[("what", "reset by peer"), ("port", "=port")])];
    Case { load: "act unread 4", recipe: &["net/tcp", "--pid", "PID"], rows: &rows, lines: &[] }.check();
}

#[test]
fn several_messages_of_one_call_have_their_bytes() {
    if skip() {
        return;
    }
    let row = |column: &'static str, bytes: &'static str, cells| Row {
        view: "traffic of sockets",
        keys: match column {
            "sends" => &[("kind", "datagram"), ("peer", "127.0.0.1")],
            _ => &[("kind", "datagram"), ("peer", "0.0.0.0")],
        },
        cells: match bytes {
            "sent" => cells,
            _ => &[("receives", Is::Number(1.0)), ("received", Is::Truth("received"))],
        },
    };
    let sent = [("sends", Is::Number(1.0)), ("sent", Is::Truth("sent"))];
    let rows = [row("sends", "sent", &sent), row("receives", "received", &sent)];
    Case { load: "act messages 20 100", recipe: &["net/sockets", "--pid", "PID"], rows: &rows, lines: &[] }.check();
}

/// The pages are those of the file below, whose inode has another number.
#[test]
fn pages_are_those_of_the_layer_that_has_them() {
    if skip() {
        return;
    }
    let filesystems = std::fs::read_to_string("/proc/filesystems").expect("it");
    let directory = Directory::new("overlay");
    let is_in_memory = Command::new("stat").args(["-f", "-c", "%T", &directory.path("")]).output().expect("it runs");
    if !filesystems.contains("overlay") || is_in_memory.stdout.starts_with(b"tmpfs") {
        println!("SKIPPED: no overlay over a file system with a page cache here");
        return;
    }
    let cells = [("pages", Is::Truth("pages")), ("misses", Is::Truth("once")), ("hits", Is::Truth("once"))];
    Case {
        load: &format!("act overlay {} 16", directory.path("")),
        recipe: &["io/page-cache", "--pid", "PID"],
        rows: &[Row { view: "page cache by file", keys: &[("file", "/data")], cells: &cells }],
        lines: &[],
    }
    .check();
}

/// The kernel counts the time of the group, the recipe the waits of its thread.
#[test]
fn a_wait_for_a_quota_is_throttled() {
    if skip() {
        return;
    }
    let outcome = Outcome::run("act throttled 1500", &["sched/runq", "--by-pid", "--top", "1000"]);
    let row = find(&outcome, "waits for a CPU by process", &[("process", "workload"), ("pid", "=child")]);
    let [throttled, waited] = ["throttled", "waited"].map(|column| row[column].as_f64().unwrap_or(f64::NAN));
    // A thread that the kernel stops at its tick, or that begins in the middle of a period, waits a
    // few milliseconds less than the group is throttled.
    outcome.expect_between(throttled, 0.8 * outcome.truth("throttled_ns"), waited, "throttled");
    let instead = [("thread that waited", "workload"), ("ran instead", "(throttled)")];
    let instead = find(&outcome, "who ran instead", &instead)["waited"].as_f64().unwrap_or(f64::NAN);
    outcome.expect_between(instead, 0.8 * throttled, 1.2 * throttled, "throttled instead");
}

/// The idle time of each CPU since boot in milliseconds, by a clock with a resolution of 10 ms.
fn idle_ms() -> Vec<f64> {
    let text = std::fs::read_to_string("/proc/stat").expect("it");
    let of_cpu = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split(' ');
        words.next()?.parse::<u32>().ok()?;
        let idle = words.skip(3).take(2).filter_map(|word| word.parse::<f64>().ok());
        Some(idle.sum::<f64>() * 10.0)
    };
    text.lines().filter_map(of_cpu).collect()
}

/// Some hosts hide idle threads from perf, so an idle CPU has no samples. The shares are of
/// samples, so longer runs are more certain.
#[test]
fn a_cpu_is_as_busy_as_it_is_not_idle() {
    if skip() {
        return;
    }
    for (recipe, view) in
        [(&["sched/runq-length"][..], "run queues"), (&["host/overview", "--every", "1h", "--top", "1000"], "CPUs")]
    {
        with_enough_calls(1000, |ms| {
            let command = format!("sleep {}", ms / 1000);
            let (before, start) = (idle_ms(), Instant::now());
            let ended = run(&[&["-q", "-f", "json"], recipe, &["-c", &command]].concat());
            let after = idle_ms();
            let run_ms = start.elapsed().as_secs_f64() * 1000.0;
            let outcome = Outcome::read(ended.stdout);
            assert_eq!(outcome.rows(view).len(), before.len(), "each CPU has a row: {}", outcome.text);
            before.iter().zip(&after).enumerate().all(|(cpu, (before, after))| {
                let busy = outcome.row(view, "cpu", &cpu.into())["busy %"].as_f64().unwrap_or(f64::NAN);
                let not_idle = (100.0 - (after - before) * 100.0 / run_ms).clamp(0.0, 100.0);
                (busy - not_idle).abs() < 20.0
            })
        });
    }
}

/// A name with a line feed is on the line of its record.
#[test]
fn no_name_begins_a_line() {
    if skip() {
        return;
    }
    let lines = [(&["functions 1 two\\\\x0alines\\\\x1b[1m"][..], 1)];
    Case { load: "act exec two\nlines\x1b[1m", recipe: &["proc/exec", "--parent", "PID"], rows: &[], lines: &lines }
        .check();
    let lines = [(&[" - /no/such\\\\x0afile: No such file or directory\\n"][..], 1)];
    let recipe = ["proc/opens", "--pid", "PID", "--failed", "--path", "such"];
    Case { load: "act open /no/such\nfile", recipe: &recipe, rows: &[], lines: &lines }.check();
    // In a file, which someone may read on a terminal later.
    let ended = run_beside(&["-q", "proc/exec"], "sh -c 'exec /bin/echo two\nlines'; true");
    assert!(ended.stdout.contains(" /bin/echo two\\x0alines "), "{}", ended.stdout);
    assert!(ended.stdout.lines().all(|line| !line.starts_with("lines")), "{}", ended.stdout);
}

#[test]
fn blocks_of_a_program_that_exec_replaced_are_no_leaks() {
    if skip() {
        return;
    }
    let outcome = Outcome::run("act replaced 10 54321", &["mem/leaks", "--pid", "PID", "--min", "54321"]);
    let rows = outcome.rows("memory that was not freed");
    let blocks: f64 = rows.iter().filter_map(|row| row["blocks"].as_f64()).sum();
    assert_eq!(Some(blocks), Some(outcome.truth("leaked")), "{}", outcome.text);
}

/// A request that was merged into another is not completed, and the kernel uses its address again.
#[test]
fn a_request_that_merged_is_not_the_next_one() {
    if skip() {
        return;
    }
    let directory = Directory::new("merges");
    if !std::path::Path::new("/dev/loop-control").exists() {
        println!("SKIPPED: there are no loop devices here");
        return;
    }
    let outcome = Outcome::run(&format!("act merges {} 3 500", directory.path("disk")), &["io/block", "--top", "1000"]);
    let disk = format!("loop{}", outcome.truth("loop"));
    let row = find(&outcome, "requests of block devices", &[("disk", &disk), ("operation", "write")]);
    assert_eq!(row["bytes"].as_f64(), Some(outcome.truth("bytes")), "{}", outcome.text);
    // A request that was taken for an earlier one has waited for as long as the pause.
    assert!(row["queued p99"].as_f64() < Some(outcome.truth("pause_ns")), "{}", outcome.text);
}
