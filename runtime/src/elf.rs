//! Describes an object file, for `-d elf`.
//!
//! In: the bytes of an ELF file. Out: its sections and symbols as text.
//! Guarantee: never fails; what cannot be read is reported in the text.

pub mod appended;

use std::fmt::Write as _;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

/// Lists the sections with their sizes, then the symbols with their sections.
pub fn describe(elf: &[u8]) -> String {
    let file = match object::File::parse(elf) {
        Ok(file) => file,
        Err(error) => return format!("not an ELF file: {error}\n"),
    };
    let mut out = String::new();
    for section in file.sections() {
        let name = section.name().unwrap_or("?");
        let _ = writeln!(out, "section {name:<24} {:>8} bytes  {:?}", section.size(), section.kind());
    }
    for symbol in file.symbols() {
        let name = symbol.name().unwrap_or("?");
        let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
        let place = section.as_ref().and_then(|s| s.name().ok()).unwrap_or("-");
        let _ = writeln!(out, "symbol  {name:<24} {:>8} bytes  {place}", symbol.size());
    }
    out
}
