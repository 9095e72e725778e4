//! Tests of [`super`] that need no kernel.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

const MESSAGES: &str = "libbpf: prog 'probe_1': BPF program load failed: -EACCES\n\
    libbpf: prog 'probe_1': -- BEGIN PROG LOAD LOG --\n\
    0: R1=ctx() R10=fp0\n\
    ; $p = @out[0]; @ script.bt:2\n\
    5: (85) call bpf_map_lookup_elem#1\n\
    ; @sum += *$p; @ script.bt:3\n\
    6: (79) r1 = *(u64 *)(r0 +0)\n\
    R0 invalid mem access 'map_value_or_null'\n\
    processed 7 insns (limit 1000000) max_states_per_insn 0\n\
    -- END PROG LOAD LOG --\n\
    libbpf: failed to load object 'profiler'\n";

fn because(reason: &str) -> Refusal {
    let messages = format!("libbpf: prog 'p0': -- BEGIN PROG LOAD LOG --\n3: (95) exit\n{reason}\nprocessed 1 insns\n");
    Refusal::in_messages(&messages).expect("a log")
}

#[test]
fn a_refusal_knows_its_program_instruction_line_and_reason() {
    let refusal = Refusal::in_messages(MESSAGES).expect("a log");
    assert_eq!(refusal.program, "probe_1");
    assert_eq!((refusal.instruction, refusal.line), (Some(6), Some(3)));
    assert_eq!(refusal.reason, "R0 invalid mem access 'map_value_or_null'");
    assert!(refusal.log.starts_with("0: R1") && refusal.log.ends_with("max_states_per_insn 0\n"));
    assert_eq!(Refusal::in_messages("libbpf: prog 'p': -- BEGIN PROG LOAD LOG --\n-- END PROG LOAD LOG --\n"), None);
}

#[test]
fn what_is_wrong_before_any_instruction_is_shown_is_placed_too() {
    assert_eq!(because("unreachable insn 7").instruction, Some(7));
    assert_eq!(because("jump out of range from insn 8 to 99").instruction, Some(8));
    assert_eq!(because("last insn is not an exit or jmp").instruction, Some(3));
    assert_eq!(because("invalid func unknown#211").missing_helper(), Some(211));
}

#[test]
fn a_helper_that_the_kernel_withholds_is_no_bug() {
    let source = Source::new("s", "BEGIN { }\n");
    let refusal = because("program of this type cannot use helper bpf_probe_write_user#36");
    let told = refusal.diagnostic(&source, None, &Ok(PathBuf::new()));
    assert_eq!(told.code, Code(604));
    assert!(told.message.contains("`bpf_probe_write_user`") && told.help.is_some_and(|help| help.contains("lockdown")));
}

#[test]
fn a_diagnostic_shows_the_place_the_excerpt_and_what_to_do() {
    let source = Source::new("s", "BEGIN {\n  $p = @out[0];\n  @sum += *$p;\n}\n");
    let refusal = Refusal::in_messages(MESSAGES).expect("a log");
    let told = refusal.diagnostic(&source, None, &Ok(PathBuf::from("/tmp/x.log")));
    assert_eq!((told.code, source.slice(told.span)), (Code(690), "@sum += *$p;"));
    assert_eq!(told.label, refusal.reason);
    assert_eq!(
        told.help.as_deref(),
        Some(
            "this is a bug in profiler, not in the script; please report it with the script and the log in /tmp/x.log\n\
             the log of program probe_1 ends with:\n  0: R1=ctx() R10=fp0\n  5: (85) call bpf_map_lookup_elem#1\n  \
             6: (79) r1 = *(u64 *)(r0 +0)\n  R0 invalid mem access 'map_value_or_null'"
        )
    );
    let exact = Span::new(18, 21);
    assert_eq!(refusal.diagnostic(&source, Some(exact), &Ok(PathBuf::new())).span, exact);
    let unkept = refusal.diagnostic(&source, None, &Err(io::ErrorKind::PermissionDenied.into()));
    assert!(unkept.help.is_some_and(|help| help.contains("the output of `-d verifier` (permission denied)")));
}

#[test]
fn a_program_beyond_the_verifier_is_too_large_and_no_bug() {
    let source = Source::new("s", "BEGIN {\n  if (nsecs) { }\n}\n");
    let reasons = [
        "BPF program is too large. Processed 1000001 insn",
        "The sequence of 8193 jumps is too complex.",
        "insn 20627 cannot be patched due to 16-bit range",
    ];
    for reason in reasons {
        let refusal = Refusal { line: Some(2), ..because(reason) };
        let told = refusal.diagnostic(&source, None, &Ok(PathBuf::new()));
        assert_eq!((told.code, told.message.as_str()), (Code(510), "program too large"));
        assert_eq!(source.slice(told.span), "if (nsecs) { }");
        assert!(!told.help.is_some_and(|help| help.contains("bug")));
    }
}

#[test]
fn logs_are_kept_side_by_side_for_their_owner_alone() {
    let directory = std::env::temp_dir().join(format!("profiler-refusal-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    let refusal = because("unreachable insn 7");
    let paths: Vec<PathBuf> = (0..2).map(|_| refusal.keep(&directory).expect("room")).collect();
    assert_ne!(paths[0], paths[1]);
    let text = fs::read_to_string(&paths[1]).expect("kept");
    assert!(text.starts_with(concat!("profiler ", env!("CARGO_PKG_VERSION"), ", Linux ")), "{text}");
    assert!(text.contains(", program p0\n\n3: (95) exit\nunreachable insn 7\n"), "{text}");
    assert_eq!(fs::metadata(&paths[1]).expect("kept").permissions().mode() & 0o777, 0o600);
    assert!(refusal.keep(Path::new("/no/such/directory")).is_err());
    fs::remove_dir_all(directory).expect("our own directory");
}
