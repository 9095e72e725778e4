//! Corrupts objects on purpose, as a compiler bug would.
//!
//! In: an object of the compiler, the program, and what to break in it. Out: the object, and the
//! index of the broken instruction.
//! Guarantee: one instruction changes and none moves, so everything known about the others stays
//! true.

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

const INSN_BYTES: usize = 8;

/// Instruction codes, as in the kernel's `bpf.h`.
const CALL: u8 = 0x85;
const MOV_REGISTER: u8 = 0xbf;
const JUMP: u8 = 0x05;
const JUMP_EQUAL: u8 = 0x15;
const JUMP_NOT_EQUAL: u8 = 0x55;
const LOAD: u8 = 0x79;
const STORE_REGISTER: u8 = 0x7b;
const LOAD_ADDRESS: u8 = 0x18;
const LOOKUP: i32 = 1;

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// The null check after the first lookup compares with another value.
    NullCheck,
    /// A store to the stack goes below the stack.
    StackBounds,
    /// The first instruction that is not an address load reads an uninitialized register.
    Register,
    /// The first lookup calls this helper instead.
    Helper(i32),
    /// The first instruction that is not an address load jumps out of the program.
    Jump,
    /// The last instruction but one reads from below the stack.
    End,
}

/// Breaks one instruction of a program; returns its index.
pub fn break_object(elf: &mut [u8], program: &str, what: Break) -> usize {
    let (start, len) = place(elf, program);
    let code = &mut elf[start..start + len];
    let mut insns: Vec<&mut [u8]> = code.chunks_exact_mut(INSN_BYTES).collect();
    let immediate = |insn: &[u8]| i32::from_le_bytes([insn[4], insn[5], insn[6], insn[7]]);
    let lookup = insns.iter().position(|insn| insn[0] == CALL && immediate(insn) == LOOKUP);
    // An address load takes two instructions and has a relocation, which fits no other instruction.
    let first = insns.iter().step_by(2).take_while(|insn| insn[0] == LOAD_ADDRESS).count() * 2;
    match what {
        Break::NullCheck => {
            let call = lookup.expect("a look-up");
            let is_check = |insn: &[u8]| {
                matches!(insn[0], JUMP_EQUAL | JUMP_NOT_EQUAL) && insn[1].is_multiple_of(16) && immediate(insn) == 0
            };
            let at = call + insns[call..].iter().position(|insn| is_check(insn)).expect("a test for null");
            // No pointer is 1, but the verifier follows both branches.
            insns[at][4] = 1;
            at
        }
        Break::StackBounds => {
            let to_stack = |insn: &[u8]| insn[0] == STORE_REGISTER && insn[1] % 16 == 10;
            let at = insns.iter().position(|insn| to_stack(insn)).expect("a store to the stack");
            insns[at][2..4].copy_from_slice(&(-520i16).to_le_bytes());
            at
        }
        Break::Register => {
            insns[first].copy_from_slice(&[MOV_REGISTER, 9 << 4 | 6, 0, 0, 0, 0, 0, 0]);
            first
        }
        Break::Helper(number) => {
            let at = lookup.expect("a look-up");
            insns[at][4..8].copy_from_slice(&number.to_le_bytes());
            at
        }
        Break::End => {
            let at = insns.len() - 2;
            insns[at].copy_from_slice(&[LOAD, 10 << 4, 0xf8, 0xfd, 0, 0, 0, 0]);
            at
        }
        Break::Jump => {
            insns[first].copy_from_slice(&[JUMP, 0, 0x30, 0x75, 0, 0, 0, 0]);
            first
        }
    }
}

/// The file offset and size of a program's instructions.
fn place(elf: &[u8], program: &str) -> (usize, usize) {
    let file = object::File::parse(elf).expect("an ELF file");
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(program)).expect("the program");
    let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok()).expect("its section");
    let (start, _) = section.file_range().expect("bytes");
    ((start + symbol.address()) as usize, symbol.size() as usize)
}
