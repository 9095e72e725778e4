//! The parts of an ELF file that unwinding needs.
//!
//! In: the bytes of a file. Out: [`Sections`].
//! Guarantee: only headers and the sections of call-frame information are read, and the
//! instructions that are asked for. A file that is not
//! for x86-64 gives nothing.

use std::borrow::Cow;

use gimli::BaseAddresses;
use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{CompressionHeader as _, FileHeader, ProgramHeader, SectionHeader, SectionTable};
use serde::{Deserialize, Serialize};

use crate::host::budget::Reserved;
use crate::host::inflate::inflate;

type Header = FileHeader64<LittleEndian>;

/// Granularity of mappings.
const PAGE_BYTES: u64 = 4096;

/// The call-frame information of a file and the places of its code.
#[derive(Debug, Default)]
pub(super) struct Sections<'data> {
    /// The contents of `.eh_frame`; empty without it.
    pub eh_frame: &'data [u8],
    /// The contents of `.debug_frame`; empty without it, or without memory for it.
    pub debug_frame: Cow<'data, [u8]>,
    /// The addresses to which pointers in these sections are relative.
    pub bases: BaseAddresses,
    /// Where the program begins; 0 if it does not say.
    pub entry: u64,
    pub code: Vec<CodeSegment>,
    /// For what was decompressed.
    pub reserved: Reserved,
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
        if let Some((_, section)) = table.section_by_name(LittleEndian, b".eh_frame") {
            found.eh_frame = section.data(LittleEndian, data).unwrap_or_default();
            found.bases = found.bases.set_eh_frame(section.sh_addr(LittleEndian));
        }
        found.debug_frame = debug_frame(&table, data, &mut found.reserved).unwrap_or_default();
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

/// The contents of `.debug_frame`, for which memory is reserved if they are compressed, as Go's
/// linker writes them.
fn debug_frame<'data, Bytes: ReadRef<'data>>(
    table: &SectionTable<'data, Header, Bytes>,
    data: Bytes,
    reserved: &mut Reserved,
) -> Option<Cow<'data, [u8]>> {
    let (_, section) = table.section_by_name(LittleEndian, b".debug_frame")?;
    let Some((header, offset, size_bytes)) = section.compression(LittleEndian, data).ok()? else {
        return section.data(LittleEndian, data).ok().map(Cow::Borrowed);
    };
    let unpacked_bytes = usize::try_from(header.ch_size(LittleEndian)).ok()?;
    if header.ch_type(LittleEndian) != elf::ELFCOMPRESS_ZLIB || !reserved.grow(unpacked_bytes) {
        return None;
    }
    inflate(data.read_bytes_at(offset, size_bytes).ok()?, unpacked_bytes).map(Cow::Owned)
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
