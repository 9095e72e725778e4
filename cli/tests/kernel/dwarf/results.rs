//! The types of results.
//!
//! In: tests/dwarf/results.c, a C compiler. Out: `retval` has the function's type with debug
//! information; without it, and in scripts for bpftrace, it is a number of 64 bits.

use std::fs;

use super::{compiled_from, succeeds};
use crate::machine::{Directory, run, skip};

const SCRIPT: &str = r#"
uretprobe:BIN:give_int8 /retval < 0/ { printf("int8 %d\n", retval); }
uretprobe:BIN:give_uint16 { printf("uint16 %d\n", retval); }
uretprobe:BIN:give_int32 { @sum = sum(retval); print(("int32", retval, @sum)); }
uretprobe:BIN:give_int64 { print(("int64", retval)); }
uretprobe:BIN:give_bool { print(("bool", retval)); }
uretprobe:BIN:give_enum { print(("enum", retval, retval == -2)); }
uretprobe:BIN:give_struct { print(("struct", retval->fd)); }
uretprobe:BIN:give_ints { print(("ints", *retval)); }
uretprobe:BIN:give_text { print(("text", str(retval))); }
uretprobe:BIN:give_null { print(("null", retval == 0)); }
uretprobe:BIN:give_int* { @[func] = retval; }
END { clear(@); clear(@sum); }
"#;

const PRINTED: &str = "int8 -8
uint16 65535
(int32, -70000, -70000)
(int64, -1099511627776)
(bool, true)
(enum, CLOSING, true)
(struct, 3)
(ints, -5)
(text, text)
(null, true)";

fn compiled(directory: &Directory, options: &[&str], name: &str) -> Option<String> {
    compiled_from(directory, options, &["results.c"], name)
}

#[test]
fn a_result_has_its_type() {
    if skip() {
        return;
    }
    let directory = Directory::new("debug-info-results");
    for (number, way) in [["-g", "-O0"], ["-g", "-O2"], ["-gdwarf-4", "-O1"]].iter().enumerate() {
        let Some(program) = compiled(&directory, way, &format!("results{number}")) else { return };
        let ended = run(&["-q", "-e", &SCRIPT.replace("BIN", &program), "-c", &program]);
        assert_eq!((ended.code(), ended.stdout.trim()), (0, PRINTED), "{way:?}: {}", ended.stderr);
    }
}

#[test]
fn a_result_is_a_number_of_64_bits_without_debug_information_and_in_scripts_for_bpftrace() {
    if skip() {
        return;
    }
    let directory = Directory::new("debug-info-untyped-results");
    let Some(program) = compiled(&directory, &["-g", "-O2"], "results") else { return };
    let text = "uretprobe:BIN:give_int32 { print((retval > 0xffff, (int32)retval)); }".replace("BIN", &program);
    let script = directory.path("script.bt");
    fs::write(&script, &text).expect("a file of ours");
    let prints = |arguments: &[&str], expected: &str| {
        let ended = run(&[&["-q"], arguments, &["-c", &program]].concat());
        assert_eq!((ended.code(), ended.stdout.trim()), (0, expected), "{arguments:?}: {}", ended.stderr);
    };
    prints(&["-e", &text], "(false, -70000)");
    prints(&[&script], "(true, -70000)");
    // What cannot be a number there has its type.
    let reads = "uretprobe:BIN:give_struct { print(retval->fd); }".replace("BIN", &program);
    fs::write(&script, reads).expect("a file of ours");
    prints(&[&script], "3");
    assert!(succeeds("strip", &["-g", &program]));
    prints(&["-e", &text], "(true, -70000)");
}
