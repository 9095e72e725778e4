//! The recipes of the standard library, against workloads that measure themselves.
//!
//! In: `workload pool`, `keepalive` and others, which print their own sums. Out: the same from
//! `pool/queue-depth`, `lock/latency` and `lock/futex`: exact counts, and times within two percent.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::machine::{Directory, attached, patience, skip, wait_for, workload};

/// Tolerance for times in percent. It is larger on emulated processors, where a trap takes long.
pub fn tolerance() -> f64 {
    // An emulated probe takes up to a millisecond, which is part of the time that is measured.
    2.0 + 4.0 * f64::from(patience() - 1)
}

/// The time of one piece of work. It is longer on emulated processors, where threads that are ready
/// wait for milliseconds between the probe and their own clock.
fn work_us(us: u32) -> u32 {
    if patience() == 1 { us } else { 10 * us }
}

/// Number of attempts: if the load is preempted between a system call and reading its own clock,
/// its own numbers are wrong.
pub const TRIES: u32 = 3;

/// Runs a recipe on a load that was started before it, until all times are within the tolerance.
fn check(recipe: &str, load: &str, check: fn(&Outcome)) {
    try_often(|| Outcome::of(recipe, load), check);
}

fn try_often(run: impl Fn() -> Outcome, check: fn(&Outcome)) {
    for left in (0..TRIES).rev() {
        let outcome = run();
        check(&outcome);
        let faults = outcome.faults.borrow();
        if faults.is_empty() {
            return;
        }
        assert!(left > 0, "{}\n{}", faults.join("\n"), outcome.text);
    }
}

/// The workload's own report, and the JSON documents of profiler.
pub struct Outcome {
    pub text: String,
    documents: Vec<Value>,
    /// Times outside the tolerance.
    faults: RefCell<Vec<String>>,
}

impl Outcome {
    /// The load's process exists before the recipe starts. It begins its work when all probes are
    /// attached.
    fn of(recipe: &str, load: &str) -> Outcome {
        Outcome::with(recipe, load, &[])
    }

    /// The same with more arguments.
    pub fn with(recipe: &str, load: &str, arguments: &[&str]) -> Outcome {
        Outcome::run(load, &[&[recipe, "--pid", "PID"], arguments].concat())
    }

    /// The same with these arguments only. `PID` stands for the load's process.
    pub fn run(load: &str, arguments: &[&str]) -> Outcome {
        // `keepalive` prints `ready` itself, once its connections are open.
        let waits = if load.starts_with("keepalive") { "" } else { "echo ready; read _; " };
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{waits}exec {} {load}", workload())]);
        let mut load = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the workload");
        let mut said = BufReader::new(load.stdout.take().expect("a pipe"));
        let mut text = String::new();
        said.read_line(&mut text).expect("it says that it is ready");
        let pid = load.id().to_string();
        let arguments = arguments.iter().map(|argument| if *argument == "PID" { &pid } else { *argument });
        let running = attached(&["-q", "-f", "json"].into_iter().chain(arguments).collect::<Vec<_>>());
        load.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
        said.read_to_string(&mut text).expect("it says what it saw");
        assert!(load.wait().expect("it ends").success(), "{text}");
        running.signal("INT");
        let ended = running.end();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        Outcome::read(text + &ended.stdout)
    }

    pub fn read(text: String) -> Outcome {
        let documents = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Outcome { documents, text, faults: RefCell::default() }
    }

    /// A number that the workload printed.
    pub fn truth(&self, name: &str) -> f64 {
        let line = self.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name}: {}", self.text))
    }

    pub fn document(&self, kind: &str, name: &str, title: &str) -> &Value {
        let is_it = |document: &&Value| document["type"] == kind && document["data"][name] == title;
        &self.documents.iter().find(is_it).unwrap_or_else(|| panic!("{title}: {}", self.text))["data"]
    }

    /// How many of these things are missing, according to the quality of the results.
    fn missing(&self, what: &str) -> f64 {
        let of_document = |document: &Value| {
            let missing = document["data"]["quality"]["missing"].as_array()?;
            let of_it = missing.iter().filter(|one| one["what"].as_str().is_some_and(|text| text.starts_with(what)));
            Some(of_it.filter_map(|one| one["count"].as_f64()).sum::<f64>())
        };
        self.documents.iter().filter_map(of_document).fold(0.0, f64::max)
    }

    /// The rows of a view.
    pub fn rows(&self, view: &str) -> &Vec<Value> {
        self.document("view", "view", view)["rows"].as_array().expect("rows")
    }

    /// The rows of a view in each of its windows.
    pub fn windows(&self, view: &str) -> Vec<&Vec<Value>> {
        let is_it = |document: &&Value| document["type"] == "view" && document["data"]["view"] == view;
        self.documents.iter().filter(is_it).map(|one| one["data"]["rows"].as_array().expect("rows")).collect()
    }

    /// The row of a view that has this value in a column.
    pub fn row(&self, view: &str, column: &str, value: &Value) -> &Value {
        let is_it = |row: &&Value| row[column] == *value;
        self.rows(view).iter().find(is_it).unwrap_or_else(|| panic!("{view}: {}", self.text))
    }

    /// Whether these rows are of that many holders. A mutex is not fair: a thread that waits until
    /// all others have ended holds it while no other waits, and is not seen. And the kernel copies
    /// a number byte by byte: one that changes meanwhile can be read as another.
    fn expect_holders(&self, rows: &[&Value], threads: usize) {
        assert!(total(rows, "waited") > 0.5 * self.truth("waited_ns"), "{}", self.text);
        if rows.len() != threads {
            self.faults.borrow_mut().push(format!("{} of {threads} threads held the lock in a wait", rows.len()));
        }
    }

    fn near(&self, measured: &Value, truth: f64, what: &str) {
        let measured = measured.as_f64().unwrap_or(f64::NAN);
        let off = (measured - truth).abs() / truth * 100.0;
        // NaN: nothing was measured.
        if off.is_nan() || off > tolerance() {
            self.faults.borrow_mut().push(format!("{what}: {measured} for {truth}, {off:.1} % off"));
        }
    }
}

#[test]
fn the_queue_and_the_pool_are_those_of_the_server() {
    if skip() {
        return;
    }
    // Eight clients and four threads: four wait and four are served. Each connection makes three
    // requests.
    check("pool/queue-depth", &format!("pool 4 8 400 3 {}", work_us(2000)), |outcome| {
        let row = only_row(outcome, "queue and service");
        assert_eq!((&row["process"], &row["requests"]), (&"workload".into(), &1200.into()), "{}", outcome.text);
        outcome.near(&row["queued"], outcome.truth("queued_ns") / 1200.0, "time in the queue");
        outcome.near(&row["served"], outcome.truth("served_ns") / 1200.0, "time of service");
        let depth = only_row(outcome, "waiting and busy requests");
        assert!(depth["waiting max"].as_f64() >= Some(4.0) && depth["busy max"] == 4, "{}", outcome.text);
        // Little's law: one is sampled, the other from the rate and the times. The run is longer
        // than the load.
        let number = |column: &str| depth[column].as_f64().expect("a number");
        let (sampled, product) = (number("waiting + busy"), number("rate × time"));
        assert!((sampled - product).abs() <= 0.25 * sampled, "{}", outcome.text);
    });
}

/// The only row of a view.
fn only_row<'a>(outcome: &'a Outcome, view: &str) -> &'a Value {
    let rows = outcome.rows(view);
    assert_eq!(rows.len(), 1, "{view}: {}", outcome.text);
    &rows[0]
}

#[test]
fn an_event_loop_s_requests_are_counted_on_connections_older_than_the_tool() {
    if skip() {
        return;
    }
    for family in ["tcp", "unix"] {
        check("pool/queue-depth", &format!("keepalive {family} 8 50 1 {}", work_us(1000)), |outcome| {
            let row = only_row(outcome, "queue and service");
            assert_eq!((&row["process"], &row["requests"]), (&"workload".into(), &400.into()), "{}", outcome.text);
            outcome.near(&row["queued"], outcome.truth("queued_ns") / 400.0, "time in the queue");
            outcome.near(&row["served"], outcome.truth("served_ns") / 400.0, "time of service");
            let depth = only_row(outcome, "waiting and busy requests");
            assert!(depth["waiting max"].as_f64() > Some(0.0), "{}", outcome.text);
            // Samples may miss the maximum.
            let busy = depth["busy max"].as_f64().unwrap_or(0.0);
            assert!(busy > 1.0 && busy <= outcome.truth("busy_max"), "{}", outcome.text);
        });
    }
}

#[test]
fn a_rate_is_not_printed_where_requests_cannot_be_told_apart() {
    if skip() {
        return;
    }
    check("pool/queue-depth", "keepalive tcp 4 20 5 100", |outcome| {
        assert_eq!(outcome.truth("reads") as u64, 400, "{}", outcome.text);
        let row = only_row(outcome, "queue and service");
        assert!(
            row["requests"].is_null() && row["requests/s"].is_null() && row["served"].is_null(),
            "{}",
            outcome.text
        );
        assert!(outcome.text.contains("read 400 times for 80 answers"), "{}", outcome.text);
    });
}

impl Outcome {
    /// An address that the workload printed.
    fn address(&self, name: &str) -> u64 {
        let address = self.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" 0x"));
        address.and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or_else(|| panic!("{name}: {}", self.text))
    }

    /// The rows of a view that are about words of libc's condition variable, which is 48 bytes
    /// long.
    fn rows_of_condition(&self, view: &str) -> Vec<&Value> {
        let condition = self.address("condition");
        let rows = self.rows(view);
        let is_of_it =
            |row: &&Value| row["word"].as_u64().is_some_and(|word| (condition..condition + 48).contains(&word));
        rows.iter().filter(is_of_it).collect()
    }
}

/// The sum of a column.
fn total(rows: &[&Value], column: &str) -> f64 {
    rows.iter().filter_map(|row| row[column].as_f64()).sum()
}

#[test]
fn the_kernel_s_view_of_a_mutex_is_that_of_its_threads() {
    if skip() {
        return;
    }
    check("lock/futex", &format!("contend 4 100 {}", work_us(1000)), |outcome| {
        let lock = outcome.address("lock");
        let row = outcome.row("waits for locks", "word", &lock.into());
        // Taking a free lock does not enter the kernel. A thread that is woken too late waits
        // again.
        assert!(row["waits"].as_u64() > Some(0) && row["kind"] == "lock", "{}", outcome.text);
        outcome.near(&row["waited"], outcome.truth("waited_ns"), "waits");
        let holders =
            outcome.document("view", "view", "lock holders at the start of each wait (0: unknown)")["rows"].as_array();
        let known: Vec<&Value> =
            holders.expect("rows").iter().filter(|row| row["word"] == lock && row["thread"] != 0).collect();
        outcome.expect_holders(&known, 4);
    });
}

/// The view with threads of a pool that are idle for whole seconds.
const IDLE: &str = "other waits: condition variables, semaphores, idle threads";

#[test]
fn waits_for_a_condition_are_no_waits_for_a_lock() {
    if skip() {
        return;
    }
    let load = format!("conditions 40 {} {}", work_us(5000), work_us(10000));
    check("lock/futex", &load, |outcome| {
        assert!(outcome.rows_of_condition("waits for locks").is_empty(), "{}", outcome.text);
        let idle = outcome.rows_of_condition(IDLE);
        outcome.near(&total(&idle, "waited").into(), outcome.truth("waited_ns"), "waits for the condition");
    });
}

#[test]
fn waits_that_go_on_at_the_end_are_counted_as_open() {
    if skip() {
        return;
    }
    let mut command = Command::new(workload());
    let mut load =
        command.args(["parked", "3"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the workload");
    let mut said = BufReader::new(load.stdout.take().expect("a pipe"));
    let mut text = String::new();
    for _ in 0..2 {
        said.read_line(&mut text).expect("it says that it is ready");
    }
    let running = attached(&["-q", "-f", "json", "lock/futex", "--pid", &load.id().to_string()]);
    load.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
    let tasks = format!("/proc/{}/task", load.id());
    // The number of the system call that a thread is in: futex is 202 on x86-64.
    let waits = |task: &std::path::Path| {
        std::fs::read_to_string(task.join("syscall")).is_ok_and(|call| call.starts_with("202 "))
    };
    wait_for("the parked threads", || {
        let tasks = std::fs::read_dir(&tasks).expect("its threads").flatten();
        (tasks.filter(|task| waits(&task.path())).count() == 3).then_some(())
    });
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    drop(load.stdin.take());
    assert!(load.wait().expect("it ends").success());
    let outcome = Outcome::read(text + &ended.stdout);
    let idle = outcome.rows_of_condition(IDLE);
    assert!(total(&idle, "open") as u64 == 3 && total(&idle, "waits") as u64 == 3, "{}", outcome.text);
    assert!(outcome.rows_of_condition("waits for locks").is_empty(), "{}", outcome.text);
}

#[test]
fn waits_for_a_mutex_are_those_of_its_threads() {
    if skip() {
        return;
    }
    check("lock/latency", &format!("contend 4 100 {}", work_us(1000)), |outcome| {
        let lock = outcome.address("lock");
        let row = outcome.row("waits for locks", "lock", &lock.into());
        assert_eq!((&row["waits"], &row["holds"]), (&400.into(), &400.into()), "{}", outcome.text);
        outcome.near(&row["waited"], outcome.truth("waited_ns"), "waits");
        outcome.near(&row["held"], outcome.truth("held_ns") / 400.0, "time of holding");
        let holders = outcome.document("view", "view", "lock holders at the start of each wait")["rows"]
            .as_array()
            .expect("rows");
        let holders: Vec<&Value> = holders.iter().filter(|row| row["lock"] == lock).collect();
        // A wait that begins between two holders has no holder.
        outcome.expect_holders(&holders, 4);
        // The caller is one of the thread's functions; which one makes the call depends on
        // inlining.
        let pid = &row["pid"];
        let row = outcome.row("where threads wait for locks", "pid", pid);
        let mut frames = row["stack"].as_str().expect("who waits longest").lines().map(str::trim).skip(1);
        assert_eq!(frames.next(), Some("pthread_mutex_lock+0"), "{}", outcome.text);
        assert!(frames.next().is_some_and(|caller| !caller.starts_with("0x")), "{}", outcome.text);
    });
}

#[test]
fn a_mutex_is_not_held_while_its_thread_waits_for_a_condition() {
    if skip() {
        return;
    }
    check("lock/latency", "conditions 40 5000 10000", |outcome| {
        let waits = outcome.row("waits for condition variables", "condition", &outcome.address("condition").into());
        // A thread holds the mutex until its first wait, after each wait, and briefly each time it
        // wakes the other thread.
        let holds = 41.0 + waits["waits"].as_f64().expect("a count");
        let row = outcome.row("waits for locks", "lock", &outcome.address("lock").into());
        assert_eq!(row["holds"].as_f64(), Some(holds), "{}", outcome.text);
        let held = row["held"].as_f64().unwrap_or(f64::NAN) * holds;
        outcome.near(&held.into(), outcome.truth("held_ns"), "time of holding");
        outcome.near(&waits["waited"], outcome.truth("waited_ns"), "waits for the condition");
        let taken = outcome.row("waits for locks", "lock", &outcome.address("taken").into());
        assert_eq!((&taken["failed"], &taken["holds"]), (&40.into(), &1.into()), "{}", outcome.text);
    });
}

#[test]
fn readers_and_writers_of_a_rwlock_have_rows_of_their_own() {
    if skip() {
        return;
    }
    check("lock/latency", &format!("rwlock 3 50 {}", work_us(1000)), |outcome| {
        let lock = outcome.address("lock");
        let rows = outcome.rows("waits for locks");
        let row = |kind: &str| {
            let found = rows.iter().find(|row| row["lock"] == lock && row["kind"] == kind);
            found.unwrap_or_else(|| panic!("{kind}: {}", outcome.text))
        };
        let (read, write) = (row("read"), row("write"));
        assert_eq!((&read["waits"], &read["holds"]), (&150.into(), &150.into()), "{}", outcome.text);
        assert_eq!((&write["waits"], &write["holds"]), (&50.into(), &50.into()), "{}", outcome.text);
        outcome.near(&read["held"], outcome.truth("read_held_ns") / 150.0, "time of reading");
        outcome.near(&write["held"], outcome.truth("write_held_ns") / 50.0, "time of writing");
        outcome.near(&write["waited"], outcome.truth("write_waited_ns"), "waits of the writer");
    });
}

/// Samples a second.
const HZ: u32 = 999;

/// Where other programs use half of the CPU, n samples have a standard error of sqrt(n / 2): 0.9
/// percent in six seconds.
#[test]
fn samples_of_a_process_add_up_to_its_cpu_time() {
    if skip() {
        return;
    }
    let run = || {
        let directory = Directory::new("profile");
        let folded = directory.path("folded");
        let outcome = Outcome::with("cpu/profile", "shares 6000", &["--hz", &HZ.to_string(), "--folded", &folded]);
        let text = std::fs::read_to_string(&folded).expect("written");
        let of_it = text.lines().filter(|line| line.starts_with("workload;"));
        let samples: u64 = of_it.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum();
        Outcome::read(outcome.text + &format!("folded {samples}\n"))
    };
    try_often(run, |outcome| {
        let row = outcome.row("CPU time by process", "thread", &"workload".into());
        assert_eq!(row["samples"].as_f64(), Some(outcome.truth("folded")), "{}", outcome.text);
        let sampled_s = row["samples"].as_f64().unwrap_or(f64::NAN) / f64::from(HZ);
        let spent: f64 = [70, 20, 10].iter().map(|percent| outcome.truth(&format!("share_{percent}_ns"))).sum();
        // Ticks are missing if the host of a virtual machine takes its CPUs away. They may have
        // been any process's.
        let missing_s = outcome.missing("ticks of profile:hz") / f64::from(HZ);
        let spent_s = spent / 1e9;
        let is_within = (spent_s - missing_s..spent_s).contains(&sampled_s);
        if missing_s < 0.01 * spent_s || !is_within {
            outcome.near(&sampled_s.into(), spent_s, "CPU time");
        }
    });
}
