//! Encodes BTF, the kernel's type format, and `.BTF.ext` with function and line records.
//!
//! In: types and strings, added as needed. Out: the bytes of the sections `.BTF` and `.BTF.ext`.
//! Guarantees: type ids and string offsets are assigned in call order; equal strings share one
//! offset.

use std::collections::HashMap;

/// The id of a type in the section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TypeId(pub u32);

/// The byte offset of a string in the section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StringId(u32);

const MAGIC: u16 = 0xeb9f;
const VERSION: u8 = 1;
const HEADER_BYTES: u32 = 24;
const EXT_HEADER_BYTES: u32 = 32;
const FUNC_RECORD_BYTES: u32 = 8;
const LINE_RECORD_BYTES: u32 = 16;
const LINE_MAX: u32 = (1 << 22) - 1;
const COLUMN_MAX: u32 = (1 << 10) - 1;

const KIND_INT: u32 = 1;
const KIND_PTR: u32 = 2;
const KIND_ARRAY: u32 = 3;
const KIND_STRUCT: u32 = 4;
const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;
const KIND_VAR: u32 = 14;
const KIND_DATASEC: u32 = 15;
const INT_SIGNED: u32 = 1;
const LINKAGE_GLOBAL: u32 = 1;

/// The linkage of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Linkage {
    /// Visible only in its object: the kernel requires this of callbacks.
    Static = 0,
    /// Visible everywhere.
    Global = 1,
}

/// The `.BTF` section under construction.
#[derive(Default)]
pub(super) struct Btf {
    types: Vec<u8>,
    count: u32,
    strings: Vec<u8>,
    known: HashMap<String, u32>,
}

impl Btf {
    /// A section without types; its only string is the empty string.
    pub(super) fn new() -> Btf {
        Btf { strings: vec![0], ..Btf::default() }
    }

    /// The id of a string; adds the string if it is new.
    pub(super) fn string(&mut self, text: &str) -> StringId {
        if text.is_empty() {
            return StringId(0);
        }
        if let Some(offset) = self.known.get(text) {
            return StringId(*offset);
        }
        let offset = self.strings.len() as u32;
        self.strings.extend(text.bytes().filter(|byte| *byte != 0));
        self.strings.push(0);
        self.known.insert(text.to_owned(), offset);
        StringId(offset)
    }

    fn add(&mut self, name: &str, kind: u32, length: usize, size_or_type: u32, rest: &[u32]) -> TypeId {
        let name = self.string(name);
        for word in [name.0, kind << 24 | length as u32, size_or_type].iter().chain(rest) {
            self.types.extend(word.to_le_bytes());
        }
        self.count += 1;
        TypeId(self.count)
    }

    /// Adds an integer type.
    pub(super) fn int(&mut self, name: &str, size_bytes: u32, signed: bool) -> TypeId {
        let encoding = if signed { INT_SIGNED } else { 0 };
        self.add(name, KIND_INT, 0, size_bytes, &[(encoding << 24) | (size_bytes * 8)])
    }

    /// Adds a pointer type.
    pub(super) fn pointer(&mut self, to: TypeId) -> TypeId {
        self.add("", KIND_PTR, 0, to.0, &[])
    }

    /// Adds an array type.
    pub(super) fn array(&mut self, element: TypeId, index: TypeId, length: u32) -> TypeId {
        self.add("", KIND_ARRAY, 0, 0, &[element.0, index.0, length])
    }

    /// Adds a structure; members are name, type, and offset in bytes.
    pub(super) fn structure(&mut self, name: &str, size_bytes: u32, members: &[(&str, TypeId, u32)]) -> TypeId {
        let mut rest = Vec::with_capacity(members.len() * 3);
        for (name, ty, offset_bytes) in members {
            rest.extend([self.string(name).0, ty.0, offset_bytes * 8]);
        }
        self.add(name, KIND_STRUCT, members.len(), size_bytes, &rest)
    }

    /// Adds a function prototype.
    pub(super) fn prototype(&mut self, result: TypeId, parameters: &[(&str, TypeId)]) -> TypeId {
        let rest: Vec<u32> = parameters.iter().flat_map(|(name, ty)| [self.string(name).0, ty.0]).collect();
        self.add("", KIND_FUNC_PROTO, parameters.len(), result.0, &rest)
    }

    /// Adds a function.
    pub(super) fn function(&mut self, name: &str, prototype: TypeId, linkage: Linkage) -> TypeId {
        self.add(name, KIND_FUNC, linkage as usize, prototype.0, &[])
    }

    /// Adds a global variable.
    pub(super) fn variable(&mut self, name: &str, ty: TypeId) -> TypeId {
        self.add(name, KIND_VAR, 0, ty.0, &[LINKAGE_GLOBAL])
    }

    /// Adds a section of variables, each with type, offset and size in bytes.
    pub(super) fn section(&mut self, name: &str, size_bytes: u32, variables: &[(TypeId, u32, u32)]) -> TypeId {
        let rest: Vec<u32> = variables.iter().flat_map(|(ty, offset, size)| [ty.0, *offset, *size]).collect();
        self.add(name, KIND_DATASEC, variables.len(), size_bytes, &rest)
    }

    /// The section's bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = header(HEADER_BYTES);
        for word in [0, self.types.len() as u32, self.types.len() as u32, self.strings.len() as u32] {
            out.extend(word.to_le_bytes());
        }
        out.extend(&self.types);
        out.extend(&self.strings);
        out
    }
}

/// One instruction's location in the script.
pub(super) struct Line {
    /// Byte offset of the instruction in its section.
    pub offset_bytes: u32,
    /// The script's name.
    pub file: StringId,
    /// The text of the line.
    pub text: StringId,
    /// Line number, from 1.
    pub number: u32,
    /// Column number, from 1.
    pub column: u32,
}

/// The records of one program section.
pub(super) struct SectionRecords {
    /// The section's name.
    pub name: StringId,
    /// Byte offset and type of each function.
    pub functions: Vec<(u32, TypeId)>,
    /// Line records, by ascending offset.
    pub lines: Vec<Line>,
}

/// The bytes of `.BTF.ext`.
pub(super) fn extension(sections: &[SectionRecords]) -> Vec<u8> {
    let mut functions = Vec::new();
    let mut lines = Vec::new();
    if !sections.is_empty() {
        put(&mut functions, &[FUNC_RECORD_BYTES]);
        put(&mut lines, &[LINE_RECORD_BYTES]);
    }
    for section in sections {
        put(&mut functions, &[section.name.0, section.functions.len() as u32]);
        for (offset_bytes, ty) in &section.functions {
            put(&mut functions, &[*offset_bytes, ty.0]);
        }
        put(&mut lines, &[section.name.0, section.lines.len() as u32]);
        for line in &section.lines {
            let place = (line.number.min(LINE_MAX) << 10) | line.column.min(COLUMN_MAX);
            put(&mut lines, &[line.offset_bytes, line.file.0, line.text.0, place]);
        }
    }
    let (functions_bytes, lines_bytes) = (functions.len() as u32, lines.len() as u32);
    let mut out = header(EXT_HEADER_BYTES);
    put(&mut out, &[0, functions_bytes, functions_bytes, lines_bytes, functions_bytes + lines_bytes, 0]);
    out.extend(functions);
    out.extend(lines);
    out
}

fn header(size_bytes: u32) -> Vec<u8> {
    let mut out = MAGIC.to_le_bytes().to_vec();
    out.extend([VERSION, 0]);
    out.extend(size_bytes.to_le_bytes());
    out
}

fn put(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend(word.to_le_bytes());
    }
}
