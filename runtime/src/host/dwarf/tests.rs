//! Tests on a small file with debug information written by hand, intact and damaged.
//!
//! In: a unit with a struct that contains itself, and functions. Guarantee tested: names, types and
//! places; damaged bytes give an answer.

use std::collections::BTreeSet;

use object::write::{Object, StandardSegment};
use object::{Architecture, BinaryFormat, Endianness, SectionKind};
use profiler_compiler::btf::{Added, Btf};
use profiler_compiler::target::{Arch, ParameterPlace, ProgramFunction, ProgramQuestions};

use super::DebugInformation;
use super::calls::{Class, Places};

/// A tag, whether entries have children, and attributes with their forms.
type Abbreviation = (u8, bool, &'static [(u8, u8)]);

const ABBREVIATIONS: &[Abbreviation] = &[
    // 1: compile_unit: language (data2), low_pc (addr), high_pc (data8).
    (0x11, true, &[(0x13, 0x05), (0x11, 0x01), (0x12, 0x07)]),
    // 2: base_type: name (string), encoding (data1), byte_size (data1).
    (0x24, false, &[(0x03, 0x08), (0x3e, 0x0b), (0x0b, 0x0b)]),
    // 3: pointer_type: type (ref4).
    (0x0f, false, &[(0x49, 0x13)]),
    // 4: structure_type: name, byte_size.
    (0x13, true, &[(0x03, 0x08), (0x0b, 0x0b)]),
    // 5: member: name, type, data_member_location (data1).
    (0x0d, false, &[(0x03, 0x08), (0x49, 0x13), (0x38, 0x0b)]),
    // 6: member that is a bit-field: name, type, bit_size, data_bit_offset.
    (0x0d, false, &[(0x03, 0x08), (0x49, 0x13), (0x0d, 0x0b), (0x6b, 0x0b)]),
    // 7: subprogram: name, low_pc, high_pc, type, frame_base (exprloc).
    (0x2e, true, &[(0x03, 0x08), (0x11, 0x01), (0x12, 0x07), (0x49, 0x13), (0x40, 0x18)]),
    // 8: formal_parameter: name, type, location (exprloc).
    (0x05, false, &[(0x03, 0x08), (0x49, 0x13), (0x02, 0x18)]),
    // 9: formal_parameter without a location.
    (0x05, false, &[(0x03, 0x08), (0x49, 0x13)]),
];

/// Where the code begins, in memory; in the file, it is wherever the sections put it.
const CODE: u64 = 0;

/// The entries of one unit, as they are written.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// The offset of the next entry in the unit.
    fn here(&self) -> u32 {
        self.bytes.len() as u32 + 11
    }

    fn entry(&mut self, abbreviation: u8, parts: &[&[u8]]) -> u32 {
        let here = self.here();
        self.bytes.push(abbreviation);
        self.bytes.extend(parts.concat());
        here
    }

    fn number(&mut self, name: &[u8], encoding: u8, size_bytes: u8) -> u32 {
        self.entry(2, &[name, &[encoding, size_bytes]])
    }

    fn parameter(&mut self, name: &[u8], ty: u32, location: &[u8]) {
        self.entry(8, &[name, &ty.to_le_bytes(), &[location.len() as u8], location]);
    }

    fn end(&mut self) {
        self.bytes.push(0);
    }
}

fn info() -> Vec<u8> {
    let mut out = Writer::default();
    out.entry(1, &[&[0x0c, 0], &CODE.to_le_bytes(), &64_u64.to_le_bytes()]);
    let int = out.number(b"int\0", 5, 4);
    let text = out.number(b"char\0", 6, 1);
    let double = out.number(b"double\0", 4, 8);
    let to_text = out.entry(3, &[&text.to_le_bytes()]);
    let conn = out.entry(4, &[b"conn\0", &[24]]);
    // The struct has a pointer to itself, which follows it.
    let to_conn = out.here() + 11 + 12 + 11 + 12 + 1;
    out.entry(5, &[b"name\0", &to_text.to_le_bytes(), &[0]]);
    out.entry(6, &[b"bits\0", &int.to_le_bytes(), &[3, 66]]);
    out.entry(5, &[b"next\0", &to_conn.to_le_bytes(), &[16]]);
    out.entry(5, &[b"ratio\0", &double.to_le_bytes(), &[12]]);
    out.end();
    assert_eq!(out.entry(3, &[&conn.to_le_bytes()]), to_conn);
    // `DW_OP_call_frame_cfa`; places are `DW_OP_fbreg`.
    let start = CODE.to_le_bytes();
    out.entry(7, &[b"handle\0", &start, &16_u64.to_le_bytes(), &to_conn.to_le_bytes(), &[1, 0x9c]]);
    out.parameter(b"conn\0", to_conn, &[0x91, 0x70]);
    out.parameter(b"ratio\0", double, &[0x91, 0x60]);
    out.parameter(b"len\0", int, &[0x91, 0x50]);
    out.parameter(b"last\0", int, &[0x91, 0x08]);
    out.entry(9, &[b"gone\0", &int.to_le_bytes()]);
    out.end();
    out.end();
    let mut whole = (out.bytes.len() as u32 + 7).to_le_bytes().to_vec();
    // DWARF 4, abbreviations at 0, addresses of 8 bytes.
    whole.extend([4, 0, 0, 0, 0, 0, 8]);
    whole.extend(out.bytes);
    whole
}

fn abbreviations() -> Vec<u8> {
    let mut bytes = Vec::new();
    for (code, (tag, has_children, attributes)) in (1..).zip(ABBREVIATIONS) {
        bytes.extend([code, *tag, u8::from(*has_children)]);
        bytes.extend(attributes.iter().flat_map(|(name, form)| [*name, *form]));
        bytes.extend([0, 0]);
    }
    bytes.push(0);
    bytes
}

fn file() -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    for (name, bytes) in [(".debug_abbrev", abbreviations()), (".debug_info", info())] {
        let segment = object.segment_name(StandardSegment::Debug).to_vec();
        let section = object.add_section(segment, name.as_bytes().to_vec(), SectionKind::Debug);
        object.set_section_data(section, bytes, 1);
    }
    object.write().expect("a small file")
}

/// The first function of a file, of which the first byte is at the address of the code.
fn first(bytes: &[u8]) -> Result<(ProgramFunction, Btf), String> {
    let mut information = DebugInformation::parse(bytes, Arch::X86_64)?;
    information.file.map_all();
    let mut types = Added::default();
    let questions = ProgramQuestions { functions: [CODE].into(), ..ProgramQuestions::default() };
    let mut answers = information.describe(&questions, &BTreeSet::new(), &mut types);
    let function = answers.functions.remove(&CODE).expect("an answer")?;
    Ok((function, Btf::with(None, types)))
}

#[test]
fn reads_parameters_types_and_places() {
    let (function, btf) = first(&file()).expect("it describes the function");
    let lines = ["struct conn * conn", "int len", "int last"];
    let described = function.described(&btf);
    assert!(lines.iter().all(|line| described.iter().any(|found| found == line)), "{described:?}");
    assert_eq!((function.name.as_str(), btf.describe(function.result).as_str()), ("handle", "struct conn *"));
    let place = |index: usize| function.parameters[index].place.clone();
    // rdi and rsi: the number between them is in a register of its own.
    assert_eq!((place(0), place(2)), (ParameterPlace::Register(112), ParameterPlace::Register(104)));
    assert_eq!(place(3), ParameterPlace::Stack(16));
    assert!(matches!(place(1), ParameterPlace::Unreadable(why) if why.contains("floating-point")));
    assert!(matches!(place(4), ParameterPlace::Unreadable(why) if why.contains("optimised away")));
    let conn = btf.pointee(function.result).expect("a pointer");
    let next = btf.find_member(conn, "next").expect("a member");
    assert_eq!((next.byte_offset(), btf.pointee(next.ty)), (16, Some(conn)));
    let bits = btf.find_member(conn, "bits").expect("a bit-field");
    assert_eq!((bits.bit_offset, bits.bitfield_width), (66, Some(3)));
    assert_eq!(btf.describe(btf.find_member(conn, "name").expect("a member").ty), "char *");
    assert_eq!(btf.find_named("struct conn"), Some(conn), "nothing hides it here");
}

#[test]
fn damaged_bytes_give_an_answer() {
    let whole = file();
    let mut state = 11_u64;
    let mut next = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut answers = 0;
    for _ in 0..20_000 {
        let mut damaged = whole.clone();
        for _ in 0..=next(4) {
            let at = next(damaged.len());
            damaged[at] = [0, 1, 0x7f, 0x80, 0xff, next(256) as u8][next(6)];
        }
        if next(8) == 0 {
            damaged.truncate(next(whole.len()));
        }
        if let Ok((function, btf)) = first(&damaged) {
            answers += function.described(&btf).len();
        }
    }
    assert!(answers > 10_000, "most damage is elsewhere: {answers}");
}

#[test]
fn a_file_without_debug_information_says_so() {
    let object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let bytes = object.write().expect("a small file");
    assert!(first(&bytes).is_err_and(|why| why.contains("has no debug information") && why.contains("-g")));
    let other = Object::new(BinaryFormat::Elf, Architecture::I386, Endianness::Little).write().expect("a small file");
    assert!(first(&other).is_err_and(|why| why.contains("not a 64-bit program for this processor")));
    assert!(first(b"#!/bin/sh").is_err_and(|why| why.contains("not an ELF file")));
}

#[test]
fn places_follow_the_calling_convention() {
    let places = |arch, result, classes: &[Class]| -> Vec<Option<u32>> {
        let mut places = Places::new(arch, result);
        let offset = |place| match place {
            ParameterPlace::Register(offset) => Some(offset),
            ParameterPlace::Stack(offset) => Some(1000 + offset),
            ParameterPlace::Memory(..)
            | ParameterPlace::Members(_)
            | ParameterPlace::Constant(_)
            | ParameterPlace::Unreadable(_) => None,
        };
        classes.iter().map(|class| offset(places.next(*class))).collect()
    };
    let words = [Class::Words(1); 9];
    let all = [112, 104, 96, 88, 72, 64, 1008, 1016, 1024].map(Some);
    assert_eq!(places(Arch::X86_64, Class::Words(1), &words), all);
    // The result's address is the first argument.
    assert_eq!(places(Arch::X86_64, Class::Memory(40), &words[..2]), [Some(104), Some(96)]);
    assert_eq!(places(Arch::X86_64, Class::Unknown, &words[..2]), [None, None]);
    let mixed = [Class::Float, Class::Words(1), Class::StructWords(2), Class::Words(1), Class::Memory(40), words[0]];
    assert_eq!(places(Arch::X86_64, Class::Nothing, &mixed), [None, Some(112), None, Some(88), None, Some(72)]);
    // Nothing is known of what follows a struct with other things than integers.
    assert_eq!(places(Arch::X86_64, Class::Float, &[Class::Mixed, words[0]]), [None, None]);
    // A slice is passed as two words, which may be in a register and on the stack.
    let mut of_slices = Places::new(Arch::X86_64, Class::Words(1));
    let pair = |first, second| ParameterPlace::Members(vec![first, second]);
    let in_register = |offset| ParameterPlace::Register(offset);
    assert_eq!(of_slices.next(Class::Words(1)), in_register(112));
    assert_eq!(of_slices.next(Class::Pair), pair(in_register(104), in_register(96)));
    assert_eq!(of_slices.next(Class::Pair), pair(in_register(88), in_register(72)));
    assert_eq!(of_slices.next(Class::Pair), pair(in_register(64), ParameterPlace::Stack(8)));
    let arm = [0, 8, 16, 24, 32, 40, 48, 56, 1000].map(Some);
    assert_eq!(places(Arch::Aarch64, Class::Memory(40), &words), arm);
}
