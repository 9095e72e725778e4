//! The parts of an ELF file that unwinding needs.
//!
//! In: the bytes of a file. Out: [`Sections`].
//! Guarantee: only headers and the sections of call-frame information are read, and the
//! instructions that are asked for. A file that is not
//! for x86-64 gives nothing.

use gimli::BaseAddresses;
use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable};
use serde::{Deserialize, Serialize};

type Header = FileHeader64<LittleEndian>;

/// Granularity of mappings.
const PAGE_BYTES: u64 = 4096;

/// The call-frame information of a file and the places of its code.
#[derive(Debug, Default)]
pub(super) struct Sections<'data> {
    /// The contents of `.eh_frame`; empty without it.
    pub eh_frame: &'data [u8],
    /// The contents of `.debug_frame`; empty without it.
    pub debug_frame: &'data [u8],
    /// The addresses to which pointers in these sections are relative.
    pub bases: BaseAddresses,
    /// Where the program begins; 0 if it does not say.
    pub entry: u64,
    pub code: Vec<CodeSegment>,
}

/// A part of a file that is loaded as code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CodeSegment {
    pub address: u64,
    pub file_offset: u64,
    pub size_bytes: u64,
}

impl<'data> Sections<'data> {
    /// Finds the parts; `None` if this is not an ELF file for x86-64.
    pub(super) fn find<Bytes: ReadRef<'data>>(data: Bytes) -> Option<Sections<'data>> {
        let header = Header::parse(data).ok()?;
        if header.e_machine(LittleEndian) != elf::EM_X86_64 {
            return None;
        }
        let mut found =
            Sections { code: code(header, data)?, entry: header.e_entry(LittleEndian), ..Sections::default() };
        let Ok(table) = header.sections(LittleEndian, data) else { return Some(found) };
        let address = |name: &[u8]| Some(table.section_by_name(LittleEndian, name)?.1.sh_addr(LittleEndian));
        if let Some((address, bytes)) = contents(&table, data, b".eh_frame") {
            found.eh_frame = bytes;
            found.bases = found.bases.set_eh_frame(address);
        }
        found.debug_frame = contents(&table, data, b".debug_frame").map_or(&[], |(_, bytes)| bytes);
        if let Some(text) = address(b".text") {
            found.bases = found.bases.set_text(text);
        }
        if let Some(got) = address(b".got") {
            found.bases = found.bases.set_got(got);
        }
        Some(found)
    }

    /// Instructions from an address in the file on; `None` if they are not all in one part.
    pub(super) fn instructions<Bytes: ReadRef<'data>>(
        &self,
        data: Bytes,
        address: u64,
        size_bytes: u64,
    ) -> Option<&'data [u8]> {
        self.code.iter().find_map(|code| {
            let within = address.checked_sub(code.address)?;
            let is_inside = within.checked_add(size_bytes)? <= code.size_bytes;
            data.read_bytes_at(code.file_offset.checked_add(within)?, size_bytes).ok().filter(|_| is_inside)
        })
    }
}

fn code<'data, Bytes: ReadRef<'data>>(header: &Header, data: Bytes) -> Option<Vec<CodeSegment>> {
    let is_code = |part: &&elf::ProgramHeader64<LittleEndian>| {
        part.p_type(LittleEndian) == elf::PT_LOAD && part.p_flags(LittleEndian) & elf::PF_X != 0
    };
    let segment = |part: &elf::ProgramHeader64<LittleEndian>| CodeSegment {
        address: part.p_vaddr(LittleEndian),
        file_offset: part.p_offset(LittleEndian),
        size_bytes: part.p_filesz(LittleEndian),
    };
    Some(header.program_headers(LittleEndian, data).ok()?.iter().filter(is_code).map(segment).collect())
}

/// Address and bytes of a section; `None` if it is missing or compressed.
fn contents<'data, Bytes: ReadRef<'data>>(
    table: &SectionTable<'data, Header, Bytes>,
    data: Bytes,
    name: &[u8],
) -> Option<(u64, &'data [u8])> {
    let (_, section) = table.section_by_name(LittleEndian, name)?;
    let is_compressed = section.sh_flags(LittleEndian) & u64::from(elf::SHF_COMPRESSED) != 0;
    let bytes = section.data(LittleEndian, data).ok().filter(|_| !is_compressed)?;
    Some((section.sh_addr(LittleEndian), bytes))
}

impl CodeSegment {
    /// How many bytes of a mapping, given by the offsets of its start and end in the file, are this
    /// segment's. Whole pages are mapped.
    pub(super) fn overlap_bytes(&self, start: u64, end: u64) -> u64 {
        let first = self.file_offset & !(PAGE_BYTES - 1);
        let last = self.file_offset.saturating_add(self.size_bytes);
        let last = last.checked_next_multiple_of(PAGE_BYTES).unwrap_or(last);
        last.min(end).saturating_sub(first.max(start))
    }

    /// The address in the file of a position in it, which may be in the segment's first page before
    /// the segment.
    pub(super) fn address_at(&self, file_offset: u64) -> u64 {
        file_offset.wrapping_sub(self.file_offset).wrapping_add(self.address)
    }
}
