//! Checks the guarantees of the IR.
//!
//! In: any program. Out: nothing, or every violation with its location. Does not panic on any
//! program.
//! Guarantees of a program that passes: those in the head of [`ir`](super), and: stack accesses are
//! naturally aligned, addresses of data sections lie inside their section, operations have a
//! supported size, helpers get maps of the kind they work on.

mod access;
mod assigned;
#[cfg(test)]
mod tests;

use super::print::{print_end, print_inst};
use super::{BinOp, Block, BlockId, Function, Inst, Map, MapKind, Program, Role, Section, Size, VReg};

/// Checks the whole program.
pub fn verify(program: &Program) -> Result<(), Vec<String>> {
    let mut broken = Vec::new();
    for (index, map) in program.maps.iter().enumerate() {
        let earlier = &program.maps[..index];
        broken.extend(map_faults(map, earlier).iter().map(|w| format!("map @{}: {w}", map.name)));
    }
    let subprograms = (0..).zip(&program.subprograms).map(|(id, function)| (id, false, function));
    // A program may refer to all subprograms.
    let programs = program.functions.iter().map(|function| (program.subprograms.len() as u32, true, function));
    let mut names: Vec<&str> = Vec::new();
    for (may_name, is_program, function) in subprograms.chain(programs) {
        if names.contains(&function.name.as_str()) {
            broken.push(format!("fn {}: there are two of this name", function.name));
        }
        names.push(&function.name);
        if is_program != (function.role == Role::Program) {
            broken.push(format!("fn {}: a program is no subprogram", function.name));
        }
        let mut check = Check { program, function, may_name, broken: Vec::new() };
        check.function();
        broken.append(&mut check.broken);
    }
    if broken.is_empty() { Ok(()) } else { Err(broken) }
}

fn map_faults(map: &Map, earlier: &[Map]) -> Vec<&'static str> {
    let mut faults = Vec::new();
    let mut rule = |holds: bool, fault: &'static str| {
        if !holds {
            faults.push(fault);
        }
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named = map.name.chars().all(is_word) && !map.name.starts_with(|c: char| c.is_ascii_digit());
    rule(named && !map.name.is_empty(), "the name is no symbol");
    rule(earlier.iter().all(|other| other.name != map.name), "there are two of this name");
    if map.kind == MapKind::RingBuf {
        let bytes = map.max_entries;
        rule(bytes.is_power_of_two() && bytes.is_multiple_of(4096), "the ring is no power of two of pages");
        rule(map.key_size_bytes == 0 && map.value_size_bytes == 0, "a ring has no key and value");
    } else {
        rule(map.key_size_bytes > 0 && map.value_size_bytes > 0, "key or value have no size");
    }
    if matches!(map.kind, MapKind::Array | MapKind::PerCpuArray | MapKind::PerfEventArray | MapKind::TaskStorage) {
        rule(map.key_size_bytes == 4, "the key of this kind has 4 bytes");
    }
    faults
}

/// One function under check.
struct Check<'a> {
    program: &'a Program,
    function: &'a Function,
    /// The function may refer only to subprograms with a smaller id than this.
    may_name: u32,
    broken: Vec<String>,
}

impl Check<'_> {
    fn function(&mut self) {
        for (index, slot) in self.function.slots.iter().enumerate() {
            if slot.size_bytes == 0 || !matches!(slot.align_bytes, 1 | 2 | 4 | 8) {
                self.fault(&format!("slot {}{index}: bad size or alignment", slot.name));
            }
        }
        if self.function.blocks.is_empty() {
            self.fault("has no blocks");
        }
        for (index, block) in self.function.blocks.iter().enumerate() {
            self.block(BlockId(index as u32), block);
        }
        // The dataflow checks need all ids to be in range.
        if self.broken.is_empty() {
            self.check_assigned();
            self.check_known_addresses();
        }
    }

    fn fault(&mut self, what: &str) {
        self.broken.push(format!("fn {}: {what}", self.function.name));
    }

    fn block(&mut self, id: BlockId, block: &Block) {
        for (inst, _) in &block.insts {
            for fault in self.inst_faults(inst) {
                self.inst_fault(id, inst, &fault);
            }
        }
        let known = |to: BlockId| (to.0 as usize) < self.function.blocks.len();
        let bad_block = !block.end.successors().all(known);
        let bad_reg = block.end.uses().into_iter().any(|reg| !self.is_reg(reg));
        let text = print_end(&block.end);
        if bad_block {
            self.fault(&format!("b{}: `{text}`: no such block", id.0));
        }
        if bad_reg {
            self.fault(&format!("b{}: `{text}`: no such register", id.0));
        }
    }

    fn inst_fault(&mut self, block: BlockId, inst: &Inst, fault: &str) {
        let text = print_inst(self.program, self.function, inst);
        self.fault(&format!("b{}: `{text}`: {fault}", block.0));
    }

    fn is_reg(&self, reg: VReg) -> bool {
        reg.0 < self.function.vregs
    }

    fn section_size_bytes(&self, section: Section) -> u32 {
        match section {
            Section::Rodata => self.program.rodata.len() as u32,
            Section::Bss => self.program.bss_size_bytes,
        }
    }

    fn inst_faults(&self, inst: &Inst) -> Vec<String> {
        let mut faults = Vec::new();
        if !inst.uses().into_iter().chain(inst.def()).all(|reg| self.is_reg(reg)) {
            faults.push("no such register".to_string());
        }
        faults.extend(self.access_faults(inst));
        faults.extend(self.call_faults(inst));
        let of_operation = match inst {
            Inst::Atomic { size, .. } if !matches!(size, Size::B4 | Size::B8) => "atomic operations have 4 or 8 bytes",
            Inst::Atomic { op, .. } if !matches!(op, BinOp::Add | BinOp::And | BinOp::Or | BinOp::Xor) => {
                "no such atomic operation"
            }
            Inst::Swap { size: Size::B1, .. } => "one byte has no other order",
            Inst::Parameter { index, .. } if *index >= self.function.role.parameters() => "no such parameter",
            Inst::Context { .. } if self.function.context_size_bytes == 0 => "the function has no context",
            Inst::DataAddr { section, offset, .. } if *offset >= self.section_size_bytes(*section) => {
                "outside the section"
            }
            Inst::Zero { size_bytes: 0, .. } | Inst::Move { size_bytes: 0, .. } => "no bytes",
            Inst::Move { align_bytes, .. } if !matches!(align_bytes, 1 | 2 | 4 | 8) => "no such alignment",
            _ => return faults,
        };
        faults.push(of_operation.to_string());
        faults
    }
}
