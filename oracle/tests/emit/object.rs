//! Emitted objects, read back by independent readers.
//!
//! In: emitted objects. Out: what `aya_obj` and a small reader of `.BTF.ext` find in them.
//! Guarantee: instructions, maps, relocations, functions and lines are as expected.

use aya_obj::Object;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use profiler_compiler::diagnostic::Code;
use profiler_compiler::emit::bpf::Insn;
use profiler_compiler::emit::{Note, emit};
use profiler_compiler::ir::{Addr, Function, Helper, Inst, Likely, MapKind, Operand, Program, Size, Terminator, VReg};

use crate::build::{Builder, line, program, source};
use crate::programs;

fn elf(program: &Program) -> Vec<u8> {
    emit(program, &source()).expect("emits").elf
}

#[test]
fn aya_reads_the_same_programs() {
    let program = program(programs::all());
    let emitted = emit(&program, &source()).expect("emits");
    let object = Object::parse(&emitted.elf).expect("parses");
    assert_eq!(object.programs.len(), program.functions.len());
    for function in &emitted.functions {
        let found = &object.programs[&function.name];
        let read = &object.functions[&found.function_key()];
        let insns: Vec<Insn> = read.instructions.iter().map(Insn::from).collect();
        assert_eq!(insns, function.insns, "{}", function.name);
        assert!(read.func_info.func_info.len() == 1, "{}", function.name);
        assert!(!read.line_info.line_info.is_empty(), "{}", function.name);
    }
}

#[test]
fn aya_reads_the_same_maps() {
    let program = program(programs::all());
    let object = Object::parse(&elf(&program)).expect("parses");
    for map in &program.maps {
        let read = &object.maps[&map.name];
        let sizes = if map.kind == MapKind::RingBuf { (0, 0) } else { (map.key_size_bytes, map.value_size_bytes) };
        assert_eq!(read.map_type(), map.kind as u32, "{}", map.name);
        assert_eq!((read.key_size(), read.value_size()), sizes, "{}", map.name);
        assert_eq!(read.max_entries(), map.max_entries, "{}", map.name);
        assert_eq!(read.map_flags(), u32::from(map.no_prealloc), "{}", map.name);
    }
    assert_eq!(object.maps[".rodata"].data(), program.rodata);
    assert_eq!(object.maps[".bss"].value_size(), program.bss_size_bytes);
    assert_eq!(object.license.as_bytes(), b"GPL");
}

#[test]
fn each_relocation_names_its_map() {
    let program = program(vec![programs::hash_count()]);
    let emitted = emit(&program, &source()).expect("emits");
    let file = object::File::parse(&*emitted.elf).expect("parses");
    let section = file.section_by_name("raw_tp/sys_enter").expect("has the section");
    let found: Vec<(u64, String)> = section
        .relocations()
        .map(|(offset, relocation)| {
            let object::RelocationTarget::Symbol(symbol) = relocation.target() else { panic!("no symbol") };
            (offset / 8, file.symbol_by_index(symbol).expect("exists").name().expect("has a name").to_owned())
        })
        .collect();
    let notes = emitted.functions[0].notes.iter().enumerate();
    let expected: Vec<(u64, String)> = notes
        .filter_map(|(index, note)| match note {
            Some(Note::Map(map)) => Some((index as u64, program.maps[map.0 as usize].name.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(found, expected);
    assert_eq!(found.len(), 2);
}

/// The words of a section.
fn words(elf: &[u8], name: &str) -> Vec<u32> {
    let file = object::File::parse(elf).expect("parses");
    let data = file.section_by_name(name).expect("exists").data().expect("readable");
    data.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

#[test]
fn line_records_follow_the_script() {
    let program = program(vec![programs::hash_count()]);
    let emitted = emit(&program, &source()).expect("emits");
    let words = words(&emitted.elf, ".BTF.ext");
    let (header_bytes, func_offset, func_bytes, line_offset, line_bytes) =
        (words[1], words[2], words[3], words[4], words[5]);
    assert_eq!((words[0], header_bytes), (0x1_eb9f, 32));
    assert_eq!((func_offset, func_bytes), (0, 4 + 8 + 8), "one function in one section");
    assert_eq!((line_offset, line_bytes), (func_bytes, 4 + 8 + 2 * 16), "two lines in one section");
    let records = &words[(32 + line_offset) as usize / 4..];
    assert_eq!((records[0], records[2]), (16, 2));
    let spans = &emitted.functions[0].spans;
    let second = spans.iter().position(|span| *span == line(3)).expect("has line 3") as u32;
    let places: Vec<(u32, u32)> = records[3..].chunks_exact(4).map(|r| (r[0] / 8, r[3] >> 10)).collect();
    assert_eq!(places, [(0, 2), (second, 3)]);
}

#[test]
fn functions_share_a_section() {
    let mut second = programs::count();
    second.name = "count_again".to_owned();
    let emitted = emit(&program(vec![programs::count(), second]), &source()).expect("emits");
    let file = object::File::parse(&*emitted.elf).expect("parses");
    let sections = file.sections().filter(|section| section.name() == Ok("raw_tp/sys_enter")).count();
    assert_eq!(sections, 1);
    let size = emitted.functions[0].insns.len() as u64 * 8;
    let symbol = |name| file.symbols().find(|symbol| symbol.name() == Ok(name)).expect("exists");
    assert_eq!((symbol("count").address(), symbol("count").size()), (0, size));
    assert_eq!(symbol("count_again").address(), size);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let first = elf(&program(programs::all()));
    for _ in 0..5 {
        assert!(elf(&program(programs::all())) == first);
    }
}

#[test]
fn an_empty_program_is_an_object() {
    let elf = elf(&Program::default());
    assert!(Object::parse(&elf).expect("parses").programs.is_empty());
}

fn errors(function: Function) -> Vec<(Code, String)> {
    let errors = emit(&program(vec![function]), &source()).expect_err("is too much");
    assert!(errors.iter().all(|error| error.span == line(2) && error.help.is_some()));
    errors.into_iter().map(|error| (error.code, error.message)).collect()
}

fn at_line_2(name: &str) -> Builder {
    let mut b = Builder::new(name, "raw_tp/sys_enter");
    b.span = line(2);
    b
}

#[test]
fn too_much_stack_is_an_error() {
    let message = |bytes| format!("this probe needs {bytes} bytes of stack, the kernel gives 512");
    assert_eq!(errors(two_slots(300, 213)), [(Code(511), message(520))]);
    assert_eq!(errors(two_slots(u32::MAX, u32::MAX))[0].0, Code(511));
}

/// Two slots in use at the same time.
fn two_slots(first: u32, second: u32) -> Function {
    let mut b = at_line_2("slots");
    let (first, second) = (b.slot(first, 1), b.slot(second, 8));
    for slot in [first, second] {
        b.store(Addr::slot(slot, 0), 0, Size::B1);
    }
    for slot in [first, second] {
        let dst = b.reg();
        b.push(Inst::Load { dst, addr: Addr::slot(slot, 0), size: Size::B1 });
    }
    let mut function = b.finish();
    function.span = line(2);
    function
}

fn stack_bytes(function: Function) -> u32 {
    emit(&program(vec![function]), &source()).expect("emits").functions[0].stack_bytes
}

#[test]
fn slots_share_bytes_when_that_is_safe() {
    let clear = |b: &mut Builder, slot, size_bytes| b.push(Inst::Zero { addr: Addr::slot(slot, 0), size_bytes });
    let mut b = at_line_2("one_after_the_other");
    for size in [400, 300, 200, 100] {
        let slot = b.slot(size, 8);
        clear(&mut b, slot, size);
    }
    assert_eq!(stack_bytes(b.finish()), 400);

    let mut b = at_line_2("address_taken");
    let (first, second, address) = (b.slot(64, 8), b.slot(64, 8), b.reg());
    b.push(Inst::SlotAddr { dst: address, slot: first, offset: 0 });
    clear(&mut b, second, 64);
    b.store(Addr::reg(address, 0), 1, Size::B8);
    assert_eq!(stack_bytes(b.finish()), 128);

    let mut b = at_line_2("in_a_loop");
    let (first, second, head) = (b.slot(64, 8), b.slot(64, 8), b.block());
    b.jump(head);
    b.at(head);
    clear(&mut b, first, 64);
    clear(&mut b, second, 64);
    b.jump(head);
    assert_eq!(stack_bytes(b.finish()), 64);

    let mut b = at_line_2("from_round_to_round");
    let (first, second, head, value) = (b.slot(64, 8), b.slot(64, 8), b.block(), b.reg());
    clear(&mut b, first, 64);
    b.jump(head);
    b.at(head);
    clear(&mut b, second, 64);
    b.push(Inst::Load { dst: value, addr: Addr::slot(first, 56), size: Size::B8 });
    b.store(Addr::slot(first, 0), value, Size::B8);
    b.jump(head);
    assert_eq!(stack_bytes(b.finish()), 128);
}

#[test]
fn too_many_spilled_values_are_an_error() {
    let mut b = at_line_2("spills");
    let values: Vec<VReg> = (0..70).map(|_| b.call(Helper::KtimeGetNs, &[])).collect();
    let out = b.slot(8, 8);
    for reg in values {
        b.call_void(Helper::KtimeGetNs, &[]);
        b.store(Addr::slot(out, 0), reg, Size::B8);
    }
    let mut function = b.finish();
    function.span = line(2);
    assert_eq!(errors(function)[0].0, Code(511));
}

#[test]
fn a_jump_too_far_is_an_error() {
    let mut b = at_line_2("far");
    let slot = b.slot(8, 8);
    let x = b.call(Helper::KtimeGetNs, &[]);
    let (then, join) = (b.block(), b.block());
    let (op, width) = (profiler_compiler::ir::CmpOp::Eq, profiler_compiler::ir::Width::W64);
    b.end(Terminator::Branch {
        op,
        width,
        a: x.into(),
        b: Operand::Imm(0),
        then,
        otherwise: join,
        likely: Likely::Then,
    });
    b.at(then);
    for _ in 0..33_000 {
        b.push(Inst::Store { addr: Addr::slot(slot, 0), src: Operand::Imm(1), size: Size::B8 });
    }
    b.jump(join);
    b.at(join);
    b.store(Addr::slot(slot, 0), 2, Size::B8);
    b.ret(0);
    let mut function = b.finish();
    function.span = line(2);
    assert_eq!(errors(function), [(Code(510), "this block is too large for a BPF program".to_owned())]);
}
