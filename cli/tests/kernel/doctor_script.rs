//! `profiler doctor SCRIPT` while processes with known behavior run.
//!
//! In: scripts with one defect each. Out: the finding that reports it, the exit code, and
//! consistent counts.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::machine::{Directory, Ended, PROFILER, Running, assert_gone, held, patience, skip, wait_for, workload};

fn doctor(arguments: &[&str]) -> Ended {
    Running::start(Command::new(PROFILER).arg("doctor").args(arguments)).end()
}

/// The report of `doctor --json` about a script, and the exit code.
fn report(script: &str, arguments: &[&str]) -> (Value, i32) {
    parsed(&doctor(&[&["--json", "--duration", "400ms", "-e", script], arguments].concat()))
}

fn parsed(ended: &Ended) -> (Value, i32) {
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    assert_eq!(document["type"], "doctor", "{document}");
    (document["data"].clone(), ended.code())
}

/// The same for a script that is watched until a process has used some CPU time: on a busy machine,
/// a process may get none within a fixed time.
fn report_while_running(pid: u32, script: &str, arguments: &[&str]) -> (Value, i32) {
    let words = ["doctor", "--json", "--duration", "1h", "-e", script];
    let doctor = Running::start(Command::new(PROFILER).args(words).args(arguments));
    wait_until_it_watches(doctor.pid());
    let enough = used(pid) + Duration::from_millis(50) * patience();
    wait_for("CPU time of the process", || (used(pid) > enough).then_some(()));
    doctor.signal("INT");
    parsed(&doctor.end())
}

/// The CPU time of the threads of a process.
fn used(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("a process of ours").flatten();
    let accounts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok());
    accounts.filter_map(|account| Some(Duration::from_nanos(account.split(' ').next()?.parse().ok()?))).sum()
}

/// Waits until everything is attached: then `doctor` sleeps in `ppoll`.
fn wait_until_it_watches(pid: u32) {
    wait_for("the watching", || {
        let is_loaded = held(pid).iter().any(|(kind, _)| *kind == "prog");
        (is_loaded && call(pid).starts_with("271 ")).then_some(())
    });
}

/// The system call that a process sleeps in: its number and arguments, or `running`.
fn call(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default()
}

/// Waits until a process that is to execute `sleep` sleeps.
fn wait_for_sleep(pid: u32) {
    wait_for("its sleep", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        (stat.contains("(sleep) S ") && !call(pid).starts_with("running")).then_some(())
    });
}

/// The message and advice of each finding of a kind.
fn findings<'a>(report: &'a Value, kind: &str) -> Vec<(&'a str, &'a str)> {
    let all = report["findings"].as_array().expect("findings");
    let of_kind = all.iter().filter(|finding| finding["kind"] == kind);
    of_kind.map(|it| (it["finding"].as_str().unwrap_or(""), it["advice"].as_str().unwrap_or(""))).collect()
}

/// Asserts that there is exactly one finding of a kind, whose message and advice begin as given.
fn assert_finding(report: &Value, kind: &str, words: &str, advice: &str) {
    let found = findings(report, kind);
    assert!(found.iter().any(|it| it.0.contains(words) && it.1.contains(advice)), "{words}: {report}");
}

/// A process that calls `getppid` thousands of times a millisecond until it is killed.
struct Caller(Child);

impl Caller {
    fn start() -> Caller {
        Caller(Command::new(workload()).args(["getppid", "1000000000"]).spawn().expect("the workload starts"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn report(&self, script: &str, arguments: &[&str]) -> (Value, i32) {
        report_while_running(self.0.id(), script, arguments)
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Linux assigns only pids below 2^22.
const NO_PROCESS: &str = "4194305";

const GETPPID: &str = "tracepoint:syscalls:sys_enter_getppid";

#[test]
fn what_fires_is_counted_before_and_behind_the_filter_and_received() {
    if skip() {
        return;
    }
    let caller = Caller::start();
    let script =
        format!("{GETPPID} / pid == $1 && rand % 2 == 0 / {{ @++; }} {GETPPID} / pid == $1 / {{ @a = count(); }}");
    let (data, code) = caller.report(&script, &[&caller.pid()]);
    assert_eq!((code, &data["verdict"]), (0, &Value::from("well")), "{data}");
    let number = |probe: usize, field: &str| data["probes"][probe][field].as_u64().expect("a number");
    // Fails by chance below 1e-6: thousands of random numbers would all have to be odd, or all
    // even.
    assert!(number(0, "passed") > 0 && number(0, "passed") < number(0, "fired"), "{data}");
    assert!(number(1, "passed") > 0 && number(0, "runs") >= number(0, "fired"), "{data}");
    assert_eq!(findings(&data, "never-fired"), [], "{data}");
    for row in data["needs"].as_array().expect("rows") {
        assert_eq!(row["state"], "works", "{row}");
    }
    let script = format!("{GETPPID} / pid == $1 && @n < 1000 / {{ @n++; printf(\"x\\n\"); }}");
    let (data, code) = caller.report(&script, &[&caller.pid()]);
    assert_eq!(code, 0, "{data}");
    let probe = &data["probes"][0];
    assert_eq!((&probe["passed"], &probe["received"]), (&Value::from(1000), &Value::from(1000)), "{data}");
    assert_eq!(data["printed"], 1000, "{data}");
}

#[test]
fn nothing_of_the_script_is_printed_and_nothing_stays_attached() {
    if skip() {
        return;
    }
    let script =
        "BEGIN { printf(\"secret\\n\"); } interval:ms:10 { printf(\"secret\\n\"); @secret = 1; print(@secret); }";
    let running = Running::start(Command::new(PROFILER).args(["doctor", "--duration", "60s", "-e", script]));
    wait_until_it_watches(running.pid());
    let ids = held(running.pid());
    running.signal("INT");
    let ended = running.end();
    // On a busy machine, a tick that is more than a second late is lost.
    let is_late = ended.stdout.contains("ticks of interval:ms:10");
    assert_eq!(ended.code(), if is_late { 4 } else { 0 }, "{ended:?}");
    assert!(!ended.stdout.contains("secret\n") && ended.stdout.contains("interval:ms:10"), "{ended:?}");
    assert_gone(&ids);
}

#[test]
fn what_never_fires_is_said_with_what_to_do() {
    if skip() {
        return;
    }
    let (data, code) = report("tracepoint:syscalls:sys_enter_setdomainname { @ = count(); }", &[]);
    assert_eq!((code, &data["verdict"]), (5, &Value::from("silent")), "{data}");
    assert_finding(&data, "never-fired", "no process made the system call of", "look longer");
    let (data, code) = report("tracepoint:syscalls:sys_enter_fork { @ = count(); }", &[]);
    assert_eq!(code, 5, "{data}");
    assert_finding(&data, "never-fired", "sys_enter_fork", "glibc makes `clone` of it: probe sys_enter_clone");
    let (data, _) = report("uprobe:libc:getservbyname { @ = count(); } interval:s:9 { print(1); }", &[]);
    assert_finding(&data, "never-fired", "no process called the function of uprobe:", "statically");
    assert_finding(&data, "never-fired", "interval:s:9 was not due: its period is 9 s", "--duration");
}

#[test]
fn a_filter_that_lets_nothing_through_is_told_from_silence() {
    if skip() {
        return;
    }
    let caller = Caller::start();
    let (data, code) =
        caller.report(&format!("{GETPPID} / comm == \"workload\" && uid == 4242 / {{ @ = count(); }}"), &[]);
    assert_eq!((code, &data["verdict"]), (5, &Value::from("silent")), "{data}");
    assert_finding(
        &data,
        "filtered",
        "its filter let nothing through: / comm == \"workload\" && uid == 4242 /",
        "too narrow",
    );
    let script = format!(
        "span call by tid {{ start {GETPPID} / pid == $1 / end tracepoint:syscalls:sys_exit_getppid }} \
        call:end / call.elapsed > 1h / {{ @ = count(); }}"
    );
    let (data, code) = caller.report(&script, &[&caller.pid()]);
    assert_eq!(code, 0, "{data}");
    assert_finding(&data, "filtered", "call:end fired ", "too narrow");
    assert!(data["spans"][0]["ledger"].as_str().is_some_and(|ledger| ledger.contains(" matched")), "{data}");
}

#[test]
fn a_wrong_process_is_known() {
    if skip() {
        return;
    }
    let script = format!("{GETPPID} / pid == $1 / {{ @ = count(); }}");
    let (data, code) = report(&script, &["8388608"]);
    assert_eq!(code, 5, "{data}");
    assert_finding(&data, "wrong-process", "there is no process 8388608 (`pid == 8388608`)", "pgrep");
    let (data, code) = report(&format!("{GETPPID} {{ @ = count(); }}"), &["-p", NO_PROCESS]);
    assert_eq!((code, &data["seconds"]), (3, &Value::Null), "{data}");
    assert_finding(&data, "wrong-process", "there is no process 4194305 (`-p 4194305`)", "pgrep");
    let (data, code) = report("uprobe:libc:getppid { @ = count(); }", &["-p", NO_PROCESS]);
    assert_eq!((code, &data["verdict"]), (3, &Value::from("does not compile")), "{data}");
    assert_finding(&data, "wrong-process", "there is no process 4194305", "pgrep");
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        let (send, receive) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let own = fs::read_link("/proc/thread-self").expect("a thread");
            send.send(own.file_name().and_then(|name| name.to_str()).expect("a number").to_owned()).expect("a reader");
            while !done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(5));
            }
        });
        let tid = receive.recv().expect("a number");
        let (data, _) = report(&script, &[&tid]);
        done.store(true, Ordering::Relaxed);
        let process = std::process::id();
        assert_finding(&data, "wrong-process", &format!("is a thread of process {process}"), &format!("tid == {tid}"));
    });
    let mut ended = Command::new("true").spawn().expect("it starts");
    wait_for("its end", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", ended.id())).expect("not waited for");
        stat.contains(") Z ").then_some(())
    });
    let (data, _) = report(&script, &[&ended.id().to_string()]);
    assert_finding(&data, "wrong-process", "has ended", "pgrep");
    ended.wait().expect("it ended");
    let (data, _) = report(&format!("{GETPPID} / comm == \"a-name-that-is-too-long\" / {{ }}"), &[]);
    assert_finding(&data, "wrong-process", "15 characters", "compare with \"a-name-that-is-\"");
}

#[test]
fn blocks_for_several_processes_are_watched_in_each() {
    if skip() {
        return;
    }
    let busy = Running::start(Command::new(workload()).args(["functions", "1000000000000"]));
    let idle = Running::start(Command::new("sleep").arg("1000"));
    let step = format!("uprobe:{}:workload_step", workload());
    let script = format!("{step} / pid == $1 / {{ @a = count(); }} {step} / pid == $2 / {{ @b = count(); }}");
    for [first, second] in [[&idle, &busy], [&busy, &idle]] {
        let pids = [first, second].map(|process| process.pid().to_string());
        let (data, _) = report_while_running(busy.pid(), &script, &[&pids[0], &pids[1]]);
        let passed = [0, 1].map(|probe| data["probes"][probe]["passed"].as_u64().is_some_and(|passed| passed > 0));
        assert_eq!(passed, [first.pid() == busy.pid(), second.pid() == busy.pid()], "{data}");
    }
}

#[test]
fn a_number_of_another_pid_namespace_is_known() {
    if skip() {
        return;
    }
    let inside = ["--pid", "--fork", "--kill-child", "--mount-proc", "sleep", "1000"];
    let outer = Running::start(Command::new("unshare").args(inside));
    let children = format!("/proc/{0}/task/{0}/children", outer.pid());
    let sleep = wait_for("the process in the namespace", || {
        let pid: u32 = fs::read_to_string(&children).ok()?.trim().parse().ok()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let is_it = status.starts_with("Name:\tsleep") && status.contains("NSpid:");
        is_it.then_some(pid)
    });
    wait_for_sleep(sleep);
    let (data, _) = report(&format!("{GETPPID} / pid == $1 / {{ @ = count(); }}"), &[&sleep.to_string()]);
    assert_eq!(findings(&data, "wrong-process"), [], "its number here is right: {data}");
    assert_finding(&data, "asleep", "(sleep) slept all the time", "look longer");
}

/// A number that no process has here, and that none gets soon: Linux assigns numbers in ascending
/// order, so one that is just below the last one comes last.
fn free_number() -> Option<u32> {
    let last: u32 = fs::read_to_string("/proc/sys/kernel/ns_last_pid").ok()?.trim().parse().ok()?;
    let mut numbers = (1000..last).rev().chain((1000..30_000).rev());
    numbers.find(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

#[test]
fn the_number_inside_a_pid_namespace_leads_to_the_one_outside() {
    if skip() {
        return;
    }
    let Some(free) = free_number() else { return println!("SKIPPED: every number is taken") };
    let line = format!("echo {} > /proc/sys/kernel/ns_last_pid && {{ sleep 1000 & }} && wait", free - 1);
    let inside = ["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", &line];
    let _outer = Running::start(Command::new("unshare").args(inside));
    let of_inner = |number: &str| {
        let processes = fs::read_dir("/proc").expect("procfs").flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.into_iter().find(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.starts_with("Name:\tsleep") && status.contains(&format!("\t{number}\n"))
        })
    };
    let sleep = wait_for("the process in the namespace", || of_inner(&free.to_string()));
    let (data, code) = report(&format!("{GETPPID} / pid == $1 / {{ @ = count(); }}"), &[&free.to_string()]);
    assert_eq!(code, 5, "{data}");
    let words = format!("in a pid namespace of its own, that is process {sleep} (sleep)");
    assert_finding(&data, "wrong-process", &words, &format!("use the number that it has here: {sleep}"));
}

#[test]
fn a_process_that_does_not_do_it_is_compared_with_others_that_do() {
    if skip() {
        return;
    }
    let _caller = Caller::start();
    let sleeper = Running::start(Command::new("sleep").arg("1000"));
    wait_for_sleep(sleeper.pid());
    let (script, pid) = (format!("{GETPPID} {{ @ = count(); }}"), sleeper.pid().to_string());
    // `doctor` watches the others for a fifth of a second, in which the caller may get no CPU time
    // on a busy machine.
    let data = wait_for("what others do", || {
        let (data, code) = report(&script, &["-p", &pid]);
        assert_eq!(code, 5, "{data}");
        assert_finding(&data, "asleep", "slept all the time", "--duration");
        (!findings(&data, "wrong-process").is_empty()).then_some(data)
    });
    assert_finding(&data, "wrong-process", "its probes fired", "is it the right process?");
    sleeper.signal("STOP");
    wait_for("its stop", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process of ours");
        stat.contains("(sleep) T ").then_some(())
    });
    let (data, _) = report(&script, &["-p", &pid]);
    assert_finding(&data, "wrong-process", "is stopped", "kill -CONT");
    let script = format!("uprobe:{}:main {{ @ = count(); }}", workload());
    let (data, _) = report(&script, &["-p", &pid]);
    assert_finding(&data, "wrong-process", "does not run code of", "linked statically");
}

#[test]
fn what_is_lost_is_said_with_what_to_raise() {
    if skip() {
        return;
    }
    let flood = "config = { perf_rb_pages = 1; } BEGIN { $i = 0; while ($i < 20000) { printf(\"%d\\n\", $i); $i++; } } \
        interval:ms:10 { @ = 1; }";
    let (data, code) = report(flood, &[]);
    assert_eq!((code, &data["verdict"]), (4, &Value::from("lossy")), "{data}");
    assert_finding(&data, "lost", "events of BEGIN: ring buffer full: ", "perf_rb_pages");
    let probe = &data["probes"][0];
    let (received, lost) = (probe["received"].as_u64(), probe["lost"].as_u64());
    assert_eq!(received.zip(lost).map(|(received, lost)| received + lost), Some(20_000), "{data}");
    let full = "config = { max_map_keys = 2; } BEGIN { @[1] = 1; @[2] = 2; @[3] = 3; }";
    let (data, code) = report(full, &[]);
    assert_eq!(code, 4, "{data}");
    assert_finding(&data, "lost", "updates of @: map full, it holds 2 keys: 1 lost", "let @ = hash(8)");
}

#[test]
fn strings_that_do_not_fit_are_counted() {
    if skip() {
        return;
    }
    let line = "while true; do read word < /no/such/file/that/has/such/a/long/name; done 2> /dev/null";
    let opener = Running::start(Command::new("sh").args(["-c", line]));
    let script = "config = { max_strlen = 16; } tracepoint:syscalls:sys_enter_openat / pid == $1 / { @[str(args.filename)] = count(); }";
    let (data, code) = report_while_running(opener.pid(), script, &[&opener.pid().to_string()]);
    assert_eq!(code, 0, "{data}");
    assert_finding(&data, "cut", "longer than the limit, and truncated", "`max_strlen` is 16 now");
}

#[test]
fn scripts_that_end_themselves_or_show_nothing_are_known() {
    if skip() {
        return;
    }
    let script = "rawtracepoint:sched_switch { @ = count(); } interval:ms:100 { exit(); }";
    let (data, code) = parsed(&doctor(&["--json", "--duration", "1h", "-e", script]));
    // On a busy machine, a tick that is more than a second late is lost.
    let is_late = findings(&data, "lost").iter().any(|it| it.0.contains("ticks of interval:ms:100"));
    assert_eq!(code, if is_late { 4 } else { 0 }, "{data}");
    assert_finding(&data, "ended", "the script ended itself after ", "that time only");
    assert!(data["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.1), "{data}");
    let (data, _) = report("rawtracepoint:sched_switch { if (pid == 4242424) { @ = count(); } }", &[]);
    assert_finding(&data, "no-results", "printed nothing and left no map", "`if`");
    let (data, code) = report("BEGIN { printf(\"hello\\n\"); }", &[]);
    assert_eq!((code, &data["probes"][0]["fired"]), (0, &Value::from(1)), "{data}");
}

#[test]
fn without_rights_exactly_what_is_missing_is_said() {
    if skip() {
        return;
    }
    let unprivileged = |words: &[&str]| {
        let mut command = Command::new(PROFILER);
        command.args(words).uid(65534).gid(65534);
        Running::start(&mut command).end()
    };
    let script = "rawtracepoint:sched_switch { @ = count(); }";
    let ended = unprivileged(&["doctor", "-e", script]);
    assert_eq!(ended.code(), 3, "{ended:?}");
    assert!(ended.stdout.contains("missing: CAP_BPF (loading programs), CAP_PERFMON ("), "{ended:?}");
    assert!(ended.stdout.contains("this process lacks CAP_BPF and CAP_PERFMON"), "{ended:?}");
    let tracepoint = "tracepoint:syscalls:sys_enter_read { @ = count(); }";
    for words in [["doctor", "-e", tracepoint], ["run", "-e", tracepoint], ["run", "-e", script]] {
        let ended = unprivileged(&words);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code(), 3, "{said}");
        assert!(said.contains("CAP_BPF") && said.contains("CAP_PERFMON"), "{words:?}: {said}");
    }
    let directory = Directory::new("doctor");
    let script = directory.file("x.prof", script);
    assert_eq!(unprivileged(&["doctor", "--json", &script]).code(), 3);
}

#[test]
fn a_script_with_a_mistake_is_not_run() {
    if skip() {
        return;
    }
    let ended = doctor(&["-e", "BEGIN { @x = cuont(); }"]);
    assert_eq!((ended.code(), ended.stdout.as_str()), (1, ""), "{ended:?}");
    assert!(ended.stderr.contains("did you mean `count`?"), "{ended:?}");
    let ended = doctor(&["--json", "-e", "BEGIN { @x = cuont(); }"]);
    let document: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!((ended.code(), &document["data"]["verdict"]), (1, &Value::from("does not compile")), "{ended:?}");
    assert_eq!(document["data"]["diagnostics"].as_array().map(Vec::len), Some(1), "{document}");
    let ended = doctor(&["lock/futex", "--mni", "1ms"]);
    assert!(ended.code() == 2 && ended.stderr.contains("--min"), "{ended:?}");
}

#[test]
fn recipes_take_their_parameters_and_the_command_of_c_is_watched() {
    if skip() {
        return;
    }
    let ended = doctor(&["lock/futex", "--min", "1h", "--duration", "100ms"]);
    // On a busy machine, ticks and events may be lost.
    assert!(matches!(ended.code(), 0 | 4 | 5), "{ended:?}");
    assert!(
        ended.stdout.contains("tracepoint:syscalls:sys_exit_futex")
            && ended.stdout.starts_with("requirements of stdlib/lock/futex.prof\n"),
        "{ended:?}"
    );
    let narrow = doctor(&["proc/exits", "--pid", "4194304", "--duration", "300ms", "-c", "true"]);
    let said = narrow.stdout.contains("`profiler help proc/exits` says what its parameters are");
    assert!(said || narrow.stdout.contains("did not happen"), "{narrow:?}");
    let command = format!("{} getppid 7", workload());
    let ended = doctor(&[
        "--json",
        "--duration",
        "1h",
        "-c",
        &command,
        "-e",
        &format!("{GETPPID} / pid == cpid / {{ @ = count(); }}"),
    ]);
    let document: Value = serde_json::from_str(ended.stdout.lines().last().unwrap_or_default()).expect("JSON");
    assert_eq!((ended.code(), &document["data"]["probes"][0]["passed"]), (0, &Value::from(7)), "{document}");
}
