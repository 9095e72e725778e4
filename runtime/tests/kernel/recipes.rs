//! The recipes of the standard library against workloads that measure themselves.
//!
//! In: `workload pool` and `workload contend`, which print their own sums. Out: the same from `pool/queue-depth` and `lock/latency`:
//! counts exactly, times within two per cent.

use serde_json::Value;

use super::machine::{patience, run, skip, workload};

/// How far times may be off, in per cent; more where processors are emulated and a trap takes its time.
fn tolerance() -> f64 {
    2.0 * f64::from(patience())
}

fn assert_near(what: &str, measured: f64, truth: f64, everything: &str) {
    let off = (measured - truth).abs() / truth * 100.0;
    assert!(off <= tolerance(), "{what}: {measured} for {truth}, {off:.1} % off\n{everything}");
}

/// What the workload said of itself, and the documents of profiler.
struct Outcome {
    text: String,
    documents: Vec<Value>,
}

impl Outcome {
    fn of(recipe: &str, load: &str) -> Outcome {
        let ended = run(&["-q", "-f", "json", recipe, "-c", &format!("{} {load}", workload())]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let documents = ended.stdout.lines().filter_map(|line| serde_json::from_str(line).ok());
        Outcome { documents: documents.collect(), text: ended.stdout }
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
        assert_near(what, measured.as_f64().unwrap_or(f64::NAN), truth, &self.text);
    }
}

#[test]
fn the_queue_and_the_pool_are_those_of_the_server() {
    if skip() {
        return;
    }
    // Eight clients at four threads: four wait, four are served. Each connection has three requests.
    let outcome = Outcome::of("pool/queue-depth", "pool 4 8 400 3 2000");
    let connections = outcome.document("span", "name", "connection");
    assert_eq!((&connections["started"], &connections["matched"]), (&400.into(), &400.into()), "{}", outcome.text);
    let requests = outcome.document("span", "name", "request");
    assert_eq!(requests["matched"], 1200, "{}", outcome.text);
    let row = outcome.row("queue and service", "comm", &"workload".into());
    outcome.near(&row["@queued.mean"], outcome.truth("queued_ns") / 400.0, "time in the queue");
    outcome.near(&row["@served.mean"], outcome.truth("served_ns") / 1200.0, "time of service");
    outcome.near(&row["@served.max"], outcome.truth("served_max_ns"), "longest service");
    let depth = &outcome.document("view", "view", "connections that wait, threads at work")["rows"][0];
    assert!(depth["@waiting.max"].as_f64() >= Some(4.0) && depth["@busy.max"] == 4, "{}", outcome.text);
    let threads = outcome.document("view", "view", "threads")["rows"].as_array().expect("rows").len();
    assert_eq!(threads, 4, "{}", outcome.text);
}

#[test]
fn the_kernel_s_view_of_a_mutex_is_that_of_its_threads() {
    if skip() {
        return;
    }
    let outcome = Outcome::of("lock/futex", "contend 4 100 1000");
    let lock = outcome.text.lines().find_map(|line| line.strip_prefix("lock 0x")).expect("a lock");
    let lock = u64::from_str_radix(lock, 16).expect("an address");
    let row = outcome.row("waits for futexes", "futex", &lock.into());
    // Who takes a free lock does not come to the kernel; who is woken too late waits again.
    assert!(row["count"].as_u64() > Some(0), "{}", outcome.text);
    outcome.near(&row["sum"], outcome.truth("waited_ns"), "waits");
}

#[test]
fn waits_for_a_mutex_are_those_of_its_threads() {
    if skip() {
        return;
    }
    let outcome = Outcome::of("lock/latency", "contend 4 100 1000");
    let lock = outcome.text.lines().find_map(|line| line.strip_prefix("lock 0x")).expect("a lock");
    let lock = u64::from_str_radix(lock, 16).expect("an address");
    let row = outcome.row("waits for mutexes", "mutex", &lock.into());
    assert_eq!(row["@wait.count"], 400, "{}", outcome.text);
    outcome.near(&row["@wait.sum"], outcome.truth("waited_ns"), "waits");
    outcome.near(&row["@wait.max"], outcome.truth("waited_max_ns"), "longest wait");
    outcome.near(&row["@hold.mean"], outcome.truth("held_ns") / 400.0, "time of holding");
}
