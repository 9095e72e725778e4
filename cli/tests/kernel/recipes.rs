//! The recipes of the standard library, against workloads that measure themselves.
//!
//! In: `workload pool`, `keepalive` and others, which print their own sums. Out: the same from
//! `pool/queue-depth`, `lock/latency` and `lock/futex`: exact counts, and times between two that
//! the workload knows: of what is certainly part of them, and of what certainly contains them. On a
//! busy machine a thread may lose its CPU between an event and its own clock, so both differ.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::machine::{Directory, attached, patience, skip, wait_for, with_enough_calls, workload};

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

/// The workload's own report, and the JSON documents of profiler.
pub struct Outcome {
    pub text: String,
    documents: Vec<Value>,
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
        let mut command = Command::new(workload());
        command.args((!load.starts_with("keepalive")).then_some("ready")).args(load.split(' '));
        let mut load = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the workload");
        let mut said = BufReader::new(load.stdout.take().expect("a pipe"));
        let mut text = String::new();
        said.read_line(&mut text).expect("it says that it is ready");
        let pid = load.id().to_string();
        let arguments = arguments.iter().map(|argument| if *argument == "PID" { &pid } else { *argument });
        let running = attached(&["-q", "-f", "json"].into_iter().chain(arguments).collect::<Vec<_>>());
        let start = Instant::now();
        load.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
        said.read_to_string(&mut text).expect("it says what it saw");
        assert!(load.wait().expect("it ends").success(), "{text}");
        // The load has done all of its work in this time.
        let run_ns = start.elapsed().as_nanos();
        running.signal("INT");
        let ended = running.end();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        Outcome::read(format!("{text}run_ns {run_ns}\n{}", ended.stdout))
    }

    pub fn read(text: String) -> Outcome {
        let documents = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Outcome { text, documents }
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

    /// The ids of the load's threads.
    fn threads(&self) -> Vec<u64> {
        self.text.lines().filter_map(|line| line.strip_prefix("thread ")?.parse().ok()).collect()
    }

    /// The first thread has the lock when all others begin their first waits. Later ones need not
    /// have a known holder: a wait may begin between two of them.
    fn expect_first_holder(&self, rows: &[&Value]) {
        let threads = self.threads();
        let first = rows.iter().find(|row| row["thread"].as_u64() == threads.first().copied());
        let waits = first.and_then(|row| row["waits"].as_u64());
        assert!(waits >= Some(threads.len() as u64 - 1), "{}", self.text);
        assert!(total(rows, "waited") <= self.truth("waited_ns"), "{}", self.text);
    }

    pub fn expect_between(&self, measured: f64, least: f64, most: f64, what: &str) {
        let is_right = is_between(measured, least, most);
        assert!(is_right, "{what}: {measured} is not between {least} and {most}\n{}", self.text);
    }
}

/// Whether a time contains one that the load knows and is part of another one. The tolerance is for
/// the differences between the kernel's clocks, for means that are rounded, and for the few
/// microseconds of each switch between threads that the kernel counts before the probe runs.
pub fn is_between(measured: f64, least: f64, most: f64) -> bool {
    let off = tolerance() / 100.0;
    measured >= least * (1.0 - off) && measured <= most * (1.0 + off)
}

/// Counts and times of requests. A request is queued and served for at least as long as the server
/// knows, and both together end before it returns from the answer.
fn expect_requests(outcome: &Outcome, requests: u64) {
    let row = only_row(outcome, "queue and service");
    assert_eq!((&row["process"], &row["requests"]), (&"workload".into(), &requests.into()), "{}", outcome.text);
    let sum = |column: &str| row[column].as_f64().unwrap_or(f64::NAN) * outcome.truth("requests");
    let (queued, served) = (sum("queued"), sum("served"));
    let [queued_ns, served_ns, answered_ns] =
        ["queued_least_ns", "served_ns", "answered_ns"].map(|name| outcome.truth(name));
    outcome.expect_between(queued, queued_ns, answered_ns, "time in the queue");
    outcome.expect_between(served, served_ns, answered_ns, "time of service");
    outcome.expect_between(queued + served, queued_ns + served_ns, answered_ns, "both times");
}

/// Eight clients and four threads: four wait and four are served. Each connection makes three
/// requests.
fn pool(connections: u64) -> Outcome {
    Outcome::of("pool/queue-depth", &format!("pool 4 8 {connections} 3 {}", work_us(2000)))
}

/// A column of the view of samples.
fn sampled(outcome: &Outcome, column: &str) -> f64 {
    only_row(outcome, "waiting and busy requests")[column].as_f64().unwrap_or(0.0)
}

#[test]
fn the_queue_and_the_pool_are_those_of_the_server() {
    if skip() {
        return;
    }
    // Samples are taken by a thread that waits for a CPU too.
    with_enough_calls(200, |connections| {
        let outcome = pool(connections);
        expect_requests(&outcome, 3 * connections);
        let (waiting, busy) = (sampled(&outcome, "waiting max"), sampled(&outcome, "busy max"));
        assert!(waiting <= 8.0 && busy <= 4.0, "{}", outcome.text);
        waiting >= 4.0 && busy >= 4.0
    });
}

/// One is sampled, the other from the rate and the times. The run is longer than the load.
#[test]
fn waiting_and_busy_requests_obey_little_s_law() {
    if skip() {
        return;
    }
    let outcome = pool(400);
    let (sampled, product) = (sampled(&outcome, "waiting + busy"), sampled(&outcome, "rate × time"));
    assert!((sampled - product).abs() <= 0.25 * sampled, "{}", outcome.text);
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
        with_enough_calls(50, |requests| {
            let load = format!("keepalive {family} 8 {requests} 1 {}", work_us(1000));
            let outcome = Outcome::of("pool/queue-depth", &load);
            expect_requests(&outcome, 8 * requests);
            // Samples may miss the maximum.
            let (waiting, busy) = (sampled(&outcome, "waiting max"), sampled(&outcome, "busy max"));
            assert!(waiting <= 8.0 && busy <= outcome.truth("busy_max"), "{}", outcome.text);
            waiting > 0.0 && busy > 1.0
        });
    }
}

#[test]
fn a_rate_is_not_printed_where_requests_cannot_be_told_apart() {
    if skip() {
        return;
    }
    let outcome = Outcome::of("pool/queue-depth", "keepalive tcp 4 20 5 100");
    assert_eq!(outcome.truth("reads") as u64, 400, "{}", outcome.text);
    let row = only_row(&outcome, "queue and service");
    assert!(row["requests"].is_null() && row["requests/s"].is_null() && row["served"].is_null(), "{}", outcome.text);
    assert!(outcome.text.contains("read 400 times for 80 answers"), "{}", outcome.text);
}

impl Outcome {
    /// An address that the workload printed.
    pub fn address(&self, name: &str) -> u64 {
        address_in(&self.text, name).unwrap_or_else(|| panic!("{name}: {}", self.text))
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

fn address_in(text: &str, name: &str) -> Option<u64> {
    let address = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" 0x"))?;
    u64::from_str_radix(address, 16).ok()
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
    let outcome = Outcome::of("lock/futex", &format!("contend 4 100 {}", work_us(1000)));
    let lock = outcome.address("lock");
    let row = outcome.row("waits for locks", "word", &lock.into());
    // Taking a free lock does not enter the kernel. A thread that is woken too late waits again.
    assert!(row["waits"].as_u64() > Some(0) && row["kind"] == "lock", "{}", outcome.text);
    let (least, most) = (outcome.truth("waited_least_ns"), outcome.truth("waited_ns"));
    outcome.expect_between(total(&[row], "waited"), least, most, "waits");
    let holders = outcome.rows("lock holders at the start of each wait (0: unknown)");
    let known: Vec<&Value> = holders.iter().filter(|row| row["word"] == lock && row["thread"] != 0).collect();
    outcome.expect_first_holder(&known);
    let threads = outcome.threads();
    let is_known = |row: &&Value| row["thread"].as_u64().is_some_and(|thread| threads.contains(&thread));
    assert!(known.iter().all(is_known), "{}", outcome.text);
}

/// The view with threads of a pool that are idle for whole seconds.
const IDLE: &str = "other waits: condition variables, semaphores, other locks, idle threads";

#[test]
fn waits_for_a_condition_are_no_waits_for_a_lock() {
    if skip() {
        return;
    }
    let load = format!("conditions 40 {} {}", work_us(5000), work_us(10000));
    let outcome = Outcome::of("lock/futex", &load);
    assert!(outcome.rows_of_condition("waits for locks").is_empty(), "{}", outcome.text);
    let waited = total(&outcome.rows_of_condition(IDLE), "waited");
    let (least, most) = (outcome.truth("waited_least_ns"), outcome.truth("waited_ns"));
    outcome.expect_between(waited, least, most, "waits for the condition");
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
    let condition = address_in(&text, "condition").expect("its address");
    // The number of the system call that a thread is in, and its first argument: futex is 202 on
    // x86-64. A thread may wait for the mutex first.
    let waits = |task: &std::path::Path| {
        let call = std::fs::read_to_string(task.join("syscall")).unwrap_or_default();
        let word = call.strip_prefix("202 0x").and_then(|rest| u64::from_str_radix(rest.split(' ').next()?, 16).ok());
        word.is_some_and(|word| (condition..condition + 48).contains(&word))
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
    let outcome = Outcome::of("lock/latency", &format!("contend 4 100 {}", work_us(1000)));
    let lock = outcome.address("lock");
    let row = outcome.row("waits for locks", "lock", &lock.into());
    assert_eq!((&row["acquired"], &row["holds"]), (&400.into(), &400.into()), "{}", outcome.text);
    // The other three wait for the first one, and each finds the lock taken or free after that.
    assert!(row["waits"].as_u64().is_some_and(|waits| (3..=400).contains(&waits)), "{}", outcome.text);
    expect_side(&outcome, row, 400.0, "");
    let holders = outcome.rows("lock holders at the start of each wait");
    outcome.expect_first_holder(&holders.iter().filter(|row| row["lock"] == lock).collect::<Vec<_>>());
    // The caller is one of the thread's functions; which one makes the call depends on inlining.
    let row = outcome.row("where threads wait for locks and semaphores", "pid", &row["pid"]);
    let mut frames = row["stack"].as_str().expect("who waits longest").lines().map(str::trim).skip(1);
    let is_named = |caller: &str| !caller.starts_with("0x") && !caller.starts_with("pthread_mutex_lock");
    assert!(frames.next().is_some_and(is_named), "{}", outcome.text);
}

#[test]
fn a_lock_that_is_free_is_no_wait() {
    if skip() {
        return;
    }
    let outcome = Outcome::of("lock/latency", "contend 1 2000 0");
    let row = outcome.row("waits for locks", "lock", &outcome.address("lock").into());
    assert_eq!((&row["acquired"], &row["holds"]), (&2000.into(), &2000.into()), "{}", outcome.text);
    assert!(row["waits"].is_null() && row["waited"].is_null(), "{}", outcome.text);
    let outcome = Outcome::of("lock/latency", "act semaphore 20 5");
    let row = outcome.row("waits for semaphores", "semaphore", &outcome.address("semaphore").into());
    let counts = [&row["acquired"], &row["waits"]].map(Value::as_f64);
    assert_eq!(counts, ["taken", "slept"].map(|name| Some(outcome.truth(name))), "{}", outcome.text);
    let waited = row["waited"].as_f64().unwrap_or(f64::NAN);
    outcome.expect_between(waited, outcome.truth("waited_least_ns"), outcome.truth("waited_ns"), "waits");
}

/// Times of waiting for a lock and of holding it. The load's times have this before their names.
fn expect_side(outcome: &Outcome, row: &Value, holds: f64, side: &str) {
    let [least, most, held_ns, used_ns] =
        ["waited_least_ns", "waited_ns", "held_ns", "used_ns"].map(|name| outcome.truth(&format!("{side}{name}")));
    // Without a wait there is no time.
    let waited = row["waited"].as_f64().unwrap_or(0.0);
    let held = row["held"].as_f64().unwrap_or(f64::NAN) * holds;
    outcome.expect_between(waited, least, most, "waits");
    outcome.expect_between(held, held_ns, used_ns, "time of holding");
    outcome.expect_between(waited + held, least + held_ns, used_ns, "waits and holds");
}

#[test]
fn a_mutex_is_not_held_while_its_thread_waits_for_a_condition() {
    if skip() {
        return;
    }
    let outcome = Outcome::of("lock/latency", "conditions 40 5000 10000");
    let waits = outcome.row("waits for condition variables", "condition", &outcome.address("condition").into());
    assert_eq!(waits["waits"].as_f64(), Some(outcome.truth("waits")), "{}", outcome.text);
    // A thread holds the mutex until its first wait, after each wait, and briefly each time it
    // wakes the other thread.
    let holds = 41.0 + outcome.truth("waits");
    let row = outcome.row("waits for locks", "lock", &outcome.address("lock").into());
    assert_eq!(row["holds"].as_f64(), Some(holds), "{}", outcome.text);
    let held = row["held"].as_f64().unwrap_or(f64::NAN) * holds;
    outcome.expect_between(held, outcome.truth("held_ns"), outcome.truth("held_most_ns"), "time of holding");
    let (least, most) = (outcome.truth("waited_least_ns"), outcome.truth("waited_ns"));
    outcome.expect_between(total(&[waits], "waited"), least, most, "waits for the condition");
    let taken = outcome.row("waits for locks", "lock", &outcome.address("taken").into());
    assert_eq!((&taken["failed"], &taken["holds"]), (&40.into(), &1.into()), "{}", outcome.text);
}

#[test]
fn readers_and_writers_of_a_rwlock_have_rows_of_their_own() {
    if skip() {
        return;
    }
    let outcome = Outcome::of("lock/latency", &format!("rwlock 3 50 {}", work_us(1000)));
    let lock = outcome.address("lock");
    let rows = outcome.rows("waits for locks");
    let row = |kind: &str| {
        let found = rows.iter().find(|row| row["lock"] == lock && row["kind"] == kind);
        found.unwrap_or_else(|| panic!("{kind}: {}", outcome.text))
    };
    let (read, write) = (row("read"), row("write"));
    assert_eq!((&read["acquired"], &read["holds"]), (&150.into(), &150.into()), "{}", outcome.text);
    assert_eq!((&write["acquired"], &write["holds"]), (&50.into(), &50.into()), "{}", outcome.text);
    expect_side(&outcome, read, 150.0, "read_");
    expect_side(&outcome, write, 50.0, "write_");
}

/// Samples a second. On an emulated processor a sample takes up to a millisecond.
fn hz() -> f64 {
    if patience() == 1 { 4999.0 } else { 999.0 }
}

/// Exact at any load: while a thread has a CPU, the clock of that CPU ticks as often as the time
/// has periods, or once more or less. A thread begins to run once more than it stops.
#[test]
fn samples_of_a_process_add_up_to_its_cpu_time() {
    if skip() {
        return;
    }
    let directory = Directory::new("profile");
    let folded = directory.path("folded");
    let outcome = Outcome::with("cpu/profile", "shares 2000", &["--hz", &hz().to_string(), "--folded", &folded]);
    let text = std::fs::read_to_string(&folded).expect("written");
    let of_it = text.lines().filter(|line| line.starts_with("workload;"));
    let in_file: f64 = of_it.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum();
    let row = outcome.row("CPU time by process", "thread", &"workload".into());
    assert_eq!(row["samples"].as_f64(), Some(in_file), "{}", outcome.text);
    let ticks = outcome.truth("cpu_ns") / 1e9 * hz();
    // Ticks are missing if the host of a virtual machine takes its CPUs away. They may have been
    // any process's. The shell that became the load has CPU time but another name, and the end of
    // the load is not in its own time: some milliseconds.
    let off = outcome.truth("switches") + 1.0 + outcome.missing("ticks of profile:hz") + 0.02 * ticks;
    assert!((in_file - ticks).abs() <= off, "{in_file} for {ticks} within {off}\n{}", outcome.text);
}
