//! Lowering helpers for builtins and functions.
//!
//! In: typed arguments. Out: values.

use crate::ir::{Addr, Arg, BinOp, Helper, Operand, Section, Size, VReg, Width};
use crate::lower::memory::Source;
use crate::lower::shared::Shared;
use crate::lower::{Body, Value, failures, prologue};
use crate::object::Constant;
use crate::typed::Expr;
use crate::types::{NAMED_SYMBOL, PROBE_NAME_BYTES, Space, Type};

/// The address space of an address argument.
pub fn space_of(e: &Expr) -> Space {
    match e.ty {
        Type::Pointer { space, .. } => space,
        _ => Space::Kernel,
    }
}

/// The name of the probe that fired. The constants are the number of the program's first name
/// and how many names it has.
pub fn probe_name(cx: &mut Body<'_, '_>, ty: &Type, constants: &[Constant]) -> Value {
    let [Constant::Int(first), Constant::Int(count)] = constants else { return Value::None };
    let number = if *count == 1 {
        Operand::Imm(*first)
    } else {
        let which = which_probe(cx);
        cx.b.bin(BinOp::Add, Width::W64, which, *first).into()
    };
    let to = cx.allocate_unwritten(ty);
    cx.b.store(to, number, Size::B8);
    Value::Memory(to)
}

/// The name, if the value of a builtin is the only name of its program.
pub(super) fn only_name(cx: &Body<'_, '_>, ty: &Type, constants: &[Constant]) -> Option<Vec<u8>> {
    let (Type::ProbeName, [Constant::Int(first), Constant::Int(1)]) = (ty, constants) else { return None };
    let name = cx.shared.program.probe_names.get(usize::try_from(*first).ok()?)?;
    Some(name.clone().into_bytes())
}

/// Copies the name of a probe as a string or as a symbol.
pub(super) fn copy_name(cx: &mut Body<'_, '_>, from: Addr, ty: &Type, to: Addr) {
    let index = cx.b.load(from, Size::B8);
    let size_bytes = cx.layout(ty).size_bytes;
    if !matches!(ty, Type::Str { .. }) {
        let symbol = cx.b.bin(BinOp::Or, Width::W64, index, (NAMED_SYMBOL << 32) as i64);
        cx.b.store(to, symbol, Size::B8);
        return cx.zero(to.plus(8), size_bytes.saturating_sub(8));
    }
    let (table, count) = name_table(cx.shared);
    // Verifier: the index comes from memory whose contents it does not know.
    let index = cx.b.clamp(index, count.saturating_sub(1));
    let distance = cx.b.bin(BinOp::Mul, Width::W64, index, i64::from(PROBE_NAME_BYTES));
    let base = cx.b.data_addr(Section::Rodata, table);
    let name = cx.b.bin(BinOp::Add, Width::W64, base, distance);
    let len = size_bytes.min(PROBE_NAME_BYTES);
    cx.copy(to, Addr::reg(name, 0), len);
    cx.zero(to.plus(len as i32), size_bytes - len);
}

/// The `.rodata` offset of the names of all probes, each with the same capacity, and how many there
/// are.
fn name_table(shared: &mut Shared<'_>) -> (u32, u32) {
    let names = &shared.program.probe_names;
    let count = names.len() as u32;
    if let Some(offset) = shared.name_table {
        return (offset, count);
    }
    let mut table = vec![0; names.len().max(1) * PROBE_NAME_BYTES as usize];
    for (place, name) in table.chunks_mut(PROBE_NAME_BYTES as usize).zip(names) {
        let shown = name.len().min(place.len() - 1);
        place[..shown].copy_from_slice(&name.as_bytes()[..shown]);
    }
    let offset = shared.rodata(&table);
    shared.name_table = Some(offset);
    (offset, count)
}

/// The index of the probe that fired among those of the program.
fn which_probe(cx: &mut Body<'_, '_>) -> VReg {
    let Some(filter) = &cx.probe.context.syscalls else {
        // Since 5.15.
        let cookie = cx.b.call(Helper::GetAttachCookie, &[Arg::Context]);
        let is_whole = cx.probe.context.static_arguments.is_empty() && !prologue::is_return_of_perf_events(cx);
        return if is_whole { cookie } else { cx.b.extend(cookie, Size::B4, false) };
    };
    let most = filter.numbers.iter().copied().max().unwrap_or(0) as usize + 1;
    let mut table = vec![0u8; most.next_power_of_two() * 2];
    for (position, number) in filter.numbers.iter().enumerate() {
        let at = *number as usize * 2;
        table[at..at + 2].copy_from_slice(&(position as u16).to_ne_bytes());
    }
    let mask = most.next_power_of_two() as i64 - 1;
    let offset = cx.shared.rodata(&table);
    let number = prologue::syscall_number(cx);
    // Verifier: the filter has passed only known numbers; the mask bounds them.
    let index = cx.b.bin(BinOp::And, Width::W64, number, mask);
    let distance = cx.b.bin(BinOp::Shl, Width::W64, index, 1);
    let base = cx.b.data_addr(Section::Rodata, offset);
    let at = cx.b.bin(BinOp::Add, Width::W64, base, distance);
    cx.b.load(Addr::reg(at, 0), Size::B2)
}

/// A buffer: its length, then the bytes.
pub fn read_buffer(cx: &mut Body<'_, '_>, from: Source, size: VReg, capacity_bytes: u32, ty: &Type) -> Value {
    let to = cx.allocate(ty);
    let bounded = cx.b.clamp(size, capacity_bytes);
    cx.b.store(to, bounded, Size::B4);
    let helper = match from.space {
        Space::Kernel => Helper::ProbeReadKernel,
        Space::User => Helper::ProbeReadUser,
    };
    let bytes = cx.address_arg(to.plus(4));
    let failed = cx.b.call(helper, &[bytes, Arg::Value(bounded.into()), Arg::Value(from.address.into())]);
    failures::failed_read(cx, helper, failed);
    Value::Memory(to)
}

/// An address with its family.
pub fn inet(cx: &mut Body<'_, '_>, family: &Expr, address: &Expr, ty: &Type) -> Value {
    let family = cx.scalar(family);
    let value = cx.expr(address);
    let to = cx.allocate(ty);
    cx.b.store(to, family, Size::B8);
    match value {
        Value::Scalar(number) => cx.b.store(to.plus(8), number, Size::B4),
        other => {
            let size_bytes = cx.layout(&address.ty).size_bytes.min(16);
            let from = cx.in_memory(other, &address.ty);
            cx.copy(to.plus(8), from, size_bytes);
        }
    }
    Value::Memory(to)
}
