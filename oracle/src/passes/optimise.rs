//! Tests of each pass on small programs, and that random programs keep their results.

use crate::evaluator::{EvalError, Machine, MapEntry};
use crate::random;
use profiler_compiler::ir::build::FunctionBuilder;
use profiler_compiler::ir::optimise::optimise;
use profiler_compiler::ir::print::{print, print_function};
use profiler_compiler::ir::verify::verify;
use profiler_compiler::ir::{Addr, BinOp, CmpOp, Helper, Likely, MapId, Operand, Program, Section, Size, VReg, Width};
use profiler_compiler::source::Span;

const RANDOM_PROGRAMS: u64 = 4000;

/// Everything observable about a program.
#[derive(Debug, PartialEq)]
struct Observed {
    results: Vec<Result<i64, EvalError>>,
    bss: Vec<u8>,
    maps: Vec<Vec<MapEntry>>,
    records: Vec<Vec<u8>>,
}

/// Runs a program four times, on different CPUs and with different contexts.
fn observe(program: &Program) -> Observed {
    let mut machine = Machine::new(program);
    let mut results = Vec::new();
    for run in 0..4u8 {
        machine.kernel.environment.cpu = u32::from(run % 2);
        let context = [run.wrapping_mul(85); random::CONTEXT_SIZE_BYTES as usize];
        results.push(machine.run(random::FUNCTION, &context));
    }
    let maps = (0..program.maps.len()).map(|map| machine.map_entries(MapId(map as u32))).collect();
    let records = machine.ring_records(random::RING);
    Observed { results, bss: machine.bss().to_vec(), maps, records }
}

fn instructions(program: &Program) -> usize {
    program.functions.iter().flat_map(|f| &f.blocks).map(|block| block.insts.len() + 1).sum()
}

#[test]
fn random_programs_keep_their_meaning() {
    let (mut before_total, mut after_total) = (0, 0);
    for seed in 0..RANDOM_PROGRAMS {
        let before = random::program(seed);
        assert_eq!(verify(&before), Ok(()), "seed {seed}\n{}", print(&before));
        let mut after = before.clone();
        optimise(&mut after);
        assert_eq!(verify(&after), Ok(()), "seed {seed}\n{}\n{}", print(&before), print(&after));
        let (expected, found) = (observe(&before), observe(&after));
        assert!(expected.results.iter().all(Result::is_ok), "seed {seed}: {:?}", expected.results);
        assert_eq!(expected, found, "seed {seed}\n{}\n{}", print(&before), print(&after));
        before_total += instructions(&before);
        after_total += instructions(&after);
    }
    // An optimiser that does nothing would pass the comparison.
    assert!(after_total * 4 < before_total * 3, "{before_total} to {after_total}");
}

/// The printed body after optimisation.
fn optimised(body: impl FnOnce(&mut FunctionBuilder)) -> String {
    let mut b = FunctionBuilder::new("f", "raw_tp/x", Span::default());
    b.set_context_size(16);
    body(&mut b);
    let functions = vec![b.finish()];
    let mut program = Program { functions, bss_size_bytes: 64, ..random::program(0) };
    assert_eq!(verify(&program), Ok(()));
    optimise(&mut program);
    assert_eq!(verify(&program), Ok(()));
    print_function(&program, &program.functions[0])
}

fn assert_body(body: impl FnOnce(&mut FunctionBuilder), expected: &str) {
    let text = optimised(body);
    let (_, found) = text.split_once("{\n").unwrap();
    assert_eq!(found, format!("{expected}}}\n"), "\n{text}");
}

/// A value unknown at compile time: 8 bytes of the context.
fn unknown(b: &mut FunctionBuilder) -> VReg {
    let context = b.context();
    b.load(Addr::reg(context, 8), Size::B8)
}

/// Keeps a value alive.
fn show(b: &mut FunctionBuilder, value: impl Into<Operand>) {
    let value = value.into();
    let at = b.data_addr(Section::Bss, 0);
    b.store(Addr::reg(at, 0), value, Size::B8);
}

#[test]
fn constants_are_folded_through_a_chain() {
    let body = |b: &mut FunctionBuilder| {
        let six = b.copy(6);
        let product = b.bin(BinOp::Mul, Width::W64, six, 7);
        let low = b.extend(product, Size::B1, true);
        let is_more = b.set(CmpOp::Gt, Width::W64, low, 40);
        let sum = b.bin(BinOp::Sub, Width::W32, is_more, 3);
        show(b, sum);
        b.ret(0);
    };
    assert_body(body, "b0:\n    %0 = &bss+0\n    store8 [%0] = 0xfffffffe\n    return 0\n");
}

#[test]
fn operations_get_cheaper() {
    let cheaper = |op, width, by: i64| {
        let text = optimised(|b| {
            let x = unknown(b);
            let result = b.bin(op, width, x, by);
            show(b, result);
            b.ret(0);
        });
        let line = text.lines().find(|line| line.contains("%2 =") && !line.contains("&bss"));
        line.unwrap_or("").trim().to_string()
    };
    assert_eq!(cheaper(BinOp::Mul, Width::W64, 8), "%2 = shl %1, 3");
    assert_eq!(cheaper(BinOp::Div, Width::W64, 4096), "%2 = shr %1, 12");
    assert_eq!(cheaper(BinOp::Mod, Width::W64, 16), "%2 = and %1, 15");
    assert_eq!(cheaper(BinOp::Div, Width::W32, 0x8000_0000), "%2 = shr32 %1, 31");
    assert_eq!(cheaper(BinOp::Sub, Width::W64, 1), "%2 = add %1, -1");
    assert_eq!(cheaper(BinOp::Shl, Width::W64, 65), "%2 = shl %1, 1");
    assert_eq!(cheaper(BinOp::Add, Width::W32, 0), "%2 = zext4 %1");
    assert_eq!(cheaper(BinOp::Mul, Width::W64, 3), "%2 = mul %1, 3");
    assert_eq!(cheaper(BinOp::Mul, Width::W64, 1), "");
}

#[test]
fn only_needless_extensions_go() {
    let extended = |size, signed| {
        let text = optimised(|b| {
            let context = b.context();
            let loaded = b.load(Addr::reg(context, 8), Size::B4);
            let result = b.extend(loaded, size, signed);
            show(b, result);
            b.ret(0);
        });
        let line = text.lines().find(|line| line.contains("= sext") || line.contains("= zext"));
        line.map(|line| line.trim().to_string())
    };
    assert_eq!(extended(Size::B4, false), None);
    assert_eq!(extended(Size::B8, true), None);
    assert_eq!(extended(Size::B4, true).as_deref(), Some("%2 = sext4 %1"));
    assert_eq!(extended(Size::B1, false).as_deref(), Some("%2 = zext1 %1"));
}

#[test]
fn a_loop_counts_in_one_register_and_tests_at_its_end() {
    let body = |b: &mut FunctionBuilder| {
        let i = b.copy(0);
        let (head, body, end) = (b.new_block(), b.new_block(), b.new_block());
        b.jump(head);
        b.switch_to(head);
        let more = b.set(CmpOp::Lt, Width::W64, i, 10);
        b.branch(CmpOp::Ne, Width::W64, more, 0, body, end, Likely::Then);
        b.switch_to(body);
        let next = b.bin(BinOp::Add, Width::W64, i, 1);
        b.assign(i, next);
        b.jump(head);
        b.switch_to(end);
        show(b, i);
        b.ret(0);
    };
    let expected = "\
b0:
    %0 = 0
    goto b1
b1:
    %0 = add %0, 1
    if %0 < 10 goto b1 else b2 (likely)
b2:
    %1 = &bss+0
    store8 [%1] = %0
    return 0
";
    assert_body(body, expected);
}

#[test]
fn a_conjunction_becomes_two_branches() {
    let body = |b: &mut FunctionBuilder| {
        let (x, both) = (unknown(b), b.new_vreg());
        let (second, no, join) = (b.new_block(), b.new_block(), b.new_block());
        let (then, end) = (b.new_block(), b.new_block());
        b.branch(CmpOp::Gt, Width::W64, x, 5, second, no, Likely::Unknown);
        b.switch_to(second);
        let holds = b.set(CmpOp::Lt, Width::W64, x, 9);
        b.assign(both, holds);
        b.jump(join);
        b.switch_to(no);
        b.assign(both, 0);
        b.jump(join);
        b.switch_to(join);
        b.branch(CmpOp::Ne, Width::W64, both, 0, then, end, Likely::Unknown);
        b.switch_to(then);
        show(b, x);
        b.jump(end);
        b.switch_to(end);
        b.ret(0);
    };
    let expected = "\
b0:
    %0 = context
    %1 = load8 [%0+8]
    if %1 > 5 goto b1 else b3
b1:
    if %1 < 9 goto b2 else b3
b2:
    %2 = &bss+0
    store8 [%2] = %1
    return 0
b3:
    return 0
";
    assert_body(body, expected);
}

#[test]
fn constant_helpers_are_shared_where_they_dominate_and_clocks_are_not() {
    let body = |b: &mut FunctionBuilder| {
        let (then, end) = (b.new_block(), b.new_block());
        let first = b.call(Helper::GetCurrentPidTgid, &[]);
        b.call(Helper::KtimeGetNs, &[]);
        b.branch(CmpOp::Ne, Width::W64, first, 0, then, end, Likely::Otherwise);
        b.switch_to(then);
        let again = b.call(Helper::GetCurrentPidTgid, &[]);
        let now = b.call(Helper::KtimeGetNs, &[]);
        let later = b.call(Helper::KtimeGetNs, &[]);
        let took = b.bin(BinOp::Sub, Width::W64, later, now);
        let sum = b.bin(BinOp::Xor, Width::W64, took, again);
        show(b, sum);
        b.jump(end);
        b.switch_to(end);
        b.ret(0);
    };
    let expected = "\
b0:
    %0 = call get_current_pid_tgid()
    if %0 == 0 goto b1 else b2 (likely)
b1:
    return 0
b2:
    %1 = call ktime_get_ns()
    %2 = call ktime_get_ns()
    %3 = sub %2, %1
    %4 = xor %3, %0
    %5 = &bss+0
    store8 [%5] = %4
    return 0
";
    assert_body(body, expected);
}

#[test]
fn the_number_of_the_task_is_made_from_its_pointer_where_that_dominates() {
    let body = |b: &mut FunctionBuilder| {
        let (then, otherwise) = (b.new_block(), b.new_block());
        let x = unknown(b);
        b.branch(CmpOp::Ne, Width::W64, x, 0, then, otherwise, Likely::Then);
        b.switch_to(then);
        let typed = b.call(Helper::GetCurrentTaskBtf, &[]);
        let field = b.load(Addr::reg(typed, 8), Size::B8);
        let number = b.call(Helper::GetCurrentTask, &[]);
        let sum = b.bin(BinOp::Xor, Width::W64, field, number);
        show(b, sum);
        b.ret(0);
        b.switch_to(otherwise);
        let number = b.call(Helper::GetCurrentTask, &[]);
        show(b, number);
        b.ret(0);
    };
    let expected = "\
b0:
    %0 = context
    %1 = load8 [%0+8]
    if %1 != 0 goto b1 else b2 (likely)
b1:
    %2 = call get_current_task_btf()
    %3 = load8 [%2+8]
    %4 = swap8 %2
    %5 = swap8 %4
    %6 = xor %3, %5
    %7 = &bss+0
    store8 [%7] = %6
    return 0
b2:
    %8 = call get_current_task()
    %9 = &bss+0
    store8 [%9] = %8
    return 0
";
    assert_body(body, expected);
}

#[test]
fn slots_that_nobody_reads_go_and_writes_stay() {
    let body = |b: &mut FunctionBuilder| {
        let (unread, key) = (b.slot(8, 8, "unread"), b.slot(8, 8, "key"));
        let x = unknown(b);
        b.store(Addr::slot(unread, 0), x, Size::B8);
        let address = b.slot_addr(key, 0);
        b.store(Addr::reg(address, 4), x, Size::B4);
        b.store(Addr::slot(key, 0), 7, Size::B4);
        let low = b.load(Addr::reg(address, 0), Size::B4);
        b.call(Helper::MapDeleteElem, &[MapId(0).into(), address.into()]);
        show(b, low);
        b.ret(0);
    };
    let expected = "    slot key0: 8 align 8
b0:
    %0 = context
    %1 = load8 [%0+8]
    store4 [key0+4] = %1
    store4 [key0] = 7
    call map_delete_elem(@hash, &key0)
    %2 = &bss+0
    store8 [%2] = 7
    return 0
";
    assert_body(body, expected);
}

#[test]
fn loads_of_memory_that_others_write_are_not_shared() {
    let body = |b: &mut FunctionBuilder| {
        let bss = b.data_addr(Section::Bss, 8);
        let first = b.load(Addr::reg(bss, 0), Size::B8);
        let context = [unknown(b), unknown(b)];
        b.store(Addr::reg(bss, 0), context[0], Size::B8);
        let second = b.load(Addr::reg(bss, 0), Size::B8);
        let sum = b.bin(BinOp::Add, Width::W64, first, second);
        let sum = b.bin(BinOp::Add, Width::W64, sum, context[1]);
        show(b, sum);
        b.ret(0);
    };
    let text = optimised(body);
    assert_eq!(text.matches("load8 [%0]").count(), 2, "{text}");
    assert_eq!(text.matches("+8]").count(), 1, "{text}");
}

#[test]
fn a_mask_stays_with_the_register_that_it_bounds() {
    let body = |b: &mut FunctionBuilder| {
        let x = unknown(b);
        let index = b.bin(BinOp::And, Width::W64, x, 56);
        let again = b.bin(BinOp::And, Width::W64, x, 56);
        let bss = b.data_addr(Section::Bss, 0);
        let address = b.bin(BinOp::Add, Width::W64, bss, index);
        b.store(Addr::reg(address, 0), again, Size::B8);
        b.ret(0);
    };
    let expected = "\
b0:
    %0 = context
    %1 = load8 [%0+8]
    %2 = and %1, 56
    %3 = &bss+0
    %4 = add %3, %2
    store8 [%4] = %2
    return 0
";
    assert_body(body, expected);
}

#[test]
fn what_cannot_run_goes() {
    let body = |b: &mut FunctionBuilder| {
        let (then, otherwise, end) = (b.new_block(), b.new_block(), b.new_block());
        let flag = b.copy(0);
        b.branch(CmpOp::Ne, Width::W64, flag, 0, then, otherwise, Likely::Then);
        b.switch_to(then);
        show(b, 1);
        b.jump(end);
        b.switch_to(otherwise);
        b.jump(end);
        b.switch_to(end);
        b.ret(3);
        show(b, 2);
        b.ret(4);
    };
    assert_body(body, "b0:\n    return 3\n");
}

#[test]
fn the_same_program_gives_the_same_text_and_a_second_time_changes_nothing() {
    for seed in 0..200 {
        let mut once = random::program(seed);
        optimise(&mut once);
        let mut again = random::program(seed);
        optimise(&mut again);
        assert_eq!(print(&once), print(&again));
        optimise(&mut again);
        assert_eq!(print(&once), print(&again), "seed {seed}");
    }
}
