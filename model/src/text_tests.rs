use super::*;
use crate::histogram::{linear_histogram, log2_buckets, log2_histogram, log2_index};
use crate::strftime::Zone;
use crate::unwind::End;
use crate::value::{FilePosition, Origin};

struct Names;

impl Symbols for Names {
    fn kernel(&self, address: u64) -> Option<SymbolName> {
        (address >= 0xf000).then(|| SymbolName {
            name: "do_idle".into(),
            offset: address - 0xf000,
            module: Some("vmlinux".into()),
        })
    }
    fn user(&self, pid: u32, address: u64) -> Option<SymbolName> {
        (pid == 1 && address < 0x900).then(|| SymbolName {
            name: "main".into(),
            offset: address,
            module: (address < 0x100).then(|| "/bin/a".into()),
        })
    }
    fn username(&self, uid: u32) -> Option<String> {
        (uid == 0).then(|| "root".into())
    }
    fn boot_time_ns(&self) -> u64 {
        1_000_000_000
    }
    fn zone(&self, _: u64) -> Zone {
        Zone { utc_offset_seconds: 3600, name: "CET".into() }
    }
}

fn text(value: &Value) -> String {
    let mut out = Vec::new();
    write_value(value, &Names, &mut out);
    String::from_utf8(out).unwrap()
}

fn string(text: &str) -> Value {
    Value::Str(text.into())
}

#[test]
fn plain_values() {
    let table = [
        (Value::Missing, "null"),
        (Value::Bool(true), "true"),
        (Value::Bool(false), "false"),
        (Value::Int(-3), "-3"),
        (Value::Uint(u64::MAX), "18446744073709551615"),
        (string("a\tb"), "a\tb"),
        (Value::Buf(vec![b'h', b'i', 1, 0xff]), "hi\\x01\\xff"),
        (Value::Pointer(0xdead), "0xdead"),
        (Value::Pointer(0), "0x0"),
        (Value::Array(vec![Value::Int(1), Value::Int(2)]), "[1,2]"),
        (Value::Array(vec![]), "[]"),
        (Value::Tuple(vec![Value::Int(1), string("x"), Value::Tuple(vec![Value::Int(2)])]), "(1, x, (2))"),
        (Value::Tuple(vec![]), "()"),
        (Value::Record(vec![("a".into(), Value::Int(1)), ("b".into(), string("x"))]), "{ .a = 1, .b = x }"),
        (Value::Record(vec![]), "{}"),
        (Value::Enum { number: 2, name: Some("TWO".into()) }, "TWO"),
        (Value::Enum { number: 9, name: None }, "9"),
        (Value::Username(0), "root"),
        (Value::Username(4711), ""),
        (Value::Timestamp { since_boot_ns: 61_500_000_000, format: "%H:%M:%S.%f".into() }, "01:01:02.500000"),
        (Value::Stats { count: 3, average: 2, total: 6 }, "{ .count = 3, .average = 2, .total = 6 }"),
        (Value::Average { average: -4 }, "-4"),
    ];
    for (value, expected) in table {
        assert_eq!(text(&value), expected, "{value:?}");
    }
}

#[test]
fn internet_addresses_look_as_inet_ntop_writes_them() {
    let addresses = ["127.0.0.1", "::1", "::", "2001:db8::1", "::ffff:10.0.0.1", "fe80::1:0:0:1", "1:0:2:3:4:5:6:7"];
    for address in addresses {
        assert_eq!(text(&Value::Inet(address.parse().unwrap())), address);
    }
    assert_eq!(text(&Value::Inet("::1.2.3.4".parse().unwrap())), "::1.2.3.4");
}

#[test]
fn symbols_have_no_offset_and_fall_back_to_the_address() {
    let symbol = |space, address, pid| text(&Value::Symbol { space, address, pid });
    assert_eq!(symbol(Space::Kernel, 0xf010, 0), "do_idle");
    assert_eq!(symbol(Space::Kernel, 0x12, 0), "0x12");
    assert_eq!(symbol(Space::User, 0x12, 1), "main");
    assert_eq!(symbol(Space::User, 0x12, 2), "0x12");
    assert_eq!(symbol(Space::User, 0, 2), "0");
}

/// A function into which two were inlined.
struct WithOrigins;

impl Symbols for WithOrigins {
    fn kernel(&self, _address: u64) -> Option<SymbolName> {
        None
    }
    fn user(&self, pid: u32, address: u64) -> Option<SymbolName> {
        Names.user(pid, address)
    }
    fn username(&self, _uid: u32) -> Option<String> {
        None
    }
    fn shows_ends(&self) -> bool {
        false
    }
    fn boot_time_ns(&self) -> u64 {
        0
    }
    fn locate_user(&self, pid: u32, addresses: &[u64]) -> Vec<Location> {
        let source = |line| Some(Source { file: "/src/a.c".into(), line });
        let inlined = |name: &str, source| Inlined { name: name.into(), source };
        let origin = Origin {
            source: source(30),
            inlined: vec![inlined("inner", source(10)), inlined("middle", None)],
            position: None,
        };
        let locate = |address: &u64| {
            self.user(pid, *address).map_or(Location::Unknown, |symbol| Location::Symbol(symbol, origin.clone()))
        };
        addresses.iter().map(locate).collect()
    }
}

#[test]
fn frames_have_lines_and_inlined_functions() {
    let stack = |mode| {
        let frames = vec![0x20, 0x999];
        let mut out = Vec::new();
        let stack = Stack { space: Space::User, mode, pid: 1, frames, interrupted: Vec::new(), end: None };
        write_value(&Value::Stack(stack), &WithOrigins, &mut out);
        String::from_utf8(out).unwrap()
    };
    let plain =
        "\n        [inlined] inner@/src/a.c:10\n        [inlined] middle\n        main+32@/src/a.c:30\n        0x999\n";
    assert_eq!(stack(StackMode::Bpftrace), plain);
    let perf = "\n\t20 inner (inlined)\n\t20 middle (inlined)\n\t20 main+32 (/bin/a)\n\t999 0x999 ([unknown])\n";
    assert_eq!(stack(StackMode::Perf), perf);
    assert_eq!(stack(StackMode::Raw), "\n20\n999\n");
}

#[test]
fn a_stack_says_why_it_ends_if_that_is_wanted() {
    let stack = |mode, symbols: &dyn Symbols| {
        let (frames, end) = (vec![0x999], Some(End::NoTable));
        let mut out = Vec::new();
        let stack = Stack { space: Space::User, mode, pid: 2, frames, interrupted: Vec::new(), end };
        write_value(&Value::Stack(stack), symbols, &mut out);
        String::from_utf8(out).unwrap()
    };
    let ends = "[stack ends here: no unwind table yet]\n";
    assert_eq!(stack(StackMode::Bpftrace, &Names), format!("\n        0x999\n        {ends}"));
    assert_eq!(stack(StackMode::Perf, &Names), format!("\n\t999 0x999 ([unknown])\n\t{ends}"));
    assert_eq!(stack(StackMode::Bpftrace, &WithOrigins), "\n        0x999\n");
    assert_eq!(stack(StackMode::Perf, &WithOrigins), "\n\t999 0x999 ([unknown])\n");
}

#[test]
fn frames_are_positions_in_files() {
    struct InFile;

    impl Symbols for InFile {
        fn kernel(&self, _address: u64) -> Option<SymbolName> {
            None
        }
        fn user(&self, _pid: u32, _address: u64) -> Option<SymbolName> {
            None
        }
        fn username(&self, _uid: u32) -> Option<String> {
            None
        }
        fn boot_time_ns(&self) -> u64 {
            0
        }
        fn locate_user(&self, _pid: u32, addresses: &[u64]) -> Vec<Location> {
            let position = |address: &u64| FilePosition {
                build_id: Some("0a1b".into()),
                offset: address - 0x1000,
                function: None,
            };
            let locate = |address: &u64| match address {
                0x1000..0x2000 => Location::Module("/bin/a".into(), position(address)),
                _ => Location::Unknown,
            };
            addresses.iter().map(locate).collect()
        }
    }

    let frames = vec![0x1005, 0x1020, 0x9000];
    let stack =
        Stack { space: Space::User, mode: StackMode::BuildId, pid: 1, frames, interrupted: Vec::new(), end: None };
    let mut out = Vec::new();
    write_value(&Value::Stack(stack), &InFile, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), "\n0a1b 0x05\n0a1b 0x20\n9000\n");
}

#[test]
fn stacks_start_on_a_line_of_their_own() {
    let stack = |space, mode, frames: &[u64]| {
        text(&Value::Stack(Stack { space, mode, pid: 1, frames: frames.to_vec(), interrupted: Vec::new(), end: None }))
    };
    let kernel = [0xf010, 0x12];
    assert_eq!(stack(Space::Kernel, StackMode::Bpftrace, &kernel), "\n        do_idle+16\n        0x12\n");
    assert_eq!(stack(Space::Kernel, StackMode::Perf, &kernel), "\n\tf010 do_idle+16\n\t12 0x12\n");
    assert_eq!(stack(Space::Kernel, StackMode::Raw, &kernel), "\nf010\n12\n");
    assert_eq!(stack(Space::Kernel, StackMode::Raw, &[]), "\n");
    // The function that calls is the one before a return address.
    let at_start = [0xf000, 0xf000, 0xf001];
    let named = "\n        do_idle+0\n        0xf000\n        do_idle+1\n";
    assert_eq!(stack(Space::Kernel, StackMode::Bpftrace, &at_start), named);
    assert_eq!(stack(Space::User, StackMode::Bpftrace, &[0x20, 0x999]), "\n        main+32\n        0x999\n");
    assert_eq!(
        stack(Space::User, StackMode::Perf, &[0x20, 0x120, 0x999]),
        "\n\t20 main+32 (/bin/a)\n\t120 main+288 ([unknown])\n\t999 0x999 ([unknown])\n"
    );
}

fn log2(k: u8, values: &[i64]) -> Histogram {
    let mut counts = vec![0; log2_buckets(k)];
    for &value in values {
        counts[log2_index(value, k)] += 1;
    }
    log2_histogram(&counts, k)
}

fn labels(histogram: Histogram) -> Vec<String> {
    let rows = text(&Value::Histogram(histogram));
    rows.lines().map(|row| row[..row.find("  ").unwrap_or(16)].to_string()).collect()
}

#[test]
fn histograms_of_powers() {
    // The output of one of bpftrace's own tests.
    let expected = "\
(..., 0)               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[0]                    0 |                                                    |
[1]                    0 |                                                    |
[2, 4)                 2 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
[4, 8)                 1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[8, 16)                0 |                                                    |
[16, 32)               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
";
    assert_eq!(text(&Value::Histogram(log2(0, &[-5, 2, 3, 4, 16]))), expected);
    assert_eq!(text(&Value::Histogram(log2(0, &[]))), "");
}

#[test]
fn bounds_of_powers_get_suffixes_by_the_width_of_the_bucket() {
    assert_eq!(labels(log2(0, &[1000, 1024])), ["[512, 1K)", "[1K, 2K)"]);
    assert_eq!(labels(log2(0, &[1 << 20, 1 << 30, i64::MAX])).first().unwrap(), "[1M, 2M)");
    assert_eq!(labels(log2(0, &[i64::MAX])), ["[4E, 8E)"]);
    assert_eq!(labels(log2(2, &[7, 8, 9])), ["[7]", "[8, 10)"]);
    assert_eq!(labels(log2(2, &[1024, 4095, 4096]))[..2], ["[1024, 1280)", "[1280, 1536)"]);
    assert_eq!(labels(log2(2, &[4095, 4096])), ["[3584, 4K)", "[4K, 5K)"]);
}

#[test]
fn linear_histograms() {
    let expected = "\
(..., 0)               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[0, 2)                 0 |                                                    |
[2, 4)                 2 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
[4, 6)                 0 |                                                    |
[6, 8)                 1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[8, 10)                0 |                                                    |
[10, ...)              1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
";
    assert_eq!(text(&Value::Histogram(linear_histogram(&[1, 0, 2, 0, 1, 0, 1], 0, 10, 2))), expected);
    assert_eq!(labels(linear_histogram(&[0, 1, 1], 0, 10, 1)), ["[0]", "[1]"]);
    let kibi = labels(linear_histogram(&[1, 1, 1, 1], 0, 2048, 1024));
    assert_eq!(kibi, ["(..., 0)", "[0, 1K)", "[1K, 2K)", "[2K, ...)"]);
    let half = labels(linear_histogram(&[0, 1, 1, 1, 1], 0, 2048, 512));
    assert_eq!(half, ["[0, 512)", "[512, 1024)", "[1024, 1536)", "[1536, 2048)"]);
    let mebi = labels(linear_histogram(&[0, 1, 1], 0, 1 << 30, 1 << 29));
    assert_eq!(mebi, ["[0, 512M)", "[512M, 1024M)"]);
    assert_eq!(labels(linear_histogram(&[1, 1], -4, 4, 4)), ["(..., -4)", "[-4, 0)"]);
}

#[test]
fn counts_wider_than_their_column_push_the_bar() {
    let row = text(&Value::Histogram(linear_histogram(&[0, 12_345_678_901], 0, 10, 10)));
    assert_eq!(row, format!("[0, 10)         12345678901 |{}|\n", "@".repeat(52)));
}

#[test]
fn thousands_are_apart() {
    let texts: Vec<String> = [0, 999, 1000, 1_234_567].map(thousands).to_vec();
    assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
}
