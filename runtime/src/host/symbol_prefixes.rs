//! Prefix search over ELF function symbols, for tab completion.
//!
//! In: a file and the typed prefix of a name. Out: the possible continuations.
//! Guarantee: only headers and one symbol table are read. C++ and Rust names are completed one path
//! component at a time, and at most 4,000 symbols are demangled, so a large file takes
//! milliseconds. The first and last matching names are always included.

mod spelled;

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::CStr;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::SystemTime;

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{FileHeader, SectionHeader as _};
use object::{Endianness, SectionIndex};

use super::bounded::{Bounded, MAX_TABLE_BYTES, open_regular};
use super::budget::Reserved;
use super::demangle::demangle;
use spelled::{counted, quick_parts};

/// Limit of names demangled per query: each takes a few microseconds.
const MOST_DEMANGLED: usize = 4_000;

/// The next component of a source name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// The name up to the end of the component.
    pub name: String,
    /// Whether this is a function; otherwise more components follow.
    pub is_whole: bool,
}

/// The symbol table of a file, in its on-disk form.
#[derive(Debug)]
pub(super) struct Names {
    symbols: Vec<u8>,
    strings: Vec<u8>,
    entry: Entry,
    /// Modification time of the file.
    pub(super) changed: Option<SystemTime>,
    _reserved: Reserved,
}

/// Offsets of a symbol's fields.
#[derive(Debug, Clone, Copy)]
struct Entry {
    size_bytes: usize,
    kind: usize,
    section: usize,
}

const ENTRY_64: Entry = Entry { size_bytes: 24, kind: 4, section: 6 };
const ENTRY_32: Entry = Entry { size_bytes: 16, kind: 12, section: 14 };

impl Names {
    /// Reads the full symbol table, otherwise the dynamic one; `None` if there is neither.
    pub(super) fn read(path: &Path) -> Option<Names> {
        let file = open_regular(path).ok()?;
        let changed = file.metadata().and_then(|meta| meta.modified()).ok();
        let cache = Bounded::new(&file, MAX_TABLE_BYTES);
        let class: u8 = *(&cache).read_at(4).ok()?;
        let (entry, ranges) = match class {
            elf::ELFCLASS64 => (ENTRY_64, tables::<FileHeader64<Endianness>, _>(&cache)?),
            elf::ELFCLASS32 => (ENTRY_32, tables::<FileHeader32<Endianness>, _>(&cache)?),
            _ => return None,
        };
        let length = file.metadata().ok()?.len();
        let bytes = |(start, size_bytes): (u64, u64)| {
            start.checked_add(size_bytes).filter(|end| *end <= length && size_bytes <= MAX_TABLE_BYTES)?;
            let mut bytes = vec![0; size_bytes as usize];
            file.read_exact_at(&mut bytes, start).ok()?;
            Some(bytes)
        };
        let all_bytes = ranges.iter().try_fold(0_u64, |sum, (_, size_bytes)| sum.checked_add(*size_bytes))?;
        let reserved = Reserved::new(usize::try_from(all_bytes).ok()?)?;
        Some(Names { symbols: bytes(ranges[0])?, strings: bytes(ranges[1])?, entry, changed, _reserved: reserved })
    }

    /// Function symbols that need no quotes, sorted; mangled C++ and Rust symbols only on request.
    pub(super) fn symbols(&self, beginning: &str, most: usize) -> Vec<String> {
        let is_made = |name: &[u8]| name.starts_with(b"_Z") || name.starts_with(b"_R");
        let wants_made = is_made(beginning.as_bytes());
        let found = self.beginning_with(beginning.as_bytes()).filter(|name| wants_made || !is_made(name));
        let found = found.filter(|name| name.iter().all(|byte| is_written_alone(*byte)));
        let found: Vec<&str> = found.filter_map(|name| std::str::from_utf8(name).ok()).collect();
        first_and_last(found, most).into_iter().map(str::to_owned).collect()
    }

    /// The next components of source names, sorted.
    pub(super) fn source_names(&self, beginning: &str, most: usize) -> Vec<Part> {
        let typed = Typed::new(beginning);
        let (mut found, mut demangled): (HashSet<(Cow<'_, str>, bool)>, usize) = (HashSet::new(), 0);
        for name in self.beginning_with(b"_").filter(|name| typed.first_may_be_of(name)) {
            let Some(quick) = quick_parts(name) else { continue };
            match typed.next_of(&quick.parts, quick.stem) {
                Answer::Next(part, is_whole) => drop(found.insert((Cow::Borrowed(part), is_whole))),
                Answer::No => {}
                Answer::Unknown if demangled < MOST_DEMANGLED && typed.may_begin(name) => {
                    demangled += 1;
                    let Some(source) = std::str::from_utf8(name).ok().and_then(demangle) else { continue };
                    if let Answer::Next(part, is_whole) = typed.next_of(&parts(&source.short), None) {
                        found.insert((Cow::Owned(part.to_owned()), is_whole));
                    }
                }
                Answer::Unknown => {}
            }
        }
        let part = |(part, is_whole)| Part { name: format!("{}{part}", typed.ahead), is_whole };
        first_and_last(found.into_iter().map(part).collect(), most)
    }

    fn beginning_with<'a>(&'a self, beginning: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let Entry { size_bytes, kind, section } = self.entry;
        self.symbols.chunks_exact(size_bytes).filter_map(move |symbol| {
            let is_function = matches!(symbol[kind] & 0xf, elf::STT_FUNC | elf::STT_GNU_IFUNC);
            let is_defined = symbol[section..section + 2] != [0, 0];
            let offset = u32::from_le_bytes(*symbol.first_chunk()?) as usize;
            let rest = self.strings.get(offset..).filter(|_| is_function && is_defined)?;
            let rest = rest.starts_with(beginning).then_some(rest)?;
            // Scans for the end word by word, not byte by byte: Rust names are long.
            let name = CStr::from_bytes_until_nul(rest).ok()?.to_bytes();
            (!name.is_empty()).then_some(name)
        })
    }
}

/// Offsets and sizes of the symbols and of their names.
fn tables<'data, Elf: FileHeader<Endian = Endianness>, Bytes: ReadRef<'data>>(data: Bytes) -> Option<[(u64, u64); 2]> {
    let header = Elf::parse(data).ok()?;
    let endian = header.endian().ok().filter(|endian| *endian == Endianness::Little)?;
    let sections = header.sections(endian, data).ok()?;
    let of_kind = |kind| sections.iter().find(|section| section.sh_type(endian) == kind);
    let symbols = of_kind(elf::SHT_SYMTAB).or_else(|| of_kind(elf::SHT_DYNSYM))?;
    let strings = sections.section(SectionIndex(symbols.sh_link(endian) as usize)).ok()?;
    Some([symbols.file_range(endian)?, strings.file_range(endian)?])
}

/// Whether a character can appear unquoted in a probe; `+` and `*` have another meaning there.
fn is_written_alone(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || b"_.-@[]!~%#$^".contains(&byte)
}

/// Sorts and deduplicates. Of more than `most` items, keeps the first ones and the very last, so
/// that their common prefix is that of all items.
pub fn first_and_last<T: Ord>(mut all: Vec<T>, most: usize) -> Vec<T> {
    if all.len() > most && most > 1 {
        let last = all.iter().enumerate().max_by_key(|(_, name)| *name).map_or(0, |(index, _)| index);
        let last = all.swap_remove(last);
        all.select_nth_unstable(most - 2);
        all.truncate(most - 1);
        all.push(last);
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// A partially typed name.
struct Typed<'a> {
    /// The complete components.
    whole: Vec<&'a str>,
    /// All complete components, including the separator before the next one.
    ahead: &'a str,
    /// The typed part of the next component.
    partial: &'a str,
}

enum Answer<'a> {
    /// The next component, and whether it is the last.
    Next(&'a str, bool),
    No,
    /// The known components do not decide it.
    Unknown,
}

impl<'a> Typed<'a> {
    fn new(beginning: &'a str) -> Typed<'a> {
        let mut whole = parts(beginning);
        let partial = whole.pop().unwrap_or_default();
        Typed { whole, ahead: &beginning[..beginning.len() - partial.len()], partial }
    }

    /// Quick check whether the first component of a symbol's name can match the typed one; most
    /// symbols fail here.
    fn first_may_be_of(&self, symbol: &[u8]) -> bool {
        let first = self.whole.first().copied().unwrap_or(self.partial);
        if first.is_empty() || first.starts_with(['<', '(', '{']) {
            return true;
        }
        let name = match symbol {
            [b'_', b'Z', b'N', b'K', rest @ ..] | [b'_', b'Z', b'N', rest @ ..] => rest,
            [b'_', b'Z', rest @ ..] => rest,
            _ => return true,
        };
        match counted(name) {
            // `_$LT$…`: the name begins with `<`. `_GLOBAL_` begins the compiler's name of an
            // anonymous namespace.
            Some((part, _)) if part.starts_with("_$") => false,
            Some((part, _)) => part.starts_with(first) || part.starts_with("_GLOBAL_") || part.contains('$'),
            None => true,
        }
    }

    /// The next component of a name with these components, followed by nothing or by one that
    /// begins with `stem`.
    fn next_of<'n>(&self, parts: &[&'n str], stem: Option<&str>) -> Answer<'n> {
        for (at, typed) in self.whole.iter().enumerate() {
            match (parts.get(at), stem) {
                (Some(part), _) if part == typed => {}
                (None, Some(stem)) if typed.starts_with(stem) => return Answer::Unknown,
                _ => return Answer::No,
            }
        }
        let at = self.whole.len();
        match (parts.get(at), stem) {
            // Trait implementations and unnamed items are offered only if their first character was
            // typed.
            (Some(part), _) if self.partial.is_empty() && part.starts_with(['<', '{']) => Answer::No,
            (Some(part), _) if part.starts_with(self.partial) => {
                Answer::Next(part, stem.is_none() && at + 1 == parts.len())
            }
            (None, Some(stem)) if stem.starts_with(self.partial) || self.partial.starts_with(stem) => Answer::Unknown,
            _ => Answer::No,
        }
    }

    /// Whether a symbol can belong to a name with these components: except for abbreviations, it
    /// contains all of them literally.
    fn may_begin(&self, symbol: &[u8]) -> bool {
        let is_plain = |part: &&&str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let mut plain = self.whole.iter().filter(is_plain).filter(|part| **part != "std");
        let is_in = |part: &[u8]| symbol.windows(part.len()).any(|window| window == part);
        let begins_plainly = self.whole.first().or(Some(&self.partial)).is_some_and(|part| !part.starts_with('<'));
        // `_ZN66_$LT$…`: the name begins with `<`.
        let is_of_trait = symbol.starts_with(b"_ZN") && symbol.get(3..12).is_some_and(|rest| rest.contains(&b'$'));
        !(is_of_trait && begins_plainly) && plain.all(|part| is_in(part.as_bytes()))
    }
}

/// The components of a name: `a::b<c::d>::e` has three. The last one of a name that ends with `::`
/// is empty.
fn parts(name: &str) -> Vec<&str> {
    let (mut found, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    let bytes = name.as_bytes();
    for at in 0..bytes.len() {
        match bytes[at] {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b')' | b']' | b'}' => depth -= 1,
            b':' if depth == 0 && at >= start && bytes.get(at + 1) == Some(&b':') => {
                found.push(&name[start..at]);
                start = at + 2;
            }
            _ => {}
        }
    }
    found.push(name.get(start..).unwrap_or_default());
    found
}

#[cfg(test)]
mod tests {
    use super::spelled::{Quick, quick_parts};
    use super::{Names, Part, first_and_last, parts};
    use crate::host::demangle::demangle;

    fn own() -> Names {
        Names::read(&std::env::current_exe().expect("a path")).expect("tests have symbols")
    }

    /// A function that is in this program however it was compiled.
    #[inline(never)]
    fn lighthouse(light: u32) -> u32 {
        std::hint::black_box(light)
    }

    #[test]
    fn symbols_begin_as_typed() {
        let own = own();
        let found = own.symbols("mai", 100);
        assert!(found.contains(&"main".to_owned()) && found.iter().all(|name| name.starts_with("mai")), "{found:?}");
        assert_eq!(own.symbols("no such", 100), Vec::<String>::new());
        assert!(own.symbols("", 10_000).iter().all(|name| !name.starts_with("_Z")));
        assert!(own.symbols("_ZN", 10).len() == 10);
        assert!(Names::read(std::path::Path::new("/etc/passwd")).is_none());
    }

    #[test]
    fn names_of_sources_come_part_by_part() {
        let own = own();
        let part = |name: &str, is_whole| Part { name: name.to_owned(), is_whole };
        assert_eq!(own.source_names("profiler_runt", 100), [part("profiler_runtime", false)]);
        assert!(
            own.source_names("profiler_runtime::host::symbol_p", 100)
                .contains(&part("profiler_runtime::host::symbol_prefixes", false))
        );
        assert_eq!(lighthouse(1), 1);
        let found = own.source_names("profiler_runtime::host::symbol_prefixes::tests::lightho", 100);
        assert_eq!(found, [part("profiler_runtime::host::symbol_prefixes::tests::lighthouse", true)]);
        assert_eq!(own.source_names("no_such_crate::", 100), []);
        assert!(own.source_names("<profiler_runtime::host::", 100).iter().all(|part| part.name.starts_with("<prof")));
    }

    #[test]
    fn what_is_read_off_a_symbol_is_what_demangling_says() {
        let own = own();
        let mut compared = 0;
        for symbol in own.beginning_with(b"_") {
            let text = std::str::from_utf8(symbol).expect("text");
            let (Some(Quick { parts: quick, stem }), Some(source)) = (quick_parts(symbol), demangle(text)) else {
                continue;
            };
            let whole = parts(&source.short);
            assert!(whole.starts_with(&quick), "{text}: {quick:?} of {}", source.short);
            match stem {
                None => assert_eq!(whole.len(), quick.len(), "{text}: {}", source.short),
                Some(stem) => assert!(whole.get(quick.len()).is_some_and(|part| part.starts_with(stem)), "{text}"),
            }
            compared += 1;
        }
        assert!(compared > 1000, "{compared}");
    }

    #[test]
    fn parts_end_outside_of_brackets() {
        assert_eq!(parts("a::b<c::d>::e"), ["a", "b<c::d>", "e"]);
        assert_eq!(parts("<a::b as c>::d"), ["<a::b as c>", "d"]);
        assert_eq!(parts("a::"), ["a", ""]);
        assert_eq!(parts(""), [""]);
    }

    #[test]
    fn what_many_names_have_in_common_is_kept_when_they_are_cut() {
        assert_eq!(first_and_last(vec![5, 3, 9, 1, 7, 7], 3), [1, 3, 9]);
        assert_eq!(first_and_last(vec![2, 1, 2], 3), [1, 2]);
    }
}
