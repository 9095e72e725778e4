//! An independent reader of BPF objects, written from the specifications of the formats.
//!
//! In: an ELF file. Out: [`Read`]: programs with relocations, lines and types, map definitions,
//! data sections. Guarantee: shares no code with the writer of the file; panics with a message on
//! anything invalid.

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget};

/// The contents of an object.
#[derive(Debug, PartialEq, Eq)]
pub struct Read {
    /// In the order of their addresses, section by section.
    pub programs: Vec<Program>,
    pub maps: Vec<MapDefinition>,
    pub rodata: Vec<u8>,
    pub bss_bytes: u64,
    pub license: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    pub name: String,
    pub section: String,
    pub code: Vec<u8>,
    /// Index of the instruction, and the symbol or section that it refers to.
    pub relocations: Vec<(u64, String)>,
    /// The name of the function in its BTF record.
    pub function: String,
    pub lines: Vec<Line>,
}

/// An instruction at which the source line changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub insn: u32,
    pub file: String,
    pub text: String,
    pub number: u32,
    pub column: u32,
}

/// A map definition, as libbpf reads it from BTF.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MapDefinition {
    pub name: String,
    pub kind: u32,
    pub key_bytes: u32,
    pub value_bytes: u32,
    pub max_entries: u32,
    pub flags: u32,
}

const INT: u32 = 1;
const POINTER: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const FUNCTION: u32 = 12;
const PROTOTYPE: u32 = 13;
const VARIABLE: u32 = 14;
const SECTION: u32 = 15;

/// A BTF type: its name, kind, vlen, size or type, and the words after it.
struct Type {
    name: String,
    kind: u32,
    length: usize,
    size_or_target: u32,
    rest: Vec<u32>,
}

/// The types of a `.BTF` section; the first is `void`.
struct Types {
    types: Vec<Type>,
    strings: Vec<u8>,
}

fn words(bytes: &[u8]) -> Vec<u32> {
    assert!(bytes.len().is_multiple_of(4), "{} bytes are no words", bytes.len());
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

/// The string at an offset.
fn string(strings: &[u8], at: u32) -> String {
    let rest = &strings[at as usize..];
    let end = rest.iter().position(|byte| *byte == 0).expect("a string ends");
    String::from_utf8(rest[..end].to_vec()).expect("UTF-8")
}

impl Types {
    fn read(section: &[u8]) -> Types {
        let header = words(&section[..24]);
        assert_eq!((header[0], header[1]), (0x0001_eb9f, 24), "magic, version and size of the header");
        let (types_at, types_bytes, strings_at, strings_bytes) = (header[2], header[3], header[4], header[5]);
        assert_eq!((types_at, strings_at), (0, types_bytes), "the strings follow the types");
        assert_eq!(section.len() as u32, 24 + types_bytes + strings_bytes, "nothing is left");
        let strings = section[(24 + strings_at) as usize..].to_vec();
        assert_eq!((strings.first(), strings.last()), (Some(&0), Some(&0)));
        let words = words(&section[24..(24 + types_bytes) as usize]);
        let void = Type { name: String::new(), kind: 0, length: 0, size_or_target: 0, rest: Vec::new() };
        let (mut types, mut at) = (vec![void], 0);
        while at < words.len() {
            let (kind, length) = (words[at + 1] >> 24 & 0x1f, (words[at + 1] & 0xffff) as usize);
            let behind = match kind {
                INT | VARIABLE => 1,
                POINTER | FUNCTION => 0,
                ARRAY => 3,
                STRUCT | SECTION => 3 * length,
                PROTOTYPE => 2 * length,
                other => panic!("a type of kind {other}"),
            };
            let rest = words[at + 3..at + 3 + behind].to_vec();
            let name = string(&strings, words[at]);
            types.push(Type { name, kind, length, size_or_target: words[at + 2], rest });
            at += 3 + behind;
        }
        Types { types, strings }
    }

    fn get(&self, id: u32, kind: u32) -> &Type {
        let ty = &self.types[id as usize];
        assert_eq!(ty.kind, kind, "type {id}");
        ty
    }

    /// The variables of a data section: name, type, offset, size.
    fn variables(&self, section: &str) -> Vec<(&str, u32, u32, u32)> {
        let found = self.types.iter().find(|ty| ty.kind == SECTION && ty.name == section);
        let variable = |words: &[u32]| {
            let ty = self.get(words[0], VARIABLE);
            assert_eq!(ty.rest, [1], "{} is global", ty.name);
            (ty.name.as_str(), ty.size_or_target, words[1], words[2])
        };
        found.map_or(Vec::new(), |ty| ty.rest.chunks_exact(3).map(variable).collect())
    }

    /// A number encoded as the length of the array that a pointer points to.
    fn number(&self, id: u32) -> u32 {
        let array = self.get(self.get(id, POINTER).size_or_target, ARRAY);
        assert_eq!(self.get(array.rest[0], INT).size_or_target, 4, "of 32-bit integers");
        array.rest[2]
    }

    fn map(&self, name: &str, ty: u32, size_bytes: u32) -> MapDefinition {
        let definition = self.get(ty, STRUCT);
        assert_eq!((definition.size_or_target, definition.length as u32 * 8), (size_bytes, size_bytes), "{name}");
        let mut map = MapDefinition { name: name.into(), ..MapDefinition::default() };
        for member in definition.rest.chunks_exact(3) {
            let size_of = |kind| self.get(self.get(member[1], POINTER).size_or_target, kind).size_or_target;
            let place = match string(&self.strings, member[0]).as_str() {
                // For task storage, the kernel wants the types themselves.
                "key" => {
                    map.key_bytes = size_of(INT);
                    continue;
                }
                "value" => {
                    map.value_bytes = size_of(STRUCT);
                    continue;
                }
                "type" => &mut map.kind,
                "key_size" => &mut map.key_bytes,
                "value_size" => &mut map.value_bytes,
                "max_entries" => &mut map.max_entries,
                "map_flags" => &mut map.flags,
                other => panic!("{name} has a {other}"),
            };
            *place = self.number(member[1]);
        }
        map
    }
}

/// The records of one kind in `.BTF.ext`: for each section its name, and the words of its records.
fn records(part: &[u8], record_words: usize, strings: &[u8]) -> Vec<(String, Vec<Vec<u32>>)> {
    let words = words(part);
    let Some((size, mut rest)) = words.split_first() else { return Vec::new() };
    assert_eq!(*size as usize, record_words * 4, "size of a record");
    let mut sections = Vec::new();
    while let [name, count, behind @ ..] = rest {
        let (mine, next) = behind.split_at(*count as usize * record_words);
        sections.push((string(strings, *name), mine.chunks_exact(record_words).map(<[u32]>::to_vec).collect()));
        rest = next;
    }
    sections
}

/// Reads an object.
pub fn read(elf: &[u8]) -> Read {
    let file = object::File::parse(elf).expect("an ELF file");
    let bytes = |name: &str| file.section_by_name(name).map_or(Vec::new(), |s| s.data().expect("readable").to_vec());
    let types = Types::read(&bytes(".BTF"));
    let extension = bytes(".BTF.ext");
    let header = words(&extension[..32]);
    assert_eq!((header[0], header[1]), (0x0001_eb9f, 32), "magic, version and size of the header");
    let part = |at: u32, size: u32| &extension[(32 + at) as usize..(32 + at + size) as usize];
    let functions = records(part(header[2], header[3]), 2, &types.strings);
    let lines = records(part(header[4], header[5]), 4, &types.strings);
    assert_eq!(header[7], 0, "no CO-RE relocations");

    let mut programs = Vec::new();
    for section in file.sections().filter(|section| section.kind() == object::SectionKind::Text && section.size() > 0) {
        programs.extend(programs_of(&file, &section, &types, &functions, &lines));
    }
    let in_maps = types.variables(".maps");
    for (name, _, offset, size) in &in_maps {
        let symbol = file.symbol_by_name(name).unwrap_or_else(|| panic!("{name} has no symbol"));
        assert_eq!((symbol.address(), symbol.size()), (u64::from(*offset), u64::from(*size)), "{name}");
    }
    let maps = in_maps.into_iter().map(|(name, ty, _, size)| types.map(name, ty, size)).collect();
    for section in [".rodata", ".bss"] {
        let size = file.section_by_name(section).map_or(0, |section| section.size());
        let described: u32 = types.variables(section).iter().map(|(_, _, _, size)| size).sum();
        assert_eq!(size, u64::from(described), "{section} is described");
    }
    let bss_bytes = file.section_by_name(".bss").map_or(0, |section| section.size());
    Read { programs, maps, rodata: bytes(".rodata"), bss_bytes, license: bytes("license") }
}

type Records = [(String, Vec<Vec<u32>>)];

fn programs_of(
    file: &object::File,
    section: &object::Section,
    types: &Types,
    functions: &Records,
    lines: &Records,
) -> Vec<Program> {
    let section_name = section.name().expect("a name");
    let of = |records: &Records| -> Vec<Vec<u32>> {
        records.iter().filter(|(name, _)| name == section_name).flat_map(|(_, records)| records.clone()).collect()
    };
    let (functions, lines, code) = (of(functions), of(lines), section.data().expect("readable"));
    let target = |symbol| {
        let symbol = file.symbol_by_index(symbol).expect("a symbol");
        match symbol.kind() {
            object::SymbolKind::Section => {
                let section = file.section_by_index(symbol.section_index().expect("a section")).expect("it is there");
                section.name().expect("a name").to_string()
            }
            _ => symbol.name().expect("a name").to_string(),
        }
    };
    let relocations: Vec<(u64, String)> = section
        .relocations()
        .map(|(offset, relocation)| match (relocation.target(), relocation.flags()) {
            (RelocationTarget::Symbol(symbol), object::RelocationFlags::Elf { r_type: 1 | 10 }) => {
                (offset, target(symbol))
            }
            other => panic!("a relocation to {other:?}"),
        })
        .collect();
    let mut symbols: Vec<_> = file.symbols().filter(|s| s.section_index() == Some(section.index())).collect();
    symbols.retain(|symbol| symbol.kind() == object::SymbolKind::Text);
    symbols.sort_by_key(object::ObjectSymbol::address);
    assert_eq!(
        symbols.iter().map(object::ObjectSymbol::size).sum::<u64>(),
        code.len() as u64,
        "{section_name} is programs"
    );
    assert_eq!(functions.len(), symbols.len(), "functions of {section_name}");
    let program = |symbol: &object::Symbol| {
        let inside = symbol.address()..symbol.address() + symbol.size();
        let record = functions.iter().find(|record| u64::from(record[0]) == inside.start).expect("a function record");
        let function = types.get(record[1], FUNCTION);
        let shape = (function.length, types.get(function.size_or_target, PROTOTYPE).length);
        // Programs are global and take the context. Static subprograms take the arguments that
        // their helper passes; blocks that share a program take the context. Subprograms that the
        // verifier checks once are global and take numbers.
        let is_known = if section_name == ".text" {
            [(0, 1), (0, 2), (0, 4), (1, 1), (1, 2)].contains(&shape)
        } else {
            shape == (1, 1)
        };
        assert!(is_known, "{section_name}: linkage and parameters {shape:?}");
        let line = |record: &Vec<u32>| Line {
            insn: (u64::from(record[0]) - inside.start) as u32 / 8,
            file: string(&types.strings, record[1]),
            text: string(&types.strings, record[2]),
            number: record[3] >> 10,
            column: record[3] & 0x3ff,
        };
        Program {
            name: symbol.name().expect("a name").into(),
            section: section_name.into(),
            code: code[inside.start as usize..inside.end as usize].to_vec(),
            relocations: relocations
                .iter()
                .filter(|(offset, _)| inside.contains(offset))
                .map(|(offset, to)| ((offset - inside.start) / 8, to.clone()))
                .collect(),
            function: function.name.clone(),
            lines: lines.iter().filter(|record| inside.contains(&u64::from(record[0]))).map(line).collect(),
        }
    };
    symbols.iter().map(program).collect()
}
