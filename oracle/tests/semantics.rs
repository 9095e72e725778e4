//! The semantics of the language, tested on the reference implementation: the evaluator.
//!
//! In: scripts with one `BEGIN` that read a process id of 1234 and a user id of 1000. Out: what
//! their maps print.
//! Guarantee: the expected values are written by hand; the optimized program must agree with the
//! program as lowered.

use std::collections::BTreeMap;

use profiler_compiler::btf::BtfId;
use profiler_compiler::check::Options;
use profiler_compiler::decode::{Lookup, decode};
use profiler_compiler::distribution::{Distribution, index};
use profiler_compiler::ir::{self, MapId};
use profiler_compiler::object::{MapValue, Object, Storage};
use profiler_compiler::results::Vocabulary;
use profiler_compiler::source::Source;
use profiler_compiler::text::write_value;
use profiler_compiler::types::StackType;
use profiler_compiler::value::{SymbolName, Symbols, Value};
use profiler_compiler::{CATALOGUE, compile, lower};
use profiler_oracle::evaluator::{self, Space};

#[path = "../../compiler/tests/support/fixture.rs"]
mod fixture;

/// The address of a string in memory.
const TEXT_AT: u64 = 0x1000;

/// A lookup that knows no names.
#[derive(Debug)]
struct Nothing;

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
        &CATALOGUE
    }
}

impl Symbols for Nothing {
    fn kernel(&self, _: u64) -> Option<SymbolName> {
        None
    }
    fn user(&self, _: u32, _: u64) -> Option<SymbolName> {
        None
    }
    fn username(&self, _: u32) -> Option<String> {
        None
    }
    fn boot_time_ns(&self) -> u64 {
        0
    }
}

/// The contents of all maps after the script ran once on each of these CPUs: `name[key]` with the
/// text of its value.
fn maps_after(script: &str, cpus: &[u32]) -> BTreeMap<String, String> {
    let target = fixture::Machine::new(true);
    let source = Source::new("semantics", script);
    let stages = compile::stages(&source, &CATALOGUE, &target, &Options::default())
        .unwrap_or_else(|errors| panic!("{script}: {errors:?}"));
    let lowered = lower::lower_separately(&stages.typed, (&CATALOGUE, &target));
    let maps = evaluated(&lowered.ir, &lowered.object, cpus, (0, 0));
    assert_eq!(evaluated(&stages.ir, &lowered.object, cpus, (0, 0)), maps, "{script}: the optimised program");
    maps
}

/// The buffers of one generation after the program ran in another.
fn evaluated(
    program: &ir::Program,
    object: &Object,
    cpus: &[u32],
    (ran_in, read): (u8, u64),
) -> BTreeMap<String, String> {
    let mut machine = evaluator::Machine::new(program);
    if let Some(offset) = object.generation_offset {
        machine.bss_mut()[offset as usize] = ran_in;
    }
    for space in [Space::Kernel, Space::User] {
        machine.add_memory(space, TEXT_AT, b"hello\0behind".to_vec());
    }
    for cpu in cpus {
        machine.kernel.environment.cpu = *cpu;
        machine.run(&object.programs[0].name, &[0; 96]).unwrap_or_else(|error| panic!("{error}"));
    }
    let mut found = BTreeMap::new();
    for map in &object.maps {
        let show = |copies: &[Vec<u8>]| {
            let copies: Vec<&[u8]> = copies.iter().map(Vec::as_slice).collect();
            let value = match &map.value {
                MapValue::Plain(ty) => decode(ty, copies[0], &Nothing),
                MapValue::Aggregate { word, params, signed, .. } => {
                    let word = Vocabulary::aggregation(&CATALOGUE, word).expect("an aggregation");
                    word.merge(params, *signed, &copies)
                }
            };
            shown(&value)
        };
        match map.place(read) {
            Storage::Global { offset_bytes, stride_bytes, copies, value_size_bytes } => {
                let at = |copy: u32| (offset_bytes + copy * stride_bytes) as usize;
                let copies = (0..*copies).filter(|copy| machine.bss()[at(*copy)..at(*copy) + 8] != [0; 8]);
                let value = |copy| machine.bss()[at(copy) + 8..at(copy) + 8 + *value_size_bytes as usize].to_vec();
                let copies: Vec<Vec<u8>> = copies.map(value).collect();
                if !copies.is_empty() {
                    found.insert(map.name.clone(), show(&copies));
                }
            }
            Storage::Threads(threads) => {
                let id = program.maps.iter().position(|m| m.name == threads.map).expect("the map");
                for (_, copies) in machine.map_entries(MapId(id as u32)) {
                    let (value, mark) = copies[0].split_at(threads.value_size_bytes as usize);
                    let thread = shown(&decode(map.key.as_ref().expect("a key"), &mark[..4], &Nothing));
                    found.insert(format!("{}[{thread}]", map.name), show(&[value.to_vec()]));
                }
            }
            Storage::Map { map: name, .. } => {
                let id = program.maps.iter().position(|m| m.name == *name).expect("the map");
                if let MapValue::Aggregate { word, params, signed, pages: Some(_) } = &map.value
                    && let Some(word) = Vocabulary::aggregation(&CATALOGUE, word)
                {
                    for (key, pages) in paged(machine.map_entries(MapId(id as u32))) {
                        let pages: Vec<(u64, Vec<&[u8]>)> =
                            pages.iter().map(|(n, copies)| (*n, copies.iter().map(Vec::as_slice).collect())).collect();
                        let key = shown(&decode(map.key.as_ref().expect("a key"), &key, &Nothing));
                        found.insert(format!("{}[{key}]", map.name), shown(&word.merge_pages(params, *signed, &pages)));
                    }
                    continue;
                }
                for (key, copies) in machine.map_entries(MapId(id as u32)) {
                    let key = shown(&decode(map.key.as_ref().expect("a key"), &key, &Nothing));
                    found.insert(format!("{}[{key}]", map.name), show(&copies));
                }
            }
        }
    }
    found
}

/// A page's number and its bytes on each CPU.
type Page = (u64, Vec<Vec<u8>>);

/// The entries of a map that is stored in pages, by the script's key.
fn paged(entries: impl IntoIterator<Item = (Vec<u8>, Vec<Vec<u8>>)>) -> BTreeMap<Vec<u8>, Vec<Page>> {
    let mut by_key: BTreeMap<Vec<u8>, Vec<Page>> = BTreeMap::new();
    for (mut key, copies) in entries {
        let number = key.split_off(key.len() - 4);
        let number = u32::from_ne_bytes(number.try_into().expect("4 bytes"));
        by_key.entry(key).or_default().push((number.into(), copies));
    }
    by_key
}

/// The text of a value; for a histogram, the nonempty buckets without their bars.
fn shown(value: &Value) -> String {
    let mut text = Vec::new();
    write_value(value, &Nothing, &mut text);
    let text = String::from_utf8(text).expect("UTF-8");
    // All buckets of a distribution; its text would merge those of a power of two.
    if let Value::Distribution(distribution) = value {
        let mut known = distribution.clone();
        let buckets = std::mem::take(&mut known.buckets);
        return format!("{buckets:?} {:?} {} {}", known.range, known.sum, known.negative);
    }
    if !matches!(value, Value::Histogram(_)) {
        return text;
    }
    let buckets = text.lines().filter_map(|line| {
        let (bucket, _) = line.split_once('|')?;
        let (range, count) = bucket.trim().rsplit_once(' ')?;
        (count != "0").then(|| format!("{} {count}", range.trim().replace(' ', "")))
    });
    buckets.collect::<Vec<String>>().join("; ")
}

/// Asserts that each `@x` of the script prints the given text.
fn means(assignments: &[(&str, &str)]) {
    for (value, expected) in assignments {
        let maps = maps_after(&format!("BEGIN {{ $n = pid; $u = uid; @x = {value}; }}"), &[0]);
        assert_eq!(maps["@x"], *expected, "{value}");
    }
}

fn holds(script: &str, expected: &[(&str, &str)]) {
    let expected: BTreeMap<String, String> = expected.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    assert_eq!(maps_after(script, &[0]), expected, "{script}");
}

#[test]
fn arithmetic_wraps_in_64_bits() {
    means(&[
        ("0x7fffffffffffffff + (int64)$n - 1233", "-9223372036854775808"),
        ("(uint64)$n * 0xffffffffffffffff", "18446744073709550382"),
        ("(int64)$n << 60", "2305843009213693952"),
        ("-(int64)(0x7fffffffffffffff + (int64)$n - 1233)", "-9223372036854775808"),
        ("$u - $n", "-234"),
    ]);
}

#[test]
fn minus_and_complement_keep_the_type() {
    means(&[
        ("-(uint32)($n - 1233)", "4294967295"),
        ("~(uint8)($n - 1233)", "254"),
        ("~(int16)($n - 1233)", "-2"),
        ("-(int8)($n - 1106)", "-128"),
        ("-(uint32)1", "4294967295"),
        ("~(uint8)1", "254"),
        ("~0", "-1"),
        ("-1", "-1"),
        ("-(uint64)$n / 2", "9223372036854775191"),
    ]);
}

#[test]
fn counting_up_widens_as_adding_does() {
    for (step, sum) in [("$x++", "$x += 1"), ("++$x", "$x += 1"), ("$x--", "$x -= 1")] {
        for start in [
            "(uint8)255",
            "(int8)127",
            "(uint16)65535",
            "(int32)0x7fffffff",
            "(uint32)0xffffffff",
            "(uint8)0",
            "(int8)-128",
        ] {
            let after = |statement: &str| maps_after(&format!("BEGIN {{ $x = {start}; {statement}; @x = $x; }}"), &[0]);
            assert_eq!(after(step), after(sum), "{start}: {step}");
        }
    }
    holds("BEGIN { let $x: uint8 = 255; $x++; @x = $x; }", &[("@x", "0")]);
    holds("BEGIN { $x = (uint8)250; $i = 0; while ($i < 50) { $x++; $i++; } @x = $x; }", &[("@x", "300")]);
}

#[test]
fn extremes_at_the_ends_of_their_types_are_values() {
    let (most, least) = ("0x7fffffffffffffff", "(-0x7fffffffffffffff - 1)");
    for (value, expected) in [
        (format!("min({most})"), "9223372036854775807"),
        (format!("max({least})"), "-9223372036854775808"),
        (format!("min({least})"), "-9223372036854775808"),
        ("min((uint64)0xffffffffffffffff)".to_owned(), "18446744073709551615"),
        ("max((uint64)0)".to_owned(), "0"),
    ] {
        holds(&format!("BEGIN {{ @x = {value}; }}"), &[("@x", expected)]);
        holds(&format!("BEGIN {{ @x[1] = {value}; }}"), &[("@x[1]", expected)]);
        let maps = maps_after(&format!("BEGIN {{ @x = {value}; @y = @x; @k[1] = {value}; @z = @k[1]; }}"), &[0]);
        assert_eq!((maps["@y"].as_str(), maps["@z"].as_str()), (expected, expected), "{value}");
    }
    let maps = maps_after(
        &format!("BEGIN {{ @x = min(cpu == 0 ? {most} : 5); @y = max(cpu == 0 ? {least} : -5); }}"),
        &[0, 1, 0],
    );
    assert_eq!((maps["@x"].as_str(), maps["@y"].as_str()), ("5", "-5"));
}

#[test]
fn memcmp_says_which_is_the_smaller() {
    means(&[
        ("memcmp(\"a\", \"c\", 2)", "-2"),
        ("memcmp(\"c\", \"a\", 2)", "2"),
        ("memcmp(\"abcdefgh1\", \"abcdefgh0\", 10)", "1"),
        ("memcmp(\"abcdefg\", \"abcdefh\", 8)", "-1"),
        ("memcmp(\"abcXefgh\", \"abcdefgA\", 8)", "-12"),
        ("memcmp(\"abcdefgh\", \"abcdefgi\", 7)", "0"),
        ("memcmp((uint64)$n == 0 ? \"\\x00\" : \"\\xff\", \"\\x01\", 1)", "254"),
        ("memcmp((1, 2), (1, 3), 16)", "-1"),
    ]);
}

#[test]
fn division_by_zero_is_zero_and_the_remainder_is_the_dividend() {
    means(&[
        ("$n / ($u - 1000)", "0"),
        ("$n % ($u - 1000)", "1234"),
        ("-7 / ($u - 1000)", "0"),
        ("-7 % ($u - 1000)", "-7"),
        ("(int64)$n / -($u / 500)", "-617"),
        ("-(int64)($n + 1) / ($u / 500)", "-617"),
        ("-(int64)($n + 1) % ($u / 500)", "-1"),
        ("(0x7fffffffffffffff + (int64)$n - 1233) / -(int64)($u / 1000)", "-9223372036854775808"),
    ]);
}

#[test]
fn shifts_take_the_low_six_bits_of_the_count() {
    means(&[
        ("1 << ($n - 1170)", "1"),
        ("1 << ($n - 1171)", "-9223372036854775808"),
        ("-8 >> ($u - 999)", "-4"),
        ("(uint64)0xfffffffffffffff8 >> ($u - 999)", "9223372036854775804"),
        ("-1 >> ($n - 1171)", "-1"),
    ]);
}

#[test]
fn casts_cut_and_extend_by_the_sign() {
    means(&[
        ("(int64)(int8)($n + 0x80)", "82"),
        ("(int64)(int8)($u - 872)", "-128"),
        ("(int64)(uint8)($u - 1001)", "255"),
        ("(int64)(int16)($u + 31768)", "-32768"),
        ("(int64)(uint16)($u - 1001)", "65535"),
        ("(int64)(int32)($u + 0x7ffffc18)", "-2147483648"),
        ("(int64)(uint32)($u - 1001)", "4294967295"),
        ("(int8)-1 < (uint64)$n", "true"),
    ]);
}

#[test]
fn strings_are_cut_to_their_room_and_compared_as_text() {
    let script = |body: &str| format!("config = {{ max_strlen = 8 }} BEGIN {{ {body} }}");
    holds(
        &script(
            "$s = comm; @cut = str(pid + 2862, 3); @whole = str(pid + 2862); @none = str(pid); @same = $s == \"bash\"; @other = $s == \"bas\";",
        ),
        &[("@cut", "he"), ("@none", ""), ("@other", "false"), ("@same", "true"), ("@whole", "hello")],
    );
    holds(
        &script("@s = \"a\"; @s = \"longer than eight\"; @t[\"key\"] = \"\"; @t[comm] = comm;"),
        &[("@s", "longer than eight"), ("@t[bash]", "bash"), ("@t[key]", "")],
    );
}

#[test]
fn a_missing_key_reads_as_nothing_and_is_not_made() {
    holds(
        "BEGIN { @a = @n[5]; @s = @t[1] == \"\"; @h = has_key(@n[5]); @n[6] = 1; @t[2] = \"x\"; delete(@n[6]); }",
        &[("@a", "0"), ("@h", "false"), ("@s", "true"), ("@t[2]", "x")],
    );
    holds("BEGIN { @n[1]++; @n[1] += 4; @n[2]--; }", &[("@n[1]", "5"), ("@n[2]", "-1")]);
}

#[test]
fn aggregations_update_on_each_cpu_and_merge() {
    let script =
        "BEGIN { $v = cpu == 0 ? -5 : 20; @c = count(); @s = sum($v); @min = min($v); @max = max($v); @a = avg($v);
        @k[1] = sum($v); @k[cpu + 2] = sum($v); @d[1] = stats($v); }";
    let maps = maps_after(script, &[0, 1, 1]);
    let expected = [
        ("@a", "11"),
        ("@c", "3"),
        ("@k[1]", "35"),
        ("@k[2]", "-5"),
        ("@k[3]", "40"),
        ("@max", "20"),
        ("@min", "-5"),
        ("@s", "35"),
    ];
    for (name, value) in expected {
        assert_eq!(maps[name], value, "{name}");
    }
    assert_eq!(maps["@d[1]"], "{ .count = 3, .average = 11, .total = 35 }");
}

#[test]
fn histograms_have_their_bounds() {
    let values =
        "@h = hist(-1); @h = hist(0); @h = hist(1); @h = hist(2); @h = hist(3); @h = hist(4); @h = hist(1 << 62);";
    holds(&format!("BEGIN {{ {values} }}"), &[("@h", "(...,0) 1; [0] 1; [1] 1; [2,4) 2; [4,8) 1; [4E,8E) 1")]);
    let values = "@l = lhist(-1, 0, 10, 5); @l = lhist(0, 0, 10, 5); @l = lhist(4, 0, 10, 5); @l = lhist(5, 0, 10, 5);
        @l = lhist(9, 0, 10, 5); @l = lhist(10, 0, 10, 5); @l = lhist(1000, 0, 10, 5);";
    holds(&format!("BEGIN {{ {values} }}"), &[("@l", "(...,0) 1; [0,5) 2; [5,10) 2; [10,...) 2")]);
}

#[test]
fn a_field_of_a_record_is_written_and_the_others_stay() {
    holds(
        "BEGIN { @t[1].a = 5; @t[1].b = \"x\"; @t[1].a += 2; @t[1].n++; ++@t[1].n; @t[2].b = comm; @old = @t[1].a--; @new = ++@t[2].a; }",
        &[
            ("@new", "1"),
            ("@old", "7"),
            ("@t[1]", "{ .a = 6, .b = x, .n = 2 }"),
            ("@t[2]", "{ .a = 1, .b = bash, .n = 0 }"),
        ],
    );
    holds(
        "BEGIN { @one.a = 3; @one.b |= 6; @one.b &= 3; @one.a *= @one.a; @one.c = @one.a > 8; }",
        &[("@one", "{ .a = 9, .b = 2, .c = true }")],
    );
    holds(
        "BEGIN { @t[pid].a = @t[pid].a + uid - 1000; @r = @t[pid]; }",
        &[("@r", "{ .a = 0 }"), ("@t[1234]", "{ .a = 0 }")],
    );
}

#[test]
fn fields_are_read_where_they_are_not_yet_written() {
    holds(
        "BEGIN { $r = @t[1]; @before = $r.b; if (pid == 1234) { @t[1].b = 7; } @t[1].a = \"a\"; $q = @t[1]; @after = $q.b; @none = @t[2].a == \"\"; }",
        &[("@after", "7"), ("@before", "0"), ("@none", "true"), ("@t[1]", "{ .b = 7, .a = a }")],
    );
}

#[test]
fn whole_records_and_fields_go_together() {
    holds(
        "BEGIN { @t[1] = (a = 1, b = \"x\"); @t[1].b = \"yy\"; @t[2].a = pid; @t[3] = (b = \"z\", a = -1); @t[3].a -= 4; delete(@t[1]); }",
        &[("@t[2]", "{ .a = 1234, .b =  }"), ("@t[3]", "{ .a = -5, .b = z }")],
    );
    holds(
        "BEGIN { @t[1].a = 1; @s[2] = @t[1]; @t[1].a = 2; @s[2].a += 10; }",
        &[("@s[2]", "{ .a = 11 }"), ("@t[1]", "{ .a = 2 }")],
    );
}

#[test]
fn states_keep_their_declared_types() {
    holds(
        "state thread by tid { n: u8, s: int16, ok: bool, name: comm, since: time, took: duration }
        BEGIN { thread.n = pid; thread.n += 50; @n = thread.n; thread.s = -1; thread.s--; @s = thread.s--; thread.ok = pid; thread.name = comm;
        thread.took = thread.since - 5; @again = ++thread.n; @whole = thread; @there = has_key(thread); }",
        &[
            ("@again", "5"),
            ("@n", "4"),
            ("@s", "-2"),
            ("@there", "true"),
            ("@whole", "{ .n = 5, .s = -3, .ok = true, .name = bash, .since = 0, .took = -5 }"),
            ("thread[1235]", "{ .n = 5, .s = -3, .ok = true, .name = bash, .since = 0, .took = -5 }"),
        ],
    );
}

#[test]
fn a_state_has_the_key_that_it_declares() {
    holds(
        "state conn by (pid, fd: int32) { bytes: bytes, last: string[8]; limit 10 } state process by pid { calls: u32 }
        BEGIN { conn[pid, 3].bytes += 4; conn[pid, 3].last = \"x\"; conn[1, (int32)uid].bytes = 2; process.calls++; process[7].calls = 9;
        @mine = process.calls; @other = process[7].calls; delete(conn[1, 1000]); @gone = has_key(conn[1, 1000]); }",
        &[
            ("@gone", "false"),
            ("@mine", "1"),
            ("@other", "9"),
            ("conn[(1234, 3)]", "{ .bytes = 4, .last = x }"),
            ("process[1234]", "{ .calls = 1 }"),
            ("process[7]", "{ .calls = 9 }"),
        ],
    );
}

#[test]
fn what_a_branch_inserts_is_there_after_it() {
    let state = "state s by (n: u64) { a: u64, b: u64 }";
    let cases = [
        ("if (s[pid].a == 0) { s[pid].a = 5; } @a = s[pid].a;", [("@a", "5"), ("s[1234]", "{ .a = 5, .b = 0 }")]),
        (
            "if (s[pid].a == 1) { s[pid].a = 5; } else { s[pid].b = 6; } @b = s[pid].b;",
            [("@b", "6"), ("s[1234]", "{ .a = 0, .b = 6 }")],
        ),
        ("if (s[pid].a == 0) { s[1234].a = 5; } @a = s[pid].a;", [("@a", "5"), ("s[1234]", "{ .a = 5, .b = 0 }")]),
        (
            "s[pid].a = 7; if (s[pid].a == 0) { s[pid].a = 5; } @a = s[pid].a;",
            [("@a", "7"), ("s[1234]", "{ .a = 7, .b = 0 }")],
        ),
        (
            "if (s[pid].a == 1) { s[pid].a = 5; } s[pid].b++; @b = s[pid].b;",
            [("@b", "1"), ("s[1234]", "{ .a = 0, .b = 1 }")],
        ),
        (
            "if (s[pid].a == 0) { if (uid == 1000) { s[pid].a = 5; } s[pid].b += 2; } @a = s[pid].a + s[pid].b;",
            [("@a", "7"), ("s[1234]", "{ .a = 5, .b = 2 }")],
        ),
    ];
    for (body, expected) in cases {
        holds(&format!("{state} BEGIN {{ {body} }}"), &expected);
    }
}

#[test]
fn a_state_is_assigned_as_a_whole_and_deleted() {
    holds(
        "BEGIN { thread = (b = 300, a = 7); thread.a += 1; @a = thread.a; delete(thread); @b = thread.b; @there = has_key(thread); }
        state thread by tid { a: u8, b: u16 }",
        &[("@a", "8"), ("@b", "0"), ("@there", "false")],
    );
}

#[test]
fn the_names_of_states_mean_other_things_elsewhere() {
    holds(
        "state by by tid { state: u32, by: u32, limit: u32 }
        BEGIN { $state = 1; by.state = 2; by.limit = 3; @state = (state = $state, by = by.state); @state.by = by.limit; }",
        &[("@state", "{ .state = 1, .by = 3 }"), ("by[1235]", "{ .state = 2, .by = 0, .limit = 3 }")],
    );
}

#[test]
fn distributions_count_in_the_buckets_of_the_decoder() {
    let mut values = vec![0u64, 1, 127, 128, 1234, 1_000_003, 86_400_000_000_000, i64::MAX as u64];
    for power in [5u32, 6, 7, 8, 20, 46, 62] {
        let border = (1u64 << power) + ((1u64 << power) >> 6) * 63;
        values.extend([1 << power, (1 << power) - 1, (1 << power) + 1, border - 1, border, border + 1]);
    }
    for (error, sub_bits) in [("", 6), (", 25%", 1), (", 0.1%", 9)] {
        let mut expected = Distribution { sub_bits, ..Distribution::default() };
        for &value in &values {
            expected.add(index(value, sub_bits), 1);
            expected.sum += i128::from(value);
        }
        // The sum wraps at 64 bits.
        expected.sum = i128::from(expected.sum as i64);
        expected.range = Some((0, i128::from(i64::MAX)));
        // Values read from a map are not constants.
        let calls = |target: &str, at: usize| format!("@v = {}; {target} = dist(@v{error}); ", values[at]);
        let script = |target: &str| (0..values.len()).map(|at| calls(target, at)).collect::<String>();
        let scalar = maps_after(&format!("BEGIN {{ {} }}", script("@d")), &[0]);
        assert_eq!(scalar["@d"], shown(&Value::Distribution(expected.clone())), "{error}");
        let keyed =
            maps_after(&format!("BEGIN {{ {} @k[\"abc\", 2] = dist(5{error}); }}", script("@k[\"abcd\", 1]")), &[0]);
        let sums = |text: &str| text[..text.find(')').expect("the range")].to_owned();
        assert_eq!(sums(&keyed["@k[(abcd, 1)]"]), sums(&scalar["@d"]), "{error}");
        assert_eq!(keyed["@k[(abc, 2)]"], format!("{{{}: 1}} Some((5, 5)) 5 0", index(5, sub_bits)));
    }
}

#[test]
fn distributions_of_all_cpus_are_one() {
    let script = "BEGIN { @d = dist(cpu * 1000); @d = dist(-3); @u = dist((uint64)-1); @k[1] = dist(cpu); }";
    let maps = maps_after(script, &[0, 1, 0]);
    assert_eq!(maps["@d"], format!("{{0: 2, {}: 1}} Some((-3, 1000)) 991 3", index(1000, 6)));
    // The sum of the two values on one CPU wraps.
    let (most, sum) = (u64::MAX, u128::from(u64::MAX) * 2 - 1);
    assert_eq!(maps["@u"], format!("{{{}: 3}} Some(({most}, {most})) {sum} 0", index(most, 6)));
    assert_eq!(maps["@k[1]"], "{0: 2, 1: 1} Some((0, 1)) 1 0");
}

#[test]
fn each_generation_of_a_windowed_map_has_a_place_of_its_own() {
    let body = r#"BEGIN {
        for $i : 0..10 { @counted[$i % 3] = count(); @assigned[$i] = $i * 2; if ($i == 7) { delete(@assigned, 4); } }
        @bare = sum(5); @number += 3; @read = @counted[1] + @assigned[3] + @number;
        @spread["x"] = hist(100); @deep["y"] = dist(9); @seen = has_key(@assigned, 4) ? 1 : 2;
    }"#;
    let plain = maps_after(body, &[0, 1, 1]);
    let view = r#"view "v" { of @counted, @assigned  every 1s clear } view "w" { of @bare, @number, @read, @seen  every 1s clear }
        view "x" { of @spread, @deep  every 1s clear }"#;
    let script = format!("{view}\n{body}");
    let (target, source) = (fixture::Machine::new(true), Source::new("semantics", script.as_str()));
    let stages = compile::stages(&source, &CATALOGUE, &target, &Options::default())
        .unwrap_or_else(|errors| panic!("{errors:?}"));
    for (generation, other) in [(0, 1), (1, 0)] {
        let after = |read| evaluated(&stages.ir, &stages.object, &[0, 1, 1], (generation, read));
        assert_eq!(after(u64::from(generation)), plain, "what a run does is what it does without windows");
        assert_eq!(after(other), BTreeMap::new(), "nothing is in the other place");
    }
}
