//! System call tracepoints, implemented with the raw tracepoints `sys_enter` and `sys_exit`.
//!
//! One program dispatches on the system call number: a pattern over all 350 calls is one
//! attachment, not 350.

use crate::ast::AttachPoint;
use crate::check::{ArgField, PidFilter, Points, Seed};
use crate::object::Attach;
use crate::syscalls;
use crate::target::Arch;
use crate::typed::{ContextKind, ExprKind, SyscallFilter};
use crate::types::{Int, Space, Type};

/// Offset of the arguments in a system call's record, after the common fields and the number. Each
/// argument takes 8 bytes.
const ARGS_OFFSET: u32 = 16;

/// Entry or exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Enter,
    Exit,
}

/// Whether a tracepoint belongs to a system call whose number is known.
pub(super) fn is_one(cx: &Points<'_, '_>, category: &str, event: &str) -> bool {
    category == "syscalls" && number(cx, event).is_some()
}

fn number(cx: &Points<'_, '_>, event: &str) -> Option<(Side, u32)> {
    let arch = cx.env.target.arch();
    let of = |side, prefix| Some((side, syscalls::number(arch, event.strip_prefix(prefix)?)?));
    of(Side::Enter, "sys_enter_").or_else(|| of(Side::Exit, "sys_exit_"))
}

/// The programs for these system calls: one per side, or one per call at entry if the body uses
/// `args`.
pub(super) fn expand(cx: &mut Points<'_, '_>, point: &AttachPoint, found: &[(String, String)]) -> Vec<Seed> {
    let mut seeds = Vec::new();
    for side in [Side::Enter, Side::Exit] {
        let calls: Vec<(&str, u32)> = found
            .iter()
            .filter_map(|(_, event)| number(cx, event).filter(|(s, _)| *s == side).map(|(_, n)| (event.as_str(), n)))
            .collect();
        if calls.is_empty() {
            continue;
        }
        if side == Side::Enter && cx.facts.uses("args") {
            seeds.extend(calls.iter().filter_map(|call| with_args(cx, point, *call)));
        } else {
            seeds.push(seed(side, &calls));
        }
    }
    seeds
}

fn seed(side: Side, calls: &[(&str, u32)]) -> Seed {
    let raw = if side == Side::Enter { "sys_enter" } else { "sys_exit" };
    let attach = Attach::RawTracepoint { names: vec![raw.to_string()] };
    let mut seed = Seed::new(String::new(), format!("raw_tp/{raw}"), ContextKind::RawTracepoint, attach);
    seed.names = calls.iter().map(|(event, _)| format!("tracepoint:syscalls:{event}")).collect();
    seed.points = calls.len() as u32;
    seed.context.syscalls = Some(SyscallFilter { numbers: calls.iter().map(|(_, n)| *n).collect() });
    seed.pointer_space = Space::User;
    seed.pid_filter = PidFilter::Option;
    if side == Side::Exit {
        seed.args = vec![ArgField { name: "ret".into(), kind: ExprKind::ContextArg(1), ty: Type::I64 }];
        if let [(_, number)] = calls {
            seed.args.push(number_field(*number));
        }
    }
    seed
}

fn number_field(number: u32) -> ArgField {
    ArgField { name: "__syscall_nr".into(), kind: ExprKind::Int(i64::from(number)), ty: Type::I32 }
}

fn with_args(cx: &mut Points<'_, '_>, point: &AttachPoint, call: (&str, u32)) -> Option<Seed> {
    let format = match cx.env.target.tracepoint_format("syscalls", call.0) {
        Ok(format) => format,
        Err(error) => {
            cx.refused(point.span, &format!("the format of `tracepoint:syscalls:{}`", call.0), error);
            return None;
        }
    };
    let mut seed = seed(Side::Enter, &[call]);
    let arch = cx.env.target.arch();
    seed.args.push(number_field(call.1));
    for field in format.fields.iter().filter(|f| f.offset_bytes >= ARGS_OFFSET) {
        let Some(register) = argument_register(arch, (field.offset_bytes - ARGS_OFFSET) / 8) else { continue };
        let ty = match super::tracepoint::field_type(field, Space::User, super::tracepoint::types_for(cx, field)) {
            // As in the record: the whole register, whatever the C type.
            Type::Int(int) => Type::Int(Int { size_bytes: 8, signed: int.signed || is_signed_c(&field.c_type) }),
            other => other,
        };
        seed.args.push(ArgField { name: field.name.clone(), kind: ExprKind::SyscallRegister(register), ty });
    }
    Some(seed)
}

fn is_signed_c(c_type: &str) -> bool {
    crate::check::named_int(c_type).is_some_and(|int| int.signed)
}

/// Offset in `pt_regs` of the n-th argument of a system call: rdi, rsi, rdx, r10, r8, r9 on x86; x0
/// to x5 on arm64.
fn argument_register(arch: Arch, index: u32) -> Option<u32> {
    const X86_64: [u32; 6] = [112, 104, 96, 56, 72, 64];
    match arch {
        Arch::X86_64 => X86_64.get(index as usize).copied(),
        Arch::Aarch64 => (index < 6).then_some(index * 8),
    }
}
