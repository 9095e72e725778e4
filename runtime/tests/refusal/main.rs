//! Objects that the kernel must refuse, loaded as the command loads its own: the diagnostic of
//! each.
//!
//! The objects are the compiler's, with one instruction broken, for the test target. The verifier
//! is that of the running kernel.

mod breaker;
#[path = "../../../compiler/tests/support/fixture.rs"]
mod fixture;

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use breaker::{Break, break_object};
use fixture::Machine;
use profiler_compiler::CATALOGUE;
use profiler_compiler::check::Options;
use profiler_compiler::compile::{Stages, stages};
use profiler_compiler::diagnostic::Diagnostic;
use profiler_model::source::Source;
use profiler_runtime::load::{LoadError, LoadOptions, Refusal, load};

const SCRIPT: &str =
    "BEGIN {\n  $x = 1;\n}\nrawtracepoint:sched_switch {\n  @a[pid, tid]++;\n  @last[cpu] = nsecs;\n}\n";

/// Index of the program of `SCRIPT` that is broken.
const PROGRAM: usize = 1;

fn compiled(text: &str) -> (Source, Stages) {
    let source = Source::new("s.prof", text);
    let options =
        Options { pids: Vec::new(), child_pid: None, positional: Vec::new(), named: Vec::new(), ..Options::default() };
    let stages = stages(&source, &CATALOGUE, &Machine::new(true), &options);
    let stages = stages.unwrap_or_else(|problems| panic!("{problems:#?}"));
    (source, stages)
}

/// Whether this process may load programs; prints the reason if it may not.
fn can_load() -> bool {
    let (_, stages) = compiled("BEGIN { }\n");
    match load(&stages.emitted.elf, LoadOptions::default()) {
        Ok(_) => true,
        Err(error) => {
            println!("SKIPPED: {error}");
            false
        }
    }
}

/// The load error of the script's object with one instruction broken, and the index of that
/// instruction.
fn broken(what: Break, options: LoadOptions) -> (LoadError, usize) {
    let (_, stages) = compiled(SCRIPT);
    let mut elf = stages.emitted.elf;
    let at = break_object(&mut elf, &stages.emitted.functions[PROGRAM].name, what);
    match load(&elf, options) {
        Ok(_) => panic!("{what:?}: the verifier takes it"),
        Err(error) => (error, at),
    }
}

fn refused(what: Break) -> (Refusal, usize) {
    match broken(what, LoadOptions::default()) {
        (LoadError::Verifier(refusal), at) => (refusal, at),
        (error, _) => panic!("{what:?}: {error}"),
    }
}

/// The diagnostic as the command prints it.
fn told(refusal: &Refusal) -> (Source, Diagnostic) {
    let (source, stages) = compiled(SCRIPT);
    let function =
        stages.emitted.functions.iter().find(|function| function.name == refusal.program).expect("its program");
    let span = refusal.instruction.and_then(|at| function.spans.get(at).copied());
    let diagnostic = refusal.diagnostic(&source, span, &Ok(PathBuf::from("/tmp/x.log")));
    (source, diagnostic)
}

#[test]
fn the_object_loads_as_long_as_nothing_is_broken() {
    if can_load() {
        let (_, stages) = compiled(SCRIPT);
        let loaded = load(&stages.emitted.elf, LoadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        assert!(loaded.verifier_logs().is_empty(), "no log was requested");
    }
}

#[test]
fn each_refusal_names_its_program_and_instruction_and_says_why() {
    if !can_load() {
        return;
    }
    let table = [
        (Break::StackBounds, &["stack"][..]),
        (Break::Register, &["R9 !read_ok"]),
        // Since 6.10: "program of this type cannot use helper".
        (Break::Helper(9), &["unknown func bpf_skb_store_bytes#9", "cannot use helper bpf_skb_store_bytes#9"]),
        (Break::Jump, &["jump out of range"]),
    ];
    for (what, reasons) in table {
        let (refusal, at) = refused(what);
        assert_eq!(refusal.instruction, Some(at), "{what:?}:\n{}", refusal.log);
        assert!(reasons.iter().any(|reason| refusal.reason.contains(reason)), "{what:?}: {}", refusal.reason);
        assert_eq!(refusal.program, compiled(SCRIPT).1.emitted.functions[PROGRAM].name);
        println!("{what:?}: {}", refusal.reason);
    }
}

#[test]
fn a_missing_test_for_null_is_shown_at_the_expression_with_the_log_s_last_lines() {
    if !can_load() {
        return;
    }
    let (refusal, at) = refused(Break::NullCheck);
    assert!(refusal.instruction.is_some_and(|found| found > at), "it fails at the use");
    assert!(
        refusal.reason.starts_with("R0 invalid mem access") || refusal.reason.contains("map_value_or_null"),
        "{}",
        refusal.reason
    );
    let (source, told) = told(&refusal);
    assert_eq!(told.code.to_string(), "E0690");
    assert_eq!(source.line_column(told.span.start), (5, 3), "{told:#?}");
    assert_eq!(source.slice(told.span), "@a[pid, tid]++");
    assert_eq!(told.label, refusal.reason);
    let help = told.help.expect("what to do");
    let lines: Vec<&str> = help.lines().collect();
    let sentence =
        "this is a bug in profiler, not in the script; please report it with the script and the log in /tmp/x.log";
    assert_eq!(lines[..2], [sentence, &format!("the log of program {} ends with:", refusal.program)]);
    assert!((3..=8).contains(&lines.len()), "{help}");
    assert_eq!(lines.last().map(|line| line.trim()), Some(refusal.reason.as_str()));
    assert!(lines.iter().any(|line| line.contains("(u64 *)(r0 +0)")), "the instruction itself:\n{help}");
    // The line is also known from the log if the kernel cites the script.
    assert!(refusal.line.is_none_or(|line| line == 5), "{:?}", refusal.line);
}

#[test]
fn what_is_wrong_in_a_block_that_shares_its_program_is_shown_there() {
    if !can_load() {
        return;
    }
    let text = "rawtracepoint:sched_switch {\n  for $i : 0..3 { @first++; }\n}\nrawtracepoint:sched_switch {\n  @second[tid] = 1;\n  \
        @third[cpu, tid]++;\n}\nrawtracepoint:sched_switch {\n  @fourth[cpu]++;\n}\n";
    let (source, stages) = compiled(text);
    for (block, expected) in [("p1", "@second[tid] = 1"), ("p2", "@fourth[cpu]++")] {
        let mut elf = stages.emitted.elf.clone();
        break_object(&mut elf, block, Break::NullCheck);
        let refusal = match load(&elf, LoadOptions::default()) {
            Err(LoadError::Verifier(refusal)) => refusal,
            other => panic!("{block}: {other:?}"),
        };
        assert_eq!(refusal.program, "e0", "{}", refusal.log);
        let at = refusal.instruction.expect("an instruction");
        let span = stages.emitted.span_in_program(&refusal.program, at).expect("a place in the script");
        assert_eq!(source.slice(span), expected, "{}", refusal.log);
    }
}

#[test]
fn a_helper_that_the_kernel_has_not_is_no_bug_of_ours() {
    if can_load() {
        let (error, _) = broken(Break::Helper(9999), LoadOptions::default());
        assert_eq!(error.to_string(), "this kernel lacks a needed feature: it has no BPF helper 9999");
    }
}

#[test]
fn a_refusal_is_the_same_when_all_logs_are_kept() {
    if !can_load() {
        return;
    }
    let (error, at) = broken(Break::Register, LoadOptions { verifier_log: true });
    let LoadError::Verifier(refusal) = error else { panic!("{error}") };
    assert_eq!((refusal.instruction, refusal.reason), (Some(at), refused(Break::Register).0.reason));
}

#[test]
fn a_log_that_outgrows_its_buffer_is_kept_whole() {
    if !can_load() {
        return;
    }
    // The verifier processes about 16,000 instructions and refuses the last but one. Our log buffer
    // has 1 MiB at first.
    let (_, stages) = compiled(&format!("BEGIN {{ {} }}\n", "@a[1] = nsecs; ".repeat(1000)));
    let mut elf = stages.emitted.elf;
    for verifier_log in [false, true] {
        load(&elf, LoadOptions { verifier_log }).unwrap_or_else(|error| panic!("{error}"));
    }
    let at = break_object(&mut elf, &stages.emitted.functions[0].name, Break::End);
    for verifier_log in [false, true] {
        let Err(LoadError::Verifier(refusal)) = load(&elf, LoadOptions { verifier_log }) else { panic!("no refusal") };
        assert_eq!(refusal.instruction, Some(at));
        println!("{} bytes of log", refusal.log.len());
        assert!(refusal.log.len() > 1 << 20, "{} bytes of log prove nothing", refusal.log.len());
        assert!(refusal.log.starts_with("0: ") || refusal.log.contains("\n0: "), "its beginning is missing");
        assert!(refusal.log.contains("\nprocessed "), "its end is missing");
    }
}

#[test]
fn a_map_beyond_the_kernel_s_memory_is_told() {
    const KEYS: u32 = 1_234_567;
    if !can_load() {
        return;
    }
    let (_, stages) = compiled(&format!("config = {{ max_map_keys = {KEYS}; }}\nBEGIN {{ @a[pid] = 1; }}\n"));
    let mut elf = stages.emitted.elf;
    let places: Vec<usize> = (0..elf.len() - 4).filter(|at| elf[*at..at + 4] == KEYS.to_le_bytes()).collect();
    assert_eq!(places.len(), 1, "the size of the map");
    elf[places[0]..places[0] + 4].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    let error = load(&elf, LoadOptions::default()).expect_err("four billion keys");
    assert!(matches!(&error, LoadError::TooLarge { what } if what.starts_with("map ")), "{error}");
}

#[test]
fn missing_privilege_is_told_and_is_no_refusal() {
    const CHILD: &str = "PROFILER_TEST_WITHOUT_PRIVILEGE";
    const NOBODY: u32 = 65534;
    if std::env::var_os(CHILD).is_some() {
        let (_, stages) = compiled(SCRIPT);
        let error = load(&stages.emitted.elf, LoadOptions::default()).expect_err("this user may not load");
        assert!(matches!(&error, LoadError::Privilege { .. }), "{error}");
        println!("told: {error}");
        return;
    }
    if !can_load() {
        return;
    }
    let own = std::env::current_exe().expect("a path");
    let this = "missing_privilege_is_told_and_is_no_refusal";
    let ended =
        Command::new(own).args([this, "--exact", "--nocapture"]).env(CHILD, "1").uid(NOBODY).gid(NOBODY).output();
    match ended {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            println!("SKIPPED: nobody may not run this test");
        }
        Err(error) => panic!("{error}"),
        Ok(ended) => {
            let text = String::from_utf8_lossy(&ended.stdout);
            assert!(ended.status.success(), "{text}\n{}", String::from_utf8_lossy(&ended.stderr));
            let words = "told: the kernel refused the programs: this process lacks CAP_BPF and CAP_PERFMON";
            assert!(text.contains(words), "{text}");
        }
    }
}
