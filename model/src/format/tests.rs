use std::net::Ipv4Addr;

use super::*;
use crate::decode::Lookup;
use crate::object::{Event, Field};
use crate::results::Record;
use crate::results::{NoWords, Vocabulary, WordName};
use crate::source::Span;
use crate::text::controls::Escapes;
use crate::types::BtfId;
use crate::types::{Int, Space, StackType};
use crate::value::{SymbolName, Symbols, Value};

#[derive(Debug)]
struct Nothing;

impl Symbols for Nothing {
    fn kernel(&self, _: u64) -> Option<SymbolName> {
        None
    }
    fn user(&self, _: u32, _: u64) -> Option<SymbolName> {
        None
    }
    fn username(&self, uid: u32) -> Option<String> {
        (uid == 0).then(|| "root".to_string())
    }
    fn boot_time_ns(&self) -> u64 {
        0
    }
}

impl Lookup for Nothing {
    fn stack(&self, _: StackType, _: i64) -> Option<Vec<u64>> {
        None
    }
    fn probe_name(&self, _: u64) -> Option<&str> {
        None
    }
    fn string(&self, _: u64) -> Option<&str> {
        None
    }
    fn enumerator(&self, _: BtfId, _: i64) -> Option<String> {
        None
    }
    fn vocabulary(&self) -> &dyn Vocabulary {
        &NoWords
    }
}

fn render(format: &str, values: &[Value]) -> String {
    let mut out = Vec::new();
    parse(format.as_bytes()).unwrap().render(|index| values[index].clone(), &Nothing, &mut out);
    String::from_utf8(out).unwrap()
}

fn one(format: &str, value: Value) -> String {
    render(format, &[value])
}

fn text(text: &str) -> Value {
    Value::Str(text.into())
}

/// Random flags, widths, precisions, lengths and values, with the output of glibc's `snprintf`.
const LIBC: &[(&str, i64, &str)] = &[
    ("%-#+1li", -4_217_326_661_697_438, "-4217326661697438"),
    ("%.3X", 9_223_372_036_854_775_807, "FFFFFFFF"),
    ("%# -5.3lld", 415_528, " 415528"),
    ("%0.hhd", -128, "-128"),
    ("%#1tX", 255, "0XFF"),
    ("%12.jX", -1, "FFFFFFFFFFFFFFFF"),
    ("%30lld", -214_210_726, "                    -214210726"),
    ("%+.ji", -9, "-9"),
    ("%+30.10lo", 1, "                    0000000001"),
    ("%.zu", -2_147_483_648, "18446744071562067968"),
    ("%+0#5.0ti", 15, "  +15"),
    ("%#+ 12.0zu", 8, "           8"),
    ("% -ho", -9_223_372_036_854_775_808, "0"),
    ("%#.0zX", 526_128, "0X80730"),
    ("%1.0hx", 16, "10"),
    ("%0-30.li", 9, "9                             "),
    ("%#-12.td", -128, "-128        "),
    ("%0hhd", 14_650_156_251, "-37"),
    ("%0+5.10jx", -26_044_393_097, "fffffff9efa21977"),
    ("%1lX", -1, "FFFFFFFFFFFFFFFF"),
    ("%-0#.hhX", -9_223_372_036_854_775_808, ""),
    ("%012ti", -418_564_709_487_743, "-418564709487743"),
    ("%30.0jx", 1, "                             1"),
    ("%-#030.hhi", 2_147_483_647, "-1                            "),
    ("%05llx", -1, "ffffffffffffffff"),
    ("%#d", -1080, "-1080"),
    ("% .0i", 255, " 255"),
    ("% 1.0ti", 10, " 10"),
    ("%12.10o", 1, "  0000000001"),
    ("% 0.3hhi", -1, "-001"),
    ("%0 -12X", -9_223_372_036_854_775_808, "0           "),
    ("%#+1ji", 8, "+8"),
    ("%+ 0tX", -54_978_157_889, "FFFFFFF3330BE2BF"),
    ("%+01lu", 32_767, "32767"),
    ("%+-30.3llo", 8, "010                           "),
    ("%-.10hu", 10, "0000000010"),
    ("%+0#30.tu", -460, "          18446744073709551156"),
    ("%-.ho", 247, "367"),
    ("%-#.10hX", -128, "0X000000FF80"),
    ("%#05u", 1, "00001"),
    ("%030hhu", 13_184_031_816_778, "000000000000000000000000000074"),
    ("%zd", 128, "128"),
    ("%01hhx", -16_113_331_475, "ed"),
    ("%+1ld", -12_375_030_543_023_651, "-12375030543023651"),
    ("%+30.3zo", -512_786_458, "        1777777777774133677746"),
    ("%.3zu", 374, "374"),
    ("%0+.10zd", 2_147_483_647, "+2147483647"),
    ("%0+#.10jX", 7, "0X0000000007"),
    ("%+# 5.zo", 8, "  010"),
    ("%5.10zo", -134_108_760, "1777777777777000324650"),
    ("%5.3jx", -9_223_372_036_854_775_808, "8000000000000000"),
    ("%12.0ho", 65_535, "      177777"),
    ("%#+-.10lli", -4_085_154_786, "-4085154786"),
    ("%#.0zo", 123_456_789_012_345, "03404420603357571"),
    ("% #0d", -2, "-2"),
    ("%#+012.10zX", 9, "0X0000000009"),
    ("% #0.10llX", 15, "0X000000000F"),
    ("% .10lli", 128, " 0000000128"),
    ("%-0zo", 10, "12"),
    ("%5.0jX", 1, "    1"),
];

#[test]
fn integers_are_written_as_libc_writes_them() {
    for &(format, value, expected) in LIBC {
        assert_eq!(one(format, Value::Int(value)), expected, "{format} of {value}");
        assert_eq!(one(format, Value::Uint(value as u64)), expected, "{format} of {value}, unsigned");
    }
}

#[test]
fn length_modifiers_cut_as_in_bpftrace() {
    let x = Value::Int(0x0012_3456_78ab_cdef);
    assert_eq!(render("%hhx %hx %x %jx", &[x.clone(), x.clone(), x.clone(), x]), "ef cdef 78abcdef 12345678abcdef");
    let two_below_zero = Value::Uint(u64::MAX - 1);
    assert_eq!(render("%d %lu", &[two_below_zero.clone(), two_below_zero]), "-2 18446744073709551614");
}

#[test]
fn every_scalar_is_a_number() {
    assert_eq!(one("%d", Value::Bool(true)), "1");
    assert_eq!(one("%d", Value::Enum { number: 3, name: Some("THREE".into()) }), "3");
    assert_eq!(one("%s", Value::Enum { number: 3, name: Some("THREE".into()) }), "THREE");
    assert_eq!(one("%s", Value::Enum { number: 4, name: None }), "4");
    assert_eq!(one("%-5s|", Value::Enum { number: 0, name: Some("A".into()) }), "A    |");
    assert_eq!(one("%lx", Value::Pointer(0xffff_8880_0000_1234)), "ffff888000001234");
    assert_eq!(one("%p", Value::Pointer(0xffff_8880_0000_1234)), "0xffff888000001234");
    assert_eq!(one("%p", Value::Int(-1)), "0xffffffffffffffff");
    assert_eq!(one("%12p|", Value::Pointer(0x10)), "        0x10|");
    assert_eq!(one("%p", Value::Pointer(0)), "0");
    assert_eq!(render("%c%c%-3c|%3c", &[65, 66, 67, 68].map(Value::Int)), "ABC  |  D");
    assert_eq!(one("%s", Value::Int(-5)), "-5");
    assert_eq!(one("%6s", Value::Bool(true)), "  true");
}

#[test]
fn strings_are_padded_and_cut() {
    assert_eq!(one("%5s|", text("ab")), "   ab|");
    assert_eq!(one("%-5s|", text("ab")), "ab   |");
    assert_eq!(one("%.1s|", text("ab")), "a|");
    assert_eq!(one("%1s|", text("ab")), "ab|");
    assert_eq!(one("%05s", text("ab")), "000ab");
    let mut out = Vec::new();
    parse(b"%s").unwrap().render(|_| Value::Str(vec![0xff, b'a']), &Nothing, &mut out);
    assert_eq!(out, [0xff, b'a'], "bytes that are not UTF-8 pass through");
}

#[test]
fn buffers_have_three_forms() {
    let buffer = Value::Buf(vec![b'a', 0, 0xfe, b'~']);
    assert_eq!(one("%r", buffer.clone()), "a\\x00\\xfe~");
    assert_eq!(one("%s", buffer.clone()), "a\\x00\\xfe~");
    assert_eq!(one("%rx", buffer.clone()), "\\x61\\x00\\xfe\\x7e");
    assert_eq!(one("%rh|", buffer.clone()), "61 00 fe 7e|");
    assert_eq!(one("%10r|", Value::Buf(b"x".to_vec())), "         x|");
    assert_eq!(one("%rh|", Value::Buf(Vec::new())), "|");
}

#[test]
fn other_values_are_printed_plainly() {
    assert_eq!(one("%s", Value::Tuple(vec![Value::Int(1), text("x")])), "(1, x)");
    assert_eq!(one("%s", Value::Inet(Ipv4Addr::LOCALHOST.into())), "127.0.0.1");
    assert_eq!(one("%6s", Value::Username(0)), "  root");
    assert_eq!(one("%d", text("misfit")), "misfit");
    assert_eq!(one("%d", Value::Missing), "null");
}

#[test]
fn percent_signs_that_begin_nothing_are_text() {
    let table = [("100%", "100%"), ("5%%", "5%"), ("%y", "%y"), ("%-5%", "%"), ("", ""), ("%", "%"), ("%l", "%l")];
    for (format, expected) in table {
        assert_eq!(render(format, &[]), expected, "{format}");
    }
    assert_eq!(one("%!%d", Value::Int(1)), "%!1");
    assert_eq!(parse(b"a%%b").unwrap().pieces, [Piece::Text(b"a%b".to_vec())]);
}

#[test]
fn unsupported_conversions_are_refused_where_they_start() {
    for (format, offset, word) in [("a %e", 2, "%e"), ("%d %n", 3, "%n"), ("%g", 0, "%g"), ("%099999d", 0, "65536")] {
        let error = parse(format.as_bytes()).unwrap_err();
        assert_eq!(error.offset, offset, "{format}");
        assert!(error.message.contains(word), "{}", error.message);
    }
}

#[test]
fn the_checker_learns_what_fits() {
    let fits = |format: &str, ty: &Type| accepts(parse(format.as_bytes()).unwrap().conversions().next().unwrap(), ty);
    let string = Type::Str { capacity_bytes: 16 };
    let buffer = Type::Buf { capacity_bytes: 16 };
    let pointer = Type::Pointer { to: Box::new(Type::None), space: Space::Kernel };
    let number = Type::Enum { id: BtfId(1), int: Int::I32 };
    for letter in ["%d", "%i", "%u", "%x", "%X", "%o", "%c", "%p"] {
        for ty in [&Type::Bool, &Type::I64, &pointer, &number, &Type::Unknown] {
            assert!(fits(letter, ty), "{letter} {ty:?}");
        }
        for ty in [&string, &buffer, &Type::None, &Type::Inet, &Type::KernelSymbol, &Type::Tuple(vec![])] {
            assert!(!fits(letter, ty), "{letter} {ty:?}");
        }
    }
    for letter in ["%r", "%rx", "%rh"] {
        assert!(fits(letter, &buffer) && !fits(letter, &string) && !fits(letter, &Type::I64));
    }
    for ty in [&string, &buffer, &Type::I64, &Type::Inet, &Type::ProbeName, &Type::Timestamp, &Type::Username] {
        assert!(fits("%s", ty));
    }
    assert!(!fits("%s", &Type::None));
}

#[test]
fn records_render_like_values() {
    let field = |ty, offset_bytes, variable| Field { ty, offset_bytes, variable };
    let fields = vec![
        field(Type::U32, 8, false),
        field(Type::Str { capacity_bytes: 16 }, 12, false),
        field(Type::I64, 32, false),
        field(Type::Str { capacity_bytes: 64 }, 40, true),
        field(Type::Bool, 28, false),
    ];
    let event = Event {
        word: WordName::new("printf"),
        ends_the_run: false,
        constants: vec![],
        fields,
        max_size_bytes: 64,
        program: 0,
        span: Span { start: 0, end: 0 },
        expanded_from: vec![],
    };
    let mut bytes = vec![0u8; 48];
    bytes[8..12].copy_from_slice(&4242u32.to_ne_bytes());
    bytes[12..16].copy_from_slice(b"bash");
    bytes[28] = 1;
    bytes[32..40].copy_from_slice(&(-7i64).to_ne_bytes());
    bytes[40..44].copy_from_slice(&48u32.to_ne_bytes());
    bytes[44..48].copy_from_slice(&9u32.to_ne_bytes());
    bytes.extend_from_slice(b"/etc/ssh\0");
    let rendered = |format: &str, bytes: &[u8]| {
        let record = Record { event: &event, bytes, lookup: &Nothing };
        let mut out = Vec::new();
        parse(format.as_bytes()).unwrap().render_record(&record, &Nothing, Escapes::Nothing, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(rendered("%-6d|%5s|%ld|%s|%s|%d\n", &bytes), "4242  | bash|-7|/etc/ssh|true|null\n");
    assert_eq!(rendered("%d %s %d %s %d", &bytes[..30]), "4242 bash null  1", "a record that was cut");
    bytes[12..28].copy_from_slice(b"0123456789abcdef");
    assert_eq!(rendered("%d %s", &bytes), "4242 0123456789abcdef..", "a string that fills its room was cut");
}

#[test]
fn a_word_of_the_shell_is_quoted() {
    assert_eq!(one("%q", text("plain")), "'plain'");
    assert_eq!(one("%q", text("")), "''");
    assert_eq!(one("%q", text("it's;id\n")), "'it'\\''s;id\n'");
    assert_eq!(one("%q|", Value::Int(-3)), "'-3'|");
    // The precision is of the text, the width of the word.
    assert_eq!(one("%8.2q|", text("abc")), "    'ab'|");
    assert_eq!(one("%-8.2q|", text("abc")), "'ab'    |");
}
