//! Small ELF files that take much memory, for tests.
//!
//! In: sections. Out: the bytes of a file.
//! Guarantee: the files are valid; their first 8 KiB are code.

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};
use object::elf;

/// Size of the code, which starts at address 0.
const CODE_BYTES: u64 = 8 << 10;
/// Bytes that are compressed at once, of which the rest is repetitions.
const BLOCK_BYTES: usize = 1 << 20;

const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;

/// A section of a file.
pub(crate) struct Section {
    name: &'static str,
    bytes: Vec<u8>,
    kind: u32,
    flags: u64,
    link: u32,
}

/// A section with these bytes.
pub(crate) fn section(name: &'static str, bytes: Vec<u8>) -> Section {
    Section { name, bytes, kind: elf::SHT_PROGBITS, flags: 0, link: 0 }
}

/// A compressed section: `first`, then this many megabytes of the same byte.
pub(crate) fn packed(name: &'static str, first: &[u8], (byte, megabytes): (u8, usize)) -> Section {
    let size_bytes = (first.len() + megabytes * BLOCK_BYTES) as u64;
    let mut bytes = [&1_u32.to_le_bytes()[..], &[0; 4], &size_bytes.to_le_bytes(), &1_u64.to_le_bytes()].concat();
    // The head of zlib, blocks that each stand for themselves, an empty last block, no checksum.
    bytes.extend([0x78, 0x01]);
    bytes.extend(deflated(first));
    bytes.extend(deflated(&vec![byte; BLOCK_BYTES]).repeat(megabytes));
    bytes.extend([1, 0, 0, 0xff, 0xff, 0, 0, 0, 0]);
    Section { flags: elf::SHF_COMPRESSED.into(), ..section(name, bytes) }
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let without_head = -15;
    let mut compressor = CompressorOxide::new(create_comp_flags_from_zip_params(9, without_head, 0));
    let mut into = vec![0; 2 * bytes.len() + 64];
    let (status, _, length) = compress(&mut compressor, bytes, &mut into, TDEFLFlush::Full);
    assert!(matches!(status, TDEFLStatus::Okay), "{status:?}");
    into.truncate(length);
    into
}

/// A table with one function, which is all of the code, and its names, whose first is `f`.
pub(crate) fn symbols(of_names: u32) -> Section {
    let code = CODE_BYTES.to_le_bytes();
    let function = [&1_u32.to_le_bytes()[..], &[elf::STT_FUNC, 0, 1, 0], &[0; 8], &code].concat();
    let bytes = [&[0; 24][..], &function].concat();
    Section { kind: elf::SHT_SYMTAB, link: of_names, ..section(".symtab", bytes) }
}

/// The section of these names.
pub(crate) fn strings(name: &'static str, bytes: Vec<u8>) -> Section {
    Section { kind: elf::SHT_STRTAB, ..section(name, bytes) }
}

/// Debug information of one unit, which is all of the code and has the line table at 0.
pub(crate) fn unit() -> [Section; 2] {
    let abbreviation = [1, 0x11, 0, 0x11, 0x01, 0x12, 0x06, 0x10, 0x17, 0, 0, 0];
    let unit =
        [&[4, 0, 0, 0, 0, 0, 8, 1][..], &[0; 8], &(CODE_BYTES as u32).to_le_bytes(), &0_u32.to_le_bytes()].concat();
    let info = [&(unit.len() as u32).to_le_bytes()[..], &unit].concat();
    [section(".debug_abbrev", abbreviation.to_vec()), section(".debug_info", info)]
}

/// The head of a line table, for a program of this size: each byte 32 makes a row.
pub(crate) fn line_table(program_bytes: usize) -> Vec<u8> {
    let opcode_lengths = [0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1];
    let rest = [&[1, 1, 1, 0xfb, 14, 13][..], &opcode_lengths, &[0], b"a\0\0\0\0", &[0]].concat();
    let head = [&4_u16.to_le_bytes()[..], &(rest.len() as u32).to_le_bytes(), &rest].concat();
    [&((head.len() + program_bytes) as u32).to_le_bytes()[..], &head].concat()
}

/// The file with these sections, numbered from 1.
pub(crate) fn file(sections: &[Section]) -> Vec<u8> {
    let names = sections.iter().map(|section| section.name).chain([".shstrtab"]);
    let strings: Vec<u8> = names.clone().fold(vec![0], |text, name| [&text, name.as_bytes(), &[0]].concat());
    let mut contents = Vec::new();
    let mut table = vec![0; 64];
    let mut name_at = 1_u32;
    let last = self::strings(".shstrtab", strings);
    for section in sections.iter().chain([&last]) {
        let offset = (HEADER_BYTES + SEGMENT_BYTES + contents.len()) as u64;
        contents.extend(&section.bytes);
        table.extend([name_at, section.kind].iter().flat_map(|word| word.to_le_bytes()));
        let size_bytes = section.bytes.len() as u64;
        table.extend([section.flags, 0, offset, size_bytes].iter().flat_map(|word| word.to_le_bytes()));
        table.extend([section.link, 0].iter().flat_map(|word| word.to_le_bytes()));
        table.extend(
            [1, if section.kind == elf::SHT_SYMTAB { 24 } else { 0 }].iter().flat_map(|word: &u64| word.to_le_bytes()),
        );
        name_at += section.name.len() as u32 + 1;
    }
    let table_at = (HEADER_BYTES + SEGMENT_BYTES + contents.len()) as u64;
    let (count, last) = (sections.len() as u16 + 2, sections.len() as u16 + 1);
    let mut header = [&[0x7f, b'E', b'L', b'F', 2, 1, 1][..], &[0; 9]].concat();
    header.extend([elf::ET_DYN, elf::EM_X86_64, 1, 0].iter().flat_map(|half| half.to_le_bytes()));
    header.extend([0, HEADER_BYTES as u64, table_at].iter().flat_map(|word| word.to_le_bytes()));
    let halves = [0, 0, HEADER_BYTES as u16, SEGMENT_BYTES as u16, 1, 64, count, last];
    header.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
    let mut segment = [elf::PT_LOAD, elf::PF_R | elf::PF_X].map(u32::to_le_bytes).concat();
    segment.extend([0, 0, 0, CODE_BYTES, CODE_BYTES, 1].iter().flat_map(|word: &u64| word.to_le_bytes()));
    [header, segment, contents, table].concat()
}
