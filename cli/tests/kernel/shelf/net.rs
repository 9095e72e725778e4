//! `net/…`: connections and traffic of a load with itself, over the loopback device.

use super::super::kernel_functions::is_since;
use super::super::machine::{patience, skip};
use super::super::recipes::Outcome;
use super::{Case, Is, NOBODY, Row, says_nothing};

/// Since 6.10, the kernel tells of a reset that no socket sends.
const TELLS_OF_REFUSALS: (u32, u32) = (6, 10);

#[test]
fn traffic_is_the_bytes_of_the_program() {
    if skip() {
        return;
    }
    let tcp = [
        ("kind", Is::Text("stream")),
        ("peer", Is::Text("127.0.0.1")),
        ("sends", Is::Number(1.0)),
        ("sent", Is::Number(100_000.0)),
        ("received", Is::Number(100_000.0)),
        ("receives", Is::Above(2.0)),
        ("errors", Is::Nothing),
    ];
    Case {
        load: "act connect 100000",
        recipe: &["net/sockets", "--pid", "PID"],
        rows: &[Row { view: "traffic of sockets", keys: &[("process", "workload"), ("family", "IPv4")], cells: &tcp }],
        lines: &[],
    }
    .check();
    let unix = [
        ("kind", Is::Text("stream")),
        ("sent", Is::Truth("bytes")),
        ("received", Is::Truth("bytes")),
        ("receives", Is::Number(1.0)),
    ];
    Case {
        load: "act unix hello",
        recipe: &["net/sockets", "--pid", "PID"],
        rows: &[Row { view: "traffic of sockets", keys: &[("process", "workload"), ("family", "unix")], cells: &unix }],
        lines: &[],
    }
    .check();
    // Two for each connection, one for each refusal, and the listener.
    let created = [("created", Is::Number(61.0)), ("closed", Is::Number(61.0)), ("lived p50", Is::Above(1000.0))];
    Case {
        load: "act dials 20",
        recipe: &["net/sockets", "--pid", "PID"],
        rows: &[Row { view: "sockets created", keys: &[("process", "workload"), ("family", "IPv4")], cells: &created }],
        lines: &[],
    }
    .check();
    says_nothing("net/sockets", NOBODY, &["traffic of sockets", "sockets created"]);
}

#[test]
fn connections_are_counted_with_their_handshakes_and_refusals() {
    if skip() {
        return;
    }
    let rows = [
        Row {
            view: "connections",
            keys: &[("port", "=port")],
            cells: &[
                ("peer", Is::Text("127.0.0.1")),
                ("opened", Is::Truth("connected")),
                ("failed", Is::Truth("refused")),
                ("accepted", Is::Truth("connected")),
                ("handshake", Is::Above(500.0)),
                ("max", Is::AtMost("longest_ns")),
            ],
        },
        Row {
            view: "who opens connections",
            keys: &[("process", "workload")],
            cells: &[("opened", Is::Truth("connected")), ("failed", Is::Truth("refused")), ("pid", Is::Truth("pid"))],
        },
        Row {
            view: "trouble",
            keys: &[("what", "reset by peer"), ("port", "=port")],
            cells: &[("count", Is::Truth("refused"))],
        },
        Row {
            view: "changes of state",
            keys: &[("from", "SYN_SENT"), ("to", "ESTABLISHED")],
            cells: &[("count", Is::AtLeast("connected"))],
        },
        Row {
            view: "trouble",
            keys: &[("what", "refused"), ("port", "=port")],
            cells: &[("count", Is::Truth("refused")), ("peer", Is::Text("127.0.0.1"))],
        },
    ];
    let is_told = is_since(TELLS_OF_REFUSALS);
    let told = if is_told { &rows[..] } else { &rows[..rows.len() - 1] };
    let outcome = Case { load: "act dials 20", recipe: &["net/tcp", "--pid", "PID"], rows: told, lines: &[] }.check();
    let trouble = outcome.rows("trouble");
    assert_eq!(trouble.iter().any(|row| row["what"] == "refused"), is_told, "{}", outcome.text);
    says_nothing("net/tcp", NOBODY, &["who opens connections"]);
}

#[test]
fn a_segment_that_is_sent_again_is_trouble() {
    if skip() {
        return;
    }
    let cells = [("count", Is::Number(1.0)), ("peer", Is::Text("127.0.0.1"))];
    let failed = [("opened", Is::Number(1.0)), ("failed", Is::Number(1.0))];
    Case {
        load: "act retransmit",
        recipe: &["net/tcp", "--pid", "PID"],
        rows: &[
            Row { view: "trouble", keys: &[("what", "sent again"), ("port", "=port")], cells: &cells },
            Row { view: "connections", keys: &[("port", "=port")], cells: &failed },
        ],
        lines: &[],
    }
    .check();
}

#[test]
fn connections_wait_until_they_are_accepted() {
    if skip() {
        return;
    }
    let cells = [
        ("process", Is::Text("workload")),
        ("accepted", Is::Truth("clients")),
        ("waited", Is::AtMost("most_ns")),
        ("waited", Is::Above(59.4e6)),
        ("max", Is::AtMost("most_ns")),
        ("queue max", Is::Number(7.0)),
        ("limit", Is::Above(8.0)),
        ("dropped", Is::Number(0.0)),
    ];
    Case {
        load: "act backlog 8 60",
        recipe: &["net/accept-queue", "--pid", "PID"],
        rows: &[Row { view: "waiting to be accepted", keys: &[("port", "=port")], cells: &cells }],
        lines: &[],
    }
    .check();
    says_nothing("net/accept-queue", NOBODY, &["waiting to be accepted"]);
}

/// The tables of requests have these counts, and times between two that the server knows.
fn expect_requests(outcome: &Outcome, requests: f64) {
    let least = outcome.truth("queued_least_ns") + outcome.truth("served_ns");
    for view in ["requests by port", "requests by thread"] {
        let rows = outcome.rows(view);
        let counted: f64 = rows.iter().filter_map(|row| row["requests"].as_f64()).sum();
        assert_eq!(Some(counted), Some(requests), "{view}: {}", outcome.text);
        let sum = |column: &str| -> f64 {
            let weighted = |row: &serde_json::Value| Some(row[column].as_f64()? * row["requests"].as_f64()?);
            rows.iter().filter_map(weighted).sum()
        };
        outcome.expect_between(sum("latency"), least, outcome.truth("answered_ns"), view);
        outcome.expect_between(sum("served"), outcome.truth("served_ns"), outcome.truth("answered_ns"), view);
        outcome.expect_between(sum("queued") + sum("served"), sum("latency"), sum("latency"), view);
    }
}

/// Four threads with a connection each at a time, and a loop over connections that are older than
/// the run, over TCP and over UNIX sockets.
#[test]
fn requests_last_from_their_arrival_to_the_answer() {
    if skip() {
        return;
    }
    // On emulated processors, threads wait for milliseconds between the probe and their own clock.
    let slower = if patience() == 1 { 1 } else { 10 };
    let pool = format!("pool 4 8 200 3 {}", 3000 * slower);
    let [tcp, unix] = ["tcp", "unix"].map(|family| format!("keepalive {family} 8 50 1 {}", 1000 * slower));
    for load in [pool.as_str(), &tcp, &unix] {
        let is_pool = load.starts_with("pool");
        let outcome = Outcome::with("net/requests", load, &[]);
        expect_requests(&outcome, if is_pool { 600.0 } else { 400.0 });
        let threads = if is_pool { outcome.truth("servers") as usize } else { 1 };
        assert_eq!(outcome.rows("requests by thread").len(), threads, "{}", outcome.text);
    }
    says_nothing("net/requests", NOBODY, &["requests by port", "requests by thread"]);
}

#[test]
fn requests_in_pieces_are_one_with_a_warning() {
    if skip() {
        return;
    }
    let outcome = Outcome::with("net/requests", "keepalive tcp 4 20 5 100", &[]);
    assert!(outcome.text.contains("read 400 times for 80 answers"), "{}", outcome.text);
}
