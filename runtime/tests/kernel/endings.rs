//! Every way in which a run ends: results once, the right exit code, nothing left in the kernel.
//!
//! In: signals, times, commands, processes and readers that go away.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::machine::{Ended, Folder, Running, assert_gone, attached, held, profiler, run, skip, wait_for, workload};

/// Probes of several kinds, and something of each kind of output.
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

/// Starts a run and waits until it holds its probes.
fn start(arguments: &[&str]) -> (Running, BTreeSet<(&'static str, u32)>) {
    let running = attached(arguments);
    let ids = held(running.pid());
    (running, ids)
}

/// How long a process has run, in hundredths of a second.
fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process that lives");
    // The name in parentheses may have blanks; the 14th and the 15th field are what is looked for.
    let (_, fields) = stat.rsplit_once(") ").expect("a name in parentheses");
    fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum()
}

/// The output of a run that ended in order.
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

#[test]
fn a_second_signal_ends_it_even_when_nobody_reads() {
    if skip() {
        return;
    }
    let flood = "interval:us:100 { printf(\"%s\\n\", \"0123456789012345678901234567890123456789012345678901234567890123456789\"); }";
    let mut command = profiler(&["-q", "-e", &script(flood)]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("profiler");
    let pid = child.id();
    // It is stuck in a write to a full pipe when the kernel says so.
    wait_for("a full pipe", || {
        let stack = std::fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
        stack.starts_with("1 ").then_some(())
    });
    let ids = held(pid);
    let interrupt = || Command::new("kill").args(["-INT", &pid.to_string()]).status();
    interrupt().expect("kill");
    assert!(child.try_wait().expect("a child").is_none(), "the first signal waits for the reader");
    // Two signals that come before the process runs again are one: the second may have to be sent once more.
    let status = wait_for("the end", || {
        interrupt().expect("kill");
        child.try_wait().expect("a child")
    });
    assert_eq!(status.code(), Some(130));
    assert_gone(&ids);
}

#[test]
fn a_killed_run_leaves_nothing() {
    if skip() {
        return;
    }
    let (running, ids) = start(&["-q", "-e", &script("")]);
    running.signal("KILL");
    assert_eq!(running.end().code(), 137);
    assert_gone(&ids);
}

#[test]
fn time_and_exit_end_it_in_order() {
    if skip() {
        return;
    }
    assert_in_order(&run(&["-q", "--duration", "300ms", "-e", &script("")]), 0);
    assert_in_order(&run(&["-q", "-e", &script("interval:ms:50 { exit(); }")]), 0);
    assert_in_order(&run(&["-q", "-e", &script("interval:ms:50 { exit(7); }")]), 7);
    assert_in_order(&run(&["-q", "-e", &script("interval:ms:50 { exit(255); }")]), 255);
    let at_once = run(&[
        "-q",
        "-e",
        "BEGIN { printf(\"begin\\n\"); @kept = 3; exit(9); printf(\"never\\n\"); } END { printf(\"end\\n\"); }",
    ]);
    assert_in_order(&at_once, 9);
}

#[test]
fn a_dry_run_attaches_and_ends() {
    if skip() {
        return;
    }
    let ended = run(&["--dry-run", "-e", &script("")]);
    assert_eq!((ended.code(), ended.stdout.trim()), (0, ""), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("Attached "), "{}", ended.stderr);
}

#[test]
fn it_ends_with_its_command_and_saw_all_of_it() {
    if skip() {
        return;
    }
    let folder = Folder::new("endings");
    let output = folder.path("out");
    let workload = workload();
    // The first and the last call of the command are among the events.
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
    // Time on a processor, not of the clock: however busy the machine is, some samples fall into it.
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
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_gone(&ids);
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    if skip() {
        return;
    }
    let cases = [
        ("/no/such/folder/x", "error: cannot write to `/no/such/folder/x`: there is no such file or directory\n"),
        ("/dev/full", "error: cannot write to `/dev/full`: "),
    ];
    for (path, words) in cases {
        let ended = run(&["-q", "-o", path, "-e", &script("interval:ms:1 { printf(\"x\\n\"); }")]);
        assert_eq!((ended.code(), ended.stdout.as_str()), (1, ""), "{path}: {}", ended.stderr);
        assert!(ended.stderr.starts_with(words), "{}", ended.stderr);
    }
}

#[test]
fn quiet_and_files_keep_results_apart() {
    if skip() {
        return;
    }
    let folder = Folder::new("endings");
    let output = folder.path("out");
    let script = "BEGIN { printf(\"x\\n\"); exit(); }";
    let ended = run(&["-o", &output, "-e", script]);
    assert_eq!((ended.stdout.as_str(), ended.stderr.contains("Attached")), ("", false), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(&output).expect("results"), "x\n\n\n");
    let late = "BEGIN { printf(\"x\\n\"); } interval:ms:5 { exit(); }";
    assert_eq!(run(&["-e", late]).stderr, "Attached 2 probes\n");
    assert_eq!(run(&["-q", "-e", late]).stderr, "");
}
