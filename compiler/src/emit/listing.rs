//! Prints bytecode as text, in the style of the kernel's verifier log.
//!
//! In: an emitted program. Out: one line per instruction, and the script's line where it changes.
//! Guarantee: maps, data sections and helpers appear by name; the text depends only on the input.

use std::fmt::Write as _;

use super::bpf::{self, Insn};
use super::lines::LineTable;
use super::{Emitted, EmittedFunction, Note};
use crate::ir::{BinOp, CmpOp, Helper, Program, Section, Size, Width};
use crate::source::Source;

/// The output of `-d bpf`.
pub fn listing(emitted: &Emitted, program: &Program, source: &Source) -> String {
    let lines = LineTable::new(source);
    let mut out = String::new();
    for (index, function) in emitted.subprograms.iter().chain(&emitted.functions).enumerate() {
        if index > 0 {
            out.push('\n');
        }
        list_function(&mut out, function, program, &lines);
    }
    out
}

fn list_function(out: &mut String, function: &EmittedFunction, program: &Program, lines: &LineTable<'_>) {
    let EmittedFunction { name, section, insns, stack_bytes, .. } = function;
    let _ = writeln!(out, "{section} {name}: {} instructions, {stack_bytes} bytes of stack", insns.len());
    let mut starts = lines.of(function).into_iter().peekable();
    let mut index = 0;
    while let Some(insn) = insns.get(index) {
        if let Some(start) = starts.next_if(|start| start.insn <= index) {
            let _ = writeln!(out, "; {} @ {}", lines.text(&start).0.trim(), start.line);
        }
        let second = insns.get(index + 1).copied().unwrap_or_default();
        let text = instruction(*insn, second, function.notes[index], program);
        let _ = writeln!(out, "{index:4}: {text}");
        index += if insn.is_wide() { 2 } else { 1 };
    }
}

fn instruction(insn: Insn, second: Insn, note: Option<Note>, program: &Program) -> String {
    match insn.class() {
        bpf::LD => format!("r{} = {}", insn.dst, wide(insn, second, note, program)),
        bpf::LDX => format!("r{} = *({} *)(r{} {:+})", insn.dst, size_name(insn), insn.src, insn.off),
        bpf::ST => format!("*({} *)(r{} {:+}) = {}", size_name(insn), insn.dst, insn.off, insn.imm),
        bpf::STX if insn.code & bpf::MODE_MASK == bpf::ATOMIC => atomic(insn),
        bpf::STX => format!("*({} *)(r{} {:+}) = r{}", size_name(insn), insn.dst, insn.off, insn.src),
        bpf::ALU32 | bpf::ALU64 => arithmetic(insn),
        _ => jump(insn, note, program),
    }
}

fn wide(insn: Insn, second: Insn, note: Option<Note>, program: &Program) -> String {
    match note {
        Some(Note::Map(map)) => {
            let name = program.maps.get(map.0 as usize).map_or("?", |map| map.name.as_str());
            format!("map[{name}]")
        }
        Some(Note::Function(id)) => {
            let name = program.subprograms.get(id.0 as usize).map_or("?", |function| function.name.as_str());
            format!("subprogram[{name}]")
        }
        Some(Note::Data(Section::Rodata, offset)) => format!("map[.rodata][0]+{offset}"),
        Some(Note::Data(Section::Bss, offset)) => format!("map[.bss][0]+{offset}"),
        _ => format!("{:#x}", u64::from(insn.imm as u32) | u64::from(second.imm as u32) << 32),
    }
}

fn size_name(insn: Insn) -> &'static str {
    match insn.access_size() {
        Size::B1 => "u8",
        Size::B2 => "u16",
        Size::B4 => "u32",
        Size::B8 => "u64",
    }
}

/// `r1`, or `w1` in a 32-bit operation.
fn register(insn: Insn, number: u8) -> String {
    match insn.width() {
        Width::W32 => format!("w{number}"),
        Width::W64 => format!("r{number}"),
    }
}

fn arithmetic(insn: Insn) -> String {
    let dst = register(insn, insn.dst);
    if insn.operation() == bpf::END {
        return format!("r{0} = be{1} r{0}", insn.dst, insn.imm);
    }
    let operator = match insn.bin_op() {
        None => "=",
        Some(BinOp::Add) => "+=",
        Some(BinOp::Sub) => "-=",
        Some(BinOp::Mul) => "*=",
        Some(BinOp::Div) => "/=",
        Some(BinOp::Mod) => "%=",
        Some(BinOp::And) => "&=",
        Some(BinOp::Or) => "|=",
        Some(BinOp::Xor) => "^=",
        Some(BinOp::Shl) => "<<=",
        Some(BinOp::Shr) => ">>=",
        Some(BinOp::Sar) => "s>>=",
    };
    if insn.is_register_source() {
        format!("{dst} {operator} {}", register(insn, insn.src))
    } else {
        format!("{dst} {operator} {}", insn.imm)
    }
}

fn atomic(insn: Insn) -> String {
    let place = format!("({} *)(r{} {:+})", size_name(insn), insn.dst, insn.off);
    let src = insn.src;
    match insn.imm {
        bpf::XCHG => format!("r{src} = atomic64_xchg({place}, r{src})"),
        bpf::CMPXCHG => format!("r0 = atomic64_cmpxchg({place}, r0, r{src})"),
        operation => {
            let (name, operator) = atomic_name(operation);
            if operation & bpf::FETCH != 0 {
                let bits = insn.access_size().bytes() * 8;
                format!("r{src} = atomic{bits}_fetch_{name}({place}, r{src})")
            } else {
                format!("lock *{place} {operator}= r{src}")
            }
        }
    }
}

fn atomic_name(operation: i32) -> (&'static str, &'static str) {
    let is = |op| bpf::atomic_op(op, operation & bpf::FETCH != 0) == Some(operation);
    if is(BinOp::And) {
        ("and", "&")
    } else if is(BinOp::Or) {
        ("or", "|")
    } else if is(BinOp::Xor) {
        ("xor", "^")
    } else {
        ("add", "+")
    }
}

fn jump(insn: Insn, note: Option<Note>, program: &Program) -> String {
    match (insn.operation(), note) {
        (bpf::CALL, Some(Note::Helper(helper))) if helper.kernel_function().is_some() => {
            format!("call {}", helper.kernel_function().unwrap_or_default())
        }
        (bpf::CALL, Some(Note::Helper(helper))) => {
            format!("call {}#{}", helper_name(helper), insn.imm)
        }
        (bpf::CALL, Some(Note::Call(id))) => {
            let name = program.subprograms.get(id.0 as usize).map_or("?", |function| function.name.as_str());
            format!("call {name}")
        }
        (bpf::CALL, _) => format!("call #{}", insn.imm),
        (bpf::EXIT, _) => "exit".to_owned(),
        (bpf::JA, _) => format!("goto {:+}", insn.off),
        _ => {
            let right = if insn.is_register_source() { register(insn, insn.src) } else { format!("{:#x}", insn.imm) };
            format!("if {} {} {right} goto {:+}", register(insn, insn.dst), comparison(insn), insn.off)
        }
    }
}

fn comparison(insn: Insn) -> &'static str {
    match insn.cmp_op() {
        Some(CmpOp::Eq) | None => "==",
        Some(CmpOp::Ne) => "!=",
        Some(CmpOp::Lt) => "<",
        Some(CmpOp::Le) => "<=",
        Some(CmpOp::Gt) => ">",
        Some(CmpOp::Ge) => ">=",
        Some(CmpOp::SLt) => "s<",
        Some(CmpOp::SLe) => "s<=",
        Some(CmpOp::SGt) => "s>",
        Some(CmpOp::SGe) => "s>=",
    }
}

/// The kernel's name of a helper: `bpf_map_lookup_elem`.
pub fn helper_name(helper: Helper) -> String {
    let mut name = "bpf".to_owned();
    for letter in format!("{helper:?}").chars() {
        if letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}
