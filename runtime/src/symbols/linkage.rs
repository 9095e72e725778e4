//! Names for the entries of procedure linkage tables, through which functions of other files are
//! called.
//!
//! In: the sections of an ELF file for x86-64. Out: each entry as a symbol, with the name of the
//! function that it leads to.
//! Guarantee: a damaged or malicious file yields wrong names or none; at most [`MAX_ENTRIES`]
//! entries are read.
//!
//! Linkers write no symbols for them. An entry jumps to where a word of `.got` leads, or pushes the
//! number of a relocation; relocations say which function belongs to a word (System V ABI, AMD64
//! supplement, section 5.2).

use std::collections::HashMap;

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, Rela as _, SectionHeader as _, SectionTable, Sym as _, SymbolTable};
use object::read::{ReadRef, SymbolIndex};

use super::image::Symbol;

/// Limit of entries, of relocations of functions, and of a section with either in bytes.
const MAX_ENTRIES: usize = 1 << 16;
const MAX_SECTION_BYTES: u64 = 1 << 20;

/// Size in bytes of an entry; in `.plt.got`, it is half of that if it has no landing instruction.
const ENTRY_BYTES: u64 = 16;
/// `endbr64`, where indirect jumps may lead.
const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// `bnd`, a prefix of jumps.
const BOUND: u8 = 0xf2;
/// `jmp *DISTANCE(%rip)`, before the distance.
const JUMP: [u8; 2] = [0xff, 0x25];
/// `push $NUMBER`, before the number.
const PUSH: u8 = 0x68;

/// What the relocations of functions say: indexes of their symbols.
#[derive(Default)]
struct Relocations {
    /// By the address of the word.
    by_word: HashMap<u64, SymbolIndex>,
    /// Of `.rela.plt`, by their number.
    by_number: Vec<SymbolIndex>,
}

/// The entries of all tables, in no order. Their names are those of the dynamic symbols.
pub(super) fn entries<'data, Elf: FileHeader<Endian = Endianness>, Bytes: ReadRef<'data>>(
    (header, endian, data): (&Elf, Endianness, Bytes),
    sections: &SectionTable<'data, Elf, Bytes>,
    functions: &SymbolTable<'data, Elf, Bytes>,
) -> Vec<Symbol> {
    let mut entries = Vec::new();
    if header.e_machine(endian) != elf::EM_X86_64 {
        return entries;
    }
    let relocations = relocations(endian, data, sections);
    for (name, least_bytes) in [(&b".plt"[..], ENTRY_BYTES), (b".plt.sec", ENTRY_BYTES), (b".plt.got", ENTRY_BYTES / 2)]
    {
        let Some((_, section)) = sections.section_by_name(endian, name) else { continue };
        let Some(bytes) = small(section.sh_size(endian).into()).and_then(|()| section.data(endian, data).ok()) else {
            continue;
        };
        let has_landings = bytes.starts_with(&LANDING);
        let size_bytes = if has_landings { ENTRY_BYTES } else { least_bytes };
        let start: u64 = section.sh_addr(endian).into();
        let each = bytes.chunks_exact(size_bytes as usize).zip((start..).step_by(size_bytes as usize));
        let found = each.filter_map(|(code, address)| {
            let symbol = functions.symbol(relocations.function(code, address)?).ok()?;
            Some(Symbol { address, size_bytes: size_bytes as u32, name_offset: symbol.st_name(endian) })
        });
        entries.extend(found.take(MAX_ENTRIES - entries.len()));
    }
    entries
}

fn relocations<'data, Elf: FileHeader<Endian = Endianness>, Bytes: ReadRef<'data>>(
    endian: Endianness,
    data: Bytes,
    sections: &SectionTable<'data, Elf, Bytes>,
) -> Relocations {
    let mut found = Relocations::default();
    for section in sections.iter().filter(|section| small(section.sh_size(endian).into()).is_some()) {
        let Ok(Some((all, _))) = section.rela(endian, data) else { continue };
        let is_of_functions = sections.section_name(endian, section).is_ok_and(|name| name == b".rela.plt");
        for relocation in all {
            let symbol = SymbolIndex(relocation.r_sym(endian, false) as usize);
            if found.by_word.len() >= MAX_ENTRIES || found.by_number.len() >= MAX_ENTRIES {
                return found;
            }
            if is_of_functions {
                found.by_number.push(symbol);
            }
            if matches!(relocation.r_type(endian, false), elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT) {
                found.by_word.insert(relocation.r_offset(endian).into(), symbol);
            }
        }
    }
    found
}

fn small(size_bytes: u64) -> Option<()> {
    (size_bytes <= MAX_SECTION_BYTES).then_some(())
}

impl Relocations {
    /// The function to which an entry leads.
    fn function(&self, code: &[u8], address: u64) -> Option<SymbolIndex> {
        let jump = code.strip_prefix(&LANDING).unwrap_or(code);
        let jump = jump.strip_prefix(&[BOUND]).unwrap_or(jump);
        if let Some((distance, rest)) = jump.strip_prefix(&JUMP).and_then(|operand| operand.split_first_chunk()) {
            let after = address + (code.len() - rest.len()) as u64;
            return self.by_word.get(&after.wrapping_add_signed(i32::from_le_bytes(*distance).into())).copied();
        }
        let number = jump.strip_prefix(&[PUSH])?.first_chunk()?;
        self.by_number.get(u32::from_le_bytes(*number) as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_leads_to_the_function_of_its_relocation() {
        let relocations = Relocations {
            by_word: HashMap::from([(0x4000, SymbolIndex(5)), (0x4008, SymbolIndex(6))]),
            by_number: vec![SymbolIndex(5), SymbolIndex(6)],
        };
        let jump = |distance: i32| [&JUMP[..], &distance.to_le_bytes()].concat();
        let push = |number: u32| [&[PUSH][..], &number.to_le_bytes(), &[0xe9, 0, 0, 0, 0]].concat();
        let found = |code: &[&[u8]]| relocations.function(&code.concat(), 0x1000).map(|function| function.0);
        assert_eq!(found(&[&jump(0x2ffa), &push(0)]), Some(5));
        assert_eq!(found(&[&LANDING, &jump(0x2ffe)]), Some(6));
        assert_eq!(found(&[&LANDING, &[BOUND], &jump(0x2ffd)]), Some(6));
        assert_eq!(found(&[&LANDING, &push(1)]), Some(6));
        assert_eq!(found(&[&push(2)]), None);
        assert_eq!(found(&[&jump(0)]), None);
        assert_eq!(found(&[&LANDING, &[BOUND], &JUMP]), None);
        assert_eq!(found(&[]), None);
    }
}
