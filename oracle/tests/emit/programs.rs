//! Programs similar to those of compiled scripts, and programs that stress the register allocator.
//!
//! In: nothing. Out: IR functions that the kernel's verifier must accept.
//! Guarantee: each is valid by construction (null checks, initialized bytes, bounded loops).

use profiler_compiler::ir::{
    Addr, Arg, BinOp, CmpOp, Function, Helper, Inst, Likely, Operand, Section, Size, Terminator, VReg, Width,
};

use crate::build::{ARRAY, Builder, EVENTS, HASH, STACKS, START, TASK, line, value};

/// All functions.
pub fn all() -> Vec<Function> {
    vec![
        count(),
        hash_count(),
        start_stop(),
        ring_record(),
        task_storage("task_storage", "tp_btf/sched_switch"),
        task_storage("task_storage_raw_tp", "raw_tp/sys_enter"),
        task_storage("task_storage_tp", "tp/sched/sched_switch"),
        task_storage("task_storage_kprobe", "kprobe/do_nanosleep"),
        task_storage("task_storage_uprobe", "uprobe"),
        task_storage("task_storage_perf", "perf_event"),
        storage_of_tasks(),
        arguments(),
        tracepoint(),
        all_operations(),
        all_comparisons(),
        spilling(),
        spilled_pointers(),
        bounded_loop(),
        nested_loops(),
        loop_to_entry(),
        clears_and_copies(),
        large_clear(),
        atomics(),
        immediates(),
        extensions(),
        context_after_calls(),
        strings(),
        full_stack(),
    ]
}

/// `@ = count()`: one counter for each CPU in `.bss`.
pub fn count() -> Function {
    let mut b = Builder::new("count", "raw_tp/sys_enter");
    b.span = line(2);
    let cpu = b.call(Helper::GetSmpProcessorId, &[]);
    let (fits, out) = b.branch(CmpOp::Lt, cpu, 1024, Likely::Then);
    b.at(out);
    b.ret(0);
    b.at(fits);
    let offset = b.bin(BinOp::Shl, Width::W64, cpu, 6);
    let base = b.data(Section::Bss, 0);
    let counter = b.add(base, offset);
    let old = b.load(Addr::reg(counter, 8), Size::B8);
    let new = b.add(old, 1);
    b.store(Addr::reg(counter, 8), new, Size::B8);
    b.ret(0);
    b.finish()
}

/// `@[tid] = count()`: look up, add, or insert.
pub fn hash_count() -> Function {
    let mut b = Builder::new("hash_count", "raw_tp/sys_enter");
    b.span = line(2);
    let key = b.slot(8, 8);
    let id = b.call(Helper::GetCurrentPidTgid, &[]);
    let tid = b.reg();
    b.push(Inst::Extend { dst: tid, src: id, size: Size::B4, signed: false });
    b.store(Addr::slot(key, 0), tid, Size::B8);
    let found = b.call(Helper::MapLookupElem, &[Arg::Map(HASH), Arg::Slot(key, 0)]);
    let (missing, present) = b.branch(CmpOp::Eq, found, 0, Likely::Otherwise);
    b.at(present);
    let old = b.load(Addr::reg(found, 0), Size::B8);
    let new = b.add(old, 1);
    b.store(Addr::reg(found, 0), new, Size::B8);
    b.ret(0);
    b.at(missing);
    b.span = line(3);
    let one = b.slot(8, 8);
    b.store(Addr::slot(one, 0), 1, Size::B8);
    b.call_void(Helper::MapUpdateElem, &[Arg::Map(HASH), Arg::Slot(key, 0), Arg::Slot(one, 0), value(1)]);
    b.ret(0);
    b.finish()
}

fn start_stop() -> Function {
    let mut b = Builder::new("start_stop", "tp/sched/sched_switch");
    let (key, record) = (b.slot(16, 8), b.slot(24, 8));
    b.push(Inst::Zero { addr: Addr::slot(key, 0), size_bytes: 16 });
    let id = b.call(Helper::GetCurrentPidTgid, &[]);
    b.store(Addr::slot(key, 0), id, Size::B8);
    let comm = b.call(Helper::GetCurrentComm, &[Arg::Slot(key, 8), value(8)]);
    let found = b.call(Helper::MapLookupElem, &[Arg::Map(START), Arg::Slot(key, 0)]);
    let now = b.call(Helper::KtimeGetNs, &[]);
    let (missing, present) = b.branch(CmpOp::Eq, found, 0, Likely::Unknown);
    b.at(present);
    let then = b.load(Addr::reg(found, 0), Size::B8);
    let elapsed = b.bin(BinOp::Sub, Width::W64, now, then);
    b.store(Addr::reg(found, 16), elapsed, Size::B8);
    b.store(Addr::reg(found, 8), comm, Size::B4);
    b.call_void(Helper::MapDeleteElem, &[Arg::Map(START), Arg::Slot(key, 0)]);
    b.ret(0);
    b.at(missing);
    b.push(Inst::Zero { addr: Addr::slot(record, 0), size_bytes: 24 });
    b.store(Addr::slot(record, 0), now, Size::B8);
    b.call_void(Helper::MapUpdateElem, &[Arg::Map(START), Arg::Slot(key, 0), Arg::Slot(record, 0), value(0)]);
    b.ret(0);
    b.finish()
}

fn ring_record() -> Function {
    let mut b = Builder::new("ring_record", "tp/sched/sched_switch");
    let now = b.call(Helper::KtimeGetNs, &[]);
    let record = b.call(Helper::RingbufReserve, &[Arg::Map(EVENTS), value(64), value(0)]);
    b.null_check(record);
    b.store(Addr::reg(record, 0), 7, Size::B4);
    b.store(Addr::reg(record, 4), -1, Size::B4);
    b.store(Addr::reg(record, 8), now, Size::B8);
    let id = b.call(Helper::GetCurrentPidTgid, &[]);
    b.store(Addr::reg(record, 16), id, Size::B8);
    b.push(Inst::Zero { addr: Addr::reg(record, 24), size_bytes: 40 });
    let comm = b.add(record, 24);
    b.call_void(Helper::GetCurrentComm, &[value(comm), value(16)]);
    b.call_void(Helper::RingbufSubmit, &[value(record), value(0)]);
    b.ret(0);
    b.finish()
}

/// The kernel allows the current thread's storage in every kind of program.
fn task_storage(name: &str, section: &str) -> Function {
    let mut b = Builder::new(name, section);
    let task = b.call(Helper::GetCurrentTaskBtf, &[]);
    let own = b.call(Helper::TaskStorageGet, &[Arg::Map(TASK), value(task), value(0), value(1)]);
    b.null_check(own);
    let old = b.load(Addr::reg(own, 8), Size::B8);
    let new = b.add(old, 1);
    b.store(Addr::reg(own, 8), new, Size::B8);
    b.call_void(Helper::TaskStorageDelete, &[Arg::Map(TASK), value(task)]);
    b.ret(0);
    b.finish()
}

/// A task iterator program that writes a task's storage out.
fn storage_of_tasks() -> Function {
    let mut b = Builder::new("storage_of_tasks", "iter/task");
    let context = b.reg();
    b.push(Inst::Context { dst: context });
    let (meta, task) = (b.load(Addr::reg(context, 0), Size::B8), b.load(Addr::reg(context, 8), Size::B8));
    b.null_check(task);
    let own = b.call(Helper::TaskStorageGet, &[Arg::Map(TASK), value(task), value(0), value(0)]);
    b.null_check(own);
    let sequence = b.load(Addr::reg(meta, 0), Size::B8);
    b.call_void(Helper::SeqWrite, &[value(sequence), value(own), value(24)]);
    b.ret(0);
    b.finish()
}

fn arguments() -> Function {
    let mut b = Builder::new("arguments", "raw_tp/sys_enter");
    let context = b.reg();
    b.push(Inst::Context { dst: context });
    let (first, second) = (b.load(Addr::reg(context, 0), Size::B8), b.load(Addr::reg(context, 8), Size::B8));
    let sum = b.add(first, second);
    let counter = b.data(Section::Bss, 0);
    b.store(Addr::reg(counter, 0), sum, Size::B8);
    b.ret(0);
    b.finish()
}

fn tracepoint() -> Function {
    let mut b = Builder::new("tracepoint", "tp/sched/sched_switch");
    let context = b.reg();
    b.push(Inst::Context { dst: context });
    let pid = b.load(Addr::reg(context, 24), Size::B4);
    let now = b.call(Helper::KtimeGetNs, &[]);
    // The context is used after a call, so it must have been saved.
    let priority = b.load(Addr::reg(context, 28), Size::B4);
    let wide = b.reg();
    b.push(Inst::Extend { dst: wide, src: priority, size: Size::B4, signed: true });
    let sum = b.add(pid, wide);
    let sum = b.add(sum, now);
    let counter = b.data(Section::Bss, 8);
    b.store(Addr::reg(counter, 0), sum, Size::B8);
    b.ret(0);
    b.finish()
}

/// Stores a value so that it cannot be eliminated.
fn keep(b: &mut Builder, reg: VReg, at: i32) {
    let base = b.data(Section::Bss, 0);
    b.store(Addr::reg(base, at * 8), reg, Size::B8);
}

fn all_operations() -> Function {
    let mut b = Builder::new("all_operations", "raw_tp/sys_enter");
    let x = b.call(Helper::KtimeGetNs, &[]);
    let y = b.call(Helper::GetPrandomU32, &[]);
    let mut at = 0;
    for op in BinOp::ALL {
        for width in [Width::W32, Width::W64] {
            let constants = [0, 1, -1, 63, 64, 1 << 40, i64::MIN, 0xffff_ffff];
            for b_imm in constants {
                let result = b.bin(op, width, x, b_imm);
                keep(&mut b, result, at % 100);
                let result = b.bin(op, width, b_imm, y);
                keep(&mut b, result, at % 100 + 1);
                at += 2;
            }
            let result = b.bin(op, width, x, y);
            keep(&mut b, result, at % 100);
            let same = b.copy(y);
            b.push(Inst::Bin { op, width, dst: same, a: x.into(), b: same.into() });
            keep(&mut b, same, at % 100);
            let constants = b.bin(op, width, 100, 7);
            keep(&mut b, constants, at % 100);
        }
    }
    b.ret(0);
    b.finish()
}

/// Operands are loaded anew for each comparison: otherwise the verifier would follow every
/// combination of outcomes.
fn all_comparisons() -> Function {
    let mut b = Builder::new("all_comparisons", "raw_tp/sys_enter");
    for op in CmpOp::ALL {
        for width in [Width::W32, Width::W64] {
            for shape in 0..5 {
                let base = b.data(Section::Bss, 0);
                let (x, y) = (b.load(Addr::reg(base, 0), Size::B8), b.load(Addr::reg(base, 8), Size::B8));
                let (left, right): (Operand, Operand) = match shape {
                    0 => (x.into(), y.into()),
                    1 => (x.into(), 5.into()),
                    2 => (Operand::Imm(1 << 35), x.into()),
                    3 => (x.into(), Operand::Imm(0xffff_ffff)),
                    _ => (3.into(), 4.into()),
                };
                let flag = b.reg();
                b.push(Inst::Set { op, width, dst: flag, a: left, b: right });
                keep(&mut b, flag, 2);
                let (then, join) = (b.block(), b.block());
                let likely = if width == Width::W32 { Likely::Unknown } else { Likely::Otherwise };
                b.end(Terminator::Branch { op, width, a: left, b: right, then, otherwise: join, likely });
                b.at(then);
                keep(&mut b, x, 3);
                b.jump(join);
                b.at(join);
            }
        }
    }
    b.ret(0);
    b.finish()
}

/// 24 values live across calls, of which at most four get a register.
fn spilling() -> Function {
    let mut b = Builder::new("spilling", "raw_tp/sys_enter");
    let values: Vec<VReg> = (0..24).map(|_| b.call(Helper::KtimeGetNs, &[])).collect();
    b.call_void(Helper::GetPrandomU32, &[]);
    let mut sum = b.copy(0);
    for reg in &values {
        sum = b.add(sum, *reg);
        b.call_void(Helper::GetPrandomU32, &[]);
    }
    for (left, right) in values.iter().zip(values.iter().rev()) {
        let product = b.bin(BinOp::Mul, Width::W64, *left, *right);
        sum = b.bin(BinOp::Xor, Width::W64, sum, product);
    }
    keep(&mut b, sum, 0);
    b.ret(0);
    b.finish()
}

/// Pointers of every kind, live across calls: their types must survive spilling.
fn spilled_pointers() -> Function {
    let mut b = Builder::new("spilled_pointers", "raw_tp/sys_enter");
    let context = b.reg();
    b.push(Inst::Context { dst: context });
    let key = b.slot(4, 4);
    b.store(Addr::slot(key, 0), 0, Size::B4);
    let mut pointers = Vec::new();
    for _ in 0..6 {
        let found = b.call(Helper::MapLookupElem, &[Arg::Map(ARRAY), Arg::Slot(key, 0)]);
        b.null_check(found);
        pointers.push(found);
    }
    let counter = b.data(Section::Bss, 16);
    let slot = b.reg();
    b.push(Inst::SlotAddr { dst: slot, slot: key, offset: 0 });
    b.call_void(Helper::KtimeGetNs, &[]);
    for (index, pointer) in pointers.iter().enumerate() {
        let old = b.load(Addr::reg(*pointer, 8 * index as i32), Size::B8);
        let argument = b.load(Addr::reg(context, 0), Size::B8);
        let new = b.add(old, argument);
        b.store(Addr::reg(*pointer, 8 * index as i32), new, Size::B8);
        b.store(Addr::reg(counter, 0), new, Size::B8);
        let again = b.load(Addr::reg(slot, 0), Size::B4);
        b.store(Addr::reg(counter, 8), again, Size::B8);
        b.call_void(Helper::KtimeGetNs, &[]);
    }
    b.ret(0);
    b.finish()
}

fn bounded_loop() -> Function {
    let mut b = Builder::new("bounded_loop", "perf_event");
    let index = b.copy(0);
    let sum = b.copy(0);
    let (head, body, done) = (b.block(), b.block(), b.block());
    b.jump(head);
    b.at(head);
    let (a, limit) = (index.into(), 16.into());
    b.end(Terminator::Branch {
        op: CmpOp::Lt,
        width: Width::W64,
        a,
        b: limit,
        then: body,
        otherwise: done,
        likely: Likely::Then,
    });
    b.at(body);
    let now = b.call(Helper::KtimeGetNs, &[]);
    b.push(Inst::Bin { op: BinOp::Add, width: Width::W64, dst: sum, a: sum.into(), b: now.into() });
    b.push(Inst::Bin { op: BinOp::Add, width: Width::W64, dst: index, a: index.into(), b: 1.into() });
    b.jump(head);
    b.at(done);
    keep(&mut b, sum, 0);
    b.ret(0);
    b.finish()
}

/// Two nested loops, with more live values around them than registers.
fn nested_loops() -> Function {
    let mut b = Builder::new("nested_loops", "raw_tp/sys_enter");
    let outside: Vec<VReg> = (0..6).map(|_| b.call(Helper::KtimeGetNs, &[])).collect();
    let (i, j, sum) = (b.copy(0), b.copy(0), b.copy(0));
    let (outer, start, inner, body, next, done) = (b.block(), b.block(), b.block(), b.block(), b.block(), b.block());
    b.jump(outer);
    let step = |b: &mut Builder, reg: VReg| {
        b.push(Inst::Bin { op: BinOp::Add, width: Width::W64, dst: reg, a: reg.into(), b: 1.into() });
    };
    let test = |b: &mut Builder, reg: VReg, then, otherwise| {
        let (a, limit) = (reg.into(), 5.into());
        let (op, width, likely) = (CmpOp::SLt, Width::W64, Likely::Unknown);
        b.end(Terminator::Branch { op, width, a, b: limit, then, otherwise, likely });
    };
    b.at(outer);
    test(&mut b, i, start, done);
    b.at(start);
    b.push(Inst::Copy { dst: j, src: 0.into() });
    b.jump(inner);
    b.at(inner);
    test(&mut b, j, body, next);
    b.at(body);
    let random = b.call(Helper::GetPrandomU32, &[]);
    b.push(Inst::Bin { op: BinOp::Add, width: Width::W64, dst: sum, a: sum.into(), b: random.into() });
    step(&mut b, j);
    b.jump(inner);
    b.at(next);
    step(&mut b, i);
    b.jump(outer);
    b.at(done);
    for reg in outside {
        b.push(Inst::Bin { op: BinOp::Xor, width: Width::W64, dst: sum, a: sum.into(), b: reg.into() });
    }
    keep(&mut b, sum, 0);
    b.ret(0);
    b.finish()
}

/// The first block is a loop header: the context must not be taken from `r1` again.
fn loop_to_entry() -> Function {
    let mut b = Builder::new("loop_to_entry", "raw_tp/sys_enter");
    let context = b.reg();
    b.push(Inst::Context { dst: context });
    let argument = b.load(Addr::reg(context, 0), Size::B8);
    keep(&mut b, argument, 1);
    let random = b.call(Helper::GetPrandomU32, &[]);
    let low = b.bin(BinOp::And, Width::W64, random, 1);
    let (first, last) = (profiler_compiler::ir::BlockId(0), b.block());
    let rest = b.block();
    let (a, zero) = (low.into(), 0.into());
    let (op, width, likely) = (CmpOp::Eq, Width::W64, Likely::Otherwise);
    b.end(Terminator::Branch { op, width, a, b: zero, then: rest, otherwise: last, likely });
    b.at(rest);
    // Verifier: a loop must provably end; this back edge is never taken.
    let (never, op) = (b.copy(0), CmpOp::Ne);
    b.end(Terminator::Branch { op, width, a: never.into(), b: zero, then: first, otherwise: last, likely });
    b.at(last);
    b.ret(0);
    b.finish()
}

fn clears_and_copies() -> Function {
    let mut b = Builder::new("clears_and_copies", "raw_tp/sys_enter");
    for size in [1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 20, 31] {
        let align = if size >= 8 { 8 } else { 1 };
        let (from, to) = (b.slot(size, align), b.slot(size, align));
        b.push(Inst::Zero { addr: Addr::slot(from, 0), size_bytes: size });
        let (to, from) = (Addr::slot(to, 0), Addr::slot(from, 0));
        b.push(Inst::Move { to, from, size_bytes: size, align_bytes: align });
        let last = b.load(to.plus(size as i32 - 1), Size::B1);
        keep(&mut b, last, 0);
    }
    b.ret(0);
    b.finish()
}

/// Larger than the limit for unrolling.
fn large_clear() -> Function {
    let mut b = Builder::new("large_clear", "raw_tp/sys_enter");
    let record = b.call(Helper::RingbufReserve, &[Arg::Map(EVENTS), value(8192), value(0)]);
    b.null_check(record);
    b.push(Inst::Zero { addr: Addr::reg(record, 0), size_bytes: 4096 });
    b.push(Inst::Move { to: Addr::reg(record, 4096), from: Addr::reg(record, 8), size_bytes: 4000, align_bytes: 8 });
    b.push(Inst::Zero { addr: Addr::reg(record, 4096), size_bytes: 2048 });
    b.call_void(Helper::RingbufDiscard, &[value(record), value(0)]);
    b.ret(0);
    b.finish()
}

fn atomics() -> Function {
    let mut b = Builder::new("atomics", "raw_tp/sys_enter");
    let x = b.call(Helper::GetPrandomU32, &[]);
    let base = b.data(Section::Bss, 256);
    for op in [BinOp::Add, BinOp::And, BinOp::Or, BinOp::Xor] {
        for size in [Size::B4, Size::B8] {
            b.push(Inst::Atomic { op, addr: Addr::reg(base, 0), src: x, fetch: None, size });
            let old = b.reg();
            b.push(Inst::Atomic { op, addr: Addr::reg(base, 8), src: x, fetch: Some(old), size });
            keep(&mut b, old, 0);
        }
    }
    let old = b.reg();
    b.push(Inst::Exchange { dst: old, addr: Addr::reg(base, 16), src: x });
    let seen = b.reg();
    b.push(Inst::CompareExchange { dst: seen, addr: Addr::reg(base, 24), expected: old, new: x });
    let unused = b.reg();
    b.push(Inst::Exchange { dst: unused, addr: Addr::reg(base, 32), src: x });
    let sum = b.add(seen, x);
    let slot = b.slot(8, 8);
    b.store(Addr::slot(slot, 0), sum, Size::B8);
    b.push(Inst::Atomic { op: BinOp::Add, addr: Addr::slot(slot, 0), src: x, fetch: None, size: Size::B8 });
    let sum = b.load(Addr::slot(slot, 0), Size::B8);
    keep(&mut b, sum, 0);
    b.ret(0);
    b.finish()
}

fn immediates() -> Function {
    let mut b = Builder::new("immediates", "raw_tp/sys_enter");
    let big = [i64::MIN, i64::MAX, -1, 0x8000_0000, 0x7fff_ffff, -0x8000_0000, -0x8000_0001, 0x1234_5678_9abc_def0];
    let slot = b.slot(8, 8);
    for (index, number) in big.into_iter().enumerate() {
        let reg = b.copy(number);
        keep(&mut b, reg, index as i32);
        for size in [Size::B8, Size::B4, Size::B2, Size::B1] {
            b.store(Addr::slot(slot, 0), number, size);
        }
        let reg = b.load(Addr::slot(slot, 0), Size::B8);
        keep(&mut b, reg, index as i32);
    }
    let base = b.data(Section::Bss, 0);
    let far = b.load(Addr::reg(base, 40_000), Size::B8);
    b.store(Addr::reg(base, 60_000), far, Size::B8);
    b.ret(0);
    b.finish()
}

fn extensions() -> Function {
    let mut b = Builder::new("extensions", "raw_tp/sys_enter");
    let x = b.call(Helper::KtimeGetNs, &[]);
    for size in [Size::B1, Size::B2, Size::B4, Size::B8] {
        for signed in [false, true] {
            let dst = b.reg();
            b.push(Inst::Extend { dst, src: x, size, signed });
            keep(&mut b, dst, 0);
        }
        if size != Size::B1 {
            let dst = b.reg();
            b.push(Inst::Swap { dst, src: x, size });
            keep(&mut b, dst, 1);
        }
    }
    b.ret(0);
    b.finish()
}

fn context_after_calls() -> Function {
    let mut b = Builder::new("context_after_calls", "perf_event");
    let kernel = b.call(Helper::GetStackid, &[Arg::Context, Arg::Map(STACKS), value(0)]);
    let user = b.call(Helper::GetStackid, &[Arg::Context, Arg::Map(STACKS), value(256)]);
    let key = b.slot(16, 8);
    b.store(Addr::slot(key, 0), kernel, Size::B8);
    b.store(Addr::slot(key, 8), user, Size::B8);
    b.call_void(Helper::MapDeleteElem, &[Arg::Map(START), Arg::Slot(key, 0)]);
    b.ret(0);
    b.finish()
}

fn strings() -> Function {
    let mut b = Builder::new("strings", "uprobe");
    let text = b.slot(64, 8);
    b.push(Inst::Zero { addr: Addr::slot(text, 0), size_bytes: 64 });
    let greeting = b.data(Section::Rodata, 0);
    b.call_void(Helper::ProbeReadKernelStr, &[Arg::Slot(text, 0), value(64), value(greeting)]);
    let context = b.reg();
    b.push(Inst::Context { dst: context });
    let pointer = b.load(Addr::reg(context, 112), Size::B8);
    let length = b.call(Helper::ProbeReadUserStr, &[Arg::Slot(text, 0), value(64), value(pointer)]);
    keep(&mut b, length, 0);
    b.call_void(Helper::RingbufOutput, &[Arg::Map(EVENTS), Arg::Slot(text, 0), value(64), value(0)]);
    b.ret(0);
    b.finish()
}

/// A stack of exactly the kernel's limit.
pub fn full_stack() -> Function {
    let mut b = Builder::new("full_stack", "raw_tp/sys_enter");
    let all = b.slot(512, 8);
    b.push(Inst::Zero { addr: Addr::slot(all, 0), size_bytes: 512 });
    b.call_void(Helper::RingbufOutput, &[Arg::Map(EVENTS), Arg::Slot(all, 0), value(512), value(0)]);
    b.ret(0);
    b.finish()
}
