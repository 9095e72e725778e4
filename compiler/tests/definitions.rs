//! Type definitions are laid out as a C compiler does.
//!
//! In: randomly generated structs. Out: sizes and offsets, compared with those of gcc 12 on x86-64.

use profiler_compiler::btf::{Btf, Kind};
use profiler_compiler::check;
use profiler_compiler::parse;
use profiler_compiler::source::Source;

#[path = "support/fixture.rs"]
mod fixture;

/// A struct, its size in bytes, and its members' offsets in bits.
type Case = (&'static str, u32, &'static [(&'static str, u32)]);

const CASES: [Case; 16] = [
    (
        "struct s { void * m0; unsigned long m1[3]; long b2:61; short m3[1]; union { short m4; char u4[1]; }; struct in m5; unsigned long m6; struct in m7; } __attribute__((aligned(16)));",
        64,
        &[("m0", 0), ("m1", 64), ("b2", 256), ("m3", 320), ("m4", 336), ("m5", 352), ("m6", 384), ("m7", 448)],
    ),
    ("struct s { void * m0[1]; };", 8, &[("m0", 0)]),
    (
        "struct s { struct in m0[2]; unsigned short m1[1]; void * m2[2]; unsigned long b3:11; } __attribute__((aligned(16)));",
        48,
        &[("m0", 0), ("m1", 64), ("m2", 128), ("b3", 256)],
    ),
    (
        "struct s { unsigned char b0:4; unsigned char :1; unsigned int b1:19; } __attribute__((packed, aligned(2)));",
        4,
        &[("b0", 0), ("b1", 5)],
    ),
    ("struct s { long b0:7; } __attribute__((packed));", 1, &[("b0", 0)]),
    (
        "struct s { union { short m0; char u0[4]; }; unsigned char b1:5; short b2:4; short :0; unsigned long b3:25; int m4[2]; short m5[1]; char b6:5; char :2; } __attribute__((packed));",
        21,
        &[("m0", 0), ("b1", 32), ("b2", 37), ("b3", 48), ("m4", 80), ("m5", 144), ("b6", 160)],
    ),
    ("struct s { char m0; long m1[1]; } __attribute__((aligned(16)));", 16, &[("m0", 0), ("m1", 64)]),
    (
        "struct s { unsigned char m0[1]; short b1:8; short :0; struct in m2[3]; unsigned long m3; int m4; int m5; };",
        32,
        &[("m0", 0), ("b1", 8), ("m2", 16), ("m3", 128), ("m4", 192), ("m5", 224)],
    ),
    (
        "struct s { struct in m0[1]; int m1; void * m2[2]; unsigned long m3; } __attribute__((packed));",
        32,
        &[("m0", 0), ("m1", 32), ("m2", 64), ("m3", 192)],
    ),
    ("struct s { short b0:9; };", 2, &[("b0", 0)]),
    (
        "struct s { struct in m0[3]; int m1; short b2:16; struct in m3[1]; long m4; short b5:15; short :5; union { unsigned short m6; char u6[3]; }; };",
        40,
        &[("m0", 0), ("m1", 96), ("b2", 128), ("m3", 144), ("m4", 192), ("b5", 256), ("m6", 288)],
    ),
    (
        "struct s { int m0; unsigned short m1; union { void * m2; char u2[3]; }; struct in m3[1]; unsigned long m4; unsigned char m5; };",
        40,
        &[("m0", 0), ("m1", 32), ("m2", 64), ("m3", 128), ("m4", 192), ("m5", 256)],
    ),
    (
        "struct s { unsigned long b0:40; short m1[2]; } __attribute__((packed, aligned(2)));",
        10,
        &[("b0", 0), ("m1", 40)],
    ),
    ("struct s { int m0; };", 4, &[("m0", 0)]),
    (
        "struct s { short m0; short m1; unsigned int m2; char m3; struct in m4[3]; unsigned int m5[1]; } __attribute__((aligned(16)));",
        32,
        &[("m0", 0), ("m1", 16), ("m2", 32), ("m3", 64), ("m4", 80), ("m5", 192)],
    ),
    ("struct s { short b0:4; unsigned short m1[3]; } __attribute__((packed, aligned(2)));", 8, &[("b0", 0), ("m1", 8)]),
];

fn defined(text: &str) -> Btf {
    let script = parse::parse(&Source::new("test", format!("{text} BEGIN {{ }}"))).expect("it parses");
    let (added, problems) = check::define(&script, &fixture::Machine::new(false));
    assert_eq!(problems, [], "{text}");
    Btf::with(None, added)
}

#[test]
fn structs_are_laid_out_as_in_c() {
    for (text, size_bytes, members) in CASES {
        let types = defined(&format!("struct in {{ char a; short b; }}; {text}"));
        let id = types.find(Kind::Struct, "s").expect("the struct");
        assert_eq!(types.size_bytes(id), size_bytes, "{text}");
        for (name, bit_offset) in members {
            let member = types.find_member(id, name).unwrap_or_else(|| panic!("{name} of {text}"));
            assert_eq!(member.bit_offset, *bit_offset, "{name} of {text}");
        }
    }
}

#[test]
fn types_refer_to_each_other_and_to_themselves() {
    let types =
        defined("struct a { struct a *next; struct b *other; struct never *unknown; }; struct b { struct a in; };");
    let (a, b) = (types.find(Kind::Struct, "a").expect("a"), types.find(Kind::Struct, "b").expect("b"));
    assert_eq!((types.size_bytes(a), types.size_bytes(b)), (24, 24));
    let pointee = |member| types.pointee(types.find_member(a, member).expect("a member").ty);
    assert_eq!((pointee("next"), pointee("other")), (Some(a), Some(b)));
    assert_eq!(types.describe(pointee("unknown").expect("a type")), "struct never");
}

#[test]
fn the_scripts_types_hide_the_kernels() {
    let script = parse::parse(&Source::new("test", "struct task_struct { int mine; }; BEGIN { }")).expect("it parses");
    let machine = fixture::Machine::new(true);
    let (added, _) = check::define(&script, &machine);
    let types = Btf::with(profiler_compiler::target::Target::btf(&machine), added);
    let id = types.find(Kind::Struct, "task_struct").expect("the struct");
    assert!(types.find_member(id, "mine").is_some() && types.find_member(id, "pid").is_none());
    assert!(types.find(Kind::Struct, "parcel").is_some(), "the kernel's others are still there");
}
