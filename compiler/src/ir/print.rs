//! Prints IR as text, for `-d ir` and for tests.
//!
//! In: a program, a function or an instruction. Out: text. Guarantee: the same IR gives the same
//! text. The text contains everything in an instruction except its span. Slots appear by name and
//! number (`key0`), maps by name (the map `at_x` as `@at_x`).

use std::fmt::Write;

use super::{
    Addr, Arg, Base, BinOp, CmpOp, Function, Helper, Inst, Likely, Map, MapKind, Operand, Program, Role, Section,
    SlotId, Terminator, VReg, Width,
};

/// Prints the whole program.
pub fn print(program: &Program) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut head = String::new();
    for map in &program.maps {
        let _ = writeln!(head, "{}", print_map(map));
    }
    if !program.rodata.is_empty() {
        let _ = writeln!(head, "rodata \"{}\"", program.rodata.escape_ascii());
    }
    if program.bss_size_bytes > 0 {
        let _ = writeln!(head, "bss {} bytes", program.bss_size_bytes);
    }
    if !head.is_empty() {
        parts.push(head);
    }
    parts
        .extend(program.subprograms.iter().chain(&program.functions).map(|function| print_function(program, function)));
    parts.join("\n")
}

fn print_map(map: &Map) -> String {
    let kind = map_kind_name(map.kind);
    let on_demand = if map.no_prealloc { ", on demand" } else { "" };
    match map.kind {
        MapKind::RingBuf => format!("map @{}: {kind}, {} bytes", map.name, map.max_entries),
        _ => format!(
            "map @{}: {kind}, key {}, value {}, {} entries{on_demand}",
            map.name, map.key_size_bytes, map.value_size_bytes, map.max_entries
        ),
    }
}

fn map_kind_name(kind: MapKind) -> &'static str {
    match kind {
        MapKind::Hash => "hash",
        MapKind::Array => "array",
        MapKind::PerfEventArray => "perf_event_array",
        MapKind::PerCpuHash => "percpu_hash",
        MapKind::PerCpuArray => "percpu_array",
        MapKind::StackTrace => "stack_trace",
        MapKind::LruHash => "lru_hash",
        MapKind::LruPerCpuHash => "lru_percpu_hash",
        MapKind::RingBuf => "ringbuf",
        MapKind::TaskStorage => "task_storage",
    }
}

/// Prints one function of the program.
pub fn print_function(program: &Program, function: &Function) -> String {
    let printer = Printer { program, function };
    let of = match function.role {
        Role::Program => function.section.as_str(),
        Role::Iteration => "iteration",
        Role::Entry => "map entry",
        Role::Block => "block",
        Role::Apart => "apart",
    };
    let mut out = format!("fn {} ({of})", function.name);
    if function.context_size_bytes > 0 {
        let _ = write!(out, ", context {} bytes", function.context_size_bytes);
    }
    out.push_str(" {\n");
    for (index, slot) in function.slots.iter().enumerate() {
        let name = printer.slot(SlotId(index as u32));
        let _ = writeln!(out, "    slot {name}: {} align {}", slot.size_bytes, slot.align_bytes);
    }
    for (index, block) in function.blocks.iter().enumerate() {
        let _ = writeln!(out, "b{index}:");
        for (inst, _) in &block.insts {
            let _ = writeln!(out, "    {}", printer.inst(inst));
        }
        let _ = writeln!(out, "    {}", print_end(&block.end));
    }
    out.push_str("}\n");
    out
}

/// Prints one instruction of the function.
pub(super) fn print_inst(program: &Program, function: &Function, inst: &Inst) -> String {
    Printer { program, function }.inst(inst)
}

/// The kernel's name of a helper without the prefix `bpf_`: `map_lookup_elem`.
pub fn helper_name(helper: Helper) -> String {
    let mut name = String::new();
    for c in format!("{helper:?}").chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// The program and function whose names instructions refer to.
struct Printer<'a> {
    program: &'a Program,
    function: &'a Function,
}

impl Printer<'_> {
    fn inst(&self, inst: &Inst) -> String {
        match inst {
            Inst::Copy { dst, src } => format!("{} = {}", reg(*dst), operand(*src)),
            Inst::Bin { op, width, dst, a, b } => {
                format!("{} = {}{} {}, {}", reg(*dst), bin_name(*op), suffix(*width), operand(*a), operand(*b))
            }
            Inst::Set { op, width, dst, a, b } => {
                format!("{} = {} {}{} {}", reg(*dst), operand(*a), cmp_name(*op), suffix(*width), operand(*b))
            }
            Inst::Extend { dst, src, size, signed } => {
                let how = if *signed { "sext" } else { "zext" };
                format!("{} = {how}{} {}", reg(*dst), size.bytes(), reg(*src))
            }
            Inst::Swap { dst, src, size } => {
                format!("{} = swap{} {}", reg(*dst), size.bytes(), reg(*src))
            }
            Inst::Clamp { dst, src, most } => format!("{} = min {}, {most}", reg(*dst), reg(*src)),
            Inst::Context { dst } => format!("{} = context", reg(*dst)),
            Inst::Parameter { dst, index } => format!("{} = parameter {index}", reg(*dst)),
            Inst::SlotAddr { dst, slot, offset } => {
                format!("{} = &{}", reg(*dst), self.place(*slot, *offset))
            }
            Inst::DataAddr { dst, section, offset } => {
                let section = match section {
                    Section::Rodata => "rodata",
                    Section::Bss => "bss",
                };
                format!("{} = &{section}+{offset}", reg(*dst))
            }
            Inst::Call { dst, helper, args } => {
                let args: Vec<String> = args.iter().map(|arg| self.arg(*arg)).collect();
                format!("{}call {}({})", result(*dst), helper_name(*helper), args.join(", "))
            }
            _ => self.memory(inst),
        }
    }

    /// Prints the instructions that access memory.
    fn memory(&self, inst: &Inst) -> String {
        match inst {
            Inst::Load { dst, addr, size } => {
                format!("{} = load{} {}", reg(*dst), size.bytes(), self.addr(*addr))
            }
            Inst::Peek { dst, base, offset, size } => {
                let from = self.addr(Addr::reg(*base, i32::from(*offset)));
                format!("{} = peek{} {from}", reg(*dst), size.bytes())
            }
            Inst::Store { addr, src, size } => {
                format!("store{} {} = {}", size.bytes(), self.addr(*addr), operand(*src))
            }
            Inst::Zero { addr, size_bytes } => format!("zero {}, {size_bytes}", self.addr(*addr)),
            Inst::Move { to, from, size_bytes, align_bytes } => {
                format!("move {} = {}, {size_bytes} align {align_bytes}", self.addr(*to), self.addr(*from))
            }
            Inst::Atomic { op, addr, src, fetch, size } => format!(
                "{}atomic_{}{} {}, {}",
                result(*fetch),
                bin_name(*op),
                size.bytes(),
                self.addr(*addr),
                reg(*src)
            ),
            Inst::Exchange { dst, addr, src } => {
                format!("{} = exchange {}, {}", reg(*dst), self.addr(*addr), reg(*src))
            }
            Inst::CompareExchange { dst, addr, expected, new } => {
                format!("{} = compare_exchange {}, {} -> {}", reg(*dst), self.addr(*addr), reg(*expected), reg(*new))
            }
            _ => String::new(),
        }
    }

    fn addr(&self, addr: Addr) -> String {
        match addr.base {
            Base::Reg(base) if addr.offset == 0 => format!("[{}]", reg(base)),
            Base::Reg(base) => format!("[{}{:+}]", reg(base), addr.offset),
            Base::Slot(slot) => format!("[{}]", self.place(slot, addr.offset)),
        }
    }

    fn arg(&self, arg: Arg) -> String {
        match arg {
            Arg::Value(value) => operand(value),
            Arg::Slot(slot, offset) => format!("&{}", self.place(slot, offset)),
            Arg::Map(map) => match self.program.maps.get(map.0 as usize) {
                Some(map) => format!("@{}", map.name),
                None => format!("@?{}", map.0),
            },
            Arg::Context => "context".to_string(),
            Arg::Function(id) => match self.program.subprograms.get(id.0 as usize) {
                Some(function) => function.name.clone(),
                None => format!("fn?{}", id.0),
            },
        }
    }

    fn place(&self, slot: SlotId, offset: i32) -> String {
        let name = self.slot(slot);
        if offset == 0 { name } else { format!("{name}{offset:+}") }
    }

    fn slot(&self, slot: SlotId) -> String {
        let name = self.function.slots.get(slot.0 as usize).map_or("slot?", |slot| slot.name);
        format!("{name}{}", slot.0)
    }
}

/// Prints a terminator.
pub(super) fn print_end(end: &Terminator) -> String {
    match end {
        Terminator::Jump(to) => format!("goto b{}", to.0),
        Terminator::Return(value) => format!("return {value}"),
        Terminator::Branch { op, width, a, b, then, otherwise, likely } => {
            let likely = match likely {
                Likely::Then => " (likely)",
                Likely::Otherwise => " (unlikely)",
                Likely::Unknown => "",
            };
            format!(
                "if {} {}{} {} goto b{} else b{}{likely}",
                operand(*a),
                cmp_name(*op),
                suffix(*width),
                operand(*b),
                then.0,
                otherwise.0
            )
        }
    }
}

fn reg(reg: VReg) -> String {
    format!("%{}", reg.0)
}

fn result(dst: Option<VReg>) -> String {
    dst.map_or(String::new(), |dst| format!("{} = ", reg(dst)))
}

/// Large constants are printed in hexadecimal, because they are usually bit patterns.
fn operand(operand: Operand) -> String {
    match operand {
        Operand::Reg(register) => reg(register),
        Operand::Imm(value) if value.unsigned_abs() < 0x10_0000 => value.to_string(),
        Operand::Imm(value) => format!("{value:#x}"),
    }
}

fn suffix(width: Width) -> &'static str {
    match width {
        Width::W32 => "32",
        Width::W64 => "",
    }
}

fn bin_name(op: BinOp) -> &'static str {
    match op {
        BinOp::Add => "add",
        BinOp::Sub => "sub",
        BinOp::Mul => "mul",
        BinOp::Div => "div",
        BinOp::Mod => "mod",
        BinOp::And => "and",
        BinOp::Or => "or",
        BinOp::Xor => "xor",
        BinOp::Shl => "shl",
        BinOp::Shr => "shr",
        BinOp::Sar => "sar",
    }
}

/// Comparison operator; a 32-bit comparison is printed as `<32`, a signed one as `<s`.
fn cmp_name(op: CmpOp) -> &'static str {
    match op {
        CmpOp::Eq => "==",
        CmpOp::Ne => "!=",
        CmpOp::Lt => "<",
        CmpOp::Le => "<=",
        CmpOp::Gt => ">",
        CmpOp::Ge => ">=",
        CmpOp::SLt => "<s",
        CmpOp::SLe => "<=s",
        CmpOp::SGt => ">s",
        CmpOp::SGe => ">=s",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::build::FunctionBuilder;
    use crate::ir::{MapId, Size};
    use crate::source::Span;

    fn sample() -> Program {
        let mut b = FunctionBuilder::new("on_switch", "tp/sched/sched_switch", Span::default());
        b.set_context_size(64);
        let key = b.slot(8, 8, "key");
        let ctx = b.context();
        let pid = b.load(Addr::reg(ctx, 8), Size::B4);
        let pid = b.extend(pid, Size::B4, true);
        b.store(Addr::slot(key, 0), pid, Size::B8);
        let value = b.call(Helper::MapLookupElem, &[MapId(0).into(), key.into()]);
        let (hit, end) = (b.new_block(), b.new_block());
        b.branch(CmpOp::Ne, Width::W64, value, 0, hit, end, Likely::Then);
        b.switch_to(hit);
        let one = b.copy(1);
        b.atomic_add(Addr::reg(value, 8), one, Size::B8);
        let text = b.data_addr(Section::Rodata, 2);
        let big = b.bin(BinOp::Mul, Width::W32, text, 1 << 40);
        b.set(CmpOp::SLe, Width::W32, big, -1);
        b.jump(end);
        b.switch_to(end);
        b.ret(0);
        Program {
            functions: vec![b.finish()],
            subprograms: Vec::new(),
            maps: vec![Map {
                name: "at_n".into(),
                kind: MapKind::LruHash,
                key_size_bytes: 8,
                value_size_bytes: 16,
                max_entries: 4096,
                no_prealloc: true,
            }],
            rodata_names: Vec::new(),
            rodata: b"hi\0".to_vec(),
            bss_size_bytes: 64,
            kernel_functions: Vec::new(),
        }
    }

    #[test]
    fn a_program_reads_well() {
        let expected = "\
map @at_n: lru_hash, key 8, value 16, 4096 entries, on demand
rodata \"hi\\x00\"
bss 64 bytes

fn on_switch (tp/sched/sched_switch), context 64 bytes {
    slot key0: 8 align 8
b0:
    %0 = context
    %1 = load4 [%0+8]
    %2 = sext4 %1
    store8 [key0] = %2
    %3 = call map_lookup_elem(@at_n, &key0)
    if %3 != 0 goto b1 else b2 (likely)
b1:
    %4 = 1
    atomic_add8 [%3+8], %4
    %5 = &rodata+2
    %6 = mul32 %5, 0x10000000000
    %7 = %6 <=s32 -1
    goto b2
b2:
    return 0
}
";
        assert_eq!(print(&sample()), expected);
    }

    #[test]
    fn helpers_have_the_kernels_names() {
        assert_eq!(helper_name(Helper::GetPrandomU32), "get_prandom_u32");
        assert_eq!(helper_name(Helper::GetNsCurrentPidTgid), "get_ns_current_pid_tgid");
    }
}
