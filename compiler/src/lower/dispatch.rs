//! The programs that run blocks on the same event in turn.
//!
//! In: which blocks share a program ([`merge`](super::merge)), the functions of the blocks. Out: a
//! program for each group.
//! Guarantee: those of `merge`.

use crate::ir::build::FunctionBuilder;
use crate::ir::{Addr, Arg, BinOp, CmpOp, Function, FunctionId, Helper, Likely, Section, Size, VReg, Width};
use crate::lower::merge::have_one_scope;
use crate::lower::shared::Shared;
use crate::lower::{Body, prologue};
use crate::typed::Probe;

/// Size of a table entry.
const ENTRY_BYTES: usize = 4;

impl Shared<'_> {
    /// Builds the programs that run blocks in turn; `functions` are the functions of the blocks.
    pub(super) fn dispatchers(&mut self, functions: &[Option<FunctionId>]) {
        for blocks in self.merged.programs.clone() {
            let with_functions = |index: &usize| Some((*index, (*functions.get(*index)?)?));
            let blocks: Vec<(usize, FunctionId)> = blocks.iter().filter_map(with_functions).collect();
            let Some((first, _)) = blocks.first() else { continue };
            let function = dispatch(dispatcher(self, *first), &blocks);
            self.ir.functions.push(function);
        }
    }
}

/// The body of the program that runs this block and those that share its event.
fn dispatcher<'a, 'p>(shared: &'a mut Shared<'p>, first: usize) -> Body<'a, 'p> {
    let name = shared.merged.program_name(first);
    let mut body = Body::new(shared, first);
    body.b = FunctionBuilder::new(name, body.probe.section.clone(), body.probe.span);
    body
}

fn dispatch(mut cx: Body<'_, '_>, blocks: &[(usize, FunctionId)]) -> Function {
    let probes: Vec<&Probe> = blocks.iter().map(|(index, _)| &cx.shared.program.probes[*index]).collect();
    let wanting_blocks = wanting_blocks(&mut cx, &probes);
    prologue::count_and_test_gate(&mut cx);
    if have_one_scope(&probes) {
        prologue::only_its_processes(&mut cx);
    }
    prologue::only_the_process_of_its_event(&mut cx);
    for (bit, (index, function)) in blocks.iter().enumerate() {
        let next = cx.b.new_block();
        if let Some(wanting_blocks) = wanting_blocks {
            let run = cx.b.new_block();
            let is_wanted = cx.b.bin(BinOp::And, Width::W64, wanting_blocks, 1 << bit);
            cx.b.branch(CmpOp::Ne, Width::W64, is_wanted, 0, run, next, Likely::Unknown);
            cx.b.switch_to(run);
        }
        let args = [Arg::Function(*function), Arg::Context];
        if cx.shared.facts.exits.contains(index) && bit + 1 < blocks.len() {
            let ended = cx.b.call(Helper::Run, &args);
            prologue::go_on_if(&mut cx, CmpOp::Eq, ended, 0);
        } else {
            cx.b.call_void(Helper::Run, &args);
        }
        cx.b.jump(next);
        cx.b.switch_to(next);
    }
    cx.b.ret(0);
    cx.finish()
}

/// A register with one bit for each block that wants this system call; `None` if all blocks
/// want the events that get this far.
fn wanting_blocks(cx: &mut Body<'_, '_>, probes: &[&Probe]) -> Option<VReg> {
    let filter = |probe: &&Probe| probe.context.syscalls.clone();
    let (first, same) =
        (probes.first().and_then(filter), |of: &&Probe| of.context.syscalls == probes[0].context.syscalls);
    if probes.iter().all(same) {
        if let Some(filter) = first {
            prologue::syscall_filter(cx, &filter);
        }
        return None;
    }
    let (entries, always) = table(probes);
    let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    let table = cx.shared.rodata(&bytes);
    let number = prologue::syscall_number(cx);
    let wanting_blocks = cx.b.new_vreg();
    let (known, unknown, go_on) = (cx.b.new_block(), cx.b.new_block(), cx.b.new_block());
    let size = entries.len() as i64;
    cx.b.branch(CmpOp::Lt, Width::W64, number, size, known, unknown, Likely::Then);
    cx.b.switch_to(unknown);
    if always == 0 {
        cx.b.ret(0);
    } else {
        cx.b.assign(wanting_blocks, i64::from(always));
        cx.b.jump(go_on);
    }
    cx.b.switch_to(known);
    // Verifier: a branch does not bound a spilled register, a mask does.
    let number = cx.b.bin(BinOp::And, Width::W64, number, size - 1);
    let distance = cx.b.bin(BinOp::Mul, Width::W64, number, ENTRY_BYTES as i64);
    let base = cx.b.data_addr(Section::Rodata, table);
    let at = cx.b.bin(BinOp::Add, Width::W64, base, distance);
    let entry = cx.b.load(Addr::reg(at, 0), Size::B4);
    if always == 0 {
        prologue::go_on_if(cx, CmpOp::Ne, entry, 0);
    }
    if let Some(compat) = prologue::compat_status(cx) {
        let native = cx.b.new_block();
        cx.b.branch(CmpOp::Eq, Width::W64, compat, 0, native, unknown, Likely::Then);
        cx.b.switch_to(native);
    }
    cx.b.assign(wanting_blocks, entry);
    cx.b.jump(go_on);
    cx.b.switch_to(go_on);
    Some(wanting_blocks)
}

/// By system call number: the blocks that want it. The length is a power of two. Second: the blocks
/// that want every system call.
fn table(probes: &[&Probe]) -> (Vec<u32>, u32) {
    let bits = || (0..).map(|bit| 1_u32 << bit).zip(probes);
    let always = bits().filter(|(_, probe)| probe.context.syscalls.is_none()).map(|(bit, _)| bit).sum();
    let numbers = || {
        bits().flat_map(|(bit, probe)| {
            probe.context.syscalls.iter().flat_map(move |it| it.numbers.iter().map(move |n| (bit, *n)))
        })
    };
    let highest = numbers().map(|(_, number)| number).filter(|number| *number < super::prologue::MAX_SYSCALL).max();
    let mut entries = vec![always; (highest.unwrap_or(0) as usize + 1).next_power_of_two()];
    for (bit, number) in numbers() {
        if let Some(entry) = entries.get_mut(number as usize) {
            *entry |= bit;
        }
    }
    (entries, always)
}
