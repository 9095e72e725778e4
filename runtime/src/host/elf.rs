//! Function symbols and segments of ELF files.
//!
//! In: an executable or shared library, and where it was stripped, its separate debug file. Out:
//! function symbols with their file offsets.
//! Guarantee: only headers and symbol tables are read, into our own memory, so a file that changes
//! meanwhile can give wrong answers but cannot crash us. A search for an exact name allocates no
//! string for other names. Tables and names have limits: functions with longer names cannot be
//! probed by name. Names that share bytes in ways no linker produces are listed until their total
//! length exceeds the limit derived from the string table's size.

use super::bounded::{Bounded, Copied, MAX_SYMBOLS, MAX_TABLE_BYTES, open_regular};
use super::budget::Reserved;
use super::debug_files::{Program, Search};
use super::debug_sections::DebugSections;
use super::demangle::{MAX_NAME_BYTES, demangle};
use super::{NEAR_NAMES, io_error};
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym};
use object::{Endianness, SectionIndex};
use profiler_compiler::target::{FunctionSymbol, TargetError};
use profiler_compiler::{glob, similar};
use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Limit in bytes of all names that match a pattern.
pub const MAX_LISTED_BYTES: usize = 64 << 20;

/// Limit in bytes of the names that are searched for ones similar to a missing name.
const MAX_NEAR_BYTES: usize = 32 << 20;

/// Parts of the names of functions that GCC makes from others.
const CLONES: [&str; 4] = [".isra.", ".constprop.", ".part.", ".simdclone."];

/// The parsed symbols of a file.
#[derive(Debug)]
pub struct Symbols {
    path: PathBuf,
    segments: Vec<Segment>,
    /// The full symbol table, and the dynamic one.
    tables: Vec<SymbolTable>,
    /// Whether the first of these is there.
    has_full: bool,
    /// The full symbol table of the separate debug file, which is read when it is needed.
    separate: OnceLock<Option<SymbolTable>>,
}

/// A loaded segment of code.
#[derive(Debug)]
struct Segment {
    address: u64,
    size_bytes: u64,
    file_offset: u64,
}

/// The defined functions of a symbol table.
#[derive(Debug)]
struct SymbolTable {
    functions: Vec<Entry>,
    strings: Vec<u8>,
    _reserved: Reserved,
}

/// The full symbol table and the dynamic one.
type Tables = [Option<SymbolTable>; 2];

/// A function; the order of the fields is that of several with the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// An old version that new programs are not linked against.
    hidden: bool,
    /// Not visible to other files.
    local: bool,
    address: u64,
    size_bytes: u64,
    name_offset: u32,
}

impl Symbols {
    /// Reads the tables of a file.
    pub fn read(path: &Path) -> Result<Symbols, TargetError> {
        let file = open_regular(path).map_err(|error| io_error(path, &error))?;
        Symbols::parse(path, &Bounded::new(file, MAX_TABLE_BYTES))
    }

    /// Parses the tables in `data`; `path` is used in messages.
    pub fn parse<'data, Bytes: ReadRef<'data> + Copied>(path: &Path, data: Bytes) -> Result<Symbols, TargetError> {
        let invalid = |error: Box<dyn Error>| TargetError::Invalid(format!("{}: {error}", path.display()));
        let class: u8 = *data.read_at(4).map_err(|()| not_elf(path))?;
        let (segments, [full, dynamic]) = match class {
            elf::ELFCLASS64 => read_tables::<FileHeader64<Endianness>, Bytes>(data).map_err(invalid)?,
            elf::ELFCLASS32 => read_tables::<FileHeader32<Endianness>, Bytes>(data).map_err(invalid)?,
            _ => return Err(not_elf(path)),
        };
        let has_full = full.is_some();
        let tables = [full, dynamic].into_iter().flatten().collect();
        Ok(Symbols { path: path.to_owned(), segments, tables, has_full, separate: OnceLock::new() })
    }

    /// The full symbol table that was moved to a separate debug file; none if it is in the file
    /// itself, or if there is no such file.
    fn separate(&self) -> Option<&SymbolTable> {
        let read = || if self.has_full { None } else { read_separate(&self.path) };
        self.separate.get_or_init(read).as_ref()
    }

    /// All tables.
    fn all(&self) -> impl Iterator<Item = &SymbolTable> {
        self.tables.iter().chain(self.separate())
    }

    /// Functions whose name matches a pattern, sorted by name. Several functions of one name, such
    /// as static ones of several source files, are all there; but not the old versions of a
    /// function that has a new one.
    pub fn functions(&self, pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError> {
        let is_pattern = glob::is_pattern(pattern);
        let mut found: Vec<(&str, Entry)> = if is_pattern {
            self.named().filter(|(name, _)| glob::matches(pattern, name)).collect()
        } else {
            let exact = |table: &SymbolTable, entry: &Entry| table.has_name(*entry, pattern.as_bytes());
            let hits = |table: &SymbolTable| -> Vec<_> {
                table.functions.iter().filter(|entry| exact(table, entry)).map(|entry| (pattern, *entry)).collect()
            };
            let own: Vec<_> = self.tables.iter().flat_map(hits).collect();
            if own.is_empty() { self.separate().map(hits).unwrap_or_default() } else { own }
        };
        found.sort_unstable();
        found.dedup_by_key(|(name, entry)| (*name, entry.hidden, entry.address));
        let same_name = found.chunk_by(|(name, _), (other, _)| name == other);
        let found: Vec<(&str, Entry)> = same_name
            .flat_map(|of_name| of_name.iter().filter(|(_, entry)| entry.hidden == of_name[0].1.hidden))
            .copied()
            .collect();
        let functions: Vec<FunctionSymbol> =
            found.iter().filter_map(|(name, entry)| self.place(name, *entry)).collect();
        if !functions.is_empty() {
            return Ok(functions);
        }
        if !found.is_empty() {
            let path = self.path.display();
            return Err(TargetError::Invalid(format!("{path} has no code: it is the debug file of a program")));
        }
        if self.all().all(|table| table.functions.is_empty()) {
            let path = self.path.display();
            return Err(TargetError::Invalid(format!("{path} has no function symbols: it is stripped")));
        }
        let near = if is_pattern { Vec::new() } else { similar::nearest(pattern, self.names(), NEAR_NAMES) };
        Err(TargetError::Missing { near })
    }

    /// Functions by their names in the source.
    pub fn functions_by_source_name(&self, pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError> {
        let with_parameters = pattern.contains('(');
        let mut found: Vec<(String, Entry)> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        let (mut found_bytes, mut near_bytes) = (0, 0);
        for (name, entry) in self.named() {
            let Some(source) = demangle(name) else { continue };
            let name = if with_parameters { &source.full } else { &source.short };
            if glob::matches(pattern, name) {
                found_bytes += source.full.len();
                found.push((source.full, entry));
            } else if found.is_empty() && near_bytes < MAX_NEAR_BYTES {
                near_bytes += name.len();
                names.push(name.clone());
            }
            if found_bytes > MAX_LISTED_BYTES {
                break;
            }
        }
        found.sort_unstable();
        // Several functions can have the same name; each address is a separate result.
        found.dedup_by_key(|(name, entry)| (name.clone(), entry.address));
        if found.is_empty() {
            let near = similar::nearest(pattern, names.iter().map(String::as_str), NEAR_NAMES);
            return Err(TargetError::Missing { near: if glob::is_pattern(pattern) { Vec::new() } else { near } });
        }
        Ok(found.iter().filter_map(|(name, entry)| self.place(name, *entry)).collect())
    }

    /// The file offset of a virtual address, if it is in a code segment.
    pub fn file_offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let within = address.checked_sub(segment.address)?;
            (within < segment.size_bytes).then(|| segment.file_offset.checked_add(within))?
        })
    }

    /// Of the functions at these places, those that the compiler made from others and that may be
    /// called in another way: GCC marks the names of such functions.
    pub fn clones(&self, file_offsets: &BTreeSet<u64>) -> BTreeSet<u64> {
        let (mut marked, mut others) = (BTreeSet::new(), BTreeSet::new());
        for (name, entry) in self.named() {
            let Some(offset) = self.file_offset(entry.address).filter(|offset| file_offsets.contains(offset)) else {
                continue;
            };
            let is_marked = CLONES.iter().any(|mark| name.contains(mark));
            if is_marked { &mut marked } else { &mut others }.insert(offset);
        }
        &marked - &others
    }

    fn place(&self, name: &str, entry: Entry) -> Option<FunctionSymbol> {
        let file_offset = self.file_offset(entry.address)?;
        Some(FunctionSymbol { name: name.to_owned(), file_offset, size_bytes: entry.size_bytes })
    }

    fn named(&self) -> impl Iterator<Item = (&str, Entry)> {
        self.all().flat_map(|table| {
            let named = table.functions.iter().filter_map(|entry| Some((table.name(*entry)?, *entry)));
            named.scan(table.most_name_bytes(), |left, (name, entry)| {
                *left = left.checked_sub(name.len())?;
                Some((name, entry))
            })
        })
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.named().map(|(name, _)| name)
    }
}

impl SymbolTable {
    /// Limit in bytes of all names together. It exceeds the size of the string table, because
    /// linkers share name suffixes and files have several functions with the same name.
    fn most_name_bytes(&self) -> usize {
        self.strings.len().saturating_mul(4).saturating_add(1 << 20).min(MAX_LISTED_BYTES / 2)
    }

    fn has_name(&self, entry: Entry, name: &[u8]) -> bool {
        let rest = self.strings.get(entry.name_offset as usize..).and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }

    fn name(&self, entry: Entry) -> Option<&str> {
        let rest = self.strings.get(entry.name_offset as usize..)?;
        let end = rest.iter().take(MAX_NAME_BYTES + 1).position(|byte| *byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok().filter(|name| !name.is_empty())
    }
}

/// Reads the code segments, then the full and the dynamic symbol table.
fn read_tables<'data, Elf: FileHeader<Endian = Endianness>, Bytes: ReadRef<'data> + Copied>(
    data: Bytes,
) -> Result<(Vec<Segment>, Tables), Box<dyn Error>> {
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
    // A file may have no section headers at all (some packers): then it has no visible symbols.
    let sections = header.sections(endian, data)?;
    let full = read_table::<Elf, Bytes>(endian, data, &sections, elf::SHT_SYMTAB)?;
    let dynamic = read_table::<Elf, Bytes>(endian, data, &sections, elf::SHT_DYNSYM)?;
    Ok((segments, [full, dynamic]))
}

/// The full symbol table in the separate debug file of a program.
fn read_separate(program: &Path) -> Option<SymbolTable> {
    let open = |path: &Path| Some(Bounded::new(open_regular(path).ok()?, MAX_TABLE_BYTES));
    let sections = DebugSections::parse(&open(program)?)?;
    let (path, found) = Search::new().find(Program { path: program, root: Path::new("/") }, &sections)?;
    let other = if found.has_symbols { Symbols::parse(&path, &open(&path)?).ok()? } else { return None };
    other.tables.into_iter().next().filter(|_| other.has_full)
}

fn read_table<'data, Elf: FileHeader<Endian = Endianness>, Bytes: ReadRef<'data> + Copied>(
    endian: Endianness,
    data: Bytes,
    sections: &SectionTable<'data, Elf, Bytes>,
    kind: u32,
) -> Result<Option<SymbolTable>, Box<dyn Error>> {
    let symbols = sections.symbols(endian, data, kind)?;
    if symbols.is_empty() || symbols.len() > MAX_SYMBOLS {
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
    let (offset, size_bytes) = sections.section(strings)?.file_range(endian).unwrap_or_default();
    let count = functions.clone().count();
    let all_bytes = usize::try_from(size_bytes).ok().and_then(|bytes| bytes.checked_add(count * size_of::<Entry>()));
    let reserved = all_bytes.and_then(Reserved::new).ok_or("its symbols are too large for the memory that is left")?;
    let mut entries = Vec::with_capacity(count);
    entries.extend(functions);
    let strings = data.copied(offset, size_bytes).ok_or("the names of its symbols cannot be read")?;
    Ok(Some(SymbolTable { functions: entries, strings, _reserved: reserved }))
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

    /// The test binary: it has a full symbol table.
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
