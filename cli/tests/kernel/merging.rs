//! Blocks on the same event share one BPF program.
//!
//! In: several blocks on the same system calls and tracepoints. Out: the number of programs, and
//! the counts of each block.

use std::fmt::Write as _;

use super::machine::{Ended, attached, held, run, skip, workload};

/// The number of BPF programs that an attached script holds.
fn programs(script: &str) -> usize {
    let running = attached(&["-q", "-e", script]);
    let held = held(running.pid());
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    held.iter().filter(|(kind, _)| *kind == "prog").count()
}

/// The value of a map entry.
fn entry(ended: &Ended, key: &str) -> u64 {
    let line = ended.stdout.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    line.map_or(0, |number| number.parse().expect("a number"))
}

#[test]
fn a_system_call_costs_one_program_a_side() {
    if skip() {
        return;
    }
    let calls = ["openat", "close", "mmap", "munmap", "execve", "connect", "accept4", "unlink", "rename", "mkdir"];
    let mut script = String::new();
    for call in calls {
        let _ = writeln!(script, "tracepoint:syscalls:sys_enter_{call} {{ @entered[\"{call}\"] = count(); }}");
    }
    assert_eq!(programs(&script), 1);
    for call in calls {
        let _ = writeln!(script, "tracepoint:syscalls:sys_exit_{call} {{ @left[\"{call}\"] = count(); }}");
    }
    assert_eq!(programs(&script), 2);
}

#[test]
fn tracepoints_and_spans_share_programs_too() {
    if skip() {
        return;
    }
    let perf = "tracepoint:sched:sched_switch { @a[args.prev_pid] = count(); }";
    assert_eq!(programs(&perf.repeat(3)), 1);
    let span = |name: &str, call: &str| {
        format!(
            "span {name} by tid {{ start tracepoint:syscalls:sys_enter_{call} end tracepoint:syscalls:sys_exit_{call} }} {name}:end {{ @{name} = count(); }}\n"
        )
    };
    assert_eq!(programs(&(span("reading", "read") + &span("writing", "write"))), 2);
}

/// Blocks of all kinds on one event.
const MIXED: &str = "
    tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { @first = count(); @turn = 1; if (pid > 0) { return; } @never = 1; }
    tracepoint:syscalls:sys_enter_getpid, tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {
        if (@turn == 1) { @second = count(); }
        @turn = 2;
        @by[probe] = count();
    }
    tracepoint:syscalls:sys_enter_getppid /pid == 0/ { @nobody = count(); }
    rawtracepoint:sys_enter /pid == cpid/ {
        @all = count();
        if (@turn == 2) { @third = count(); }
        @turn = 3;
    }
    tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {
        for $i : 0..3 { @rounds = count(); }
        $text = str(curtask->comm, 200);
        @text[$text] = count();
        if (@turn == 3) { @fourth = count(); }
        @turn = 0;
    }
    tracepoint:syscalls:sys_enter_* /pid == cpid/ { @wild[probe] = count(); }
    tracepoint:syscalls:sys_exit_getppid /pid == cpid/ { @exits[args.ret > 0] = count(); }
    tracepoint:syscalls:sys_exit_exit_group /pid == cpid/ { @never = 2; }";

#[test]
fn blocks_of_one_program_do_not_disturb_each_other() {
    if skip() {
        return;
    }
    let ended = run(&["-q", "--strict", "-e", MIXED, "-c", &format!("{} getppid 1000", workload())]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    for map in ["@first", "@second", "@third", "@fourth", "@text[workload]", "@exits[true]"] {
        assert_eq!(entry(&ended, map), 1000, "{map}: {}", ended.stdout);
    }
    assert_eq!(entry(&ended, "@rounds"), 3000, "{}", ended.stdout);
    for by in ["@by", "@wild"] {
        let name = format!("{by}[tracepoint:syscalls:sys_enter_getppid]");
        assert_eq!(entry(&ended, &name), 1000, "{}", ended.stdout);
    }
    assert!(!ended.stdout.contains("@never") && !ended.stdout.contains("@nobody"), "{}", ended.stdout);
    let wild: u64 = ended
        .stdout
        .lines()
        .filter(|line| line.starts_with("@wild"))
        .filter_map(|line| line.rsplit_once(": ")?.1.parse::<u64>().ok())
        .sum();
    assert_eq!(wild, entry(&ended, "@all"), "{}", ended.stdout);
    assert_eq!(programs(&MIXED.replace("cpid", "1")), 2);
}

#[test]
fn what_is_too_much_for_one_program_becomes_several() {
    if skip() {
        return;
    }
    // Each block uses 40 maps; a program may use 64.
    let block = |letter: char| {
        let statements = (0..40).fold(String::new(), |text, n| text + &format!("@{letter}{n}[tid] = {n}; "));
        format!("tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {{ {statements} @blocks = count(); }}\n")
    };
    let script = format!("config = {{ max_map_keys = 64; }} {}{}{}", block('a'), block('b'), block('c'));
    assert!(programs(&script.replace("cpid", "1")) > 1);
    let ended = run(&["-q", "--strict", "-e", &script, "-c", &format!("{} getppid 100", workload())]);
    assert_eq!((ended.code(), entry(&ended, "@blocks")), (0, 300), "{}", ended.stderr);
}

#[test]
fn a_stack_begins_where_it_does_in_a_block_alone() {
    if skip() {
        return;
    }
    let block =
        |map: &str| format!("rawtracepoint:sched_process_exit /tid == cpid/ {{ @{map}[kstack(2)] = count(); }} ");
    let stacks = |script: &str| {
        let ended = run(&["-q", "-e", script, "-c", &format!("{} getppid 1", workload())]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let entries = ended.stdout.split('@').filter(|text| text.contains("[\n"));
        entries.map(|text| text.trim()[1..].to_owned()).collect::<Vec<_>>()
    };
    let alone = stacks(&block("a"));
    let shared = stacks(&(block("a") + &block("b")));
    assert_eq!((alone.len(), shared.len()), (1, 2), "{alone:?} {shared:?}");
    assert!(alone[0].contains("do_exit"), "{alone:?}");
    assert!(shared.iter().all(|stack| *stack == alone[0]), "{alone:?} {shared:?}");
}

#[test]
fn costs_are_told_of_the_program_that_blocks_share() {
    if skip() {
        return;
    }
    let script = "tracepoint:syscalls:sys_enter_getppid { @a = count(); } tracepoint:syscalls:sys_enter_getpid { @b = count(); }";
    let ended = run(&["-q", "--stats", "-e", script, "-c", &format!("{} getppid 100", workload())]);
    let rows = |name: &str| ended.stderr.lines().filter(|line| line.contains(name)).count();
    assert_eq!(rows("tracepoint:syscalls:sys_enter_getppid and 1 more"), 1, "{}", ended.stderr);
    assert_eq!(rows("tracepoint:syscalls:sys_enter_getpid"), 0, "{}", ended.stderr);
}

#[test]
fn what_exit_ends_is_ended_for_the_blocks_after_it() {
    if skip() {
        return;
    }
    let step = format!("uprobe:{}:workload_step /pid == cpid/", workload());
    for exit in ["exit(7);", "for $i : 0..3 { if ($i == 1) { exit(7); } }"] {
        let script = format!(
            "{step} {{ @first = count(); @sum = sum(arg0); if (arg0 == 100) {{ {exit} }} }}
            {step} {{ @second = count(); }}
            u{step} {{ @returned = count(); }} u{step} {{ @again = count(); }}"
        )
        .replace("uuprobe", "uretprobe");
        assert_eq!(
            programs(&script.replace("cpid", "1")),
            3,
            "one at entries, one at returns, and what counts deep ones"
        );
        let ended = run(&["-q", "-e", &script, "-c", &format!("{} functions 100000", workload())]);
        assert_eq!(ended.code(), 7, "{}", ended.stderr);
        let counts = ["@first", "@second", "@returned", "@again", "@sum"].map(|map| entry(&ended, map));
        assert_eq!(counts, [101, 100, 100, 100, 5050], "{exit}: {}", ended.stdout);
    }
}

#[test]
fn blocks_by_the_clock_share_programs() {
    if skip() {
        return;
    }
    let script = "profile:hz:97 { @a = count(); } profile:hz:97 { @b = count(); }
        interval:ms:5 { @c = count(); } interval:ms:5 { @d = count(); if (@ticks++ == 40) { exit(); } } END { clear(@ticks); }";
    let ended = run(&["-q", "-e", script]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert_eq!((entry(&ended, "@c"), entry(&ended, "@d")), (41, 41), "{}", ended.stdout);
    assert_eq!(entry(&ended, "@a"), entry(&ended, "@b"), "{}", ended.stdout);
    assert_eq!(programs(&script.replace("40", "-1")), 2 + 1, "END has one, too");
}

#[test]
fn what_the_verifier_finds_too_complex_together_is_loaded_apart() {
    if skip() {
        return;
    }
    // 2^9 paths that the verifier cannot merge, because each of `$x`'s values decides how much a
    // helper reads, through eight copies. Kernels differ in how far they follow them, so there are
    // as many blocks as it takes to exceed what they follow for a program.
    let bits =
        (0..9).fold(String::new(), |text, n| text + &format!("if ((nsecs >> {n}) & 1) {{ $x += {}; }} ", 1 << n));
    let copies = (0..8).fold(String::new(), |text, n| text + &format!("@s{n}[buf(arg0, $x & 63)] = 1; "));
    let block = |map: &str| {
        let step = format!("uprobe:{}:workload_step", workload());
        format!("{step} {{ $x = 0; {bits} @{map} = count(); {copies} }}\n")
    };
    let one = attached(&["-q", "-e", &block("m0")]);
    let followed = verified_insns(one.pid());
    one.signal("INT");
    assert_eq!(one.end().code(), 0);
    let names: Vec<String> = (0..=1_000_000 / followed).map(|n| format!("m{n}")).collect();
    assert!((2..=20).contains(&names.len()), "{followed} instructions are followed in one block");
    let script: String = names.iter().map(|name| block(name)).collect();
    let ended = run(&["-v", "-e", &script, "-c", &format!("{} functions 100", workload())]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("each is loaded as its own"), "{}", ended.stderr);
    assert!(names.iter().all(|name| entry(&ended, &format!("@{name}")) == 100), "{}", ended.stdout);
}

/// The most instructions that the verifier followed in a program of this process.
fn verified_insns(pid: u32) -> u64 {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("a process of ours");
    let texts = descriptors.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
    let followed =
        |text: String| text.lines().find_map(|line| line.strip_prefix("verified_insns:")?.trim().parse().ok());
    texts.filter_map(followed).max().expect("a program of the kernel")
}

#[test]
fn what_the_kernel_spends_around_a_program_is_estimated() {
    if skip() {
        return;
    }
    let step = format!("uprobe:{}:workload_step", workload());
    let script = format!(
        "{step} {{ @a = count(); }} u{step} {{ @b = count(); }} tracepoint:syscalls:sys_enter_getppid {{ @c = count(); }}"
    );
    let script = script.replace("uuprobe", "uretprobe");
    let command = format!("{} functions 100", workload());
    let ended = run(&["-q", "-f", "json", "--stats", "-e", &script, "-c", &command]);
    let quality = ended.stdout.lines().find(|line| line.contains("\"cost\"")).expect("costs");
    let quality: serde_json::Value = serde_json::from_str(quality).expect("JSON");
    let costs = quality["data"]["cost"].as_array().expect("rows");
    assert_eq!(costs.len(), 3, "{quality}");
    for cost in costs {
        let number = |field: &str| cost[field].as_f64().unwrap_or_else(|| panic!("{field} of {cost}"));
        assert!(number("trap_ns") >= 0.0 && number("cpu_percent") > 0.0, "{cost}");
    }
}
