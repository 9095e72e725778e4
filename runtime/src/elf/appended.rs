//! Appends a section to an object file.
//!
//! In: the bytes of a 64-bit little-endian ELF file. Out: the same file with one more section at
//! the end, or the contents of a section.
//! Guarantee: nothing else moves, so references between other sections stay valid; other bytes
//! yield `None`.

use std::ops::Range;

use object::read::elf::{ElfFile64, FileHeader as _, SectionHeader as _};
use object::{LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionKind, elf};

/// Size in bytes of a section header.
const HEADER_BYTES: usize = 64;

/// Appends a section. It has the type of a string table: libbpf logs a message about section types
/// that it does not know, but silently skips these.
pub fn append(file: &[u8], name: &str, contents: &[u8]) -> Option<Vec<u8>> {
    let header = elf::FileHeader64::<LittleEndian>::parse(file).ok()?;
    let headers_at = header.e_shoff.get(LittleEndian) as usize;
    let count = header.e_shnum.get(LittleEndian);
    let names_index = usize::from(header.e_shstrndx.get(LittleEndian));
    let sections = header.section_headers(LittleEndian, file).ok()?;
    let mut names = sections.get(names_index)?.data(LittleEndian, file).ok()?.to_vec();
    let name_at = names.len() as u32;
    names.extend_from_slice(name.as_bytes());
    names.push(0);
    let mut headers = file.get(headers_at..headers_at + usize::from(count) * HEADER_BYTES)?.to_vec();
    let mut out = file.to_vec();
    let contents_at = put(&mut out, contents);
    let table_at = put(&mut out, &names);
    let of_names = headers.get_mut(names_index * HEADER_BYTES..)?;
    of_names[24..32].copy_from_slice(&(table_at as u64).to_le_bytes());
    of_names[32..40].copy_from_slice(&(names.len() as u64).to_le_bytes());
    let mut own = [0; HEADER_BYTES];
    own[0..4].copy_from_slice(&name_at.to_le_bytes());
    own[4..8].copy_from_slice(&elf::SHT_STRTAB.to_le_bytes());
    own[24..32].copy_from_slice(&(contents_at as u64).to_le_bytes());
    own[32..40].copy_from_slice(&(contents.len() as u64).to_le_bytes());
    own[48..56].copy_from_slice(&1_u64.to_le_bytes());
    headers.extend_from_slice(&own);
    let headers_at = put(&mut out, &headers);
    out[0x28..0x30].copy_from_slice(&(headers_at as u64).to_le_bytes());
    out[0x3c..0x3e].copy_from_slice(&count.checked_add(1)?.to_le_bytes());
    Some(out)
}

/// Appends bytes at the next aligned offset and returns that offset.
fn put(out: &mut Vec<u8>, bytes: &[u8]) -> usize {
    out.resize(out.len().next_multiple_of(8), 0);
    let at = out.len();
    out.extend_from_slice(bytes);
    at
}

/// The contents of the section with this name.
pub fn section<'a>(file: &'a [u8], name: &str) -> Option<&'a [u8]> {
    ElfFile64::<LittleEndian>::parse(file).ok()?.section_by_name(name)?.data().ok()
}

/// The size of the section with this name once it is loaded.
pub fn size_bytes(file: &[u8], name: &str) -> Option<u64> {
    Some(ElfFile64::<LittleEndian>::parse(file).ok()?.section_by_name(name)?.size())
}

/// Where in the file the section with this name is.
pub fn range(file: &[u8], name: &str) -> Option<Range<usize>> {
    let (at, size) = ElfFile64::<LittleEndian>::parse(file).ok()?.section_by_name(name)?.file_range()?;
    let end = at.checked_add(size)?;
    Some(usize::try_from(at).ok()?..usize::try_from(end).ok()?)
}

/// Size in bytes of the section size that precedes the contents of a [`Part`].
pub const SIZE_BYTES: usize = 8;

/// A program or data section: its name, its size and contents, and its references with their
/// offsets.
pub type Part = (String, Vec<u8>, Vec<(u64, String)>);

/// The program and data sections. References are symbol names, or section names for symbols without
/// a name.
pub fn loaded(file: &[u8]) -> Vec<Part> {
    let Ok(file) = ElfFile64::<LittleEndian>::parse(file) else { return Vec::new() };
    let name_of = |target: RelocationTarget| {
        let RelocationTarget::Symbol(index) = target else { return String::new() };
        let Ok(symbol) = file.symbol_by_index(index) else { return String::new() };
        let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
        let name = symbol.name().unwrap_or_default();
        let section = section.as_ref().and_then(|section| section.name().ok()).unwrap_or_default();
        if name.is_empty() { section.to_owned() } else { name.to_owned() }
    };
    let holds = |kind: SectionKind| {
        matches!(kind, SectionKind::Text | SectionKind::ReadOnlyData | SectionKind::UninitializedData)
    };
    let part = |section: object::read::elf::ElfSection64<'_, '_, LittleEndian>| {
        let references = section.relocations().map(|(offset, relocation)| (offset, name_of(relocation.target())));
        // A section of zeros (`.bss`) has a size but no bytes in the file.
        let size = section.size().to_le_bytes();
        let contents = [&size, section.data().ok()?].concat();
        Some((section.name().ok()?.to_owned(), contents, references.collect()))
    };
    file.sections().filter(|section| holds(section.kind())).filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::{append, loaded, section};
    use object::write::Object;
    use object::{Architecture, BinaryFormat, Endianness, SectionKind};

    fn file() -> Vec<u8> {
        let mut object = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
        let id = object.add_section(Vec::new(), b"license".to_vec(), SectionKind::Data);
        object.append_section_data(id, b"GPL\0", 1);
        object.write().expect("an object")
    }

    #[test]
    fn a_section_is_added_and_the_others_stay_what_they_are() {
        let before = file();
        let after = append(&before, ".profiler", b"\0text\0").expect("it is an object");
        assert_eq!(section(&after, ".profiler"), Some(&b"\0text\0"[..]));
        assert_eq!(section(&after, "license"), Some(&b"GPL\0"[..]));
        assert_eq!(section(&before, ".profiler"), None);
        assert_eq!(loaded(&after), loaded(&before));
        assert_eq!(after[64..before.len()], before[64..], "only the file's header changes");
    }

    #[test]
    fn what_is_no_such_file_has_no_sections() {
        let whole = append(&file(), "x", b"y").expect("it is an object");
        for length in 0..whole.len() {
            let cut = &whole[..length];
            let _ = (append(cut, "z", b""), section(cut, "x"), loaded(cut));
        }
        assert_eq!(append(b"BEGIN { }", "x", b"y"), None);
        for at in 0..64 {
            let mut wrong = whole.clone();
            wrong[at] ^= 0xff;
            let _ = (append(&wrong, "z", b""), section(&wrong, "x"), loaded(&wrong));
        }
    }
}
