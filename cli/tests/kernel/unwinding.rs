//! User stacks by unwind tables, of chains of calls that the program itself records.
//!
//! In: `workload unwind`, whose functions call each other in random order. Out: each stack has
//! exactly the functions that were active, and reaches the function in which its thread began.

mod brief;
mod programs;
mod shares;

use std::collections::BTreeMap;

use super::machine::{Directory, Ended, patience, profiler, run, skip, slowness, workload};
use crate::machine::{Running, with_enough_calls};

/// Frames of a stack at most.
const MAX_FRAMES: usize = 127;

/// Chains of a run: as many as an emulated processor walks in about the same time.
fn chain_count() -> u64 {
    (2000 / u64::from(patience())).max(200)
}

/// A printed stack.
#[derive(Debug)]
struct Stack {
    /// The name of the map, or what a `printf` begins with.
    of: String,
    id: u64,
    frames: Vec<String>,
    /// Why it ends early.
    end: Option<String>,
    /// The value of the map's entry.
    count: u64,
}

impl Stack {
    /// The names in its frames, without addresses: `main` of `main+35`.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.frames.iter().map(|frame| frame.split('+').next().unwrap_or_default())
    }

    fn reaches(&self, outermost: &str) -> bool {
        self.end.is_none() && self.names().any(|name| name == outermost)
    }
}

/// The stacks of `@NAME[ID, STACK]` and of `printf("NAME[%d, %s", id, stack)`.
fn stacks(output: &str) -> Vec<Stack> {
    let mut all: Vec<Stack> = Vec::new();
    for line in output.lines() {
        let last = all.last_mut();
        if let Some((of, id)) = line.split_once('[').filter(|_| !line.starts_with(' ')) {
            let id = id.trim_end_matches([',', ' ']).parse();
            let Ok(id) = id else { continue };
            all.push(Stack { of: of.to_owned(), id, frames: Vec::new(), end: None, count: 1 });
        } else if let (Some(stack), Some(frame)) = (last, line.strip_prefix("        ")) {
            match frame.strip_prefix("[stack ends here: ").and_then(|reason| reason.strip_suffix(']')) {
                Some(reason) => stack.end = Some(reason.to_owned()),
                None => stack.frames.push(frame.to_owned()),
            }
        } else if let (Some(stack), Some(count)) = (all.last_mut(), line.strip_prefix("]: ")) {
            stack.count = count.parse().expect("a number");
        }
    }
    all
}

/// What a run printed, and what is true.
#[derive(Debug)]
struct Traced {
    stacks: Vec<Stack>,
    /// The names of the functions that were active, innermost first, by the chain's id.
    truth: BTreeMap<u64, Vec<String>>,
    stderr: String,
}

impl Traced {
    /// The stacks of one map, by id; no id has two.
    fn of(&self, name: &str) -> BTreeMap<u64, &Stack> {
        let mut found = BTreeMap::new();
        for stack in self.stacks.iter().filter(|stack| stack.of == name) {
            let other = found.insert(stack.id, stack);
            assert!(other.is_none(), "two stacks of {}: {stack:?}, {other:?}", stack.id);
        }
        found
    }
}

/// Takes stacks until they are complete: more frames than those of the C library and the program
/// before `main`. Those of a program without tables never are; of such a program it takes stacks
/// for three seconds. A program begins with events of id 0, and goes on when it gets SIGUSR1.
///
/// The tracer notices mapped code in a thread that needs milliseconds of CPU time, and then has a
/// tenth of a second for the tables of what else is mapped, or longer on a busy machine.
fn until_warm(probe: &str, id: &str) -> String {
    let settled = format!("{}ms", 100 * patience() * slowness().ceil() as u32);
    let given_up = format!("{}ms", 3000 * patience());
    format!(
        "{probe} / {id} == 0 / {{
            $memory = (uint64)curtask->mm;
            if (!has_key(@began, $memory)) {{ @began[$memory] = nsecs; }}
            if (len(dw_ustack) > 4 && !has_key(@since, $memory)) {{ @since[$memory] = nsecs; }}
            $is_warm = has_key(@since, $memory) && nsecs - @since[$memory] > {settled};
            if ($is_warm || nsecs - @began[$memory] > {given_up}) {{ signal(\"USR1\"); @warm = 1; }}
        }}\n"
    )
}

/// Traces a command, which gets the limit of its first phase in milliseconds as last argument.
/// Lines `chain ID NAME…` of its output are the truth.
fn traced(script: &str, command: &str) -> Traced {
    let directory = Directory::new("unwinding");
    let output = directory.path("output");
    let mut tracer = profiler(&["-q", "--unsafe", "-e", script, "-o", &output, "-c", command]);
    let ended = Running::start(&mut tracer).end();
    assert_eq!(ended.code(), 0, "{command}: {}{}", ended.stderr, ended.stdout);
    let mut truth = BTreeMap::new();
    for line in ended.stdout.lines() {
        let mut words = line.strip_prefix("chain ").unwrap_or_else(|| panic!("{line}")).split(' ');
        let id = words.next().and_then(|id| id.parse().ok()).expect("an id");
        let names = words.filter(|name| !name.is_empty()).map(str::to_owned).collect();
        assert!(truth.insert(id, names).is_none(), "{line}");
    }
    let printed = std::fs::read_to_string(&output).expect("results");
    Traced { stacks: stacks(&printed), truth, stderr: ended.stderr }
}

/// The limit of the first phase.
fn warm_ms() -> u32 {
    10_000 * patience()
}

/// Traces `workload unwind KIND SEED COUNT`, which begins when its first stacks are complete: one
/// more frame than those of the function that calls the probed one.
fn chains(clauses: &str, kind: &str, seed: u64, count: u64) -> Traced {
    let until_complete =
        format!("uprobe:{}:workload_warm / len(dw_ustack) > arg0 / {{ signal(\"USR1\"); @warm = 1; }}\n", workload());
    let script = until_complete + &clauses.replace("LEAF", &format!("uprobe:{}:workload_leaf", workload()));
    traced(&script, &format!("{} unwind {kind} {seed} {count} {}", workload(), warm_ms()))
}

/// The function of a chain that a frame belongs to, if any; other functions called by it, such as
/// closures, do not count.
fn chain_function(name: &str) -> Option<&str> {
    let function = &name[name.find("workload_f_")?..];
    let end = function.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(function.len());
    let (function, after) = function.split_at(end);
    (after.is_empty() || after.starts_with("::<") && after.ends_with('>')).then_some(function)
}

/// The functions of the chain in a stack.
fn chain_of(stack: &Stack) -> Vec<&str> {
    stack.names().filter_map(chain_function).collect()
}

/// Fails unless each chain has a stack with exactly its functions, that reaches `outermost`.
fn assert_true(traced: &Traced, of: &str, innermost: &[&str], outermost: &str) {
    let found = traced.of(of);
    let is_true = |id: &u64, truth: &Vec<String>| {
        let Some(stack) = found.get(id) else { return false };
        chain_of(stack) == *truth
            && stack.reaches(outermost)
            && stack.names().take(innermost.len()).eq(innermost.iter().copied())
    };
    let wrong: Vec<_> = traced.truth.iter().filter(|(id, truth)| !is_true(id, truth)).collect();
    let first = wrong.first().map(|(id, truth)| format!("{id}: {truth:?}\n{:#?}", found.get(id)));
    let total = traced.truth.len();
    assert!(wrong.is_empty(), "{} of {total} are wrong; {}\n{}", wrong.len(), first.unwrap_or_default(), traced.stderr);
}

/// Whether the tests must be skipped: stacks are walked by tables on x86-64 only.
fn skip_walks() -> bool {
    let is_other = cfg!(not(target_arch = "x86_64"));
    if is_other {
        println!("SKIPPED: user stacks are walked by unwind tables on x86-64 only");
    }
    is_other || skip()
}

/// Takes the stack of each chain at a function, and at the system call that this function makes.
const STACKS: &str = "LEAF / arg0 > 0 / { @leaf[arg0, dw_ustack] = count(); }
    tracepoint:syscalls:sys_enter_close / args.fd > 1000000 && pid == cpid / {
        @call[args.fd - 1000000, dw_ustack] = count(); }";

#[test]
fn stacks_of_random_chains_are_those_that_the_program_records() {
    if skip_walks() {
        return;
    }
    for seed in [1, 2, 3] {
        let traced = chains(STACKS, "chains", seed, chain_count());
        assert_eq!(traced.truth.len() as u64, chain_count());
        assert_true(&traced, "@leaf", &["workload_leaf"], "_start");
        assert_true(&traced, "@call", &["syscall", "workload_leaf"], "_start");
    }
}

#[test]
fn stacks_of_a_thread_reach_its_start() {
    if skip_walks() {
        return;
    }
    let traced = chains(STACKS, "thread", 4, chain_count());
    assert_eq!(traced.truth.len() as u64, chain_count());
    // The function of the standard library in which a thread of Rust begins.
    let starts = |stack: &&Stack| stack.names().any(|name| name.contains("thread_start"));
    assert_eq!(traced.stacks.iter().filter(starts).count() as u64, 2 * chain_count());
    for stack in &traced.stacks {
        assert!(stack.end.is_none() && !stack.names().any(|name| name == "_start"), "{stack:?}");
        assert_eq!(chain_of(stack), traced.truth[&stack.id], "{stack:?}");
    }
}

#[test]
fn a_stack_continues_through_generated_code_with_a_frame_pointer() {
    if skip_walks() {
        return;
    }
    let clause = "LEAF / arg0 > 0 / { printf(\"leaf[%d,\\n%s\\n\", arg0, dw_ustack); }";
    let traced = chains(clause, "made", 5, chain_count() / 4);
    assert!(traced.truth.values().flatten().any(|name| name == "workload_f_made"));
    assert_true(&traced, "leaf", &["workload_leaf"], "_start");
}

#[test]
fn a_stack_continues_through_signal_handlers() {
    if skip_walks() {
        return;
    }
    let traced = chains(STACKS, "signals", 6, chain_count() / 4);
    assert!(traced.truth.values().flatten().any(|name| name == "workload_f_handler"));
    assert_true(&traced, "@leaf", &["workload_leaf"], "_start");
    assert_true(&traced, "@call", &["syscall", "workload_leaf"], "_start");
}

/// A function may be interrupted before it has recorded itself, or after it has removed itself.
#[test]
fn chains_that_are_interrupted_at_any_instruction_are_complete() {
    if skip_walks() {
        return;
    }
    let clause = "LEAF / arg0 > 0 / { @leaf[arg0, dw_ustack] = count(); }";
    let traced = chains(clause, "interrupted", 7, chain_count() / 2);
    let found = traced.of("@leaf");
    // Interrupts go on until the program sees that there were enough.
    assert!(traced.truth.len() as u64 >= chain_count() / 2);
    for (id, truth) in &traced.truth {
        let stack = found.get(id).unwrap_or_else(|| panic!("no stack of {id}"));
        let chain = chain_of(stack);
        let is_true =
            chain.len() <= truth.len() + 1 && chain.ends_with(&truth.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(is_true && stack.reaches("_start"), "{id}: {truth:?}\n{stack:#?}");
        assert!(stack.names().take(2).eq(["workload_leaf", "workload_interrupt"]), "{stack:#?}");
    }
}

/// `ls` runs for a millisecond. It is held until its tables are there, for two seconds at most,
/// which can be too short on a busy emulated processor.
#[test]
fn the_first_stacks_of_a_command_are_complete() {
    if skip_walks() {
        return;
    }
    let script = "uprobe:libc:malloc { @calls = count(); @[ustack(127)] = count(); }";
    let incomplete = |ended: &Ended| ended.stdout.contains("stack ends here");
    for command in ["ls /", "sh -c 'exit 0'"] {
        let mut ended = run(&["-e", script, "-c", command]);
        for _ in 1..patience() {
            if incomplete(&ended) {
                ended = run(&["-e", script, "-c", command]);
            }
        }
        let calls = ended.stdout.lines().find_map(|line| line.strip_prefix("@calls: ")?.parse::<u64>().ok());
        assert!(calls > Some(10) || command.starts_with("sh"), "{command}: {}", ended.stdout);
        assert!(!incomplete(&ended), "{command}: {}\n{}", ended.stdout, ended.stderr);
    }
}

/// A command ends as it does without being held.
#[test]
fn a_command_that_is_held_ends_with_its_own_status() {
    if skip_walks() {
        return;
    }
    let script = "uprobe:libc:malloc { @[ustack] = count(); } tracepoint:sched:sched_process_exit /pid == cpid/ \
        { printf(\"code %d\\n\", curtask->exit_code); }";
    for (command, code) in [("sh -c 'exit 7'", 7 << 8), ("sh -c 'kill -9 $$'", 9)] {
        let ended = run(&["-e", script, "-c", command]);
        assert!(ended.stdout.contains(&format!("code {code}\n")), "{command}: {}{}", ended.stdout, ended.stderr);
    }
}

#[test]
fn stacks_are_true_before_and_after_an_exec() {
    if skip_walks() {
        return;
    }
    let count = chain_count() / 4;
    let traced = chains(STACKS, "exec", 8, count);
    assert!(traced.truth.keys().copied().eq(1..=2 * count));
    assert_true(&traced, "@leaf", &["workload_leaf"], "_start");
}

#[test]
fn a_deep_recursion_says_that_frames_are_missing() {
    if skip_walks() {
        return;
    }
    let clause = "LEAF / arg0 > 0 / { @all[arg0, dw_ustack] = count(); @few[arg0, dw_ustack(5)] = count(); }";
    let traced = chains(clause, "recursion", 400, 3);
    let recursion =
        |frames: usize| std::iter::once("workload_leaf").chain(std::iter::repeat_n("workload_f_recursion", frames - 1));
    for (of, frames, end) in [("@all", MAX_FRAMES, Some("more frames than the limit")), ("@few", 5, None)] {
        let found = traced.of(of);
        assert!(found.keys().copied().eq(1..=3), "{found:?}");
        for stack in found.values() {
            assert!(stack.names().eq(recursion(frames)) && stack.end.as_deref() == end, "{stack:#?}");
        }
    }
}

#[test]
fn samples_of_a_chain_that_uses_a_cpu_are_complete() {
    if skip_walks() {
        return;
    }
    let clause = "profile:hz:997 / @warm == 1 && pid == cpid / { @sample[1, dw_ustack] = count(); }";
    // The program spins for a time, in which a busy machine may leave it little of a CPU.
    with_enough_calls(1000, |ms| {
        let traced = chains(clause, "spin", 9, ms);
        let count = |is_counted: &dyn Fn(&Stack) -> bool| {
            traced.stacks.iter().filter(|stack| is_counted(stack)).map(|stack| stack.count).sum::<u64>()
        };
        let is_below = |stack: &Stack| stack.names().any(|name| name == "workload_spin");
        let is_true = |stack: &Stack| chain_of(stack) == traced.truth[&1] && stack.reaches("_start");
        let wrong = traced.stacks.iter().find(|stack| is_below(stack) && stack.end.is_none() && !is_true(stack));
        assert!(wrong.is_none(), "{:?}\n{wrong:#?}", traced.truth);
        let (all, complete) = (count(&|_| true), count(&|stack| stack.end.is_none()));
        println!("{complete} of {all} are complete, {} spin\n{}", count(&is_below), traced.stderr);
        all > 20 && complete * 100 >= all * 99 && count(&is_below) * 2 > all
    });
}
