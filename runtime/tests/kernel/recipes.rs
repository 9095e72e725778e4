//! The recipes of the standard library against workloads that measure themselves.
//!
//! In: `workload pool` and `workload contend`, which print their own sums. Out: the same from `pool/queue-depth` and `lock/latency`:
//! counts exactly, times within two per cent.

use std::cell::RefCell;

use serde_json::Value;

use super::machine::{patience, run, skip, workload};

/// How far times may be off, in per cent; more where processors are emulated and a trap takes its time.
fn tolerance() -> f64 {
    2.0 * f64::from(patience())
}

/// Tries so often: where the load is interrupted between a system call and its own clock, it is wrong about itself.
const TRIES: u32 = 3;

/// Runs a check until no time is off.
fn check(recipe: &str, load: &str, check: fn(&Outcome)) {
    for left in (0..TRIES).rev() {
        let outcome = Outcome::of(recipe, load);
        check(&outcome);
        let faults = outcome.faults.borrow();
        if faults.is_empty() {
            return;
        }
        assert!(left > 0, "{}\n{}", faults.join("\n"), outcome.text);
    }
}

/// What the workload said of itself, and the documents of profiler.
struct Outcome {
    text: String,
    documents: Vec<Value>,
    /// Times that are off.
    faults: RefCell<Vec<String>>,
}

impl Outcome {
    fn of(recipe: &str, load: &str) -> Outcome {
        let ended = run(&["-q", "-f", "json", recipe, "-c", &format!("{} {load}", workload())]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let documents = ended.stdout.lines().filter_map(|line| serde_json::from_str(line).ok());
        Outcome { documents: documents.collect(), text: ended.stdout, faults: RefCell::default() }
    }

    /// A number of the workload.
    fn truth(&self, name: &str) -> f64 {
        let line = self.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name}: {}", self.text))
    }

    fn document(&self, kind: &str, name: &str, title: &str) -> &Value {
        let is_it = |document: &&Value| document["type"] == kind && document["data"][name] == title;
        &self.documents.iter().find(is_it).unwrap_or_else(|| panic!("{title}: {}", self.text))["data"]
    }

    /// The row of a view in which a column has a value.
    fn row(&self, view: &str, column: &str, value: &Value) -> &Value {
        let rows = self.document("view", "view", view)["rows"].as_array().expect("rows");
        let is_it = |row: &&Value| row[column] == *value;
        rows.iter().find(is_it).unwrap_or_else(|| panic!("{view}: {}", self.text))
    }

    fn near(&self, measured: &Value, truth: f64, what: &str) {
        let measured = measured.as_f64().unwrap_or(f64::NAN);
        let off = (measured - truth).abs() / truth * 100.0;
        // Also when nothing was measured.
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
    // Eight clients at four threads: four wait, four are served. Each connection has three requests.
    check("pool/queue-depth", "pool 4 8 400 3 2000", |outcome| {
        let connections = outcome.document("span", "name", "connection");
        assert_eq!((&connections["started"], &connections["matched"]), (&400.into(), &400.into()), "{}", outcome.text);
        let requests = outcome.document("span", "name", "request");
        assert_eq!(requests["matched"], 1200, "{}", outcome.text);
        let row = outcome.row("queue and service", "comm", &"workload".into());
        outcome.near(&row["@queued.mean"], outcome.truth("queued_ns") / 400.0, "time in the queue");
        outcome.near(&row["@served.mean"], outcome.truth("served_ns") / 1200.0, "time of service");
        let depth = &outcome.document("view", "view", "connections that wait, threads at work")["rows"][0];
        assert!(depth["@waiting.max"].as_f64() >= Some(4.0) && depth["@busy.max"] == 4, "{}", outcome.text);
        let threads = outcome.document("view", "view", "threads")["rows"].as_array().expect("rows").len();
        assert_eq!(threads, 4, "{}", outcome.text);
    });
}

#[test]
fn the_kernel_s_view_of_a_mutex_is_that_of_its_threads() {
    if skip() {
        return;
    }
    check("lock/futex", "contend 4 100 1000", |outcome| {
        let lock = outcome.text.lines().find_map(|line| line.strip_prefix("lock 0x")).expect("a lock");
        let lock = u64::from_str_radix(lock, 16).expect("an address");
        let row = outcome.row("waits for futexes", "futex", &lock.into());
        // Who takes a free lock does not come to the kernel; who is woken too late waits again.
        assert!(row["count"].as_u64() > Some(0), "{}", outcome.text);
        outcome.near(&row["sum"], outcome.truth("waited_ns"), "waits");
    });
}

#[test]
fn waits_for_a_mutex_are_those_of_its_threads() {
    if skip() {
        return;
    }
    check("lock/latency", "contend 4 100 1000", |outcome| {
        let lock = outcome.text.lines().find_map(|line| line.strip_prefix("lock 0x")).expect("a lock");
        let lock = u64::from_str_radix(lock, 16).expect("an address");
        let row = outcome.row("waits for mutexes", "mutex", &lock.into());
        assert_eq!(row["@wait.count"], 400, "{}", outcome.text);
        outcome.near(&row["@wait.sum"], outcome.truth("waited_ns"), "waits");
        outcome.near(&row["@hold.mean"], outcome.truth("held_ns") / 400.0, "time of holding");
        // Of the thread's functions, whichever the optimiser left to make the call.
        let asker = outcome.text.split("\"rows\": [{\"caller\": \"").nth(1).expect("who waits longest");
        assert!(!asker.starts_with("0x"), "who waits longest is named: {}", outcome.text);
    });
}
