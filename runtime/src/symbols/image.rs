//! Function symbols of an ELF file, by file offset.
//!
//! In: an executable or shared library. Out: the symbol that contains a file offset; without one,
//! where the function begins.
//! Guarantee: a damaged or malicious file yields wrong names or none; sizes are bounded before
//! anything is read. Names stay in the file until they are asked for: they take up to nine tenths
//! of a table, and a run prints few of them.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use object::Endianness;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{FileHeader, ProgramHeader as _, SectionHeader as _, SectionTable, Sym as _};

use super::linkage;
use super::packed::PackedSymbols;
use crate::host::bounded::MAX_SYMBOLS;
use crate::host::budget::Reserved;
use crate::host::demangle::MAX_NAME_BYTES;

/// Number of preceding symbols searched for an outer function that contains nested ones.
const MAX_NESTED: usize = 16;

/// Encodings of pointers in `.eh_frame_hdr`, as DWARF defines them.
const DW_EH_PE_UDATA4: u8 = 0x03;
const DW_EH_PE_DATAREL_SDATA4: u8 = 0x3b;

/// The symbols of a file.
#[derive(Debug, Default)]
pub struct Image {
    segments: Vec<Segment>,
    /// The full symbol table, the dynamic symbol table, the procedure linkage tables, and the full
    /// symbol table of a separate debug file.
    tables: Vec<SymbolTable>,
    /// Where functions begin, if the file has no full symbol table.
    functions: Option<Functions>,
    /// A symbol table that is compressed in the file, if it has no full one.
    packed: Option<PackedSymbols>,
    /// Whether the file has more symbols than the limit, or than there is memory for.
    pub is_too_large: bool,
}

/// Where the bytes of a file are.
#[derive(Debug, Clone)]
pub enum Contents {
    /// In an open file.
    File(Arc<File>),
    /// In memory.
    Bytes(Arc<[u8]>),
}

impl Contents {
    /// The bytes of a range, as far as they are there.
    fn read(&self, offset: u64, size_bytes: usize) -> Vec<u8> {
        match self {
            Contents::File(file) => {
                let mut bytes = vec![0; size_bytes];
                let length = file.read_at(&mut bytes, offset).unwrap_or(0);
                bytes.truncate(length);
                bytes
            }
            Contents::Bytes(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
                rest[..rest.len().min(size_bytes)].to_vec()
            }
        }
    }
}

/// A loaded segment of the file.
#[derive(Debug)]
struct Segment {
    address: u64,
    size_bytes: u64,
    file_offset: u64,
}

/// Addresses of functions, sorted, from the unwind information: `strip` leaves that.
#[derive(Debug)]
struct Functions {
    addresses: Vec<u64>,
    _reserved: Reserved,
}

#[derive(Debug)]
struct SymbolTable {
    /// Sorted by address; at equal addresses the longest first.
    symbols: Vec<Symbol>,
    /// Offset and size of the names in the file.
    strings: (u64, u64),
    /// What follows each name.
    suffix: &'static [u8],
    is_dynamic: bool,
    /// The file with the names, if it is not the one with the code.
    names_in: Option<Arc<File>>,
    _reserved: Reserved,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Symbol {
    pub address: u64,
    /// Functions are smaller than 4 GiB: larger objects have no code. Assembly often states no
    /// size: such a symbol extends to the next one in its section, or in the dynamic table, which
    /// is too sparse for that, over one byte.
    pub size_bytes: u32,
    pub name_offset: u32,
}

/// A symbol and the distance of an offset from its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedAddress<'a> {
    /// As in the file, at most one byte longer than the limit for names.
    pub name: Cow<'a, [u8]>,
    /// Bytes from the start of the symbol.
    pub offset: u64,
}

impl Image {
    /// Parses the symbols of a file's bytes; empty if it is not an ELF file.
    pub fn parse<'data, Bytes: ReadRef<'data>>(data: Bytes) -> Image {
        let image = match data.read_at::<u8>(4) {
            Ok(&elf::ELFCLASS64) => read::<FileHeader64<Endianness>, Bytes>(data),
            Ok(&elf::ELFCLASS32) => read::<FileHeader32<Endianness>, Bytes>(data),
            _ => return Image::default(),
        };
        image.unwrap_or_default()
    }

    /// Adds the full symbol table of the separate debug file of this file.
    pub(crate) fn add_symbols_of(&mut self, debug_file: Image, file: &Arc<File>) {
        let tables = debug_file.tables.into_iter().filter(|table| !table.is_dynamic);
        self.tables.extend(tables.map(|table| SymbolTable { names_in: Some(Arc::clone(file)), ..table }));
        self.is_too_large |= debug_file.is_too_large;
    }

    /// Adds the symbol table that is compressed in this file.
    pub(super) fn add_packed(&mut self, packed: Option<PackedSymbols>) {
        self.packed = packed;
    }

    /// The address, as in the file's headers, of what is at a file offset.
    pub(crate) fn address_of(&self, file_offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let within = file_offset.checked_sub(segment.file_offset)?;
            (within < segment.size_bytes).then(|| segment.address.checked_add(within))?
        })
    }

    /// The symbol at a file offset; `file` is the file whose symbols these are.
    pub fn find(&self, file_offset: u64, file: &Contents) -> Option<NamedAddress<'static>> {
        let address = self.address_of(file_offset)?;
        let in_tables = || self.tables.iter().find_map(|table| table.find(address, file));
        in_tables().or_else(|| self.packed.as_ref()?.find(address))
    }

    /// The file offset of the last function that begins at or before a file offset.
    pub(crate) fn function_at(&self, file_offset: u64) -> Option<u64> {
        let address = self.address_of(file_offset)?;
        let functions = &self.functions.as_ref()?.addresses;
        let after = functions.partition_point(|function| *function <= address);
        let function = functions.get(after.checked_sub(1)?)?;
        file_offset.checked_sub(address - function)
    }

    /// Approximate memory use in bytes.
    pub fn size_bytes(&self) -> usize {
        let table = |table: &SymbolTable| table.symbols.len() * size_of::<Symbol>();
        let tables = self.tables.iter().map(table).sum::<usize>();
        size_of::<Image>()
            + self.segments.len() * size_of::<Segment>()
            + tables
            + self.functions.as_ref().map_or(0, |functions| size_of_val(&*functions.addresses))
            + self.packed.as_ref().map_or(0, PackedSymbols::size_bytes)
    }
}

impl SymbolTable {
    fn find(&self, address: u64, file: &Contents) -> Option<NamedAddress<'static>> {
        let end = self.symbols.partition_point(|symbol| symbol.address <= address);
        let nearest = self.symbols.get(end.checked_sub(1)?)?.address;
        let start = self.symbols[..end].partition_point(|symbol| symbol.address < nearest);
        let here = self.symbols[start..end].iter();
        let around = self.symbols[..start].iter().rev().take(MAX_NESTED);
        let holds = |symbol: &&Symbol| address - symbol.address < u64::from(symbol.size_bytes);
        here.chain(around).filter(holds).find_map(|symbol| {
            let name = Cow::Owned(self.name(symbol, file)?);
            Some(NamedAddress { name, offset: address - symbol.address })
        })
    }

    fn name(&self, symbol: &Symbol, file: &Contents) -> Option<Vec<u8>> {
        let (start, size_bytes) = self.strings;
        let left_bytes = size_bytes.checked_sub(symbol.name_offset.into())?.min(MAX_NAME_BYTES as u64 + 1);
        let offset = start.checked_add(symbol.name_offset.into())?;
        let separate = self.names_in.clone().map(Contents::File);
        let mut name = separate.as_ref().unwrap_or(file).read(offset, left_bytes as usize);
        name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
        (!name.is_empty()).then(|| [&name, self.suffix].concat())
    }
}

fn read<'data, Elf: FileHeader<Endian = Endianness>, Bytes: ReadRef<'data>>(data: Bytes) -> Option<Image> {
    let header = Elf::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let loaded = header.program_headers(endian, data).ok()?.iter().filter(|part| part.p_type(endian) == elf::PT_LOAD);
    let mut segments: Vec<(bool, Segment)> = loaded
        .map(|part| {
            let segment = Segment {
                address: part.p_vaddr(endian).into(),
                size_bytes: part.p_filesz(endian).into(),
                file_offset: part.p_offset(endian).into(),
            };
            (part.p_flags(endian) & elf::PF_X == 0, segment)
        })
        .collect();
    // A page at the boundary of two segments belongs to both: code is what callers look for.
    segments.sort_by_key(|(is_data, _)| *is_data);
    let mut image = Image {
        segments: segments.into_iter().map(|(_, segment)| segment).collect(),
        tables: Vec::new(),
        functions: None,
        packed: None,
        is_too_large: false,
    };
    let sections = header.sections(endian, data).ok()?;
    for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        match read_table::<Elf, Bytes>(endian, data, &sections, kind) {
            Some(table) => image.tables.push(table),
            None => image.is_too_large |= sections.iter().any(|section| section.sh_type(endian) == kind),
        }
    }
    image.tables.extend(linkage_table((header, endian, data), &sections));
    if image.tables.iter().all(|table| table.is_dynamic || table.symbols.is_empty()) {
        let parts = header.program_headers(endian, data).ok()?;
        let unwind = parts.iter().find(|part| part.p_type(endian) == elf::PT_GNU_EH_FRAME);
        let found =
            unwind.and_then(|part| function_addresses(part.data(endian, data).ok()?, part.p_vaddr(endian).into()));
        image.functions = found
            .and_then(|addresses| Some(Functions { _reserved: Reserved::new(size_of_val(&*addresses))?, addresses }));
    }
    Some(image)
}

/// The addresses of functions in `.eh_frame_hdr`, in the only form that linkers write: pairs of 4
/// bytes, relative to this address, of little-endian files.
fn function_addresses(bytes: &[u8], address: u64) -> Option<Vec<u64>> {
    let (&[1, _, DW_EH_PE_UDATA4, DW_EH_PE_DATAREL_SDATA4], rest) = bytes.split_first_chunk()? else { return None };
    let (_, rest) = rest.split_first_chunk::<4>()?;
    let (count, pairs) = rest.split_first_chunk()?;
    let pairs = pairs.chunks_exact(8).take((u32::from_le_bytes(*count) as usize).min(MAX_SYMBOLS));
    let function = |pair: &[u8]| Some(address.wrapping_add_signed(i32::from_le_bytes(*pair.first_chunk()?).into()));
    let mut functions: Vec<u64> = pairs.filter_map(function).collect();
    functions.sort_unstable();
    Some(functions)
}

/// Reads one symbol table; `None` if it is missing or exceeds the limits.
fn read_table<'data, Elf: FileHeader<Endian = Endianness>, Bytes: ReadRef<'data>>(
    endian: Endianness,
    data: Bytes,
    sections: &SectionTable<'data, Elf, Bytes>,
    kind: u32,
) -> Option<SymbolTable> {
    let found = sections.symbols(endian, data, kind).ok()?;
    if found.len() > MAX_SYMBOLS {
        return None;
    }
    let is_code = |symbol: &&Elf::Sym| {
        matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_NOTYPE | elf::STT_OBJECT)
            && symbol.st_shndx(endian) != elf::SHN_UNDEF
    };
    let symbol = |symbol: &Elf::Sym| Symbol {
        address: symbol.st_value(endian).into(),
        size_bytes: u32::try_from(symbol.st_size(endian).into()).unwrap_or(u32::MAX),
        name_offset: symbol.st_name(endian),
    };
    let count = found.iter().filter(is_code).count();
    let reserved = Reserved::new(count * size_of::<Symbol>())?;
    let mut symbols = Vec::with_capacity(count);
    symbols.extend(found.iter().filter(is_code).map(symbol));
    symbols.sort_by_key(|symbol| (symbol.address, std::cmp::Reverse(symbol.size_bytes)));
    let is_dynamic = kind == elf::SHT_DYNSYM;
    add_sizes(&mut symbols, &if is_dynamic { Vec::new() } else { places(endian, sections) });
    let strings =
        if symbols.is_empty() { (0, 0) } else { sections.section(found.string_section()).ok()?.file_range(endian)? };
    Some(SymbolTable { symbols, strings, suffix: b"", is_dynamic, names_in: None, _reserved: reserved })
}

/// The entries through which functions of other files are called.
fn linkage_table<'data, Elf: FileHeader<Endian = Endianness>, Bytes: ReadRef<'data>>(
    file: (&Elf, Endianness, Bytes),
    sections: &SectionTable<'data, Elf, Bytes>,
) -> Option<SymbolTable> {
    let (_, endian, data) = file;
    let functions = sections.symbols(endian, data, elf::SHT_DYNSYM).ok()?;
    let mut symbols = linkage::entries(file, sections, &functions);
    symbols.sort_by_key(|symbol| symbol.address);
    let reserved = Reserved::new(symbols.len() * size_of::<Symbol>())?;
    let strings = sections.section(functions.string_section()).ok()?.file_range(endian)?;
    let table =
        SymbolTable { symbols, strings, suffix: b"@plt", is_dynamic: true, names_in: None, _reserved: reserved };
    Some(table).filter(|table| !table.symbols.is_empty())
}

/// First addresses of the sections that are loaded, and the addresses after their last ones.
fn places<'data, Elf: FileHeader<Endian = Endianness>, Bytes: ReadRef<'data>>(
    endian: Endianness,
    sections: &SectionTable<'data, Elf, Bytes>,
) -> Vec<(u64, u64)> {
    let is_loaded = |section: &&Elf::SectionHeader| section.sh_flags(endian).into() & u64::from(elf::SHF_ALLOC) != 0;
    let place = |section: &Elf::SectionHeader| {
        let start: u64 = section.sh_addr(endian).into();
        (start, start.saturating_add(section.sh_size(endian).into()))
    };
    let mut places: Vec<(u64, u64)> = sections.iter().filter(is_loaded).map(place).collect();
    places.sort_unstable();
    places
}

/// Gives a size to the symbols that have none: up to the next one in the section, or one byte if
/// they are in no section.
fn add_sizes(symbols: &mut [Symbol], places: &[(u64, u64)]) {
    let (mut next, mut after) = (u64::MAX, u64::MAX);
    for symbol in symbols.iter_mut().rev() {
        if symbol.address != next {
            (next, after) = (symbol.address, next);
        }
        if symbol.size_bytes == 0 {
            let place = places.partition_point(|(start, _)| *start <= symbol.address).checked_sub(1);
            let end = place.map_or(0, |place| places[place].1.min(after));
            let size_bytes = end.saturating_sub(symbol.address).max(1);
            symbol.size_bytes = u32::try_from(size_bytes).unwrap_or(u32::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::elf::Symbols;

    #[test]
    fn finds_what_the_other_reader_places() {
        let path = std::env::current_exe().expect("a path");
        let bytes = std::fs::read(&path).expect("readable");
        let (image, symbols) = (Image::parse(bytes.as_slice()), Symbols::read(&path).expect("an ELF file"));
        let functions = symbols.functions("*host*").expect("many");
        assert!(!image.is_too_large && functions.len() > 100);
        let file = Contents::Bytes(bytes.into());
        for function in functions.iter().filter(|function| function.size_bytes > 1) {
            let found = image.find(function.file_offset + 1, &file).expect(&function.name);
            assert_eq!(found.offset, 1, "{}", function.name);
        }
        assert_eq!(image.find(u64::MAX, &file), None);
        assert_eq!(Image::parse(b"#!/bin/sh".as_slice()).find(0, &file), None);
    }

    #[test]
    fn without_symbols_unwind_information_says_where_functions_begin() {
        let path = std::env::current_exe().expect("a path");
        let bytes = std::fs::read(&path).expect("readable");
        let symbols = Symbols::read(&path).expect("an ELF file");
        // As `strip` does: no section is a symbol table.
        let mut stripped = bytes.clone();
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes")) as usize;
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]) as usize;
        let (sections, size_bytes, count) = (word(0x28), half(0x3a), half(0x3c));
        for section in 0..count {
            let kind = sections + section * size_bytes + 4;
            if [2, 11].contains(&bytes[kind]) {
                stripped[kind] = 0;
            }
        }
        let (image, stripped) = (Image::parse(bytes.as_slice()), Image::parse(stripped.as_slice()));
        let file = Contents::Bytes(bytes.into());
        assert!(image.functions.is_none(), "symbols are better");
        for function in symbols.functions("*host*").expect("many").iter().filter(|function| function.size_bytes > 1) {
            let offset = function.file_offset + 1;
            assert_eq!(stripped.find(offset, &file), None);
            assert_eq!(stripped.function_at(offset), Some(function.file_offset), "{}", function.name);
        }
        assert_eq!(stripped.function_at(0), None);
    }

    #[test]
    fn a_damaged_table_of_functions_has_none() {
        let table = [
            &[1, 0x1b, 3, 0x3b][..],
            &[0; 4],
            &2u32.to_le_bytes(),
            &8i32.to_le_bytes(),
            &[0; 4],
            &(-8i32).to_le_bytes(),
            &[0; 4],
        ]
        .concat();
        assert_eq!(function_addresses(&table, 0x100), Some(vec![0xf8, 0x108]));
        assert_eq!(function_addresses(&table[..25], 0x100), Some(vec![0x108]), "what is there");
        assert_eq!(function_addresses(&table, 0), Some(vec![8, u64::MAX - 7]));
        for cut in 0..12 {
            assert_eq!(function_addresses(&table[..cut], 0), None);
        }
        let other = [&[1, 0x1b, 3, 0x3c][..], &table[4..]].concat();
        assert_eq!(function_addresses(&other, 0), None);
    }

    #[test]
    fn the_nearest_function_that_holds_an_address_counts() {
        let symbol = |address, size_bytes, name_offset| Symbol { address, size_bytes, name_offset };
        let file = Contents::Bytes(b"?\0outer\0inner\0bare\0?".as_slice().into());
        let symbols = [symbol(0x10, 0x100, 1), symbol(0x20, 8, 7), symbol(0x30, 0, 0), symbol(0x200, 0, 13)];
        let name = |places: &[(u64, u64)], address| {
            let mut symbols = symbols.to_vec();
            add_sizes(&mut symbols, places);
            let (strings, suffix, names_in, reserved) = ((1, 18), b"", None, Reserved::default());
            let table = SymbolTable { symbols, strings, suffix, is_dynamic: false, names_in, _reserved: reserved };
            let found = table.find(address, &file)?;
            Some(format!("{}+{}", String::from_utf8_lossy(&found.name), found.offset))
        };
        let sections = [(0x10, 0x120), (0x1f0, 0x301), (0x301, 0x400)];
        for (address, expected) in [
            (0x0f, None),
            (0x10, Some("outer+0")),
            (0x21, Some("inner+1")),
            (0x28, Some("outer+24")),
            (0x31, Some("outer+33")),
            (0x110, None),
            (0x300, Some("bare+256")),
            (0x301, None),
        ] {
            assert_eq!(name(&sections, address).as_deref(), expected, "{address:#x}");
        }
        // In no section.
        assert_eq!([name(&[], 0x200).as_deref(), name(&[], 0x201).as_deref()], [Some("bare+0"), None]);
    }

    #[test]
    fn a_symbol_without_a_size_ends_at_the_next_one_and_with_its_section() {
        let sizes = |symbols: &[(u64, u32)]| {
            let symbol = |&(address, size_bytes): &(u64, u32)| Symbol { address, size_bytes, name_offset: 0 };
            let mut symbols: Vec<Symbol> = symbols.iter().map(symbol).collect();
            add_sizes(&mut symbols, &[(0x10, 0x40), (0x100, u64::MAX)]);
            symbols.iter().map(|symbol| symbol.size_bytes).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[(0x10, 0), (0x10, 0), (0x18, 3), (0x20, 0)]), [8, 8, 3, 0x20]);
        assert_eq!(sizes(&[(0x8, 0), (0x40, 0), (0x100, 0)]), [1, 1, u32::MAX]);
    }
}
