//! Every way in which a run can end: results are printed once, the exit code is right, and nothing
//! stays in the kernel.
//!
//! In: signals, durations, commands, target processes and readers that exit.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::machine::{
    Directory, Ended, Limit, Running, assert_gone, attached, held, profiler, run, skip, wait_for, workload,
};

/// A probe that fills a pipe at once.
const FLOOD: &str = "interval:us:100 { printf(\"%s\\n\", \"0123456789012345678901234567890123456789012345678901234567890123456789\"); }";

/// Probes of several kinds, and one of each kind of output.
fn script(body: &str) -> String {
    let workload = workload();
    format!(
        "BEGIN {{ printf(\"begin\\n\"); @kept = 3; }}
         tracepoint:sched:sched_switch {{ @switches = count(); }}
         tracepoint:syscalls:sys_enter_* {{ @calls = count(); }}
         uprobe:{workload}:workload_* {{ @steps = count(); }}
         profile:hz:99 {{ @samples = count(); }}
         {body}
         END {{ printf(\"end\\n\"); clear(@switches); clear(@calls); clear(@steps); clear(@samples); }}"
    )
}

/// What a run said, without what is missing from its results: on a busy machine ticks come late.
fn said(errors: &str) -> String {
    let missing = |line: &&str| line.starts_with("Missing from") || line.starts_with("  ");
    errors.lines().filter(|line| !missing(line)).flat_map(|line| [line, "\n"]).collect()
}

/// Starts a run and waits until it holds its BPF objects.
fn start(arguments: &[&str]) -> (Running, BTreeSet<(&'static str, u32)>) {
    let running = attached(arguments);
    let ids = held(running.pid());
    (running, ids)
}

/// Processor time that a process has used, in hundredths of a second.
fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process that lives");
    // The name in parentheses may contain blanks. The fields wanted are the 14th and 15th.
    let (_, fields) = stat.rsplit_once(") ").expect("a name in parentheses");
    fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum()
}

/// Checks the output of a run that ended normally.
fn assert_in_order(ended: &Ended, code: i32) {
    let lines: Vec<&str> = ended.stdout.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!((ended.code(), lines.as_slice()), (code, ["begin", "end", "@kept: 3"].as_slice()), "{}", ended.stderr);
}

#[test]
fn signals_end_it_in_order_and_leave_nothing() {
    if skip() {
        return;
    }
    for signal in ["INT", "TERM"] {
        let (running, ids) = start(&["-q", "-e", &script("")]);
        running.signal(signal);
        assert_in_order(&running.end(), 0);
        assert_gone(&ids);
    }
}

/// A run that is blocked because no process reads what it prints.
fn blocked() -> Child {
    let mut command = profiler(&["-q", "-e", &script(FLOOD)]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("profiler");
    wait_for_a_full_pipe(child.id());
    child
}

/// timeout(1) sends its signal to the command, and then to its process group. Here the run cannot
/// end between the two, because no process reads what it prints.
#[test]
fn a_signal_that_is_sent_twice_at_once_is_one() {
    if skip() {
        return;
    }
    // On a busy machine the two may be sent too far apart. If they are not, the run may still get
    // no CPU in time for the second one: it has several chances.
    let (mut limit, mut chances) = (Limit::of(Duration::from_secs(60)), 5);
    while chances > 0 {
        assert!(limit.lasts(), "the machine is too busy to send two signals within 200 ms");
        let child = blocked();
        let (pid, began) = (child.id(), Instant::now());
        let twice = format!("kill -INT {pid}; sleep 0.02; kill -INT {pid}");
        assert!(Command::new("sh").args(["-c", &twice]).status().expect("sh").success());
        let is_at_once = began.elapsed() < Duration::from_millis(200);
        let output = child.wait_with_output().expect("it ends");
        if is_at_once && output.status.code() == Some(0) {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("\nend\n") && text.contains("\n@kept: 3\n"), "{text}");
            return;
        }
        chances -= u32::from(is_at_once);
    }
    panic!("two signals within 200 ms are two");
}

/// How long a run waits for its reader after the first signal.
const PATIENCE: Duration = Duration::from_secs(1);

#[test]
fn a_second_signal_ends_it_even_when_nobody_reads() {
    if skip() {
        return;
    }
    let mut limit = Limit::of(Duration::from_secs(60));
    loop {
        assert!(limit.lasts(), "no second signal came before the run had given up on its reader");
        let mut child = blocked();
        let (pid, ids, began) = (child.id(), held(child.id()), Instant::now());
        let interrupt = || Command::new("kill").args(["-INT", &pid.to_string()]).status();
        interrupt().expect("kill");
        let has_ended = child.try_wait().expect("a child").is_some();
        // Two signals sent before the process runs again are merged, so the second may have to be
        // sent again.
        let status = wait_for("the end", || {
            interrupt().expect("kill");
            child.try_wait().expect("a child")
        });
        // On a busy machine, the second one may come too late.
        if began.elapsed() > PATIENCE && status.code() == Some(1) {
            continue;
        }
        assert!(!has_ended, "the first signal waits for the reader");
        assert_eq!(status.code(), Some(130));
        return assert_gone(&ids);
    }
}

/// Waits until a process is blocked on its reader: it sleeps in `poll` then, and in `ppoll`
/// everywhere else.
fn wait_for_a_full_pipe(pid: u32) {
    wait_for("a full pipe", || {
        let stack = std::fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
        stack.starts_with("7 ").then_some(())
    });
}

#[test]
fn one_signal_ends_it_although_its_reader_has_stalled() {
    if skip() {
        return;
    }
    let directory = Directory::new("stalled");
    for (signal, arguments) in [("TERM", &["-q"][..]), ("INT", &["-q", "-f", "json"])] {
        let errors = directory.path("errors");
        let flood = "interval:us:100 { printf(\"%s\\n\", \"0123456789012345678901234567890123456789012345678901234567890123456789\"); @n = count(); }";
        let mut command = profiler(&[arguments, &["-e", flood]].concat());
        let stderr = std::fs::File::create(&errors).expect("a file");
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().expect("profiler");
        wait_for_a_full_pipe(child.id());
        let ids = held(child.id());
        Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().expect("kill");
        let status = wait_for("the end", || child.try_wait().expect("a child"));
        let said = std::fs::read_to_string(&errors).expect("what was said");
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("cannot write to standard output: no process reads it"), "{said}");
        assert_gone(&ids);
    }
}

#[test]
fn commands_that_wait_when_a_signal_comes_are_left_out_and_counted() {
    if skip() {
        return;
    }
    let script = "BEGIN { for $i : 0..400 { system(\"sleep 0.1; echo ran\"); } } interval:s:1 { @ticks = count(); } END { clear(@ticks); }";
    let running = attached(&["-q", "--unsafe", "-e", script]);
    running.signal("INT");
    let ended = running.end();
    let ran = ended.lines("ran");
    let words = "commands of `system`: not run, a signal ended the run first: ";
    let left_out = ended.stderr.lines().find_map(|line| line.trim().strip_prefix(words)?.parse::<u64>().ok());
    // The signal may have interrupted one of them.
    assert!(left_out.is_some_and(|left_out| (399..=400).contains(&(ran + left_out))), "{ran} {}", ended.stderr);
}

#[test]
fn it_ends_with_its_command_and_saw_all_of_it() {
    if skip() {
        return;
    }
    let directory = Directory::new("endings");
    let output = directory.path("out");
    let workload = workload();
    // The events include the first and the last call of the command.
    let script = "tracepoint:syscalls:sys_enter_execve /pid == cpid/ { printf(\"%s\\n\", str(args.filename)); }
        tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { @calls = count(); }
        tracepoint:syscalls:sys_enter_exit_group /pid == cpid/ { printf(\"exit %d\\n\", args.error_code); }";
    for (command, exit, calls) in [
        (format!("{workload} getppid 12345"), 0, 12345),
        (format!("'{workload}' \"getppid\" 1''0"), 0, 10),
        (format!("{workload} nonsense"), 1, 0),
    ] {
        let ended = run(&["-q", "-o", &output, "-e", script, "-c", &command]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let calls = if calls == 0 { String::new() } else { format!("@calls: {calls}\n") };
        let results = std::fs::read_to_string(&output).expect("results");
        assert_eq!(results, format!("{workload}\nexit {exit}\n\n\n{calls}"), "{command}");
    }
}

#[test]
fn it_ends_with_its_process_and_saw_nothing_else() {
    if skip() {
        return;
    }
    let workload = workload();
    let spin = || Running::start(Command::new(workload).args(["paced", "1000", "600"]));
    let (target, other) = (spin(), spin());
    let pid = target.pid().to_string();
    let script =
        "tracepoint:syscalls:sys_enter_getppid { @calls[pid] = count(); } profile:hz:99 { @samples[pid] = count(); }
        tracepoint:syscalls:sys_enter_* { @wild[pid] = count(); } END { printf(\"end\\n\"); }";
    let (running, _) = start(&["-q", "-p", &pid, "-e", script]);
    // CPU time, not wall time, so some samples hit it however busy the machine is. Fails by chance
    // below 1e-6: 300 ms are 29 periods, and time slices of any length that begin independently of
    // the samples all fall between them with a probability of at most e^-29.
    let before = processor_ticks(target.pid());
    wait_for("time on a processor", || (processor_ticks(target.pid()) > before + 30).then_some(()));
    target.signal("KILL");
    target.end();
    let ended = running.end();
    drop(other);
    assert_eq!((ended.code(), ended.lines("end")), (0, 1), "{}", ended.stderr);
    let keyed: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with('@')).collect();
    let of_target = |map: &str| keyed.iter().any(|line| line.starts_with(&format!("@{map}[{pid}]: ")));
    assert!(of_target("calls") && of_target("samples") && of_target("wild"), "{keyed:?}");
    assert_eq!(keyed.len(), 3, "{keyed:?}");
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    if skip() {
        return;
    }
    let endless = script("interval:ms:1 { printf(\"tick\\n\"); }");
    let mut child =
        profiler(&["-q", "-e", &endless]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    reader.read_line(&mut line).expect("a line");
    let ids = wait_for("an attached probe", || Some(held(child.id())).filter(|ids| ids.len() > 8));
    drop(reader);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((line.as_str(), output.status.code()), ("begin\n", Some(0)));
    assert_eq!(said(&String::from_utf8_lossy(&output.stderr)), "");
    assert_gone(&ids);
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    if skip() {
        return;
    }
    let cases = [
        ("/no/such/directory/x", "error: cannot write to `/no/such/directory/x`: there is no such file or directory\n"),
        ("/dev/full", "error: cannot write to `/dev/full`: "),
    ];
    for (path, words) in cases {
        let ended = run(&["-q", "-o", path, "-e", &script("interval:ms:1 { printf(\"x\\n\"); }")]);
        assert_eq!((ended.code(), ended.stdout.as_str()), (1, ""), "{path}: {}", ended.stderr);
        assert!(said(&ended.stderr).starts_with(words), "{}", ended.stderr);
    }
}

#[test]
fn quiet_and_files_keep_results_apart() {
    if skip() {
        return;
    }
    let directory = Directory::new("endings");
    let output = directory.path("out");
    let script = "BEGIN { printf(\"x\\n\"); exit(); }";
    let ended = run(&["-o", &output, "-e", script]);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", "Attached 1 probe\n"));
    assert_eq!(std::fs::read_to_string(&output).expect("results"), "x\n\n\n");
    let late = "BEGIN { printf(\"x\\n\"); } interval:ms:5 { exit(); }";
    assert_eq!(said(&run(&["-e", late]).stderr), "Attached 2 probes\n");
    assert_eq!(said(&run(&["-q", "-e", late]).stderr), "");
}
