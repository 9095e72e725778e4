//! `db/…`: databases, compared with their own statistics.
//!
//! In: redis-server, `PostgreSQL`, and their clients. Out: the same calls, and times between those
//! of the server and those of the client. Without a server, its test prints `SKIPPED: reason`.
//! Guarantee: servers listen on UNIX sockets in directories of their own, and exist before the
//! recipe starts.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::super::machine::{Directory, attached, skip, wait_for};
use super::super::recipes::Outcome;
use super::programs::{PROGRAMS, Process, beside};
use super::{NOBODY, says_nothing};

/// Starts a server that says nothing; `None` if the program is not here.
fn start(command: &mut Command) -> Option<Process> {
    Process::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
}

/// The output of a client that succeeds.
fn answer(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn expect(program: &str, arguments: &[&str]) -> String {
    answer(program, arguments).unwrap_or_else(|| panic!("{program} {arguments:?} failed"))
}

/// What a recipe says about a load.
fn outcome(recipe: &[&str], load: impl FnOnce()) -> Outcome {
    let running = attached(&[&["-q", "-f", "json"], recipe].concat());
    load();
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    Outcome::read(ended.stdout)
}

/// A number of `redis-cli info commandstats`, as `calls` of `cmdstat_get`.
fn statistic(text: &str, command: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")));
    let number = line.and_then(|line| line.split(',').find_map(|part| part.strip_prefix(&format!("{name}="))));
    number.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("{command} {name}: {text}"))
}

/// A script that works in the server for tens of milliseconds.
const SLOW: &str = "local n = 0; for i = 1, 2000000 do n = n + i % 7 end; return n";

#[test]
fn redis_commands_are_those_of_its_own_statistics() {
    if skip() {
        return;
    }
    let directory = Directory::new("redis");
    let socket = directory.path("socket");
    let arguments = ["--port", "0", "--unixsocket", &socket, "--save", "", "--dir", &directory.path("")];
    let Some(server) = start(Command::new("redis-server").args(arguments)) else { return };
    wait_for("the server", || answer("redis-cli", &["-s", &socket, "ping"]).filter(|text| text.starts_with("PONG")));
    let slow_calls = || {
        let start = Instant::now();
        for _ in 0..5 {
            expect("redis-cli", &["-s", &socket, "eval", SLOW, "0"]);
        }
        start.elapsed().as_secs_f64() * 1e9
    };
    let mut spent_ns = 0.0;
    expect("redis-cli", &["-s", &socket, "config", "resetstat"]);
    let seen = outcome(&["db/redis", "--pid", &server.pid()], || {
        // Values of three reads each, several clients, and several commands in one read.
        let values = ["-s", &socket, "-q", "-c", "4", "-n", "500", "-d", "40000", "-t", "set,get"];
        expect("redis-benchmark", &values);
        expect("redis-benchmark", &["-s", &socket, "-q", "-n", "2000", "-P", "16", "-t", "incr"]);
        spent_ns = slow_calls();
    });
    let truth = expect("redis-cli", &["-s", &socket, "info", "commandstats"]);
    for command in ["SET", "GET", "INCR", "eval"] {
        let calls = statistic(&truth, &command.to_lowercase(), "calls");
        let row = seen.row("commands", "command", &command.into());
        assert_eq!(row["calls"].as_f64(), Some(calls), "{command}: {}\n{truth}", seen.text);
    }
    // The server measures the work, and the client also how it starts.
    let slow = seen.row("commands", "command", &"eval".into())["mean"].as_f64().expect("a time");
    seen.expect_between(slow, statistic(&truth, "eval", "usec_per_call") * 1e3, spent_ns / 5.0, "eval");
    // With a minimum, the slow ones only; a busy machine may add some of the others.
    expect("redis-cli", &["-s", &socket, "config", "resetstat"]);
    let outcome = outcome(&["db/redis", "--pid", &server.pid(), "--min", "5ms"], || {
        expect("redis-benchmark", &["-s", &socket, "-q", "-n", "2000", "-t", "incr"]);
        slow_calls();
    });
    let row = outcome.row("commands", "command", &"eval".into());
    assert_eq!((row["calls"].as_u64(), row["time"].is_null()), (Some(5), false), "{}", outcome.text);
    let is_slow = |row: &serde_json::Value| row["mean"].as_f64() >= Some(5e6);
    assert!(outcome.rows("commands").iter().all(is_slow), "{}", outcome.text);
    says_nothing("db/redis", NOBODY, &["commands"]);
}

/// A user that may run a database, and the programs of the newest `PostgreSQL`.
pub const NOBODY_UID: u32 = 65534;

pub fn postgres_programs() -> Option<PathBuf> {
    let versions =
        std::fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    versions.filter(|path| path.join("postgres").exists()).max()
}

#[test]
fn postgres_queries_are_those_of_its_own_statistics() {
    if skip() {
        return;
    }
    let Some(programs) = postgres_programs() else {
        println!("SKIPPED: PostgreSQL is not here");
        return;
    };
    let directory = Directory::new("postgres");
    let (home, data) = (directory.path(""), directory.path("data"));
    chown(&home, Some(NOBODY_UID), None).expect("root may");
    let made = Command::new(programs.join("initdb"))
        .args(["-D", &data, "-A", "trust", "-N", "-U", "postgres"])
        .uid(NOBODY_UID)
        .current_dir(&home)
        .output();
    assert!(made.is_ok_and(|output| output.status.success()), "initdb");
    let settings = format!(
        "listen_addresses = ''\nunix_socket_directories = '{home}'\nfsync = off\n\
         shared_preload_libraries = 'pg_stat_statements'\n"
    );
    std::fs::write(directory.path("data/postgresql.auto.conf"), settings).expect("a file");
    let program = programs.join("postgres").display().to_string();
    let mut command = Command::new(&program);
    let Some(server) = start(command.args(["-D", &data]).uid(NOBODY_UID).current_dir(&home)) else { return };
    let psql = |text: &str| answer("psql", &["-h", &home, "-U", "postgres", "-Atqc", text]);
    wait_for("the server", || psql("create extension if not exists pg_stat_statements"));
    psql("create table t (id int primary key, n int); insert into t values (1, 0), (2, 0)").expect("a table");
    let sleep = directory.file("sleep.sql", "select pg_sleep(0.02), 'x', 5;\n");
    let update = directory.file("update.sql", "\\set n random(1, 99)\nupdate t set n = -:n where id = 1;\n");
    let hold = "begin;\nselect n from t where id = 2 for update;\nselect 1 from pg_sleep(0.01);\ncommit;\n";
    let hold = directory.file("hold.sql", hold);
    let prepared = directory.file("prepared.sql", "\\set n random(1, 99)\nupdate t set n = :n where id = 1;\n");
    psql("select pg_stat_statements_reset()").expect("statistics");
    let tree = ["db/postgres", "--program", &program, "--tree", &server.pid()];
    let mut slept_ns = 0.0;
    let outcome = outcome(&tree, || {
        let bench =
            |more: &[&str]| expect("pgbench", &[&["-h", &home, "-U", "postgres", "-n"], more, &["postgres"]].concat());
        let start = Instant::now();
        bench(&["-c", "2", "-t", "25", "-f", &sleep]);
        slept_ns = start.elapsed().as_secs_f64() * 1e9;
        bench(&["-c", "3", "-t", "25", "-f", &hold]);
        bench(&["-c", "4", "-t", "50", "-f", &update]);
        bench(&["-c", "2", "-t", "50", "-M", "prepared", "-f", &prepared]);
    });
    let truth = |text: &str, column: &str| -> f64 {
        let ask = format!("select sum({column}) from pg_stat_statements where query like '{text}%'");
        psql(&ask).and_then(|text| text.trim().parse().ok()).expect("a number")
    };
    // The prepared text has a parameter, so it is another than that with numbers.
    let rows = outcome.rows("queries");
    let of = |text: &str| {
        let is_it = |row: &&serde_json::Value| row["query"].as_str().is_some_and(|query| query.starts_with(text));
        rows.iter().filter(is_it).collect::<Vec<_>>()
    };
    let (sleeps, updates) = (of("select pg_sleep"), of("update t"));
    assert_eq!((sleeps.len(), updates.len()), (1, 2), "{}", outcome.text);
    assert_eq!(sleeps[0]["calls"].as_f64(), Some(truth("select pg_sleep", "calls")), "{}", outcome.text);
    let calls: f64 = updates.iter().filter_map(|row| row["calls"].as_f64()).sum();
    assert_eq!((calls, Some(calls)), (300.0, Some(truth("update t", "calls"))), "{}", outcome.text);
    // Three clients hold the lock of one row, 25 times for 10 ms each. Without a wait, each would
    // have to be late 25 times.
    let waits = outcome.row("waits for locks", "lock", &"transaction".into());
    assert!(waits["waits"].as_u64() > Some(0), "{}", outcome.text);
    // The server measures the execution, and the two clients also how they connect.
    let mean = sleeps[0]["mean"].as_f64().expect("a time");
    let least = truth("select pg_sleep", "mean_exec_time") * 1e6;
    outcome.expect_between(mean, least.max(2e7), 2.0 * slept_ns / 50.0, "sleeps");
    let quiet = [NOBODY, &["--program", &program]].concat();
    says_nothing("db/postgres", &quiet, &["queries", "waits for locks"]);
}

/// A program for the distribution's Python.
fn python(program: &str, argument: &str) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.args([&format!("{PROGRAMS}/{program}"), argument]);
    command
}

#[test]
fn tls_moves_the_bytes_of_the_program() {
    if skip() {
        return;
    }
    let directory = Directory::new("tls");
    let Some(outcome) = beside(&mut python("tls.py", &directory.path("")), &["db/tls", "--pid", "PID"]) else { return };
    // Client and server are one process: 120 requests of 1000 bytes and 120 answers of 10.
    for direction in ["sent", "received"] {
        let row = outcome.row("data sent and received by TLS", "direction", &direction.into());
        let cells = ["calls", "bytes", "max"].map(|column| row[column].as_f64());
        assert_eq!(cells, [Some(240.0), Some(outcome.truth(direction)), Some(1000.0)], "{}", outcome.text);
    }
    let row = outcome.row("handshakes", "process", &"python3".into());
    assert_eq!(row["opened"].as_u64(), Some(6), "{}", outcome.text);
    says_nothing("db/tls", NOBODY, &["data sent and received by TLS", "handshakes"]);
}

#[test]
fn sqlite_statements_are_those_of_the_program() {
    if skip() {
        return;
    }
    let directory = Directory::new("sqlite");
    let mut program = python("statements.py", &directory.path("db"));
    let Some(outcome) = beside(&mut program, &["db/sqlite", "--pid", "PID"]) else { return };
    let row = |text: &str| outcome.row("statements", "statement", &text.into());
    let inserts = row("insert into t values (?, ?)");
    assert_eq!((inserts["runs"].as_u64(), inserts["rows"].as_u64()), (Some(500), None), "{}", outcome.text);
    let selects = row("select id from t where n < ?");
    assert_eq!(selects["runs"].as_u64(), Some(20), "{}", outcome.text);
    assert_eq!(selects["rows"].as_f64(), Some(outcome.truth("rows")), "{}", outcome.text);
    let slow = row("select count(*) from t a, t b where a.n < b.n + ?");
    assert_eq!((slow["runs"].as_u64(), slow["rows"].as_u64()), (Some(5), Some(5)), "{}", outcome.text);
    // Each takes longer than the minimum below. The program's clock also measures itself.
    let time = slow["time"].as_f64().expect("a time");
    outcome.expect_between(time, 5.0 * 2e6, outcome.truth("spent_ns"), "slow statements");
    // With a minimum, the steps that take as long, and their runs.
    let directory = Directory::new("sqlite-min");
    let arguments = ["db/sqlite", "--pid", "PID", "--min", "2ms"];
    let outcome = beside(&mut python("statements.py", &directory.path("db")), &arguments).expect("the program ran");
    let slow = outcome.row("statements", "statement", &"select count(*) from t a, t b where a.n < b.n + ?".into());
    assert_eq!(slow["runs"].as_u64(), Some(5), "{}", outcome.text);
    let inserts = outcome.rows("statements").iter().find(|row| row["statement"] == "insert into t values (?, ?)");
    assert!(inserts.is_none_or(|row| row["runs"].as_u64() < Some(100)), "{}", outcome.text);
    says_nothing("db/sqlite", NOBODY, &["statements"]);
}
