use super::*;
use crate::results::NoWords;
use crate::types::BtfId;
use crate::types::StackMode;
use crate::unwind::INTERRUPTED;

#[derive(Debug)]
struct Tables;

impl Lookup for Tables {
    fn stack(&self, ty: StackType, id: i64) -> Option<Vec<u64>> {
        (id == 7).then(|| vec![0x10, 0x20, u64::from(ty.limit)])
    }
    fn probe_name(&self, index: u64) -> Option<&str> {
        (index == 1).then_some("interval:s:1")
    }
    fn string(&self, index: u64) -> Option<&str> {
        (index == 2).then_some("%H:%M")
    }
    fn enumerator(&self, _: BtfId, number: i64) -> Option<String> {
        (number == -1).then(|| "MINUS_ONE".to_string())
    }
    fn vocabulary(&self) -> &dyn Vocabulary {
        &NoWords
    }
}

fn decoded(ty: &Type, bytes: &[u8]) -> Value {
    decode(ty, bytes, &Tables)
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

fn all_types() -> Vec<Type> {
    let stack = |space| Type::Stack(StackType { space, mode: StackMode::Perf, limit: 5, walk: Walk::Kernel });
    vec![
        Type::Bool,
        Type::I64,
        Type::Int(Int { size_bytes: 2, signed: true }),
        Type::Pointer { to: Box::new(Type::None), space: Space::User },
        Type::Enum { id: BtfId(3), int: Int::I32 },
        Type::Array { of: Box::new(Type::U32), len: 3 },
        Type::Tuple(vec![Type::Bool, Type::I64, Type::Tuple(vec![Type::U32])]),
        stack(Space::Kernel),
        stack(Space::User),
        Type::KernelSymbol,
        Type::UserSymbol,
        Type::Inet,
        Type::Timestamp,
        Type::Username,
        Type::ProbeName,
        Type::Buf { capacity_bytes: 8 },
    ]
}

#[test]
fn integers_keep_their_sign() {
    for (size_bytes, bytes) in [(1, &[0xfeu8][..]), (2, &[0xfe, 0xff]), (4, &[0xfe, 0xff, 0xff, 0xff])] {
        assert_eq!(decoded(&Type::Int(Int { size_bytes, signed: true }), bytes), Value::Int(-2));
        let mask = u64::MAX >> (64 - 8 * u32::from(size_bytes));
        assert_eq!(decoded(&Type::Int(Int { size_bytes, signed: false }), bytes), Value::Uint(mask - 1));
    }
    assert_eq!(decoded(&Type::U64, &[0xff; 8]), Value::Uint(u64::MAX));
    assert_eq!(decoded(&Type::I64, &[0xff; 8]), Value::Int(-1));
}

#[test]
fn strings_end_at_their_nul() {
    let string = Type::Str { capacity_bytes: 4 };
    assert_eq!(decoded(&string, b"ab\0x"), Value::Str(b"ab".to_vec()));
    assert_eq!(decoded(&string, b"abcd"), Value::Str(b"abcd..".to_vec()), "no NUL in the whole room");
    assert_eq!(decoded(&string, b"abcdefg"), Value::Str(b"abcd..".to_vec()), "bytes beyond the room");
    assert_eq!(decoded(&string, b"abc"), Value::Str(b"abc".to_vec()), "the real length of a variable field");
    assert_eq!(decoded(&string, b""), Value::Str(Vec::new()));
}

#[test]
fn buffers_have_their_own_length() {
    let buffer = Type::Buf { capacity_bytes: 4 };
    assert_eq!(decoded(&buffer, &[2, 0, 0, 0, 9, 8, 7, 6]), Value::Buf(vec![9, 8]));
    assert_eq!(decoded(&buffer, &[200, 0, 0, 0, 9, 8]), Value::Buf(vec![9, 8]), "a length beyond the bytes");
    let long = [200, 0, 0, 0, 9, 8, 7, 6, 5, 4];
    assert_eq!(decoded(&buffer, &long), Value::Buf(vec![9, 8, 7, 6]), "a length beyond the room");
}

#[test]
fn parts_lie_at_c_offsets() {
    let tuple = Type::Tuple(vec![Type::Bool, Type::U64, Type::Array { of: Box::new(Type::U32), len: 2 }]);
    let bytes = words(&[1, 77, 5 | 6 << 32]);
    let numbers = Value::Array(vec![Value::Uint(5), Value::Uint(6)]);
    assert_eq!(decoded(&tuple, &bytes), Value::Tuple(vec![Value::Bool(true), Value::Uint(77), numbers]));
}

#[test]
fn stacks_come_from_the_table() {
    let stack = |space| StackType { space, mode: StackMode::Bpftrace, limit: 9, walk: Walk::Kernel };
    let value = |space, pid, frames| {
        Value::Stack(Stack { space, mode: StackMode::Bpftrace, pid, frames, interrupted: Vec::new(), end: None })
    };
    let kernel = Type::Stack(stack(Space::Kernel));
    assert_eq!(decoded(&kernel, &words(&[8])), value(Space::Kernel, 0, vec![0x10, 0x20, 9]));
    assert_eq!(decoded(&kernel, &words(&[0])), value(Space::Kernel, 0, vec![]), "nothing was written");
    assert_eq!(decoded(&kernel, &words(&[-13i64 as u64])), value(Space::Kernel, 0, vec![]));
    let user = Type::Stack(stack(Space::User));
    assert_eq!(decoded(&user, &words(&[8, 31 | 32 << 32])), value(Space::User, 31, vec![0x10, 0x20, 9]));
}

#[test]
fn a_mark_at_the_end_of_a_stack_is_no_frame() {
    let ends = |walk, entries: &[u64]| {
        let mut frames = entries.to_vec();
        let end = end_of(StackType { space: Space::User, mode: StackMode::Raw, limit: 127, walk }, &mut frames);
        (frames, end)
    };
    let mark = End::NoTable.mark();
    assert_eq!(ends(Walk::Tables, &[1, 2]), (vec![1, 2], None));
    assert_eq!(ends(Walk::Tables, &[1, 2, mark]), (vec![1, 2], Some(End::NoTable)));
    assert_eq!(ends(Walk::Tables, &[1, 0, 2, mark]), (vec![1], Some(End::NoTable)), "a return address of 0");
    assert_eq!(ends(Walk::Tables, &[7; 127]).1, Some(End::Depth));
    assert_eq!(ends(Walk::Kernel, &[1, 0, mark]), (vec![1], None));
}

#[test]
fn frames_that_a_signal_interrupted_are_marked() {
    // An address of the `vsyscall` page has both bits.
    let mut frames = vec![0x1000, 0x2000, INTERRUPTED | 0x3000, 0xffff_ffff_ff60_0000, INTERRUPTED | 0x5000, 0x6000];
    let interrupted = take_marks(&mut frames);
    assert_eq!((frames[2], frames[3], &*interrupted), (0x3000, 0xffff_ffff_ff60_0000, &[2, 4][..]));
    let stack = Stack { space: Space::User, mode: StackMode::Raw, pid: 1, frames, interrupted, end: None };
    // The frame before one of these is where its handler returns to.
    assert_eq!(stack.call_sites(), [0x1000, 0x2000, 0x3000, 0xffff_ffff_ff60_0000, 0x5000, 0x5fff]);
}

#[test]
fn names_come_from_the_tables() {
    assert_eq!(decoded(&Type::ProbeName, &words(&[1])), Value::Str(b"interval:s:1".to_vec()));
    assert_eq!(decoded(&Type::ProbeName, &words(&[9])), Value::Missing);
    assert_eq!(
        decoded(&Type::Timestamp, &words(&[55, 2])),
        Value::Timestamp { since_boot_ns: 55, format: "%H:%M".into() }
    );
    assert_eq!(
        decoded(&Type::Enum { id: BtfId(3), int: Int::I32 }, &[0xff; 4]),
        Value::Enum { number: -1, name: Some("MINUS_ONE".into()) }
    );
    let symbol = |space, pid| Value::Symbol { space, address: 99, pid };
    assert_eq!(decoded(&Type::KernelSymbol, &words(&[99])), symbol(Space::Kernel, 0));
    assert_eq!(decoded(&Type::UserSymbol, &words(&[99, 12])), symbol(Space::User, 12));
    assert_eq!(decoded(&Type::Username, &words(&[1000])), Value::Username(1000));
}

#[test]
fn addresses_are_read_in_network_order() {
    let mut bytes = words(&[2, 0, 0]);
    bytes[8..12].copy_from_slice(&[10, 0, 0, 1]);
    assert_eq!(decoded(&Type::Inet, &bytes), Value::Inet("10.0.0.1".parse().unwrap()));
    bytes[0] = 10;
    assert_eq!(decoded(&Type::Inet, &bytes), Value::Inet("a00:1::".parse().unwrap()));
    bytes[0] = 3;
    assert_eq!(decoded(&Type::Inet, &bytes), Value::Missing);
}

#[test]
fn short_bytes_never_panic() {
    for ty in all_types() {
        let size = layout::of(&ty, &NoRecords).size_bytes as usize;
        for len in 0..size {
            let value = decoded(&ty, &vec![1; len]);
            let partial = matches!(ty, Type::Buf { .. } | Type::Inet | Type::Stack(_) | Type::UserSymbol);
            assert!(value == Value::Missing || partial, "{ty:?} of {len} bytes: {value:?}");
        }
        for filler in [0, 1, 0x7f, 0xff] {
            let _ = decoded(&ty, &vec![filler; size]);
        }
    }
}
