//! Open spans: keys of threads and processes that have ended, and loops over open spans.
//!
//! In: a workload whose threads begin keys and end. Out: the ledger, and the number of open spans
//! during the run.
//! Guarantee: the workload continues only after profiler has printed what the test waits for, so no
//! number depends on timing. Each test probes its own copy of the workload, so that it does not see
//! other tests' events.

use std::process::{Child, Command, Stdio};

use super::machine::{Directory, Ended, Running, attached, copy, skip, wait_for, workload};
use super::spans::{adds_up, ledger};

/// A session that traces a private copy of the workload.
struct Traced {
    directory: Directory,
    session: Running,
}

impl Traced {
    /// Starts a script; `WORKLOAD` in its text is replaced by the path of the copy.
    fn start(script: &str) -> Traced {
        let directory = Directory::new("open");
        copy(workload(), &directory.path("workload"));
        let script = script.replace("WORKLOAD", &directory.path("workload"));
        let session = attached(&["-q", "-f", "json", "-o", &directory.path("output"), "-e", &script]);
        Traced { directory, session }
    }

    /// Starts `workload linger` with its input open.
    fn linger(&self, threads: u32) -> Child {
        let mut command = Command::new(self.directory.path("workload"));
        command.args(["linger", &threads.to_string()]).stdin(Stdio::piped()).stdout(Stdio::null());
        command.spawn().expect("the workload")
    }

    /// Waits until a line of the results contains this text.
    fn wait_for(&self, text: &str) {
        let path = self.directory.path("output");
        wait_for(text, || std::fs::read_to_string(&path).ok()?.contains(text).then_some(()));
    }

    /// Interrupts the session and returns its results.
    fn end(self) -> Ended {
        self.session.signal("INT");
        let mut ended = self.session.end();
        ended.stdout = std::fs::read_to_string(self.directory.path("output")).expect("the results");
        ended
    }
}

/// Closes the workload's input and waits for it to exit.
fn let_go(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().is_ok_and(|status| status.success()), "the workload");
}

/// A span with this key over the keys of `linger`. The script prints the number of open spans every
/// 20 ms.
fn span(key: &str, clauses: &str) -> String {
    format!(
        "span left by {key} {{ start uprobe:WORKLOAD:workload_begin end uprobe:WORKLOAD:workload_finish {clauses} }}
         left:start {{ @starts = count(); }}
         interval:ms:20 {{ printf(\"%d started, %d open\", @starts, inflight(left)); }}"
    )
}

#[test]
fn keys_of_ended_threads_make_room_for_others() {
    if skip() {
        return;
    }
    for (key, clauses) in [("(tid, n: arg0)", "limit 100"), ("(n: arg0, pid, tid)", "limit 100 restart keep")] {
        let traced = Traced::start(&span(key, clauses));
        for round in 1..=3 {
            let child = traced.linger(80);
            // The start of the living thread stays open.
            traced.wait_for(&format!("{} started, 1 open", round * 81));
            let_go(child);
        }
        let ended = traced.end();
        let of = |name| ledger(&ended, "left", name);
        assert_eq!((of("started"), of("matched"), of("ended")), (243, 3, 240), "{key}: {}", ended.stdout);
        assert_eq!((of("dropped"), of("open")), (0, 0), "{key}: {}", ended.stdout);
        adds_up(&ended, "left");
    }
}

#[test]
fn frames_of_ended_threads_make_room_for_others() {
    if skip() {
        return;
    }
    let traced = Traced::start(&span("(tid, one: 1)", "limit 100 restart nest"));
    for round in 1..=2 {
        let child = traced.linger(80);
        traced.wait_for(&format!("{} started, 1 open", round * 81));
        let_go(child);
    }
    let ended = traced.end();
    let of = |name| ledger(&ended, "left", name);
    assert_eq!((of("started"), of("matched"), of("ended")), (162, 2, 160), "{}", ended.stdout);
    assert_eq!((of("dropped"), of("open")), (0, 0), "{}", ended.stdout);
}

#[test]
fn keys_of_ended_processes_go_when_the_process_does() {
    if skip() {
        return;
    }
    let traced = Traced::start(&span("(pid, n: arg0)", "limit 200"));
    let child = traced.linger(150);
    traced.wait_for("151 started, 151 open");
    let_go(child);
    traced.wait_for("151 started, 0 open");
    let ended = traced.end();
    let of = |name| ledger(&ended, "left", name);
    assert_eq!((of("started"), of("matched"), of("ended")), (151, 1, 150), "{}", ended.stdout);
    assert_eq!((of("dropped"), of("open")), (0, 0), "{}", ended.stdout);
}

/// Loops over open spans. The results for `linger 10` are known: keys 0 to 10, one of which belongs
/// to the living thread.
const LOOPS: &str = "
    span left by (n: arg0) {
      start uprobe:WORKLOAD:workload_begin { at = nsecs; who = comm; thread = tid; }
      mark  half uprobe:WORKLOAD:workload_begin / arg0 % 2 == 1 / { odd = arg0; }
      end   uprobe:WORKLOAD:workload_finish
    }
    span own by tid { start uprobe:WORKLOAD:workload_begin end uprobe:WORKLOAD:workload_finish }
    left:start { @starts = count(); }";

#[test]
fn loops_over_spans_see_what_is_open() {
    if skip() {
        return;
    }
    let script = LOOPS.to_owned()
        + "interval:ms:20 {
             $open = 0; $own = 0; $keys = 0; $late = 0; $wrong = 0; $mine = 0; $named = 0;
             for $s : left {
               $open++;
               $keys |= 1 << $s.n;
               $late += $s.at + $s.elapsed > nsecs ? 1 : 0;
               $wrong += $s.lap > $s.elapsed || $s.odd != 0 ? 1 : 0;
               $named += $s.who == \"workload\" ? 1 : 0;
             }
             for $t : own { $own++; for $s : left { if ($s.thread == $t.tid) { $mine += 1 + $s.n; break; } } }
             printf(\"%d open, keys %x, %d late, %d wrong, %d named; %d own, first %d\", $open, $keys, $late, $wrong, $named, $own, $mine);
           }
           END { for $s : left { @end = count(); @age = dist($s.elapsed); } }";
    let traced = Traced::start(&script);
    traced.wait_for("0 open, keys 0, 0 late, 0 wrong, 0 named; 0 own, first 0");
    let child = traced.linger(10);
    // When the starts of ended threads are closed, only the living thread's start is left in `own`.
    traced.wait_for("11 open, keys 7ff, 0 late, 0 wrong, 11 named; 1 own, first 1");
    let_go(child);
    traced.wait_for("10 open, keys 7fe, 0 late, 0 wrong, 10 named; 0 own, first 0");
    let ended = traced.end();
    assert!(ended.stdout.contains("{\"@end\": 10}"), "{}", ended.stdout);
    assert!(ended.stdout.contains("\"count\": 10"), "{}", ended.stdout);
    let of = |span, name| ledger(&ended, span, name);
    assert_eq!((of("left", "open"), of("own", "ended"), of("own", "open")), (10, 10, 0), "{}", ended.stdout);
}
