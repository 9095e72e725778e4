//! Writes the ELF file.
//!
//! In: the IR's maps and data, and the encoded functions. Out: a relocatable `EM_BPF` object.
//! Guarantees: maps and data are referenced through `R_BPF_64_64` relocations; every program has
//! function and line records; map definitions are BTF, as libbpf 1.x requires.

use object::elf::{R_BPF_64_32, R_BPF_64_64};
use object::write::{Object, Relocation, SectionId, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
};

use super::bpf::INSN_SIZE_BYTES;
use super::btf_encode::{self, Btf, Line, Linkage, SectionRecords, TypeId};
use super::lines::LineTable;
use super::{EmittedFunction, Note};
use crate::ir::{FunctionId, Map, MapKind, Program, Role, Section};
use crate::source::Source;

/// The kernel's `BPF_F_NO_PREALLOC`.
const NO_PREALLOC: u32 = 1;
/// Bytes of a pointer member in a map definition.
const POINTER_BYTES: u32 = 8;
const RODATA_SYMBOL: &str = "profiler_rodata";
const BSS_SYMBOL: &str = "profiler_bss";

/// Writes the file.
pub(super) fn write(
    program: &Program,
    functions: &[EmittedFunction],
    subprograms: &[EmittedFunction],
    source: &Source,
) -> object::write::Result<Vec<u8>> {
    let mut writer = Writer::new();
    writer.license();
    writer.maps(&program.maps);
    writer.rodata(program);
    writer.bss(program.bss_size_bytes);
    writer.functions(program, functions, subprograms, source)?;
    writer.finish()
}

struct Writer {
    object: Object<'static>,
    btf: Btf,
    int: TypeId,
    byte: TypeId,
    maps: Vec<SymbolId>,
    rodata: Option<SymbolId>,
    bss: Option<SymbolId>,
    /// The symbol of the section of subprograms, used to reference them.
    text: Option<SymbolId>,
    /// The byte offset of each subprogram in that section.
    starts: Vec<u32>,
    records: Vec<SectionRecords>,
}

impl Writer {
    fn new() -> Writer {
        let mut btf = Btf::new();
        let int = btf.int("int", 4, true);
        let byte = btf.int("unsigned char", 1, false);
        let object = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
        Writer {
            object,
            btf,
            int,
            byte,
            maps: Vec::new(),
            rodata: None,
            bss: None,
            text: None,
            starts: Vec::new(),
            records: Vec::new(),
        }
    }

    fn section(&mut self, name: &str, kind: SectionKind) -> SectionId {
        self.object.add_section(Vec::new(), name.as_bytes().to_vec(), kind)
    }

    fn symbol(&mut self, name: &str, kind: SymbolKind, section: SectionId, value: u64, size: u64) -> SymbolId {
        self.object.add_symbol(Symbol {
            name: name.as_bytes().to_vec(),
            value,
            size,
            kind,
            scope: SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        })
    }

    fn license(&mut self) {
        let section = self.section("license", SectionKind::Data);
        self.object.append_section_data(section, b"GPL\0", 1);
    }

    fn maps(&mut self, maps: &[Map]) {
        if maps.is_empty() {
            return;
        }
        let section = self.section(".maps", SectionKind::Data);
        let mut variables = Vec::with_capacity(maps.len());
        for map in maps {
            let (ty, size_bytes) = self.map_definition(map);
            let offset = self.object.append_section_data(section, &vec![0; size_bytes as usize], 8);
            let symbol = self.symbol(&map.name, SymbolKind::Data, section, offset, u64::from(size_bytes));
            self.maps.push(symbol);
            variables.push((self.btf.variable(&map.name, ty), offset as u32, size_bytes));
        }
        let size_bytes = variables.iter().map(|(_, offset, size)| offset + size).max().unwrap_or(0);
        self.btf.section(".maps", size_bytes, &variables);
    }

    /// A structure whose member *types* encode the map's numbers, as libbpf reads them.
    fn map_definition(&mut self, map: &Map) -> (TypeId, u32) {
        let mut members = vec![("type", self.number(map.kind as u32))];
        match map.kind {
            MapKind::RingBuf => {}
            // The kernel accepts task storage only if key and value have BTF types.
            MapKind::TaskStorage => {
                let key = self.btf.pointer(self.int);
                let bytes = self.btf.array(self.byte, self.int, map.value_size_bytes);
                let value = self.btf.structure("task_value", map.value_size_bytes, &[("bytes", bytes, 0)]);
                members.extend([("key", key), ("value", self.btf.pointer(value))]);
            }
            _ => {
                members.push(("key_size", self.number(map.key_size_bytes)));
                members.push(("value_size", self.number(map.value_size_bytes)));
            }
        }
        if map.max_entries != 0 {
            members.push(("max_entries", self.number(map.max_entries)));
        }
        if map.no_prealloc {
            members.push(("map_flags", self.number(NO_PREALLOC)));
        }
        let size_bytes = members.len() as u32 * POINTER_BYTES;
        let members: Vec<(&str, TypeId, u32)> =
            (0..).zip(members).map(|(index, (name, ty))| (name, ty, index * POINTER_BYTES)).collect();
        (self.btf.structure("", size_bytes, &members), size_bytes)
    }

    /// A number encoded as a type: a pointer to an array of that many integers.
    fn number(&mut self, number: u32) -> TypeId {
        let array = self.btf.array(self.int, self.int, number);
        self.btf.pointer(array)
    }

    fn rodata(&mut self, program: &Program) {
        let bytes = &program.rodata;
        if !bytes.is_empty() {
            let section = self.section(".rodata", SectionKind::ReadOnlyData);
            self.object.append_section_data(section, bytes, 8);
            let named = &program.rodata_names;
            self.rodata = Some(self.data(section, ".rodata", RODATA_SYMBOL, named, bytes.len() as u32));
        }
    }

    fn bss(&mut self, size_bytes: u32) {
        if size_bytes != 0 {
            let section = self.section(".bss", SectionKind::UninitializedData);
            self.object.append_section_bss(section, u64::from(size_bytes), 8);
            self.bss = Some(self.data(section, ".bss", BSS_SYMBOL, &[], size_bytes));
        }
    }

    /// Describes a data section as global byte arrays, the named ones first: libbpf maps a section
    /// into user space only if it contains a global variable.
    fn data(
        &mut self,
        section: SectionId,
        name: &str,
        symbol: &str,
        named: &[(String, u32, u32)],
        size_bytes: u32,
    ) -> SymbolId {
        let start = named.iter().map(|(_, offset, size)| offset + size).max().unwrap_or(0);
        let rest = (size_bytes > start).then(|| (symbol.to_owned(), start, size_bytes - start));
        let mut variables = Vec::with_capacity(named.len() + 1);
        for (symbol, offset, size) in named.iter().cloned().chain(rest) {
            self.symbol(&symbol, SymbolKind::Data, section, u64::from(offset), u64::from(size));
            let array = self.btf.array(self.byte, self.int, size);
            variables.push((self.btf.variable(&symbol, array), offset, size));
        }
        self.btf.section(name, size_bytes, &variables);
        self.object.section_symbol(section)
    }

    fn functions(
        &mut self,
        program: &Program,
        functions: &[EmittedFunction],
        subprograms: &[EmittedFunction],
        source: &Source,
    ) -> object::write::Result<()> {
        let lines = LineTable::new(source);
        // Verifier: the context parameter points to a structure, because `void *` causes a message
        // in the log.
        let context = self.btf.structure("context", 0, &[]);
        let context = self.btf.pointer(context);
        let prototype = self.btf.prototype(self.int, &[("ctx", context)]);
        let mut sections: Vec<(&str, SectionId)> = Vec::new();
        // Subprograms come first, because their offsets are written into the functions that refer
        // to them.
        let roles = program.subprograms.iter().map(|function| function.role);
        let static_ones = subprograms.iter().zip(roles.map(Some));
        for (function, role) in static_ones.chain(functions.iter().map(|function| (function, None))) {
            let index = sections.iter().position(|(name, _)| *name == function.section).unwrap_or_else(|| {
                let section = self.section(&function.section, SectionKind::Text);
                let name = self.btf.string(&function.section);
                self.records.push(SectionRecords { name, functions: Vec::new(), lines: Vec::new() });
                sections.push((&function.section, section));
                sections.len() - 1
            });
            let section = sections[index].1;
            // Verifier: it checks a global function on its own.
            let linkage = match role {
                None | Some(Role::Apart) => Linkage::Global,
                Some(_) => Linkage::Static,
            };
            let prototype = match role {
                None | Some(Role::Block) => prototype,
                Some(role) => self.subprogram_prototype(role, context),
            };
            let ty = self.btf.function(&function.name, prototype, linkage);
            let start = self.function(function, section, linkage)?;
            if role.is_some() {
                self.text = Some(self.object.section_symbol(section));
                self.starts.push(start);
            }
            self.records[index].functions.push((start, ty));
            self.lines(function, &lines, index, start);
        }
        Ok(())
    }

    /// The prototype of a subprogram; for callbacks, the one that the kernel documents.
    fn subprogram_prototype(&mut self, role: Role, pointer: TypeId) -> TypeId {
        let result = self.btf.int("long", 8, true);
        match role {
            Role::Iteration => {
                let number = self.btf.int("unsigned int", 4, false);
                self.btf.prototype(result, &[("iteration", number), ("frame", pointer)])
            }
            Role::Apart => self.btf.prototype(result, &[("first", result), ("second", result)]),
            _ => {
                let parameters = [("map", pointer), ("key", pointer), ("value", pointer), ("frame", pointer)];
                self.btf.prototype(result, &parameters)
            }
        }
    }

    /// Appends a function's instructions and relocations; returns its byte offset in the section.
    fn function(
        &mut self,
        function: &EmittedFunction,
        section: SectionId,
        linkage: Linkage,
    ) -> object::write::Result<u32> {
        let mut insns = function.insns.clone();
        for (insn, note) in insns.iter_mut().zip(&function.notes) {
            let start = |id: &FunctionId| self.starts.get(id.0 as usize).map_or(0, |start| *start as i32);
            match note {
                Some(Note::Function(id)) => insn.imm = start(id),
                // A call counts instructions from the next one.
                Some(Note::Call(id)) => insn.imm = start(id) / INSN_SIZE_BYTES as i32 - 1,
                _ => {}
            }
        }
        let bytes: Vec<u8> = insns.iter().flat_map(|insn| insn.to_bytes()).collect();
        let start = self.object.append_section_data(section, &bytes, INSN_SIZE_BYTES as u64);
        let symbol = self.symbol(&function.name, SymbolKind::Text, section, start, bytes.len() as u64);
        if linkage == Linkage::Static {
            self.object.symbol_mut(symbol).scope = SymbolScope::Compilation;
        }
        for (index, note) in function.notes.iter().enumerate() {
            let symbol = match note {
                Some(Note::Map(map)) => self.maps.get(map.0 as usize).copied(),
                Some(Note::Data(Section::Rodata, _)) => self.rodata,
                Some(Note::Data(Section::Bss, _)) => self.bss,
                // libbpf finds a static function only by section symbol and the instruction's
                // offset in that section.
                Some(Note::Function(_) | Note::Call(_)) => self.text,
                Some(Note::Helper(_) | Note::Peek) | None => None,
            };
            if let Some(symbol) = symbol {
                let offset = start + (index * INSN_SIZE_BYTES) as u64;
                let r_type = if matches!(note, Some(Note::Call(_))) { R_BPF_64_32 } else { R_BPF_64_64 };
                let flags = RelocationFlags::Elf { r_type };
                self.object.add_relocation(section, Relocation { offset, symbol, addend: 0, flags })?;
            }
        }
        Ok(start as u32)
    }

    fn lines(&mut self, function: &EmittedFunction, table: &LineTable<'_>, section: usize, start: u32) {
        for place in table.of(function) {
            let (text, file) = table.text(&place);
            let (text, file) = (self.btf.string(text), self.btf.string(file));
            self.records[section].lines.push(Line {
                offset_bytes: start + (place.insn * INSN_SIZE_BYTES) as u32,
                file,
                text,
                number: place.line,
                column: place.column,
            });
        }
    }

    fn finish(mut self) -> object::write::Result<Vec<u8>> {
        let btf = self.section(".BTF", SectionKind::Other);
        self.object.append_section_data(btf, &self.btf.to_bytes(), 8);
        let extension = self.section(".BTF.ext", SectionKind::Other);
        self.object.append_section_data(extension, &btf_encode::extension(&self.records), 8);
        self.object.write()
    }
}
