use std::io::Cursor;

use super::*;

/// The same program: `outer`, with `inner` in `middle` inlined into it.
const DWARF_4: &[u8] = include_bytes!("../../../fuzz/corpus/lines/dwarf4.so");
const DWARF_5: &[u8] = include_bytes!("../../../fuzz/corpus/lines/dwarf5.so");
const COMPRESSED: &[u8] = include_bytes!("../../../fuzz/corpus/lines/packed.so");
const SEPARATE: &[u8] = include_bytes!("../../../fuzz/corpus/lines/separate.debug");
const STRIPPED: &[u8] = include_bytes!("../../../fuzz/corpus/lines/linked.so");

/// The start of `outer`, and its multiplication, which is in `inner`.
const START: u64 = 0x240;
const MULTIPLICATION: u64 = 0x253;

fn read(file: &[u8]) -> Option<Box<Lines>> {
    if let Read::Lines(lines) = Lines::read(Cursor::new(file)) { Some(lines) } else { None }
}

fn origin(file: &[u8], address: u64) -> Option<Origin> {
    read(file).map(|mut lines| lines.find(address).origin)
}

fn at(line: u32) -> Source {
    Source { file: "/src/small.c".into(), line }
}

#[test]
fn inlined_functions_have_their_lines_in_every_form_of_the_information() {
    let inlined = |name: &str, line| Inlined { name: name.into(), source: Some(at(line)) };
    let expected =
        Origin { source: Some(at(14)), inlined: vec![inlined("inner", 5), inlined("middle", 10)], ..Origin::default() };
    for file in [DWARF_4, DWARF_5, COMPRESSED, SEPARATE] {
        assert_eq!(origin(file, MULTIPLICATION).as_ref(), Some(&expected));
        assert_eq!(origin(file, START + 100), Some(Origin::default()), "no code of the file");
    }
    assert_eq!(origin(STRIPPED, START), None);
    assert_eq!(origin(b"\x7fELF", START), None);
}

#[test]
fn only_the_unit_of_an_address_is_parsed_where_the_file_says_which_it_is() {
    for file in [DWARF_4, DWARF_5, COMPRESSED, SEPARATE] {
        let mut lines = read(file).expect("debug information");
        let alone = lines.find(MULTIPLICATION).origin;
        let units = lines.units.as_ref().expect("it was parsed");
        assert!(alone.source.is_some() && !units.has_parsed_all());
        lines.sections.retain(|(id, _)| *id != SectionId::DebugAranges);
        lines.units = None;
        assert_eq!(lines.find(MULTIPLICATION).origin, alone);
        assert!(lines.units.as_ref().expect("it was parsed").has_parsed_all());
    }
}

#[test]
fn a_file_says_where_its_debug_file_is() {
    let stripped = DebugSections::parse(STRIPPED).expect("an ELF file");
    let separate = DebugSections::parse(SEPARATE).expect("an ELF file");
    assert_eq!(stripped.build_id, [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
    assert_eq!(stripped.build_id, separate.build_id);
    assert!(!stripped.has_lines() && separate.has_lines() && separate.has_symbols);
    assert_eq!(stripped.link.map(|link| link.name).as_deref(), Some("small.debug"));
    assert_eq!(separate.link, None);
}

#[test]
fn damaged_files_are_read_without_harm() {
    for file in [DWARF_4, DWARF_5, COMPRESSED] {
        for at in 0..file.len() {
            for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                let mut damaged = file.to_vec();
                damaged[at] = value;
                if let Some(origin) = origin(&damaged, MULTIPLICATION) {
                    assert!(origin.inlined.len() <= MAX_INLINED);
                }
            }
        }
        for length in 0..file.len() {
            origin(&file[..length], MULTIPLICATION);
        }
    }
}

#[test]
fn a_file_that_takes_too_many_steps_is_parsed_again_and_then_given_up() {
    let mut lines = read(DWARF_5).expect("debug information");
    for _ in 0..MAX_PARSES {
        assert_ne!(lines.find(MULTIPLICATION).origin, Origin::default());
        lines.meter.fill(1);
        lines.find(START);
        lines.meter.fill(0);
        lines.find(START);
    }
    assert_eq!(lines.find(MULTIPLICATION).origin, Origin::default());
}

/// A unit with one function, at 0x1000, whose children are `nested`.
fn with_nested(nested: &[u8]) -> Lines {
    // Tags with children: a unit and a function with a start and a length, an inlined function
    // without attributes.
    let abbreviations = [
        &[1, 0x11, 1, 0x11, 0x01, 0x12, 0x06, 0, 0][..],
        &[2, 0x2e, 1, 0x11, 0x01, 0x12, 0x06, 0, 0],
        &[3, 0x1d, 1, 0, 0, 0],
    ];
    let range = [&0x1000_u64.to_le_bytes()[..], &0x100_u32.to_le_bytes()].concat();
    let unit = [&[4, 0, 0, 0, 0, 0, 8, 1][..], &range, &[2], &range, nested].concat();
    let info = [&(unit.len() as u32).to_le_bytes()[..], &unit].concat();
    let meter = Rc::new(Meter::default());
    let endian = gimli::RunTimeEndian::Little;
    let section = |bytes: Vec<u8>| Rc::new(Section { bytes, meter: Rc::clone(&meter), endian });
    let sections =
        vec![(SectionId::DebugInfo, section(info)), (SectionId::DebugAbbrev, section(abbreviations.concat()))];
    let (empty, reserved) = (section(Vec::new()), Reserved::default());
    Lines { sections, empty, meter, units: None, parses_left: MAX_PARSES, _reserved: reserved }
}

#[test]
fn functions_nested_a_million_deep_overflow_no_stack() {
    let mut shallow = with_nested(&[3, 3, 3, 0, 0, 0]);
    shallow.find(0x1000);
    assert!(shallow.units.is_some(), "it can be read");
    let mut deep = with_nested(&vec![3; 1 << 20]);
    assert_eq!(deep.find(0x1000).origin, Origin::default());
    assert!(deep.units.is_none(), "it is given up");
}
