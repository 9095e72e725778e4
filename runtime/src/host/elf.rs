//! Functions and segments of ELF files.
//!
//! In: an executable or shared library. Out: function symbols with their place in the file.
//! Guarantee: only headers and symbol tables are read, into memory of our own, so that a file that changes meanwhile can
//! give wrong answers but no fault. A search for an exact name makes no string for any other.

use super::demangle::demangle;
use super::{NEAR_NAMES, io_error};
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym};
use object::read::{ReadCache, ReadRef};
use object::{Endianness, SectionIndex};
use profiler_compiler::target::{FunctionSymbol, TargetError};
use profiler_compiler::{glob, similar};
use std::fs::File;
use std::path::{Path, PathBuf};

/// What is kept of a file.
#[derive(Debug)]
pub struct Symbols {
    path: PathBuf,
    segments: Vec<Segment>,
    tables: Vec<Table>,
}

/// A part of the file that is loaded as code.
#[derive(Debug)]
struct Segment {
    address: u64,
    size_bytes: u64,
    file_offset: u64,
}

/// The defined functions of a symbol table.
#[derive(Debug)]
struct Table {
    functions: Vec<Entry>,
    strings: Vec<u8>,
}

/// A function; which of several with a name is meant is decided by the order of the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// An old version that new programs do not link against.
    hidden: bool,
    /// Not seen by other files.
    local: bool,
    address: u64,
    size_bytes: u64,
    name_offset: u32,
}

impl Symbols {
    /// Reads the tables of a file.
    pub fn read(path: &Path) -> Result<Symbols, TargetError> {
        let file = File::open(path).map_err(|error| io_error(path, &error))?;
        Symbols::parse(path, &ReadCache::new(file))
    }

    /// The tables in `data`, which `path` stands for in messages.
    pub fn parse<'data, Bytes: ReadRef<'data>>(path: &Path, data: Bytes) -> Result<Symbols, TargetError> {
        let invalid = |error: object::Error| TargetError::Invalid(format!("{}: {error}", path.display()));
        let class: u8 = *data.read_at(4).map_err(|()| not_elf(path))?;
        let (segments, tables) = match class {
            elf::ELFCLASS64 => read_tables::<FileHeader64<Endianness>, Bytes>(data).map_err(invalid)?,
            elf::ELFCLASS32 => read_tables::<FileHeader32<Endianness>, Bytes>(data).map_err(invalid)?,
            _ => return Err(not_elf(path)),
        };
        Ok(Symbols { path: path.to_owned(), segments, tables })
    }

    /// Functions whose name matches a pattern, sorted by name, each name once.
    pub fn functions(&self, pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError> {
        let is_pattern = glob::is_pattern(pattern);
        let mut found: Vec<(&str, Entry)> = if is_pattern {
            self.named().filter(|(name, _)| glob::matches(pattern, name)).collect()
        } else {
            let exact = |table: &'_ Table, entry: &Entry| table.has_name(*entry, pattern.as_bytes());
            let hits = self.tables.iter().flat_map(|table| table.functions.iter().filter(move |e| exact(table, e)));
            hits.map(|entry| (pattern, *entry)).collect()
        };
        found.sort_unstable();
        found.dedup_by_key(|(name, _)| *name);
        let functions: Vec<FunctionSymbol> =
            found.iter().filter_map(|(name, entry)| self.place(name, *entry)).collect();
        if !functions.is_empty() {
            return Ok(functions);
        }
        if self.tables.iter().all(|table| table.functions.is_empty()) {
            let path = self.path.display();
            return Err(TargetError::Invalid(format!("{path} has no function symbols: it is stripped")));
        }
        let near = if is_pattern { Vec::new() } else { similar::nearest(pattern, self.names(), NEAR_NAMES) };
        Err(TargetError::Missing { near })
    }

    /// Functions by the names that their sources have for them.
    pub(super) fn functions_by_source_name(&self, pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError> {
        let with_parameters = pattern.contains('(');
        let mut found: Vec<(String, Entry)> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for (name, entry) in self.named() {
            let Some(source) = demangle(name) else { continue };
            let name = if with_parameters { &source.full } else { &source.short };
            if glob::matches(pattern, name) {
                found.push((source.full, entry));
            } else if found.is_empty() {
                names.push(name.clone());
            }
        }
        found.sort_unstable();
        // Several functions may have one name: then each place is one.
        found.dedup_by_key(|(name, entry)| (name.clone(), entry.address));
        if found.is_empty() {
            let near = similar::nearest(pattern, names.iter().map(String::as_str), NEAR_NAMES);
            return Err(TargetError::Missing { near: if glob::is_pattern(pattern) { Vec::new() } else { near } });
        }
        Ok(found.iter().filter_map(|(name, entry)| self.place(name, *entry)).collect())
    }

    /// The file offset of a virtual address, when it is one of code.
    pub fn file_offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let within = address.checked_sub(segment.address)?;
            (within < segment.size_bytes).then(|| segment.file_offset.checked_add(within))?
        })
    }

    fn place(&self, name: &str, entry: Entry) -> Option<FunctionSymbol> {
        let file_offset = self.file_offset(entry.address)?;
        Some(FunctionSymbol { name: name.to_owned(), file_offset, size_bytes: entry.size_bytes })
    }

    fn named(&self) -> impl Iterator<Item = (&str, Entry)> {
        self.tables.iter().flat_map(|table| table.functions.iter().filter_map(|e| Some((table.name(*e)?, *e))))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.named().map(|(name, _)| name)
    }
}

impl Table {
    fn has_name(&self, entry: Entry, name: &[u8]) -> bool {
        let rest = self.strings.get(entry.name_offset as usize..).and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }

    fn name(&self, entry: Entry) -> Option<&str> {
        let rest = self.strings.get(entry.name_offset as usize..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok().filter(|name| !name.is_empty())
    }
}

/// Segments of code, then the full and the dynamic symbol table.
fn read_tables<'data, Elf: FileHeader<Endian = Endianness>, Bytes: ReadRef<'data>>(
    data: Bytes,
) -> object::Result<(Vec<Segment>, Vec<Table>)> {
    let header = Elf::parse(data)?;
    let endian = header.endian()?;
    let code = |segment: &&Elf::ProgramHeader| {
        segment.p_type(endian) == elf::PT_LOAD && segment.p_flags(endian) & elf::PF_X != 0
    };
    let segments = header.program_headers(endian, data)?.iter().filter(code).map(|segment| Segment {
        address: segment.p_vaddr(endian).into(),
        size_bytes: segment.p_filesz(endian).into(),
        file_offset: segment.p_offset(endian).into(),
    });
    let segments = segments.collect();
    // A file may lack section headers altogether (a few packers): then it has no symbols that we can see.
    let sections = header.sections(endian, data)?;
    let full = read_table::<Elf, Bytes>(endian, data, &sections, elf::SHT_SYMTAB)?;
    let dynamic = read_table::<Elf, Bytes>(endian, data, &sections, elf::SHT_DYNSYM)?;
    Ok((segments, [full, dynamic].into_iter().flatten().collect()))
}

fn read_table<'data, Elf: FileHeader<Endian = Endianness>, Bytes: ReadRef<'data>>(
    endian: Endianness,
    data: Bytes,
    sections: &SectionTable<'data, Elf, Bytes>,
    kind: u32,
) -> object::Result<Option<Table>> {
    let symbols = sections.symbols(endian, data, kind)?;
    if symbols.is_empty() {
        return Ok(None);
    }
    let versions = match kind {
        elf::SHT_DYNSYM => sections.gnu_versym(endian, data)?.map(|(versions, _)| versions).unwrap_or_default(),
        _ => &[],
    };
    let is_function = |symbol: &Elf::Sym| {
        matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC) && symbol.st_shndx(endian) != elf::SHN_UNDEF
    };
    let functions = symbols.iter().enumerate().filter(|(_, symbol)| is_function(symbol)).map(|(index, symbol)| Entry {
        hidden: versions.get(index).is_some_and(|version| version.0.get(endian) & elf::VERSYM_HIDDEN != 0),
        local: symbol.st_bind() == elf::STB_LOCAL,
        address: symbol.st_value(endian).into(),
        size_bytes: symbol.st_size(endian).into(),
        name_offset: symbol.st_name(endian),
    });
    let strings: SectionIndex = symbols.string_section();
    let strings = sections.section(strings)?.data(endian, data)?.to_vec();
    Ok(Some(Table { functions: functions.collect(), strings }))
}

fn not_elf(path: &Path) -> TargetError {
    TargetError::Invalid(format!("{} is not an ELF file", path.display()))
}

#[cfg(test)]
mod tests {
    use super::Symbols;
    use profiler_compiler::target::TargetError;
    use std::path::Path;
    use std::process::Command;

    /// This very program: it has a full symbol table.
    fn own() -> Symbols {
        Symbols::read(&std::env::current_exe().expect("a path")).expect("tests are ELF files")
    }

    #[test]
    fn finds_exact_names_and_patterns() {
        let own = own();
        let main = own.functions("main").expect("every program has it");
        assert_eq!((main.len(), main[0].name.as_str()), (1, "main"));
        let many = own.functions("m*n").expect("at least main");
        assert!(many.contains(&main[0]) && many.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(matches!(own.functions("mainn"), Err(TargetError::Missing { near }) if near.contains(&"main".into())));
        assert_eq!(own.functions("no_such*"), Err(TargetError::Missing { near: Vec::new() }));
    }

    #[test]
    fn refuses_other_files() {
        assert!(matches!(Symbols::read(Path::new("/etc/passwd")), Err(TargetError::Invalid(_))));
        assert!(matches!(Symbols::read(Path::new("/dev/null")), Err(TargetError::Invalid(_))));
        assert!(matches!(Symbols::read(Path::new("/no/such")), Err(TargetError::Missing { .. })));
        assert_eq!(own().file_offset(u64::MAX), None);
    }

    #[test]
    fn agrees_with_readelf() {
        let path = "/bin/bash";
        let Some(listing) = Command::new("readelf").args(["-W", "--dyn-syms", path]).output().ok() else {
            println!("SKIPPED: no readelf");
            return;
        };
        let Ok(symbols) = Symbols::read(Path::new(path)) else {
            println!("SKIPPED: no {path}");
            return;
        };
        let mut compared = 0;
        for line in String::from_utf8_lossy(&listing.stdout).lines() {
            let [_, address, size, "FUNC", _, _, section, name] = line.split_whitespace().collect::<Vec<_>>()[..]
            else {
                continue;
            };
            if section == "UND" {
                continue;
            }
            let found = symbols.functions(name).expect(name);
            let address = u64::from_str_radix(address, 16).expect("an address");
            assert_eq!(Some(found[0].file_offset), symbols.file_offset(address), "{name}");
            assert_eq!(found[0].size_bytes.to_string(), size, "{name}");
            compared += 1;
        }
        println!("compared {compared} functions of {path}");
    }
}
