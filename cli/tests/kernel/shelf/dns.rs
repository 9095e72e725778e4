//! `net/dns`: queries of this process to a name server of its own, and look-ups of `getent`.
//!
//! In: a server on port 53 of a loopback address, which knows how it answers. Out: the same counts,
//! and latencies between the time that the server takes and that which the client waits.

use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::machine::{attached, run_beside, skip};
use super::super::recipes::Outcome;
use super::{NOBODY, says_nothing};

const SERVER: &str = "127.0.0.77:53";

/// How long the server takes for an answer: much longer than a packet on the loopback device.
const SERVICE: Duration = Duration::from_millis(20);

/// The last four bits of the flags of an answer, by the number of the query; `None`: no answer.
fn code(query: u8) -> Option<u8> {
    match query {
        0..3 => Some(3),
        3 => Some(2),
        4..6 => None,
        _ => Some(0),
    }
}

const QUERIES: u8 = 16;

fn serve(server: &UdpSocket) {
    let mut packet = [0; 512];
    for _ in 0..QUERIES {
        let (length, client) = server.recv_from(&mut packet).expect("a query");
        std::thread::sleep(SERVICE);
        let Some(code) = code(packet[1]) else { continue };
        (packet[2], packet[3]) = (0x81, 0x80 | code);
        server.send_to(&packet[..length], client).expect("an answer");
    }
}

/// Asks, and returns the sum of the times until the answers.
fn ask(client: &UdpSocket) -> Duration {
    let name = b"\x03www\x04test\0\0\x01\0\x01";
    let mut waited = Duration::ZERO;
    for number in 0..QUERIES {
        let query = [&[0, number, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0], &name[..]].concat();
        let start = Instant::now();
        client.send(&query).expect("it is sent");
        if code(number).is_some() {
            client.recv(&mut [0; 512]).expect("an answer");
            waited += start.elapsed();
        }
    }
    waited
}

#[test]
fn queries_are_counted_by_their_answers() {
    if skip() {
        return;
    }
    let server = UdpSocket::bind(SERVER).expect("a port for root");
    let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
    client.connect(SERVER).expect("an address");
    let own = std::process::id().to_string();
    let running = attached(&["-q", "-f", "json", "net/dns", "--pid", &own]);
    let waited = std::thread::scope(|scope| {
        scope.spawn(|| serve(&server));
        ask(&client)
    });
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let outcome = Outcome::read(ended.stdout);
    let row = outcome.row("queries", "server", &"127.0.0.77".into());
    let counts = ["queries", "no such name", "refused", "no answer"].map(|column| row[column].as_u64().unwrap_or(0));
    assert_eq!(counts, [QUERIES.into(), 3, 1, 2], "{}", outcome.text);
    let latency = row["latency"].as_f64().expect("a time");
    outcome.expect_between(
        latency,
        SERVICE.as_secs_f64() * 1e9,
        waited.as_secs_f64() * 1e9 / f64::from(QUERIES - 2),
        "latency",
    );
    says_nothing("net/dns", NOBODY, &["look-ups of names", "queries"]);
}

#[test]
fn look_ups_have_their_names() {
    if skip() {
        return;
    }
    if Command::new("getent").arg("--version").output().is_err() {
        println!("SKIPPED: getent is not here");
        return;
    }
    // An address is no name.
    let load = "getent ahosts localhost; getent ahosts localhost; getent ahosts no.such.invalid; getent ahosts 127.0.0.1; getent ahosts ::1; true";
    let ended = run_beside(&["-q", "-f", "json", "net/dns", "--comm", "^getent$"], load);
    let outcome = Outcome::read(ended.stdout);
    let rows = outcome.rows("look-ups of names");
    let count = |name: &str, column: &str| -> u64 {
        rows.iter().filter(|row| row["name"] == name).filter_map(|row| row[column].as_u64()).sum()
    };
    assert_eq!((count("localhost", "look-ups"), count("localhost", "failed")), (2, 0), "{}", outcome.text);
    assert_eq!((count("no.such.invalid", "look-ups"), count("no.such.invalid", "failed")), (1, 1), "{}", outcome.text);
    // Both processes of one program that ask for a name are one row.
    let pid = |name: &str| rows.iter().find(|row| row["name"] == name).map(|row| row["pid"].clone());
    assert_eq!(pid("localhost"), Some("×2".into()), "{}", outcome.text);
    assert!(pid("no.such.invalid").is_some_and(|pid| pid.is_u64()), "{}", outcome.text);
    assert_eq!(rows.len(), 2, "{}", outcome.text);
    let ended = run_beside(&["-q", "-f", "json", "net/dns", "--by-pid", "--comm", "^getent$"], load);
    let outcome = Outcome::read(ended.stdout);
    let rows = outcome.rows("look-ups of names");
    assert!(rows.len() == 3 && rows.iter().all(|row| row["pid"].is_u64()), "{}", outcome.text);
}
