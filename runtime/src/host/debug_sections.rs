//! Where the debug information of an ELF file is.
//!
//! In: an executable, a shared library or a separate debug file. Out: the places of its DWARF
//! sections, and how to find its separate debug file.
//! Guarantee: only headers and notes are read; places are not checked against the file.

use gimli::{RunTimeEndian, SectionId};
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{CompressionHeader as _, FileHeader, SectionHeader as _, SectionTable};
use object::{Endian as _, Endianness};

/// The sections that lines and inlined functions come from. Those with the locations of variables
/// are left out, and so are macros and types.
const SECTIONS: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// Limit of a build id in bytes: linkers make 20, or 64 at most.
const MAX_BUILD_ID_BYTES: usize = 64;

/// The place of a section in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub offset: u64,
    pub size_bytes: u64,
    /// Size without compression by zlib; `None` if it is not compressed.
    pub unpacked_bytes: Option<u64>,
}

impl Place {
    /// Size of its contents in bytes.
    pub(crate) fn contents_bytes(&self) -> u64 {
        self.unpacked_bytes.unwrap_or(self.size_bytes)
    }
}

/// What a file says about debug information.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DebugSections {
    pub endian: RunTimeEndian,
    /// The sections that the file has.
    pub places: Vec<(SectionId, Place)>,
    /// Whether it has a full symbol table.
    pub has_symbols: bool,
    /// The place of a symbol table that was compressed by xz (`.gnu_debugdata`).
    pub packed_symbols: Option<Place>,
    /// Empty if it has none.
    pub build_id: Vec<u8>,
    pub link: Option<DebugLink>,
}

/// A reference to a separate debug file (`.gnu_debuglink`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DebugLink {
    /// The name of the file, without a directory.
    pub name: String,
    /// CRC-32 of the file.
    pub checksum: u32,
}

impl DebugSections {
    /// Reads the headers of a file; `None` if it is not an ELF file.
    pub(crate) fn parse<'data, Bytes: ReadRef<'data>>(data: Bytes) -> Option<DebugSections> {
        match data.read_at::<u8>(4) {
            Ok(&elf::ELFCLASS64) => read::<FileHeader64<Endianness>, Bytes>(data),
            Ok(&elf::ELFCLASS32) => read::<FileHeader32<Endianness>, Bytes>(data),
            _ => None,
        }
    }

    /// Whether it has information about lines.
    pub(crate) fn has_lines(&self) -> bool {
        let has = |wanted| self.places.iter().any(|(id, _)| *id == wanted);
        has(SectionId::DebugInfo) && has(SectionId::DebugLine)
    }
}

fn read<'data, Elf: FileHeader<Endian = Endianness>, Bytes: ReadRef<'data>>(data: Bytes) -> Option<DebugSections> {
    let header = Elf::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, data).ok()?;
    let mut found = DebugSections {
        endian: if endian.is_big_endian() { RunTimeEndian::Big } else { RunTimeEndian::Little },
        places: Vec::new(),
        has_symbols: false,
        packed_symbols: None,
        build_id: build_id(endian, data, &sections).unwrap_or_default(),
        link: None,
    };
    for section in sections.iter() {
        // Debug files have all sections of their program, but the others without contents.
        if section.sh_type(endian) == elf::SHT_NOBITS {
            continue;
        }
        found.has_symbols |= section.sh_type(endian) == elf::SHT_SYMTAB;
        let Ok(name) = sections.section_name(endian, section) else { continue };
        if name == b".gnu_debuglink" {
            found.link = found.link.or_else(|| link(endian, section.data(endian, data).ok()?));
        }
        if name == b".gnu_debugdata" {
            found.packed_symbols = place::<Elf, Bytes>(endian, data, section);
        }
        let wanted = |id: &&SectionId| id.name().as_bytes() == name;
        if let (Some(id), Some(place)) = (SECTIONS.iter().find(wanted), place::<Elf, Bytes>(endian, data, section)) {
            found.places.push((*id, place));
        }
    }
    Some(found)
}

/// The place of a section; `None` if it is compressed in another way than by zlib.
fn place<'data, Elf: FileHeader<Endian = Endianness>, Bytes: ReadRef<'data>>(
    endian: Endianness,
    data: Bytes,
    section: &Elf::SectionHeader,
) -> Option<Place> {
    let (offset, size_bytes) = section.file_range(endian)?;
    let Some((header, offset, size_bytes)) = section.compression(endian, data).ok()? else {
        return Some(Place { offset, size_bytes, unpacked_bytes: None });
    };
    let is_known = header.ch_type(endian) == elf::ELFCOMPRESS_ZLIB;
    is_known.then(|| Place { offset, size_bytes, unpacked_bytes: Some(header.ch_size(endian).into()) })
}

fn build_id<'data, Elf: FileHeader<Endian = Endianness>, Bytes: ReadRef<'data>>(
    endian: Endianness,
    data: Bytes,
    sections: &SectionTable<'data, Elf, Bytes>,
) -> Option<Vec<u8>> {
    for section in sections.iter() {
        let Ok(Some(mut notes)) = section.notes(endian, data) else { continue };
        while let Ok(Some(note)) = notes.next() {
            let id = note.desc();
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                return (2..=MAX_BUILD_ID_BYTES).contains(&id.len()).then(|| id.to_vec());
            }
        }
    }
    None
}

/// A name that ends with NUL, padded to four bytes, then a checksum.
fn link(endian: Endianness, section: &[u8]) -> Option<DebugLink> {
    let length = section.iter().position(|byte| *byte == 0)?;
    let name = std::str::from_utf8(section.get(..length)?).ok()?;
    let at = (length + 4) & !3;
    let checksum = endian.read_u32(section.get(at..at + 4)?.try_into().ok()?);
    let is_name = !matches!(name, "" | "." | "..") && !name.contains('/');
    is_name.then(|| DebugLink { name: name.to_owned(), checksum })
}
