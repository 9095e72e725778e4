//! What a run leaves in the kernel and on the machine: nothing.
//!
//! In: signals at random times, and two simultaneous runs. Out: no program, link or map remains,
//! tracefs is unchanged, no command still runs, and the other run is not affected.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::super::machine::{self, Directory, Running, assert_gone, held, profiler, skip, wait_for, workload};
use super::{OnDemand, counting_script, lines, number, without_losses_of_others};

/// The probe definitions in tracefs: none may be ours, before, during and after a run.
fn tracefs() -> Vec<String> {
    let root = Path::new("/sys/kernel/tracing");
    ["uprobe_events", "kprobe_events", "dynamic_events"]
        .iter()
        .filter_map(|file| fs::read_to_string(root.join(file)).ok())
        .collect()
}

/// Whether the events that these scripts use are enabled for tracefs's own readers.
fn enabled() -> Vec<String> {
    let root = Path::new("/sys/kernel/tracing/events");
    ["sched/sched_switch", "syscalls/sys_enter_getppid", "syscalls/sys_enter_read"]
        .iter()
        .map(|event| fs::read_to_string(root.join(event).join("enable")).expect("an event"))
        .collect()
}

/// Every kind of attachment, several kinds of maps, both ring buffers, and a timer.
fn script() -> String {
    format!(
        "BEGIN {{ printf(\"command %d\\n\", cpid); }}
         tracepoint:sched:sched_switch {{ @names[args.next_comm] = count(); @stacks[kstack] = count(); }}
         tracepoint:syscalls:sys_enter_* {{ @all[probe] = count(); }} tracepoint:syscalls:sys_enter_read {{ @reads = sum(args.count); }}
         interval:ms:10 {{ @ticks = count(); print(@reads); zero(@reads); }} software:page-faults:1 {{ @pages[ustack(3)] = count(); }}
         {} END {{ printf(\"end\\n\"); clear(@names); clear(@all); clear(@pages); clear(@stacks); }}",
        counting_script("").replace("@stacks[kstack(3)] = count();", "")
    )
}

/// The pid of the command, as the script printed it.
fn command_of(output: &str) -> Option<String> {
    Some(fs::read_to_string(output).ok()?.lines().find_map(|line| line.strip_prefix("command "))?.to_owned())
}

/// Processor time of a process in user space, in clock ticks.
fn ticks(pid: &str) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(11)?.parse().ok()).unwrap_or(0)
}

/// Whether a process runs; a zombie does not.
fn runs(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn whatever_signal_ends_it_nothing_is_left() {
    if skip() {
        return;
    }
    let directory = Directory::new("leftovers");
    let (tracefs_before, enabled_before) = (tracefs(), enabled());
    for (signal, code) in [("TERM", 0), ("INT", 0), ("HUP", 0), ("KILL", 137), ("QUIT", 131), ("ABRT", 134)] {
        let output = directory.path(signal);
        let command = format!("{} getppid 1000000000000", workload());
        let running = Running::start(&mut profiler(&["-q", "-o", &output, "-e", &script(), "-c", &command]));
        let ids = wait_for("all probes", || {
            let ids = held(running.pid());
            (ids.iter().filter(|(kind, _)| *kind == "link").count() >= 8).then_some(ids)
        });
        assert!(["prog", "map"].iter().all(|kind| ids.iter().any(|(of, _)| of == kind)), "{ids:?}");
        let command = wait_for("the command", || command_of(&output));
        wait_for("its calls", || (ticks(&command) > 2).then_some(()));
        running.signal(signal);
        let ended = running.end();
        assert_eq!(ended.code(), code, "{signal}: {}", ended.stderr);
        let results = fs::read_to_string(&output).expect("results");
        assert_eq!(lines(&results, "end"), u64::from(code == 0), "{signal}: {results}");
        assert_eq!(results.contains("\n@calls: "), code == 0, "{signal}: {results}");
        wait_for("the end of the command", || (!runs(&command)).then_some(()));
        assert_gone(&ids);
        assert_eq!((tracefs(), enabled()), (tracefs_before.clone(), enabled_before.clone()), "{signal}");
    }
}

/// The signal arrives at any point of compiling, loading and attaching.
#[test]
fn killed_while_it_starts_it_leaves_nothing() {
    if skip() {
        return;
    }
    let tracefs_before = tracefs();
    for (round, signal) in (0..30).zip(["KILL", "TERM", "HUP"].iter().cycle()) {
        let command = format!("{} getppid 1000000000000", workload());
        let running = Running::start(&mut profiler(&["-q", "-e", &script(), "-c", &command]));
        let children = format!("/proc/{0}/task/{0}/children", running.pid());
        thread::sleep(Duration::from_millis(round * 4));
        let children = fs::read_to_string(children).unwrap_or_default();
        let ids = held(running.pid());
        running.signal(signal);
        let ended = running.end();
        assert!([0, 129, 137, 143].contains(&ended.code()), "{signal}: {} {}", ended.code(), ended.stderr);
        for child in children.split_whitespace() {
            wait_for("the end of the command", || (!runs(child)).then_some(()));
        }
        assert_gone(&ids);
    }
    assert_eq!(tracefs(), tracefs_before);
}

#[test]
fn an_ignored_hangup_stays_ignored() {
    if skip() {
        return;
    }
    // Started with SIGHUP ignored, as `nohup` does it.
    let script = "BEGIN { printf(\"begin\\n\"); } interval:ms:10 { printf(\"tick\\n\"); } END { printf(\"end\\n\"); }";
    let directory = Directory::new("hangup");
    let output = directory.path("out");
    let line = format!("trap '' HUP; exec '{}' run -q -o {output} -e '{script}'", super::super::machine::PROFILER);
    let running = Running::start(Command::new("sh").args(["-c", &line]));
    let printed = |line: &str| fs::read_to_string(&output).map_or(0, |text| lines(&text, line));
    wait_for("its ticks", || (printed("tick") > 0).then_some(()));
    running.signal("HUP");
    // It would end before the next ticks.
    let before = printed("tick");
    wait_for("ticks after the hangup", || (printed("tick") > before + 20).then_some(()));
    running.signal("TERM");
    let ended = running.end();
    assert_eq!((ended.code(), printed("begin"), printed("end")), (0, 1, 1), "{}", ended.stderr);
}

fn attached(script: &str) -> (Running, BTreeSet<(&'static str, u32)>) {
    let running = machine::attached(&["-q", "-e", script]);
    let ids = held(running.pid());
    (running, ids)
}

#[test]
fn two_at_once_are_both_exact_whatever_becomes_of_the_other() {
    if skip() {
        return;
    }
    for signal in ["TERM", "KILL"] {
        let mut target = OnDemand::start(workload(), None);
        let script = counting_script(&format!("/pid == {}/", target.pid()));
        let (first, first_ids) = attached(&script);
        target.call(1000);
        let (second, second_ids) = attached(&script);
        target.call(300);
        first.signal(signal);
        let first = first.end();
        target.call(50);
        assert_gone(&first_ids);
        target.call(50);
        second.signal("INT");
        let second = second.end();
        assert_gone(&second_ids);
        assert_eq!(target.end(), 0, "the traced process is none the worse");
        let count = |text: &str| (number(text, "@calls"), number(text, "@steps"));
        if signal == "TERM" {
            assert_eq!((first.code(), count(&first.stdout)), (0, (1300, 1300)), "{}", first.stderr);
        }
        assert_eq!((second.code(), count(&second.stdout)), (0, (400, 400)), "{}", second.stderr);
        assert_eq!(without_losses_of_others(&second.stderr), "");
    }
}
