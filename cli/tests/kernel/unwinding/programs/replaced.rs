//! Programs of which another one takes the place, in the same file.
//!
//! In: tests/unwind/chains.c, compiled in two ways, which are copied into one file by turns. Out:
//! stacks of processes that have no tables of their own are by the tables of what they run.

use std::collections::BTreeMap;
use std::process::Command;

use super::{Directory, compiled, skip_walks};
use crate::machine::run;

/// Complete stacks of each of them.
const COMPLETE: u32 = 60;

#[test]
fn no_stack_is_by_the_tables_of_what_was_in_the_file() {
    if skip_walks() {
        return;
    }
    let directory = Directory::new("unwinding-replaced");
    let Some(fast) = compiled(&directory, "cc", &["-fno-pie", "-no-pie"], "chains.c", "fast") else { return };
    let slow = compiled(&directory, "cc", &["-O0", "-fno-pie", "-no-pie"], "chains.c", "slow").expect("as before");
    let program = directory.path("program");
    let output = Command::new(&fast).args(["7", "20", "0"]).output().expect("it runs");
    let printed = String::from_utf8(output.stdout).expect("text");
    let truth: Vec<Vec<&str>> = printed.lines().map(|line| line.split(' ').skip(2).collect()).collect();
    assert_eq!(truth.len(), 20);
    // One of them runs at another priority, by which the script distinguishes them. A file has
    // tables that processes share a tenth of a second after its last change.
    let loops = format!(
        "for turn in $(seq 500); do for runs in \"{fast} 0\" \"{slow} 5\"; do set -- $runs; cat $1 > {program};
            chmod +x {program}; sleep 0.15; for i in $(seq 40); do nice -n $2 {program} 7 20 0 > /dev/null; done;
         done; done"
    );
    let of = |name: &str| {
        format!(
            "@{name}[args.fd - 1000000, dw_ustack(raw)] = count(); @complete_{name} += args.fd == 1000020 && \
             len(dw_ustack) > 5;"
        )
    };
    let script = format!(
        "tracepoint:syscalls:sys_enter_close / args.fd > 1000000 && comm == \"program\" /
            {{ if (curtask->static_prio == 120) {{ {} }} else {{ {} }}
            if (@complete_fast >= {COMPLETE} && @complete_slow >= {COMPLETE}) {{ exit(); }} }}",
        of("fast"),
        of("slow"),
    );
    let ended = run(&["-q", "-e", &script, "-c", &format!("sh -c '{loops}'")]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    for (map, compiled) in [("fast", &fast), ("slow", &slow)] {
        let (functions, mut complete) = (functions(compiled), 0);
        for (id, addresses, count) in raw_stacks(&ended.stdout, map) {
            let names: Vec<&str> = addresses.iter().filter_map(|address| function_at(&functions, *address)).collect();
            let chain: Vec<&str> = names.iter().copied().filter(|name| name.starts_with("chain_")).collect();
            let truth = &truth[id - 1];
            if names.last() == Some(&"_start") {
                assert_eq!(chain, *truth, "{map} {id}: {names:?}");
                complete += count;
            }
        }
        assert!(complete >= u64::from(COMPLETE), "{map}: {complete}\n{}", ended.stderr);
    }
}

/// The functions of a program by their addresses.
fn functions(program: &str) -> BTreeMap<u64, String> {
    let printed = Command::new("nm").arg(program).output().expect("binutils are there, as cc is").stdout;
    let printed = String::from_utf8(printed).expect("text");
    let function = |line: &str| {
        let mut words = line.split(' ');
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let is_code = words.next()?.eq_ignore_ascii_case("t");
        is_code.then_some((address, words.next()?.to_owned()))
    };
    printed.lines().filter_map(function).collect()
}

/// The function that a return address of the program belongs to; `None` for libraries.
fn function_at(functions: &BTreeMap<u64, String>, address: u64) -> Option<&str> {
    let last = functions.keys().next_back()?;
    let (_, name) = functions.range(..address).next_back().filter(|_| address <= last + 4096)?;
    Some(name)
}

/// The stacks of a map with raw addresses: the number, the addresses without a mark, how many there
/// were.
fn raw_stacks(output: &str, map: &str) -> Vec<(usize, Vec<u64>, u64)> {
    let mut found: Vec<(usize, Vec<u64>, u64)> = Vec::new();
    for line in output.lines() {
        if let Some(id) = line.strip_prefix(&format!("@{map}[")) {
            found.push((id.trim_end_matches([',', ' ']).parse().expect("a number"), Vec::new(), 0));
        } else if line.starts_with('@') {
            // Of another map from here on.
            found.push((1, Vec::new(), 0));
        } else if let (Some(count), Some(last)) = (line.strip_prefix("]: "), found.last_mut()) {
            last.2 = count.parse().expect("a number");
        } else if let (Ok(address), Some(last)) = (u64::from_str_radix(line.trim(), 16), found.last_mut()) {
            last.1.push(address);
        }
    }
    found
}
