//! Where the time of threads goes, against threads that measure themselves.
//!
//! In: `workload states`, whose threads are each in one state for a known time. Out: the same from
//! `wall/threads`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};

use serde_json::Value;

use super::machine::{Directory, attached, patience, run, skip, wait_for, with_enough_calls, workload};
use super::recipes::Outcome;

/// The columns whose sum is the time that a thread existed.
const STATES: [&str; 13] = [
    "running", "runnable", "lock", "disk", "network", "poll", "pipe", "sleep", "fault", "child", "stopped", "other",
    "gpu",
];

/// The states that a thread of the workload has the name of.
const KNOWN: [&str; 9] = ["running", "lock", "sleep", "pipe", "network", "poll", "child", "fault", "runnable"];

/// The functions that wait in a state.
const FUNCTIONS: [(&str, &str); 7] = [
    ("lock", "states::lock"),
    ("sleep", "states::nap"),
    ("pipe", "states::read_pipe"),
    ("network", "states::receive"),
    ("poll", "states::poll"),
    ("child", "states::child"),
    ("fault", "states::fault"),
];

/// The part by which times may differ. On emulated processors, a switch takes long, and the kernel
/// counts it as CPU time of the thread that is about to run.
fn tolerance() -> f64 {
    if patience() == 1 { 0.02 } else { 0.2 }
}

fn rows(outcome: &Outcome) -> &[Value] {
    outcome.rows("time by thread")
}

fn number(row: &Value, column: &str) -> f64 {
    row[column].as_f64().unwrap_or_else(|| panic!("{column}: {row}"))
}

/// The sum is exact, whatever happens at once on several CPUs. The recipe itself compares it with
/// the time that it has followed each thread.
pub fn expect_exact_sums(outcome: &Outcome) {
    for row in rows(outcome) {
        expect_exact_sum(row, "");
    }
    assert!(!outcome.text.contains("differ from its time"), "{}", outcome.text);
}

fn expect_exact_sum(row: &Value, context: &str) {
    let sum: i64 = STATES.iter().map(|state| row[state].as_i64().expect("nanoseconds")).sum();
    assert_eq!(row["elapsed"].as_i64(), Some(sum), "{row}\n{context}");
}

/// How long each thread of `workload states` does what it has the name of, in nanoseconds.
const NOMINAL_NS: f64 = 500e6;

/// All bounds hold at any load, by the thread's own clock and the kernel's account of its CPU time
/// and its waits for a CPU. One does not: in a call, another thread's `mmap` can block a thread in
/// another state. So a blocked thread's state may be short by half of one of its five waits.
#[test]
fn the_states_of_threads_are_those_they_were_in_and_add_up() {
    if skip() {
        return;
    }
    let outcome = Outcome::with("wall/threads", "states 100 5", &["--top", "1000"]);
    expect_exact_sums(&outcome);
    let off = tolerance() * NOMINAL_NS;
    for name in KNOWN {
        let row = outcome.row("time by thread", "thread", &name.into());
        let [state, ready, running, elapsed] =
            [name, "runnable", "running", "elapsed"].map(|column| number(row, column));
        let [truth, lifetime, joined, blocked, off_cpu] = ["ns", "thread_ns", "joined_ns", "blocked_ns", "off_ns"]
            .map(|what| outcome.truth(&format!("{name}_{what}")));
        let cpu = joined - off_cpu;
        let (least, most) = match name {
            "running" => (cpu - off, cpu + off),
            // Outside of its loop it may wait for a CPU all the time.
            "runnable" => (truth - off, truth + (elapsed - NOMINAL_NS) + off),
            _ => (truth - (lifetime - blocked) - NOMINAL_NS / 10.0, off_cpu + off),
        };
        assert!(state >= least && state <= most, "{name}: {state}, {least} to {most}\n{}", outcome.text);
        assert!((running - cpu).abs() <= off, "{name}: {running}, {cpu}\n{}", outcome.text);
        // While it exits, it may wait for a CPU after it was joined.
        let is_whole = elapsed >= lifetime * 0.999 && elapsed - ready <= joined + off;
        assert!(is_whole, "{name}: {elapsed} of {lifetime}, {ready} ready\n{}", outcome.text);
    }
}

/// Two threads that wake each other all the time: at each switch, the scheduler's moment is another
/// than that of its event. The CPU time is that of /proc/PID/schedstat. What a thread does after it
/// has read its own is a smaller part of a longer run: this fails by chance only if that takes more
/// than a hundredth of the CPU time in all of these runs, a millisecond in the last one.
#[test]
fn the_time_on_a_cpu_is_that_of_the_scheduler() {
    if skip() {
        return;
    }
    let within = if patience() == 1 { 0.01 } else { 0.2 };
    let mut seen = Vec::new();
    for times in [5_000, 20_000, 80_000] {
        let outcome = Outcome::with("wall/threads", &format!("act pingpong {times}"), &["--top", "1000"]);
        expect_exact_sums(&outcome);
        let off = ["ping", "pong"].map(|name| {
            let running = number(outcome.row("time by thread", "thread", &name.into()), "running");
            running / outcome.truth(&format!("{name}_cpu_ns")) - 1.0
        });
        if off.iter().all(|off| off.abs() <= within) {
            return;
        }
        seen.push((times, off, outcome.text));
    }
    panic!("{seen:?}");
}

#[test]
fn threads_that_sleep_through_the_run_are_there() {
    if skip() {
        return;
    }
    let parking = Arc::new(AtomicUsize::new(0));
    let sleepers: Vec<_> = (0..20).map(|_| parked("sleeper", &parking)).collect();
    wait_for("threads that sleep", || {
        let all = sleepers.len();
        (parking.load(Ordering::SeqCst) == all && sleeping("sleeper") == all).then_some(())
    });
    let pid = std::process::id().to_string();
    let before = switches("sleeper");
    let running =
        attached(&["-q", "-f", "json", "wall/threads", "--pid", &pid, "--duration", "300ms", "--top", "1000"]);
    let ended = running.end();
    let after = switches("sleeper");
    for sleeper in &sleepers {
        sleeper.thread().unpark();
    }
    let outcome = Outcome::read(ended.stdout);
    expect_exact_sums(&outcome);
    let found: Vec<&Value> = rows(&outcome).iter().filter(|row| row["thread"] == "sleeper").collect();
    assert_eq!(found.len(), sleepers.len(), "{}", outcome.text);
    // One that was on its way into its sleep, or was woken, has another state for a round.
    let slept = |row: &&&Value| row["tid"].as_u64().is_some_and(|tid| before.get(&tid) == after.get(&tid));
    let slept: Vec<&&Value> = found.iter().filter(slept).collect();
    assert!(slept.len() * 2 > sleepers.len(), "{before:?} {after:?}");
    assert!(slept.iter().all(|row| row["lock"] == row["elapsed"]), "{}", outcome.text);
}

/// How often each thread of this process that has the name was switched away, by its number.
fn switches(name: &str) -> BTreeMap<u64, u64> {
    let status = |tid: u64| fs::read_to_string(format!("/proc/self/task/{tid}/status")).ok();
    let field = |status: &str, field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(":\t"));
        line.map_or_else(|| panic!("{field} in {status}"), str::to_owned)
    };
    let number = |status: &str, name: &str| field(status, name).parse::<u64>().expect("a number");
    let threads = fs::read_dir("/proc/self/task").expect("own threads");
    let tids = threads.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok());
    let named = tids.filter_map(|tid| Some((tid, status(tid)?))).filter(|(_, status)| field(status, "Name") == name);
    let all = |status: &str| number(status, "voluntary_ctxt_switches") + number(status, "nonvoluntary_ctxt_switches");
    named.map(|(tid, status)| (tid, all(&status))).collect()
}

/// A thread that parks when it has counted itself.
fn parked(name: &str, parking: &Arc<AtomicUsize>) -> JoinHandle<()> {
    let parking = Arc::clone(parking);
    let park = move || {
        parking.fetch_add(1, Ordering::SeqCst);
        std::thread::park();
    };
    Builder::new().name(name.to_owned()).spawn(park).expect("a thread")
}

/// The number of threads of this process that have the name and sleep.
fn sleeping(name: &str) -> usize {
    let threads = std::fs::read_dir("/proc/self/task").expect("own threads");
    let states = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    states.filter(|stat| stat.contains(&format!("({name}) S"))).count()
}

/// Each thread of `sleepers` begins and ends during the run. It may be preempted on its way into
/// its sleep, and then sleeps for less than 20 ms, but that does not happen to half of them.
#[test]
fn the_sums_are_exact_while_threads_begin_and_end() {
    if skip() {
        return;
    }
    let running = attached(&["-q", "-f", "json", "wall/threads", "--top", "100000"]);
    let loads: Vec<_> = ["execs 40 1 4", "sleepers 200 20", "contend 4 50 100", "states 50 10"]
        .iter()
        .map(|load| Command::new(workload()).args(load.split(' ')).stdout(Stdio::null()).spawn().expect("the workload"))
        .collect();
    let pid = loads[1].id();
    for mut load in loads {
        assert!(load.wait().expect("it ends").success());
    }
    running.signal("INT");
    let outcome = Outcome::read(running.end().stdout);
    expect_exact_sums(&outcome);
    let is_sleeper =
        |row: &&Value| row["pid"] == pid && row["thread"].as_str().is_some_and(|name| name.starts_with("sleeper-"));
    let slept: Vec<&Value> = rows(&outcome).iter().filter(is_sleeper).collect();
    assert_eq!(slept.len(), 200, "{}", outcome.text);
    let [asleep, ready, running, elapsed] = ["sleep", "runnable", "running", "elapsed"]
        .map(|column| slept.iter().map(|row| number(row, column)).collect::<Vec<_>>());
    for at in 0..slept.len() {
        let is_whole = asleep[at] + ready[at] + running[at] >= 20e6 && asleep[at] < elapsed[at];
        assert!(is_whole, "{}\n{}", slept[at], outcome.text);
    }
    assert!(asleep.iter().filter(|ns| **ns >= 10e6).count() >= 100, "{}", outcome.text);
}

/// Threads that switch, begin, execute and end while windows do. The windows of a thread that is
/// there all the time follow each other without a gap: their sum is the time from its start to its
/// end, by its own clock and that of the thread that started it.
#[test]
fn the_sums_are_exact_in_each_window_and_over_all() {
    if skip() {
        return;
    }
    let directory = Directory::new("windows");
    let output = directory.path("output");
    let options = ["--every", "50ms", "--top", "100000", "-o", &output];
    let running = attached(&[&["-q", "-f", "json", "wall/threads"], options.as_slice()].concat());
    let loads: Vec<_> = ["execs 40 1 4", "sleepers 200 20", "contend 4 50 100", "states 50 10", "act pingpong 20000"]
        .iter()
        .map(|load| {
            Command::new(workload()).args(load.split(' ')).stdout(Stdio::piped()).spawn().expect("the workload")
        })
        .collect();
    let outputs: Vec<_> = loads.into_iter().map(|load| load.wait_with_output().expect("it ends")).collect();
    let printed = || std::fs::read_to_string(&output).unwrap_or_default();
    wait_for("ten windows", || (printed().matches("\"view\": \"time by thread\"").count() >= 10).then_some(()));
    running.signal("INT");
    let ended = running.end();
    let printed = printed();
    assert!(!(printed.clone() + &ended.stderr).contains("differ from its time"), "{}", ended.stderr);
    let documents = printed.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let (windows, others): (Vec<Value>, Vec<Value>) = documents.partition(|it| it["data"]["view"] == "time by thread");
    let quality = others.iter().filter(|it| it["type"] == "quality").map(Value::to_string).collect::<String>();
    assert!(windows.len() >= 10, "{} windows", windows.len());
    let rows = |window: &Value| window["data"]["rows"].as_array().expect("rows").clone();
    // A thread may have other names in earlier windows.
    let mut names: BTreeSet<(String, i64)> = BTreeSet::new();
    let mut times: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    for row in windows.iter().flat_map(rows) {
        expect_exact_sum(&row, &quality);
        let id = row["tid"].as_i64().expect("a number");
        names.insert((row["thread"].as_str().expect("a name").to_owned(), id));
        let (elapsed, runnable) = times.entry(id).or_default();
        *elapsed += number(&row, "elapsed");
        *runnable += number(&row, "runnable");
    }
    let measured = String::from_utf8_lossy(&outputs[3].stdout).into_owned();
    for name in KNOWN {
        let truth = |what: &str| -> f64 {
            let line = measured.lines().find_map(|line| line.strip_prefix(&format!("{name}_{what} ")));
            line.unwrap_or_else(|| panic!("{name}: {measured}")).parse().expect("a number")
        };
        let (least, most) = (truth("thread_ns"), truth("joined_ns"));
        // While it exits, it may wait for a CPU after it was joined.
        let is_it = |(elapsed, runnable): &(f64, f64)| {
            *elapsed >= least * 0.999 && elapsed - runnable <= most * (1.0 + tolerance())
        };
        let of_name: Vec<_> = names.iter().filter(|(thread, _)| thread == name).map(|(_, id)| times[id]).collect();
        assert!(of_name.iter().any(is_it), "{name}: {least} to {most}, but elapsed and runnable are {of_name:?}");
    }
}

/// A thread that changes its name all the time, also while an interval adds its time to the tables.
#[test]
fn a_thread_that_changes_its_name_has_rows_that_add_up() {
    if skip() {
        return;
    }
    let (ends, names) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let shared = (Arc::clone(&ends), Arc::clone(&names));
    let renamed = Builder::new().spawn(move || {
        let (is_over, names) = shared;
        while !is_over.load(Ordering::Relaxed) {
            let number = names.fetch_add(1, Ordering::Relaxed) + 1;
            fs::write("/proc/thread-self/comm", format!("name{}", number % 10)).expect("a name");
        }
    });
    let directory = Directory::new("renamed");
    let output = directory.path("output");
    let pid = std::process::id().to_string();
    let options = ["--every", "1ms", "--top", "100000", "-o", &output];
    let running = attached(&[&["-q", "-f", "json", "wall/threads", "--pid", &pid], options.as_slice()].concat());
    let printed = || std::fs::read_to_string(&output).unwrap_or_default();
    wait_for("rows of many names", || {
        let is_enough = names.load(Ordering::Relaxed) > 1000 && printed().matches("\"thread\": \"name").count() > 200;
        is_enough.then_some(())
    });
    running.signal("INT");
    let ended = running.end();
    ends.store(true, Ordering::Relaxed);
    renamed.expect("a thread").join().expect("it ends");
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let printed = printed();
    let documents = printed.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let windows: Vec<Value> = documents.filter(|it| it["data"]["view"] == "time by thread").collect();
    let rows = windows.iter().flat_map(|window| window["data"]["rows"].as_array().expect("rows"));
    let rows: Vec<&Value> =
        rows.filter(|row| row["thread"].as_str().is_some_and(|it| it.starts_with("name"))).collect();
    assert!(rows.len() > 20, "{} rows", rows.len());
    for row in rows {
        expect_exact_sum(row, &printed);
    }
}

/// The tables end about a millisecond apart, unwind tables may come when the load has begun, and
/// emulated processors have lost two of fifty waits, once. All of these are a smaller part of a
/// longer run.
#[test]
fn the_stacks_of_waits_have_all_the_time_of_their_states() {
    if skip() {
        return;
    }
    let mut seen = Vec::new();
    for times in [40, 160, 640] {
        let outcome = Outcome::with("wall/profile", &format!("states 50 {times}"), &["--top", "1000"]);
        let faults = stacks_of_waits(&outcome);
        if faults.is_empty() {
            return;
        }
        seen.push((times, faults, outcome.text));
    }
    panic!("{seen:?}");
}

/// What is wrong with the stacks of waits: each state has all of its time, and stacks with the
/// function that waits.
fn stacks_of_waits(outcome: &Outcome) -> Vec<String> {
    let mut faults = Vec::new();
    for (state, function) in FUNCTIONS {
        let compared = outcome.row("compared", "state", &state.into());
        let [exact, known] = ["exact", "with stacks"].map(|column| number(compared, column));
        let stacks = outcome.rows("time by stack");
        let is_it = |row: &&Value| row["state"] == state && row["user stack"].to_string().contains(function);
        let there: f64 = stacks.iter().filter(is_it).map(|row| number(row, "time")).sum();
        // On emulated processors, unwind tables of a new process take longer than it lives.
        let is_known = patience() > 1 || there > 0.1 * outcome.truth(&format!("{state}_ns"));
        if (exact - known).abs() >= exact * 0.02 || !is_known {
            faults.push(format!("{state}: {there} in {function}, {compared}"));
        }
    }
    faults
}

/// A thread is asked about at its first event, and again when it gets a name: a program has the
/// name of its parent until it is executed, a thread until it sets its own. The thread `pipe`
/// starts others.
#[test]
fn threads_are_followed_while_they_have_a_name_that_was_asked_for() {
    if skip() {
        return;
    }
    let names = "^(lock|sleep|pipe)$";
    let arguments = ["wall/threads", "--tree", "PID", "--comm", names, "--state", "^lock$", "--top", "1000"];
    let outcome = Outcome::run("states 100 4", &arguments);
    expect_exact_sums(&outcome);
    let is_asked_for = |row: &Value| ["lock", "sleep", "pipe"].iter().any(|name| row["thread"] == *name);
    assert!(rows(&outcome).iter().all(is_asked_for), "{}", outcome.text);
    let lock = number(outcome.row("time by thread", "thread", &"lock".into()), "lock");
    // What the kernel says: by its own clock, it also waits for a CPU in its calls.
    assert!(lock > outcome.truth("lock_blocked_ns") * 0.8, "{}", outcome.text);
    // The thread `child` starts a program for each piece of work. It may be preempted on its way
    // into its sleep.
    let programs = rows(&outcome).iter().filter(|row| row["thread"] == "sleep" && row["pid"] == row["tid"]);
    let slept = programs.map(|row| number(row, "sleep") + number(row, "runnable"));
    assert_eq!(slept.filter(|ns| *ns > 80e6).count(), 4, "{}", outcome.text);
    let states = outcome.rows("time by state");
    assert!(!states.is_empty() && states.iter().all(|row| row["state"] == "lock"), "{}", outcome.text);
}

#[test]
fn stacks_are_of_the_user_or_of_the_kernel_if_that_is_asked_for() {
    if skip() {
        return;
    }
    let is_there = |row: &Value, column: &str| row[column].as_str().is_some_and(|stack| !stack.trim().is_empty());
    for recipe in ["wall/profile", "cpu/offcpu", "cpu/profile"] {
        for (which, other) in [("user", "kernel"), ("kernel", "user")] {
            let view = match recipe {
                "wall/profile" => "time by stack",
                "cpu/offcpu" => "time off the CPU by stack",
                _ => "CPU time by stack",
            };
            let (wanted, other) = (format!("{which} stack"), format!("{other} stack"));
            // The table has few rows: all of them may be of samples that have no such stack.
            with_enough_calls(20_000, |calls| {
                let outcome = Outcome::with(recipe, &format!("act pingpong {calls}"), &["--stacks", which]);
                let rows = outcome.rows(view);
                assert!(!rows.iter().any(|row| is_there(row, &other)), "{recipe} {which}: {}", outcome.text);
                rows.iter().any(|row| is_there(row, &wanted))
            });
        }
        let refused = run(&["-q", recipe, "--stacks", "users", "--duration", "1s"]);
        assert_eq!(refused.code(), 1, "{}", refused.stderr);
        for says in ["std/stacks.prof:", "ERROR: `--stacks users`: write `user`, `kernel` or `both`"] {
            assert!(refused.stderr.contains(says), "{}", refused.stderr);
        }
    }
}

/// Whether a thread is of the kernel: those have no program. That of an ended process is not known.
fn is_of_kernel(row: &Value) -> Option<bool> {
    let flags = std::fs::read_to_string(format!("/proc/{}/stat", row["pid"])).ok()?;
    // The seventh field after the name; PF_KTHREAD is 0x200000.
    let flags: u64 = flags.rsplit_once(") ")?.1.split(' ').nth(6)?.parse().ok()?;
    Some(flags & 0x0020_0000 != 0)
}

#[test]
fn threads_of_the_kernel_and_of_programs_are_chosen() {
    if skip() {
        return;
    }
    for (recipe, view) in [("cpu/offcpu", "time off the CPU"), ("wall/threads", "time by thread")] {
        for kernel in [true, false] {
            let which = ["--kernel_threads", if kernel { "true" } else { "false" }];
            let programs = ["--user_threads", if kernel { "false" } else { "true" }, "--top", "1000"];
            let outcome = Outcome::run("act pingpong 20000", &[&[recipe][..], &which, &programs].concat());
            let rows = outcome.rows(view);
            let known: Vec<bool> = rows.iter().filter_map(is_of_kernel).collect();
            assert!(
                !known.is_empty() && known.iter().all(|of_kernel| *of_kernel == kernel),
                "{recipe}: {}",
                outcome.text
            );
            let is_there = rows.iter().any(|row| row["thread"] == "ping");
            assert_eq!(is_there, !kernel, "{recipe}: {}", outcome.text);
        }
    }
}
