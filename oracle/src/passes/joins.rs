//! Tests: which numbers are hidden, and that programs compute the same results afterwards.

use crate::evaluator::Machine;
use crate::random;
use profiler_compiler::ir::build::FunctionBuilder;
use profiler_compiler::ir::joins::widen;
use profiler_compiler::ir::print::print_function;
use profiler_compiler::ir::verify::verify;
use profiler_compiler::ir::{Addr, BinOp, CmpOp, Helper, Likely, Program, Section, Size, VReg, Width};
use profiler_compiler::source::Span;

const BSS_BYTES: u32 = 64;

/// A program that changes a register in `branches` branches on its context, and passes it to `end`.
fn branching(branches: u32, end: impl FnOnce(&mut FunctionBuilder, VReg)) -> Program {
    let mut b = FunctionBuilder::new("f", "raw_tp/x", Span::default());
    b.set_context_size(16);
    let context = b.context();
    let bits = b.load(Addr::reg(context, 8), Size::B8);
    let place = b.new_vreg();
    b.assign(place, 0);
    for branch in 0..branches {
        let bit = b.bin(BinOp::And, Width::W64, bits, 1 << branch);
        let (yes, no, next) = (b.new_block(), b.new_block(), b.new_block());
        b.branch(CmpOp::Ne, Width::W64, bit, 0, yes, no, Likely::Unknown);
        for (block, op) in [(yes, BinOp::Add), (no, BinOp::Xor)] {
            b.switch_to(block);
            let changed = b.bin(op, Width::W64, place, i64::from(branch * 5 + 1));
            b.assign(place, changed);
            b.jump(next);
        }
        b.switch_to(next);
    }
    end(&mut b, place);
    b.ret(0);
    let mut program = Program { functions: vec![b.finish()], bss_size_bytes: BSS_BYTES, ..random::program(0) };
    profiler_compiler::ir::optimise::optimise(&mut program);
    program
}

fn shown(b: &mut FunctionBuilder, value: VReg) {
    let at = b.data_addr(Section::Bss, 0);
    b.store(Addr::reg(at, 0), value, Size::B8);
}

fn text(program: &Program) -> String {
    print_function(program, &program.functions[0])
}

/// The contents of `.bss` after a run with a context.
fn result(program: &Program, bits: u64) -> Vec<u8> {
    let mut machine = Machine::new(program);
    let context: Vec<u8> = [0u64, bits].iter().flat_map(|word| word.to_le_bytes()).collect();
    machine.run("f", &context).expect("it runs");
    machine.bss()[..BSS_BYTES as usize].to_vec()
}

#[test]
fn what_many_branches_change_is_hidden_and_keeps_its_value() {
    let plain = branching(20, shown);
    let mut widened = plain.clone();
    widen(&mut widened);
    assert_eq!(verify(&widened), Ok(()), "{}", text(&widened));
    assert_eq!(widened.bss_size_bytes, BSS_BYTES + 8);
    let zeros = |program: &Program| text(program).matches(&format!("&bss+{BSS_BYTES}\n")).count();
    // Once for the first constant, and once for each result of an operation that is not a sum.
    assert_eq!((zeros(&plain), zeros(&widened)), (0, 21), "{}", text(&widened));
    for bits in [0, 1, 0x5_5555, 0xf_ffff, 0xa_0f31] {
        assert_eq!(result(&plain, bits), result(&widened, bits), "{bits:x}");
    }
}

#[test]
fn few_branches_are_left_alone() {
    let plain = branching(4, shown);
    let mut widened = plain.clone();
    widen(&mut widened);
    assert_eq!((text(&widened), widened.bss_size_bytes), (text(&plain), plain.bss_size_bytes));
}

#[test]
fn what_an_address_is_made_of_stays_known() {
    let plain = branching(20, |b, place| {
        let at = b.data_addr(Section::Bss, 0);
        let high = b.bin(BinOp::Shr, Width::W64, place, 61);
        let doubled = b.bin(BinOp::Shl, Width::W64, high, 1);
        let inside = b.bin(BinOp::Add, Width::W64, at, doubled);
        b.store(Addr::reg(inside, 0), 1, Size::B1);
    });
    let mut widened = plain.clone();
    widen(&mut widened);
    assert_eq!(text(&widened), text(&plain));
}

#[test]
fn numbers_that_several_branches_test_are_hidden_from_each() {
    let mut b = FunctionBuilder::new("f", "raw_tp/x", Span::default());
    b.set_context_size(16);
    let context = b.context();
    let bits = b.load(Addr::reg(context, 8), Size::B8);
    let flags: Vec<VReg> = (0..10).map(|n| b.bin(BinOp::And, Width::W64, bits, 1 << n)).collect();
    for (round, flag) in flags.iter().chain(&flags).enumerate() {
        let (yes, next) = (b.new_block(), b.new_block());
        b.branch(CmpOp::Ne, Width::W64, *flag, 0, yes, next, Likely::Unknown);
        b.switch_to(yes);
        let at = b.data_addr(Section::Bss, 0);
        b.store(Addr::reg(at, round as i32), 1, Size::B1);
        b.jump(next);
        b.switch_to(next);
    }
    b.ret(0);
    let plain = Program { functions: vec![b.finish()], bss_size_bytes: BSS_BYTES, ..random::program(0) };
    let mut widened = plain.clone();
    widen(&mut widened);
    assert_eq!(verify(&widened), Ok(()), "{}", text(&widened));
    assert_eq!(text(&widened).matches(&format!("&bss+{BSS_BYTES}\n")).count(), 20, "{}", text(&widened));
    for bits in [0, 0x3ff, 0x155] {
        assert_eq!(result(&plain, bits), result(&widened, bits), "{bits:x}");
    }
}

/// A program that compares a value with 0 in twenty branches; `yields` computes it from the
/// context.
fn comparing(yields: impl FnOnce(&mut FunctionBuilder, VReg) -> VReg) -> Program {
    let mut b = FunctionBuilder::new("f", "iter/task", Span::default());
    b.set_context_size(16);
    let context = b.context();
    let compared = yields(&mut b, context);
    for round in 0..20 {
        let (yes, next) = (b.new_block(), b.new_block());
        b.branch(CmpOp::Ne, Width::W64, compared, 0, yes, next, Likely::Unknown);
        b.switch_to(yes);
        let at = b.data_addr(Section::Bss, 0);
        b.store(Addr::reg(at, round), 1, Size::B1);
        b.jump(next);
        b.switch_to(next);
    }
    b.ret(0);
    Program { functions: vec![b.finish()], bss_size_bytes: BSS_BYTES, ..random::program(0) }
}

#[test]
fn what_may_be_a_pointer_of_the_kernel_is_compared_as_it_is() {
    let in_task = |size| {
        comparing(|b, _| {
            let task = b.call(Helper::GetCurrentTaskBtf, &[]);
            b.peek(task, 1280, size)
        })
    };
    let in_context = comparing(|b, context| b.load(Addr::reg(context, 8), Size::B8));
    for (plain, is_hidden) in [(in_context, false), (in_task(Size::B8), false), (in_task(Size::B4), true)] {
        let mut widened = plain.clone();
        widen(&mut widened);
        assert_eq!(text(&widened) != text(&plain), is_hidden, "{}", text(&plain));
    }
}

/// A program that compares `sums` sums of one number and a constant.
fn comparing_sums(sums: u32) -> Program {
    let mut b = FunctionBuilder::new("f", "raw_tp/x", Span::default());
    b.set_context_size(16);
    let context = b.context();
    let number = b.load(Addr::reg(context, 8), Size::B8);
    let at = b.data_addr(Section::Bss, 0);
    for n in 1..=sums {
        let sum = b.bin(BinOp::Add, Width::W64, number, i64::from(n));
        let (low, next) = (b.new_block(), b.new_block());
        b.branch(CmpOp::Lt, Width::W64, sum, 1000, low, next, Likely::Unknown);
        b.switch_to(low);
        b.store(Addr::reg(at, 0), sum, Size::B8);
        b.jump(next);
        b.switch_to(next);
    }
    b.ret(0);
    let mut program = Program { functions: vec![b.finish()], bss_size_bytes: BSS_BYTES, ..random::program(0) };
    profiler_compiler::ir::optimise::optimise(&mut program);
    program
}

#[test]
fn sums_of_one_number_are_cut_loose_from_it_where_many_are_compared() {
    let plain = comparing_sums(20);
    let mut widened = plain.clone();
    widen(&mut widened);
    assert_eq!(verify(&widened), Ok(()), "{}", text(&widened));
    let cuts = |program: &Program| text(program).lines().filter(|line| line.contains("= or ")).count();
    assert_eq!((cuts(&plain), cuts(&widened)), (0, 20), "{}", text(&widened));
    for number in [0, 5, 990, 1000] {
        assert_eq!(result(&plain, number), result(&widened, number), "{number}");
    }
    let few = comparing_sums(4);
    let mut widened = few.clone();
    widen(&mut widened);
    assert_eq!(text(&widened), text(&few));
}
