//! Many probes at once, and probes that fire periodically.
//!
//! In: wildcards and timers. Out: counts per probe.

use std::process::Command;

use super::machine::{Directory, Ended, Running, attached, copy, run, skip, workload};

/// The value of a map entry.
fn entry(ended: &Ended, key: &str) -> u64 {
    let line = ended.stdout.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    line.map_or(0, |number| number.parse().expect("a number"))
}

#[test]
fn a_wildcard_counts_each_system_call() {
    if skip() {
        return;
    }
    let mix = format!("{} demo 1", workload());
    let script = "tracepoint:syscalls:sys_enter_* /pid == cpid/ { @[probe] = count(); }
        tracepoint:syscalls:sys_enter_read /pid == cpid/ { @reads = count(); @sizes[args.count] = count(); }
        tracepoint:syscalls:sys_enter_openat /pid == cpid/ { @opens = count(); @flags[args.flags] = count(); }
        tracepoint:syscalls:sys_exit_nanosleep /pid == cpid/ { @rounds = count(); }";
    let ended = run(&["-q", "-e", script, "-c", &mix]);
    let rounds: u64 = ended.stdout.lines().find_map(|line| line.strip_prefix("rounds ")?.parse().ok()).expect("rounds");
    assert_eq!(entry(&ended, "@rounds"), rounds, "{}", ended.stdout);
    let calls = |name: &str| entry(&ended, &format!("@[tracepoint:syscalls:sys_enter_{name}]"));
    assert_eq!(calls("nanosleep"), rounds);
    // The loader and the runtime read with other sizes, and open with O_CLOEXEC.
    assert_eq!(
        (calls("read"), calls("openat")),
        (entry(&ended, "@reads"), entry(&ended, "@opens")),
        "{}",
        ended.stdout
    );
    for (size, times) in [(64, 8), (512, 4), (65536, 1)] {
        assert_eq!(entry(&ended, &format!("@sizes[{size}]")), rounds * times, "{size}: {}", ended.stdout);
    }
    assert!(calls("read") >= rounds * 15, "{}", ended.stdout);
    assert_eq!(entry(&ended, "@flags[0]"), rounds, "{}", ended.stdout);
    assert_eq!(calls("exit_group"), 1);
}

#[test]
fn all_tracepoints_of_a_category_attach_and_go() {
    if skip() {
        return;
    }
    for category in ["sched", "syscalls", "signal", "task"] {
        let script = format!("tracepoint:{category}:* {{ @[probe] = count(); }}");
        // The exit of the shell's child raises a signal within the run. The signal for the
        // command's own exit may come after it.
        let command = format!("sh -c '{} getppid 100; exit 0'", workload());
        // The kernel skips and reports an event of an interrupt that comes while the program runs,
        // so losses are no failure here.
        let ended = run(&["-e", &script, "-c", &command]);
        assert_eq!(ended.code(), 0, "{category}: {}", ended.stderr);
        let attached: usize = ended
            .stderr
            .lines()
            .find_map(|l| l.strip_prefix("Attached ")?.split(' ').next()?.parse().ok())
            .expect("a line");
        let events = std::fs::read_dir(format!("/sys/kernel/tracing/events/{category}")).expect("events");
        let names = events.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().is_dir())).count();
        assert_eq!(attached, names, "{category}");
        assert!(ended.stdout.contains(&format!("@[tracepoint:{category}:")), "{category}: {}", ended.stdout);
    }
}

/// The number of ticks of a clock that a run reports as missing; clocks with the same period share
/// a line.
fn missing_ticks(ended: &Ended, clock: &str) -> u64 {
    let of_clock = |line: &str| {
        let (clocks, rest) = line.trim().strip_prefix("ticks of ")?.split_once(": ")?;
        clocks.split(',').any(|name| name == clock).then(|| rest.rsplit(' ').next()?.parse::<u64>().ok())?
    };
    ended.stderr.lines().filter_map(of_clock).sum()
}

#[test]
fn clocks_fire_as_often_as_asked() {
    if skip() {
        return;
    }
    // The interval of a second is the last one in the script, so the others come before it when
    // they are due at the same time.
    let script = "BEGIN { @begin++; @start = nsecs; } END { @end++; @stop = nsecs; } BEGIN { @begin++; }
        interval:ms:50 { @interval++; } interval:hz:20 { @hertz++; } interval:20ms { @duration++; }
        profile:hz:100 { @profile = count(); } software:cpu-clock:1000000 { @software = count(); }
        software:context-switches:1 { @switches = count(); } interval:s:1 { @second++; exit(); }";
    let ended = run(&["-q", "-e", script]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let count = |map: &str| entry(&ended, &format!("@{map}"));
    assert_eq!((count("begin"), count("end"), count("second")), (2, 1, 1), "{}", ended.stdout);
    // Ticks that are more than a second late do not run and are counted.
    let seconds = 1 + missing_ticks(&ended, "interval:s:1");
    for (map, clock, rate) in
        [("interval", "interval:ms:50", 20), ("hertz", "interval:hz:20", 20), ("duration", "interval:20ms", 50)]
    {
        let ticks = count(map) + missing_ticks(&ended, clock);
        assert_eq!(ticks, rate * seconds, "{map}: {}{}", ended.stdout, ended.stderr);
    }
    // These fire on each CPU. On a busy machine, the kernel merges late ticks with later ones; more
    // than one in a hundred are reported. No tick comes before it is due.
    let cpus = std::fs::read_to_string("/proc/cpuinfo").expect("CPUs").matches("processor\t:").count() as u64;
    let elapsed_ns = count("stop") - count("start");
    for (map, clock, rate) in [("profile", "profile:hz:100", 100), ("software", "software:cpu-clock:1000000", 1000)] {
        let (least, most) = ((rate * seconds * 97 / 100 - 4) * cpus, (elapsed_ns * rate / 1_000_000_000 + 1) * cpus);
        let (ticks, missing) = (count(map), missing_ticks(&ended, clock));
        assert!(ticks + missing >= least && ticks <= most, "{map}: {least} {most} {}{}", ended.stdout, ended.stderr);
    }
    assert!(count("switches") > 0, "{}", ended.stdout);
}

#[test]
fn stacks_name_the_functions_of_a_process_that_lives() {
    if skip() {
        return;
    }
    let directory = Directory::new("stacks");
    let program = directory.path("stacks-here");
    copy(workload(), &program);
    let script = format!(
        "uprobe:{program}:workload_step {{ @[ustack] = count(); @one[ustack(1)] = count(); @symbol[usym(arg0 * 0 + reg(\"ip\"))] = count(); }}
         tracepoint:syscalls:sys_enter_nanosleep /leader_comm == \"stacks-here\"/ {{ print(ustack); print(kstack); print(@symbol); exit(); }}"
    );
    let profiler = attached(&["-q", "-e", &script]);
    let command = format!("{program} functions 5; exec {program} sleepers 1 600000");
    let _workload = Running::start(Command::new("sh").args(["-c", &command]));
    let ended = profiler.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("\n@one[\n") && ended.stdout.contains("]: 5\n"), "{}", ended.stdout);
    // The thread is still asleep when its stack is printed.
    assert!(ended.stdout.contains("workload::sys::sleep_ns") || ended.stdout.contains("syscall+"), "{}", ended.stdout);
    let kernel = ["do_syscall_64", "entry_SYSCALL_64"];
    assert!(kernel.iter().any(|name| ended.stdout.contains(name)), "{}", ended.stdout);
}

#[test]
fn every_line_of_json_parses() {
    if skip() {
        return;
    }
    let directory = Directory::new("json");
    let output = directory.path("out");
    let script = r#"BEGIN { printf("quote \" tab \t backslash \\ bell \x07 high \xff\n"); print((1, "a\"b", -2)); print("x"); time("%H\n");
          @a = 1; @b["k\"", 2] = 3; @h = hist(5); @l[1] = lhist(3, 0, 10, 2); @s["x"] = stats(5); @avg = avg(3); @c = count(); @big = (uint64)-1;
          @t[1] = (1, "x", (2, 3)); @stack[kstack] = count(); @ip = ntop(0x0100007f); print(@b); print(@t); clear(@c); }
        tracepoint:syscalls:sys_enter_openat /pid == cpid/ { printf("%s\n", str(args.filename)); @buf = buf(args.filename, 4); @who[comm, ustack(3)] = count(); }
        END { printf("end\n"); }"#;
    let ended = run(&["-f", "json", "-o", &output, "-e", script, "-c", &format!("{} files 20", workload())]);
    assert_eq!((ended.code(), ended.stderr.as_str()), (0, ""));
    let text = std::fs::read_to_string(&output).expect("UTF-8");
    for kind in ["printf", "value", "time", "map", "hist", "stats", "attached_probes"] {
        assert!(text.contains(&format!("{{\"type\": \"{kind}\", ")), "{kind}: {text}");
    }
    for line in text.lines() {
        let mut rest = line.as_bytes();
        assert!(json(&mut rest).is_some() && rest.is_empty(), "not JSON: {line}");
    }
}

/// Parses one JSON value and advances `text` past it.
fn json(text: &mut &[u8]) -> Option<()> {
    blanks(text);
    match *text.first()? {
        b'{' => list(text, b'}', |text| {
            blanks(text);
            string(text)?;
            blanks(text);
            take(text, b':')?;
            json(text)
        }),
        b'[' => list(text, b']', json),
        b'"' => string(text),
        b'0'..=b'9' | b'-' => number(text),
        _ => ["true", "false", "null"].iter().find_map(|word| {
            *text = text.strip_prefix(word.as_bytes())?;
            Some(())
        }),
    }
}

fn list(text: &mut &[u8], close: u8, item: impl Fn(&mut &[u8]) -> Option<()>) -> Option<()> {
    *text = &text[1..];
    blanks(text);
    if take(text, close).is_some() {
        return Some(());
    }
    loop {
        item(text)?;
        blanks(text);
        if take(text, close).is_some() {
            return Some(());
        }
        take(text, b',')?;
    }
}

fn string(text: &mut &[u8]) -> Option<()> {
    take(text, b'"')?;
    loop {
        match *text.first()? {
            b'"' => return take(text, b'"'),
            b'\\' => {
                let escaped = *text.get(1)?;
                let len = match escaped {
                    b'u' => text.get(2..6)?.iter().all(u8::is_ascii_hexdigit).then_some(6)?,
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
                    _ => return None,
                };
                *text = &text[len..];
            }
            0..=0x1f => return None,
            _ => *text = &text[1..],
        }
    }
}

fn number(text: &mut &[u8]) -> Option<()> {
    let _ = take(text, b'-');
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let valid = digits == 1 || (digits > 1 && text[0] != b'0');
    *text = &text[digits..];
    valid.then_some(())
}

fn take(text: &mut &[u8], byte: u8) -> Option<()> {
    *text = text.strip_prefix(&[byte])?;
    Some(())
}

fn blanks(text: &mut &[u8]) {
    *text = text.trim_ascii_start();
}
