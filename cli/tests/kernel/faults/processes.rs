//! Target processes that are killed, storms of short processes, and many threads.
//!
//! In: processes whose work is known up to their end. Out: exact counts; the run ends when its
//! target does.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::super::machine::{
    Directory, assert_gone, attached, copy, held, patience, profiler, run, skip, wait_for, workload,
};
use super::{OnDemand, counting_script, lines, lost, memory_kb, number, without_losses_of_others};

#[test]
fn a_killed_process_of_p_ends_the_run_with_all_its_counts() {
    if skip() {
        return;
    }
    let mut target = OnDemand::start(workload(), None);
    let pid = target.pid().to_string();
    let running = attached(&["-q", "-p", &pid, "-e", &counting_script("")]);
    let ids = held(running.pid());
    target.call(1234);
    target.kill();
    let ended = running.end();
    assert_eq!((ended.code(), without_losses_of_others(&ended.stderr).as_str()), (0, ""));
    let count = |name| number(&ended.stdout, name);
    assert_eq!((count("@calls"), count("@steps"), count("@last"), count("@sum")), (1234, 1234, 1233, 1234 * 1234));
    assert_gone(&ids);
}

/// Processor time of a process in user space, in clock ticks.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process of ours");
    stat.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(11)?.parse().ok()).expect("field 14")
}

/// Killed in the middle of its calls: the last argument seen tells how many calls there were.
#[test]
fn a_process_killed_in_a_probe_is_counted_to_its_last_call() {
    if skip() {
        return;
    }
    let workload = workload();
    let script = format!(
        "uprobe:{workload}:workload_step {{ @steps = count(); @first = min(arg0); @last = max(arg0); @[ustack(2)] = count(); }}
         uretprobe:{workload}:workload_step {{ @returns = count(); }} END {{ clear(@); }}"
    );
    for round in 0..5 {
        let command = ["functions", "1000000000000"];
        let mut target = Command::new(workload).args(command).stdout(Stdio::null()).spawn().expect("a workload");
        let running = attached(&["-q", "-p", &target.id().to_string(), "-e", &script]);
        // On a busy machine the target may not run at all for a while.
        let before = ticks(target.id());
        wait_for("some calls", || (ticks(target.id()) > before + round).then_some(()));
        target.kill().expect("a process of ours");
        let ended = running.end();
        target.wait().expect("a process of ours");
        assert_eq!((ended.code(), without_losses_of_others(&ended.stderr).as_str()), (0, ""));
        let count = |name| number(&ended.stdout, name);
        assert!(count("@steps") > 0, "{}", ended.stdout);
        assert_eq!(count("@steps"), count("@last") - count("@first") + 1, "{}", ended.stdout);
        // Probes attach one after another, the return probe first. The call that was killed does
        // not return.
        assert!(count("@returns") + 1 >= count("@steps"), "{}", ended.stdout);
    }
}

#[test]
fn a_killed_command_ends_the_run_with_all_its_counts() {
    if skip() {
        return;
    }
    let directory = Directory::new("killed");
    let script = counting_script("/pid == cpid/") + " BEGIN { printf(\"%d\\n\", cpid); }";
    let (output, errors) = (directory.path("out"), directory.path("errors"));
    let command = format!("{} on-demand", workload());
    let mut target = OnDemand::within(
        profiler(&["--strict", "-q", "-o", &output, "-e", &script, "-c", &command])
            .stderr(fs::File::create(&errors).expect("a file")),
    );
    let ids = held(target.pid());
    assert!(!ids.is_empty());
    target.call(4321);
    let results = || fs::read_to_string(&output).expect("results");
    let pid = results().lines().next().expect("the command's number").to_owned();
    let killed = Command::new("kill").args(["-KILL", &pid]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let (code, stderr) = (target.end(), fs::read_to_string(&errors).expect("a file"));
    assert_eq!(without_losses_of_others(&stderr), "");
    assert_eq!(code, if stderr.is_empty() { 0 } else { 4 });
    let results = results();
    let count = |name| number(&results, name);
    assert_eq!((count("@calls"), count("@steps"), count("@sum")), (4321, 4321, 4321 * 4321), "{results}");
    assert_gone(&ids);
}

#[test]
fn a_traced_process_that_is_killed_takes_nothing_with_it() {
    if skip() {
        return;
    }
    let (mut first, mut second) = (OnDemand::start(workload(), None), OnDemand::start(workload(), None));
    let filter = format!("/pid == {} || pid == {}/", first.pid(), second.pid());
    let running = attached(&["-q", "-e", &counting_script(&filter)]);
    first.call(500);
    second.call(70);
    first.kill();
    second.call(5);
    running.signal("TERM");
    let ended = running.end();
    assert_eq!((ended.code(), without_losses_of_others(&ended.stderr).as_str()), (0, ""));
    assert_eq!((number(&ended.stdout, "@calls"), number(&ended.stdout, "@steps")), (575, 575), "{}", ended.stdout);
    // The living process has symbols. The killed one's addresses are printed as numbers, or with
    // the names known earlier.
    assert!(ended.stdout.contains("workload_step"), "{}", ended.stdout);
}

/// Waits until a run has read the mappings of the processes that were running before it. Its thread
/// for that sleeps in `ppoll` afterwards.
fn wait_for_the_scan(pid: u32) {
    wait_for("the scan of the processes", || {
        let mut threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten().map(|thread| thread.path());
        let is_scanning = |path: &PathBuf| fs::read(path.join("comm")).is_ok_and(|name| name == b"processes\n");
        let call = fs::read_to_string(threads.find(is_scanning)?.join("syscall")).ok()?;
        call.starts_with("271 ").then_some(())
    });
}

/// Processes that begin and end while they are traced, and one that was started before and has
/// ended when its stack is printed.
#[test]
fn stacks_name_the_functions_of_processes_that_have_ended() {
    if skip() {
        return;
    }
    // A private copy, so that no other test's processes are counted.
    let directory = Directory::new("ended");
    let program = directory.path("program");
    copy(workload(), &program);
    let mut before = OnDemand::start(&program, None);
    let script = format!("uprobe:{program}:workload_step {{ @[pid, ustack(1)] = count(); }}");
    let running = attached(&["-q", "-e", &script]);
    before.call(7);
    wait_for_the_scan(running.pid());
    before.kill();
    for _ in 0..10 {
        let mut functions = Command::new(&program);
        assert!(functions.args(["functions", "5"]).stdout(Stdio::null()).status().expect("it runs").success());
    }
    running.signal("INT");
    let ended = running.end();
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""));
    let named = ended.stdout.lines().filter(|line| line.trim() == "workload_step+0").count();
    assert_eq!(
        (named, ended.stdout.matches("]: 5\n").count(), ended.stdout.matches("]: 7\n").count()),
        (11, 10, 1),
        "{}",
        ended.stdout
    );
}

/// A run that traces all processes makes the kernel trap the function's returns everywhere.
#[test]
fn a_return_of_p_is_of_that_process_also_when_another_run_watches_them_all() {
    if skip() {
        return;
    }
    let (mut own, mut other) = (OnDemand::start(workload(), None), OnDemand::start(workload(), None));
    let probe = format!("uretprobe:{}:workload_step", workload());
    let both = format!("{probe} /pid == {} || pid == {}/ {{ @returns = count(); }}", own.pid(), other.pid());
    let of_all = attached(&["-q", "-e", &both]);
    let script = format!("{probe} {{ @returns = count(); @sum = sum(retval); }}");
    let of_one = attached(&["-q", "-p", &own.pid().to_string(), "-e", &script]);
    other.call(300);
    own.call(40);
    other.call(5);
    let ended = [of_one, of_all].map(|running| {
        running.signal("TERM");
        running.end().stdout
    });
    let count = |index: usize, name| number(&ended[index], name);
    assert_eq!((count(0, "@returns"), count(0, "@sum")), (40, 40 * 40), "{}", ended[0]);
    assert_eq!(count(1, "@returns"), 345, "{}", ended[1]);
}

#[test]
fn a_process_that_has_ended_already_is_told() {
    if skip() {
        return;
    }
    let mut zombie = OnDemand::start(workload(), None);
    zombie.kill();
    let stat = format!("/proc/{}/stat", zombie.pid());
    wait_for("a zombie", || fs::read_to_string(&stat).ok().filter(|stat| stat.contains(") Z ")));
    let pid = zombie.pid().to_string();
    for script in
        ["uprobe:libc:malloc { @ = count(); }", "profile:hz:99 { @ = count(); }", "BEGIN { printf(\"x\\n\"); }"]
    {
        let ended = run(&["-q", "-p", &pid, "-e", script]);
        assert_eq!((ended.code(), ended.stdout.as_str()), (1, ""));
        assert_eq!(ended.stderr, format!("error: process {pid} has ended\n"));
    }
}

/// The number of processes in the storm; a machine starts a thousand and more a second.
fn processes() -> u64 {
    6000 / u64::from(patience())
}

/// Every exec is counted, and every call of every process, under the process's own pid.
#[test]
fn an_exec_storm_is_counted_exactly_and_costs_no_memory() {
    if skip() {
        return;
    }
    let (directory, processes) = (Directory::new("storm"), processes());
    let output = directory.path("out");
    // A private copy: other tests run the workload at the same time.
    let program = directory.path("stormy");
    copy(workload(), &program);
    let script = format!(
        "config = {{ max_map_keys = 10000 }}
         tracepoint:sched:sched_process_exec /comm == \"stormy\"/ {{ @execs = count(); }}
         tracepoint:syscalls:sys_enter_exit_group /comm == \"stormy\"/ {{ @exits = count(); }}
         uprobe:{program}:workload_step {{ @steps[pid] = count(); printf(\"step\\n%s\\n\", ustack(4)); }}
         END {{ printf(\"processes %d\\n\", len(@steps)); clear(@steps); }}"
    );
    let command = format!("{program} execs {processes} 2 4");
    let running = attached(&["-q", "-o", &output, "-e", &script]);
    let pid = running.pid();
    let mut storm = Command::new("sh").args(["-c", &format!("exec {command} >/dev/null")]).spawn().expect("it starts");
    let waiting = thread::spawn(move || storm.wait());
    let mut is_over = false;
    let (mut early_kb, mut most_kb) = (None, 0);
    let steps = || fs::read_to_string(&output).map_or(0, |text| lines(&text, "step"));
    while let Some(now_kb) = memory_kb(pid, "VmRSS") {
        // After a tenth of the storm (each process steps twice), everything that is filled once is
        // filled: symbol tables and buffers.
        if early_kb.is_none() && steps() > processes / 5 {
            early_kb = Some(now_kb);
        }
        most_kb = most_kb.max(now_kb);
        if !is_over && waiting.is_finished() {
            is_over = true;
            running.signal("INT");
        }
        thread::sleep(Duration::from_millis(20));
    }
    let ended = running.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let results = fs::read_to_string(&output).expect("results");
    // The storm's own process adds one. Its exit is the run's last event.
    assert_eq!(number(&results, "@execs"), processes + 1, "{}", ended.stderr);
    assert_eq!(number(&results, "@exits"), processes + 1, "{}", ended.stderr);
    assert_eq!(lines(&results, &format!("processes {processes}")), 1);
    let dropped = lost(&ended, &format!("events of uprobe:{program}:workload_step: ring buffer full"));
    let printed = lines(&results, "step");
    assert_eq!(printed + dropped, 2 * processes, "{printed} printed, {dropped} dropped");
    // The mappings of ended processes are kept for symbolization, up to a limit: 2 kB each, 11 MB
    // for the remaining nine tenths of the storm. A page each would be 20 MB more. On a busy
    // machine, events that wait to be read add some.
    let grown_kb = most_kb - early_kb.unwrap_or(most_kb);
    assert!(grown_kb < 25_000 && most_kb < 100_000, "{early_kb:?} kB early, {most_kb} kB at most");
}

#[test]
fn a_thousand_threads_have_a_count_each() {
    if skip() {
        return;
    }
    let script =
        "tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { @[tid] = count(); @plain[tid]++; @sum[tid] = sum(1); }";
    let ended = run(&["-q", "--strict", "-e", script, "-c", &format!("{} getppid 20 1000", workload())]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    for map in ["@[", "@plain[", "@sum["] {
        let entries: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with(map)).collect();
        assert_eq!(entries.len(), 1000, "{map}");
        assert!(entries.iter().all(|entry| entry.ends_with("]: 20")), "{map}: {entries:?}");
    }
}
