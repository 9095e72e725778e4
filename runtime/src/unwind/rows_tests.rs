use std::borrow::Cow;

use gimli::{CfaRule, EhFrameHdr, RegisterRule, UnwindTableRow};
use object::read::{Object as _, ObjectSection as _};

use super::*;
use crate::symbols::naming::own_vdso;

/// `rsp + 8`, the return address directly below it: how functions begin.
const BEGIN: [u8; 5] = [0x0c, 7, 8, 0x90, 1];
const UNSUPPORTED: Rule = Rule::Special(Special::Unsupported);
/// `DW_CFA_advance_loc`, plus the bytes.
const ADVANCE: u8 = 0x40;

/// Entry of the section: its length, then the rest up to a multiple of 4.
fn entry(mut rest: Vec<u8>) -> Vec<u8> {
    rest.resize(rest.len().next_multiple_of(4), 0);
    let mut entry = (rest.len() as u32).to_le_bytes().to_vec();
    entry.extend(rest);
    entry
}

/// A section with a common entry, which has this augmentation and register of the return address,
/// and functions: start, size, instructions.
fn section(augmentation: &str, return_address: u8, functions: &[(u64, u64, &[u8])]) -> Vec<u8> {
    let mut common = vec![0, 0, 0, 0, 1];
    common.extend(augmentation.as_bytes());
    common.extend([0, 1, 0x78, return_address, 1, 0]);
    common.extend(BEGIN);
    let mut section = entry(common);
    for (start, size, instructions) in functions {
        let mut rest = (section.len() as u32 + 4).to_le_bytes().to_vec();
        rest.extend(start.to_le_bytes());
        rest.extend(size.to_le_bytes());
        rest.push(0);
        rest.extend(*instructions);
        section.extend(entry(rest));
    }
    section
}

fn read(eh_frame: &[u8]) -> Vec<u64> {
    read_with(eh_frame, &|_, _| None)
}

fn read_with<'data>(eh_frame: &'data [u8], instructions: Instructions<'_, 'data>) -> Vec<u64> {
    let bases = BaseAddresses::default().set_eh_frame(0x100);
    rows(&Sections { eh_frame, bases, ..Sections::default() }, instructions)
}

fn coded(rows: &[(u64, Rule)]) -> Vec<u64> {
    rows.iter().map(|(address, rule)| row(*address, rule.code())).collect()
}

fn expect(functions: &[(u64, u64, &[u8])], expected: &[(u64, Rule)]) {
    assert_eq!(read(&section("zR", 16, functions)), coded(expected), "{functions:?}");
}

#[test]
fn instructions_become_rules() {
    let plt = |limit: u8| vec![0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, limit, 0x2a, 0x33, 0x24, 0x22];
    let realigned = [&[0x10, 6, 2, 0x76, 0][..], &[0x0f, 3, 0x76, 0x78, 0x06]].concat();
    let far = [&[0x10, 6, 2, 0x76, 0][..], &[0x0f, 4, 0x76, 0x80, 0x7f, 0x06]].concat();
    for (instructions, rule) in [
        (vec![], AT_CALL),
        (vec![0x0e, 48, 0x86, 6], Rule::FromRsp { words: 6, rbp: 6 }),
        // A frame of 1 MiB.
        (vec![0x0e, 0x80, 0x80, 0x40, 0x86, 2], Rule::FromRsp { words: 1 << 17, rbp: 2 }),
        (vec![0x0c, 6, 16, 0x86, 2], Rule::FromRbp { words: 2, rbp: 2 }),
        // RBP is free for other use, or keeps its value.
        (vec![0x07, 6], AT_CALL),
        (vec![0x86, 2, 0x08, 6], AT_CALL),
        // Where a thread begins.
        (vec![0x07, 16], Rule::Special(Special::Outermost)),
        (plt(0x3b), Rule::Special(Special::Plt11)),
        (plt(0x3a), Rule::Special(Special::Plt10)),
        (plt(0x39), Rule::Special(Special::Plt9)),
        (realigned, Rule::Realigned { words: 1 }),
        (far, Rule::Realigned { words: 16 }),
        // As OpenSSL's assembly writes it.
        (vec![0x0f, 6, 0x77, 0x98, 1, 0x06, 0x23, 8, 0x86, 3], Rule::Stored { words: 19, rbp: 3 }),
        (vec![0x0c, 3, 56], Rule::FromRbx { words: 7, saved: 0 }),
        // As in the middle of glibc's `vfork`.
        (vec![0x0e, 0, 0x09, 16, 5], Rule::Special(Special::InRdi)),
    ] {
        expect(&[(0x1000, 0x20, &instructions)], &[(0x1000, rule), (0x1020, NONE)]);
    }
}

#[test]
fn the_code_where_a_program_begins_has_no_caller() {
    let begins = |entry: u64, functions: &[(u64, u64, &[u8])], expected: &[(u64, Rule)]| {
        let eh_frame = section("zR", 16, functions);
        let bases = BaseAddresses::default().set_eh_frame(0x100);
        let sections = Sections { eh_frame: &eh_frame, bases, entry, ..Sections::default() };
        assert_eq!(rows(&sections, &|_, _| None), coded(expected), "{entry:#x}");
    };
    let outermost = Rule::Special(Special::Outermost);
    let functions = [(0x1000, 0x20, &[][..]), (0x1080, 0x20, &[])];
    let known = [(0x1000, AT_CALL), (0x1020, NONE), (0x1080, AT_CALL), (0x10a0, NONE)];
    begins(0, &functions, &known);
    begins(0x1010, &functions, &known);
    begins(0x1050, &functions, &[known[0], known[1], (0x1050, outermost), known[2], known[3]]);
    begins(0x900, &functions, &[&[(0x900, outermost), (0xa00, NONE)], &known[..]].concat());
    begins(0x1020, &functions[..1], &[known[0], (0x1020, outermost), (0x1120, NONE)]);
    begins(0x1020, &[], &[]);
    begins(u64::MAX, &functions, &known);
}

#[test]
fn other_instructions_are_not_supported() {
    for instructions in [
        // Another register, an odd offset, a frame that is too large.
        vec![0x0c, 10, 8],
        vec![0x0e, 12],
        vec![0x0e, 0x80, 0x80, 0x80, 4],
        // The return address elsewhere, unchanged, or in a register.
        vec![0x90, 2],
        vec![0x08, 16],
        vec![0x09, 16, 3],
        // In RDI, but the stack pointer is another, or RBP is saved.
        vec![0x09, 16, 5],
        vec![0x0e, 0, 0x09, 16, 5, 0x86, 2],
        // RBP as a difference, above the CFA, or in the return address's place.
        vec![0x14, 6, 2],
        vec![0x11, 6, 0x7f],
        vec![0x86, 1],
        // Other expressions: `rbp - 8`, what `rbx - 8` points to, RBP where `rbp - 8` points.
        vec![0x10, 6, 2, 0x76, 0, 0x0f, 2, 0x76, 0x78],
        vec![0x10, 6, 2, 0x76, 0, 0x0f, 3, 0x73, 0x78, 0x06],
        vec![0x10, 6, 2, 0x76, 0x78, 0x0f, 3, 0x76, 0x78, 0x06],
        vec![0x0f, 0],
        // What is stored below RSP, or 16 more than what is stored above it; RBP saved with RBX.
        vec![0x0f, 5, 0x77, 0x78, 0x06, 0x23, 8],
        vec![0x0f, 5, 0x77, 0x08, 0x06, 0x23, 16],
        vec![0x0c, 3, 56, 0x86, 2],
    ] {
        expect(&[(0x1000, 0x20, &instructions)], &[(0x1000, UNSUPPORTED), (0x1020, NONE)]);
    }
    let other_register = read(&section("zR", 15, &[(0x1000, 0x20, &[])]));
    assert_eq!(other_register, coded(&[(0x1000, UNSUPPORTED), (0x1020, NONE)]));
    let signal = read(&section("zRS", 16, &[(0x1000, 0x20, &[0x07, 16])]));
    assert_eq!(signal, coded(&[(0x1000, Rule::Special(Special::Signal)), (0x1020, NONE)]));
}

/// A function whose frame is found by RBX calls one that saves it.
#[test]
fn the_place_of_rbx_is_that_of_the_function_called() {
    let functions = [
        (0x1000, 0x20, &[ADVANCE + 8, 0x0c, 3, 56, ADVANCE + 16, 0x0c, 7, 8][..]),
        (0x2000, 0x20, &[ADVANCE + 4, 0x0e, 56, 0x83, 7]),
        (0x3000, 0x20, &[ADVANCE + 4, 0x0e, 16, 0x83, 2]),
        (0x4000, 0x20, &[]),
    ];
    let section = section("zR", 16, &functions);
    let call = |at: i32, to: i32| [&[0x90, 0xe8][..], &(to - (0x1000 + at + 6)).to_le_bytes()].concat();
    for (calls, saved) in [
        (vec![0x2000], 7),
        (vec![0x3000], 2),
        (vec![0x2000, 0x2000], 7),
        (vec![0x2001, 0x3000], 2),
        // They disagree, or none is known.
        (vec![0x2000, 0x3000], 0),
        (vec![0x4000], 0),
        (vec![0x4000, 0x2000], 0),
        (vec![], 0),
    ] {
        let code: Vec<u8> = (0..).step_by(6).zip(calls).flat_map(|(at, to)| call(at, to)).collect();
        let found = read_with(&section, &|address, _| Some(&code[..]).filter(|_| address == 0x1000));
        let at = |address| found.iter().find(|row| address_of(**row) == address).map(|row| rule_of(*row));
        assert_eq!(at(0x1008), Some(Rule::FromRbx { words: 7, saved }.code()), "{saved}: {found:x?}");
        assert_eq!((at(0x1000), at(0x1018)), (Some(AT_CALL.code()), Some(AT_CALL.code())));
    }
}

#[test]
fn equal_and_empty_rows_are_merged() {
    let pushes = [ADVANCE + 1, 0x0e, 16, ADVANCE, 0x86, 2, ADVANCE + 3, 0x0e, 16, ADVANCE + 4, 0x0e, 8];
    let saved = Rule::FromRsp { words: 2, rbp: 2 };
    let last = Rule::FromRsp { words: 1, rbp: 2 };
    expect(&[(0x1000, 0x20, &pushes)], &[(0x1000, AT_CALL), (0x1001, saved), (0x1008, last), (0x1020, NONE)]);
    // Rows after the end of the function.
    expect(&[(0x1000, 0x20, &[ADVANCE + 0x20, 0x0e, 16])], &[(0x1000, AT_CALL), (0x1020, NONE)]);
}

#[test]
fn functions_are_sorted_and_later_ones_count() {
    let push: &[u8] = &[ADVANCE + 0x10, 0x0e, 16];
    let pushed = Rule::FromRsp { words: 2, rbp: 0 };
    // Only padding is between the first two.
    let functions = [(0x2000, 0x20, push), (0x1000, 0x20, push), (0x1030 - 1, 0x20, push)];
    let expected = [(0x1000, AT_CALL), (0x1010, pushed), (0x102f, AT_CALL), (0x103f, pushed), (0x104f, NONE)];
    let second = [(0x2000, AT_CALL), (0x2010, pushed), (0x2020, NONE)];
    expect(&functions, &[&expected[..], &second].concat());
    let overlapping: [(u64, u64, &[u8]); 2] = [(0x1000, 0x100, push), (0x1008, 0x20, &[0x0e, 32])];
    let large = Rule::FromRsp { words: 4, rbp: 0 };
    expect(&overlapping, &[(0x1000, AT_CALL), (0x1008, large), (0x1028, NONE)]);
    let same: [(u64, u64, &[u8]); 2] = [(0x1000, 0x100, push), (0x1000, 0x20, &[0x0e, 32])];
    expect(&same, &[(0x1000, large), (0x1020, NONE)]);
}

#[test]
fn entries_with_errors_are_left_out() {
    let good: &[u8] = &[];
    for damaged in [
        // An unknown instruction, a state that was not remembered, an incomplete instruction.
        (0x2000, 0x20, &[ADVANCE + 1, 0x3f][..]),
        (0x2000, 0x20, &[ADVANCE + 1, 0x0b]),
        (0x2000, 0x20, &[0x0f, 0x70, 0x76]),
        // Discarded by the linker, empty, too large, beyond the addresses of users.
        (0, 0x20, good),
        (0x2000, 0, good),
        (0x2000, u64::MAX, good),
        (END_OF_ADDRESSES, 0x20, good),
    ] {
        let expected = [(0x1000, AT_CALL), (0x1020, NONE), (0x3000, AT_CALL), (0x3020, NONE)];
        expect(&[(0x1000, 0x20, good), damaged, (0x3000, 0x20, good)], &expected);
    }
}

#[test]
fn debug_frame_describes_what_eh_frame_does_not() {
    let mut debug_frame = entry([&[0xff; 4][..], &[3, 0, 1, 0x78, 16], &BEGIN].concat());
    let addresses = [0x7000_u64, 0x20].into_iter().flat_map(u64::to_le_bytes);
    debug_frame.extend(entry([0; 4].into_iter().chain(addresses).collect()));
    let eh_frame = section("zR", 16, &[(0x1000, 0x20, &[])]);
    let read = |eh_frame: &[u8]| {
        let debug_frame = Cow::Borrowed(debug_frame.as_slice());
        rows(&Sections { eh_frame, debug_frame, ..Sections::default() }, &|_, _| None)
    };
    let of_both = [(0x1000, AT_CALL), (0x1020, NONE), (0x7000, AT_CALL), (0x7020, NONE)];
    assert_eq!(read(&[]), coded(&of_both[2..]));
    assert_eq!(read(&eh_frame), coded(&of_both));
    let other = section("zR", 16, &[(0x6ff0, 0x20, &[0x0e, 48])]);
    assert_eq!(read(&other), coded(&[(0x6ff0, Rule::FromRsp { words: 6, rbp: 0 }), (0x7010, NONE)]));
}

/// As at the end of a stack that glibc's `makecontext` has made.
#[test]
fn a_stack_may_begin_before_a_short_function_that_saves_nothing() {
    let begun = |address| (address, Rule::Special(Special::Begun));
    let saves = &[0x0e, 48][..];
    let [first, second] = [(0x1000, 0x18, saves), (0x1020, 0x40, &[][..])];
    let rule = (0x1000, Rule::FromRsp { words: 6, rbp: 0 });
    expect(&[first, second], &[rule, begun(0x101f), (0x1020, AT_CALL), (0x1060, NONE)]);
    // Too long, with a frame, without padding, or after other code.
    expect(&[first, (0x1020, 0x41, &[])], &[rule, (0x1020, AT_CALL), (0x1061, NONE)]);
    expect(&[first, (0x1020, 0x40, saves)], &[rule, (0x1060, NONE)]);
    expect(&[first, (0x1018, 0x40, &[])], &[rule, (0x1018, AT_CALL), (0x1058, NONE)]);
    expect(&[first, (0x1030, 0x40, &[])], &[rule, (0x1018, NONE), (0x1030, AT_CALL), (0x1070, NONE)]);
}

#[test]
fn damaged_bytes_give_a_sorted_table() {
    let Some(vdso) = own_vdso() else {
        println!("SKIPPED: this process has no vDSO");
        return;
    };
    let read = |bytes: &[u8]| {
        let rows_of = |sections| rows(&sections, &|address, size| sections.instructions(bytes, address, size));
        Sections::find(bytes).map(rows_of).unwrap_or_default()
    };
    assert!(read(&vdso).len() > 10);
    for at in 0..vdso.len() {
        for change in [0xff, 0x80, 1] {
            let mut bytes = vdso.clone();
            bytes[at] ^= change;
            assert!(read(&bytes).is_sorted_by(|a, b| address_of(*a) < address_of(*b)), "byte {at} ^ {change}");
        }
        assert!(read(&vdso[..at]).len() <= read(&vdso).len());
    }
}

/// The code of a simple row, as the layout in `model` describes it. Larger frames have none.
fn simple(row: &UnwindTableRow<usize>) -> Option<u32> {
    let (CfaRule::RegisterAndOffset { register, offset }, Some(RegisterRule::Offset(-8))) =
        (row.cfa(), row.register(X86_64::RA))
    else {
        return None;
    };
    let slot = match row.register(X86_64::RBP) {
        Some(RegisterRule::Offset(below)) => (-below / 8 - 1) as u32,
        _ => 0,
    };
    let words = (*offset / 8) as u32;
    match register.0 {
        7 if words < 1 << 20 => Some(slot << 20 | words),
        6 if words < 1 << 16 => Some(0x80_0000 | slot << 16 | words),
        _ => None,
    }
}

#[test]
fn the_rows_of_this_program_are_those_of_gimli() {
    let bytes = std::fs::read(std::env::current_exe().expect("a path")).expect("readable");
    let sections = Sections::find(bytes.as_slice()).expect("an ELF file");
    let rows = rows(&sections, &|_, _| None);
    let file = object::File::parse(bytes.as_slice()).expect("an ELF file");
    let header = file.section_by_name(".eh_frame_hdr").expect("linkers write it");
    let bases = sections.bases.clone().set_eh_frame_hdr(header.address());
    let header = EhFrameHdr::new(header.data().expect("its bytes"), LittleEndian).parse(&bases, 8).expect("valid");
    let table = header.table().expect("sorted");
    let eh_frame = EhFrame::new(sections.eh_frame, LittleEndian);
    let text = file.section_by_name(".text").expect("every program has it");
    let (mut context, mut compared) = (UnwindContext::new(), 0);
    for address in (text.address()..text.address() + text.size()).step_by(text.size() as usize / 5000) {
        let found =
            rows[..rows.partition_point(|row| address_of(*row) <= address)].last().map_or(0, |row| rule_of(*row));
        let cie = EhFrame::cie_from_offset;
        match table.unwind_info_for_address(&eh_frame, &bases, &mut context, address, cie).map(simple) {
            Ok(Some(code)) => {
                assert_eq!(found, code, "{address:#x}");
                compared += 1;
            }
            Ok(None) => assert!(found >= 0xc0_0000, "{address:#x}: {found:#x}"),
            // Outside of functions, or in the padding between two.
            Err(_) => {}
        }
    }
    assert!(compared > 3000, "only {compared} addresses of {} rows", rows.len());
}
