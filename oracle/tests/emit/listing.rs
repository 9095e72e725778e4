//! The bytecode of hot programs, instruction by instruction.
//!
//! In: the programs of common scripts. Out: their listings, compared with handwritten code.
//! Guarantee: one more instruction in such a program fails the test.

use profiler_compiler::emit::{emit, helper_name, listing};
use profiler_compiler::ir::{Function, Helper};

use crate::build::{program, source};
use crate::programs;

fn text(function: Function) -> String {
    let program = program(vec![function]);
    let emitted = emit(&program, &source()).expect("emits");
    listing(&emitted, &program, &source())
}

#[test]
fn a_counter_in_bss() {
    let expected = "\
raw_tp/sys_enter count: 11 instructions, 0 bytes of stack
; @ = count(); @ 2
   0: call bpf_get_smp_processor_id#8
   1: if r0 >= 0x400 goto +7
   2: r0 <<= 6
   3: r2 = map[.bss][0]+0
   5: r2 += r0
   6: r1 = *(u64 *)(r2 +8)
   7: r1 += 1
   8: *(u64 *)(r2 +8) = r1
   9: r0 = 0
  10: exit
";
    assert_eq!(text(programs::count()), expected);
}

#[test]
fn a_counter_in_a_hash() {
    let expected = "\
raw_tp/sys_enter hash_count: 25 instructions, 16 bytes of stack
; @ = count(); @ 2
   0: call bpf_get_current_pid_tgid#14
   1: w1 = w0
   2: *(u64 *)(r10 -8) = r1
   3: r1 = map[at_hash]
   5: r2 = r10
   6: r2 += -8
   7: call bpf_map_lookup_elem#1
   8: if r0 == 0x0 goto +5
   9: r1 = *(u64 *)(r0 +0)
  10: r1 += 1
  11: *(u64 *)(r0 +0) = r1
  12: r0 = 0
  13: exit
; @total = sum(1); @ 3
  14: *(u64 *)(r10 -16) = 1
  15: r1 = map[at_hash]
  17: r2 = r10
  18: r2 += -8
  19: r3 = r10
  20: r3 += -16
  21: r4 = 1
  22: call bpf_map_update_elem#2
  23: r0 = 0
  24: exit
";
    assert_eq!(text(programs::hash_count()), expected);
}

#[test]
fn every_kind_of_instruction_has_a_text() {
    let all: String = programs::all().into_iter().map(text).collect();
    for words in [
        "r1 = 0x123456789abcdef0",
        "w1 = -2147483648",
        "s>>= ",
        "= be16 ",
        "if w",
        " s<= ",
        "goto -",
        "lock *(u64 *)(",
        "= atomic32_fetch_xor((u32 *)(",
        "= atomic64_xchg((u64 *)(",
        "r0 = atomic64_cmpxchg((u64 *)(",
        "map[.rodata][0]+0",
        "call bpf_probe_read_kernel#113",
    ] {
        assert!(all.contains(words), "no {words} in the listings");
    }
    assert!(!all.contains('?'));
}

#[test]
fn helpers_have_the_kernels_names() {
    let names =
        [Helper::GetPrandomU32, Helper::GetCurrentTaskBtf, Helper::TaskPtRegs, Helper::GetStackid].map(helper_name);
    assert_eq!(names, ["bpf_get_prandom_u32", "bpf_get_current_task_btf", "bpf_task_pt_regs", "bpf_get_stackid"]);
}
