use profiler_model::results::Merge;
use profiler_model::types::{Space, StackMode};
use profiler_model::value::Stack;

use super::super::fixtures::*;
use super::*;
use profiler_model::output::Field;

const ALL: MapPrint = MapPrint { top: 0, div: 0, flame: None };

fn line(write: impl FnOnce(&mut Json)) -> String {
    let out = Paper::default();
    let mut json = Json::new(Box::new(out.clone()), false);
    write(&mut json);
    json.flush().unwrap();
    out.text()
}

fn value(value: &Value) -> String {
    let line = line(|json| json.value(value, &Names));
    let data = line.strip_prefix("{\"type\": \"value\", \"data\": ").and_then(|rest| rest.strip_suffix("}\n"));
    data.unwrap_or_else(|| panic!("{line}")).to_string()
}

fn map(aggregation: Option<&'static dyn Merge>, entries: &[(Value, Value)]) -> String {
    line(|json| keyed(json, aggregation, ALL, entries))
}

#[test]
fn distributions_carry_their_numbers_and_buckets() {
    let mut values = profiler_model::distribution::Distribution { sub_bits: 2, ..Default::default() };
    (values.unit, values.sum, values.range) = (profiler_model::units::Unit::Duration, 23, Some((3, 20)));
    values.add(3, 1);
    values.add(profiler_model::distribution::index(20, 2), 1);
    let mut out = Vec::new();
    write_json(&Value::Distribution(values), &Names, &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "{\"unit\": \"ns\", \"count\": 2, \"sum\": 23, \"mean\": 11.5, \"min\": 3, \"max\": 20, \"p50\": 3, \"p90\": 20, \
         \"p99\": 20, \"p99.9\": 20, \"negative\": 0, \"sub_bits\": 2, \
         \"buckets\": [{\"min\": 3, \"max\": 3, \"count\": 1},{\"min\": 20, \"max\": 23, \"count\": 1}]}"
    );
}

#[test]
fn numbers_that_json_lacks_are_strings() {
    let float = |number: f64| value(&Value::Float(number.to_bits()));
    assert_eq!([1.5, -0.25].map(float), ["1.5", "-0.25"]);
    assert_eq!([f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(float), ["\"inf\"", "\"-inf\"", "\"NaN\""]);
}

#[test]
fn text_is_one_string() {
    let text = |kind, bytes: &'static [u8]| line(|json| json.text(kind, bytes));
    assert_eq!(text("printf", b"test 5"), "{\"type\": \"printf\", \"data\": \"test 5\"}\n");
    assert_eq!(text("time", b"12:00:01\n"), "{\"type\": \"time\", \"data\": \"12:00:01\\n\"}\n");
    assert_eq!(text("join", b"/bin/echo,'A'"), "{\"type\": \"join\", \"data\": \"/bin/echo,'A'\"}\n");
    assert_eq!(text("syscall", b"a b c\n"), "{\"type\": \"syscall\", \"data\": \"a b c\\n\"}\n");
    assert_eq!(text("cat", b""), "{\"type\": \"cat\", \"data\": \"\"}\n");
}

#[test]
fn strings_are_escaped_and_always_utf8() {
    assert_eq!(value(&string("\r \n \t \\ \" /\u{7f}é")), "\"\\r \\n \\t \\\\ \\\" /\\u007fé\"");
    assert_eq!(value(&string("\0\u{1b}[1m")), "\"\\u0000\\u001b[1m\"");
    assert_eq!(value(&Value::Str(b"a\xff\xfe\xc3".to_vec())), "\"a\u{fffd}\u{fffd}\u{fffd}\"");
}

#[test]
fn values_keep_their_kind() {
    let number = |number, name: &str| Value::Enum { number, name: Some(name.into()) };
    let table = [
        (Value::Missing, "null"),
        (Value::Bool(true), "true"),
        (Value::Int(-5), "-5"),
        (Value::Uint(5), "5"),
        (Value::Pointer(0x32), "50"),
        (number(333, "FOO"), "333"),
        (Value::Buf(vec![0, 97, 255]), "[0,97,255]"),
        (Value::Array(vec![Value::Int(1), Value::Int(2)]), "[1,2]"),
        (Value::Tuple(vec![Value::Int(1), string("s"), Value::Tuple(vec![Value::Int(4)])]), "[1,\"s\",[4]]"),
        (Value::Record(vec![("m".into(), Value::Int(2)), ("n".into(), Value::Int(3))]), "{\"m\": 2, \"n\": 3}"),
        (Value::Record(vec![]), "{}"),
        (stack(&[0xf001, 2]), "\"\\n        do_idle+1\\n        0x2\\n\""),
        (Value::Symbol { space: Space::Kernel, address: 0xf001, pid: 0 }, "\"do_idle\""),
        (Value::Inet("10.0.0.1".parse().unwrap()), "\"10.0.0.1\""),
        (Value::Timestamp { since_boot_ns: 0, format: "%Y".into() }, "\"1970\""),
        (Value::Username(0), "\"root\""),
        (Value::Username(9), "\"\""),
        (Value::Average { average: 3 }, "3"),
        (Value::Stats { count: 2, average: 6, total: 12 }, "{\"count\": 2, \"average\": 6, \"total\": 12}"),
    ];
    for (given, expected) in table {
        assert_eq!(value(&given), expected, "{given:?}");
    }
}

#[test]
fn integers_beyond_a_double_are_strings() {
    let exact = [0, 1, (1 << 53) - 1, 1 << 53, (1 << 53) + 2, 1 << 62];
    for n in exact {
        assert_eq!(value(&Value::Int(n)), n.to_string());
        assert_eq!(value(&Value::Int(-n)), (-n).to_string());
    }
    for n in [(1 << 53) + 1, i64::MAX, i64::MAX - 1] {
        assert_eq!(value(&Value::Int(n)), format!("\"{n}\""));
        assert_eq!(value(&Value::Int(-n)), format!("\"{}\"", -n));
    }
    assert_eq!(value(&Value::Int(i64::MIN)), "-9223372036854775808");
    assert_eq!(value(&Value::Uint(1 << 63)), "9223372036854775808");
    assert_eq!(value(&Value::Uint(u64::MAX)), "\"18446744073709551615\"");
    assert_eq!(value(&Value::Pointer(0xffff_8880_0123_4568)), "\"18446612682089121128\"");
}

#[test]
fn scalar_maps() {
    let scalar = |aggregation, value| line(|json| scalar(json, aggregation, value));
    assert_eq!(scalar(None, Value::Int(5)), "{\"type\": \"map\", \"data\": {\"@\": 5}}\n");
    assert_eq!(scalar(Some(&COUNT), Value::Uint(5)), "{\"type\": \"map\", \"data\": {\"@\": 5}}\n");
    let nested = Value::Tuple(vec![Value::Int(4), Value::Int(5)]);
    let tuple = Value::Tuple(vec![Value::Int(1), string("string with \"quotes\""), nested]);
    assert_eq!(
        scalar(None, tuple),
        "{\"type\": \"map\", \"data\": {\"@\": [1,\"string with \\\"quotes\\\"\",[4,5]]}}\n"
    );
    assert_eq!(
        scalar(Some(&STATS), Value::Stats { count: 2, average: 6, total: 12 }),
        "{\"type\": \"stats\", \"data\": {\"@\": {\"count\": 2, \"average\": 6, \"total\": 12}}}\n"
    );
    assert_eq!(
        scalar(Some(&HIST), lhist(&[2, 20, 1000])),
        "{\"type\": \"hist\", \"data\": {\"@\": [{\"min\": 0, \"max\": 9, \"count\": 1},{\"min\": 10, \"max\": 19, \
         \"count\": 0},{\"min\": 20, \"max\": 29, \"count\": 1},{\"min\": 30, \"max\": 39, \"count\": 0},{\"min\": 40, \
         \"max\": 49, \"count\": 0},{\"min\": 50, \"max\": 59, \"count\": 0},{\"min\": 60, \"max\": 69, \"count\": 0},{\
         \"min\": 70, \"max\": 79, \"count\": 0},{\"min\": 80, \"max\": 89, \"count\": 0},{\"min\": 90, \"max\": 99, \
         \"count\": 0},{\"min\": 100, \"count\": 1}]}}\n"
    );
    assert_eq!(scalar(Some(&HIST), hist(&[])), "{\"type\": \"hist\", \"data\": {\"@\": []}}\n");
    assert_eq!(
        scalar(Some(&HIST), hist(&[i64::MAX])),
        "{\"type\": \"hist\", \"data\": {\"@\": [{\"min\": 4611686018427387904, \"max\": \"9223372036854775807\", \
         \"count\": 1}]}}\n"
    );
}

fn bpftrace(aggregation: Option<&'static dyn Merge>, entries: &[(Value, Value)]) -> String {
    let out = Paper::default();
    let mut json = Json::new(Box::new(out.clone()), false).of_bpftrace(Box::new(std::io::sink()));
    keyed(&mut json, aggregation, ALL, entries);
    json.flush().unwrap();
    out.text()
}

/// The JSON line of a keyed map with these rows.
fn rows(rows: &str) -> String {
    format!("{{\"type\": \"map\", \"version\": 2, \"data\": {{\"@x\": [{rows}]}}}}\n")
}

fn ones(keys: &[Value]) -> Vec<(Value, Value)> {
    keys.iter().map(|key| (key.clone(), Value::Int(1))).collect()
}

#[test]
fn keys_are_arrays_of_their_parts() {
    let row = |key: Value| map(None, &[(key, Value::Int(1))]);
    let table = [
        (string("a b"), r#"["a b"]"#),
        (string("(a)"), r#"["(a)"]"#),
        (Value::Tuple(vec![string("a,b"), string("c")]), r#"["a,b","c"]"#),
        (Value::Tuple(vec![Value::Tuple(vec![Value::Int(1), Value::Bool(true)]), Value::Int(-2)]), "[[1,true],-2]"),
        (Value::Str(vec![b'a', 0xff]), r#"[{"bytes": [97,255]}]"#),
        (Value::Buf(vec![b'a', 0xff]), "[[97,255]]"),
        (Value::Enum { number: 3, name: Some("CRATE".into()) }, r#"["CRATE"]"#),
        (Value::Enum { number: 3, name: None }, "[3]"),
        (Value::Record(vec![("n".into(), Value::Username(0))]), r#"[{"n": {"uid": 0, "name": "root"}}]"#),
        (Value::Timestamp { since_boot_ns: 7, format: "%Y".into() }, r#"[{"unix_ns": "7", "text": "1970"}]"#),
        (
            stack(&[0xf001, 2]),
            r#"[{"frames": [{"address": "0xf001", "name": "do_idle", "offset": 1},{"address": "0x2"}]}]"#,
        ),
        (
            Value::Symbol { space: Space::User, address: 4, pid: 9 },
            r#"[{"pid": 9, "address": "0x4", "name": "main", "offset": 4}]"#,
        ),
    ];
    for (key, expected) in table {
        assert_eq!(row(key.clone()), rows(&format!(r#"{{"key": {expected}, "value": 1}}"#)), "{key:?}");
    }
}

/// Keys that print alike in text or in the drop-in.
fn alike() -> Vec<Value> {
    let pair = |a: &str, b: &str| Value::Tuple(vec![string(a), string(b)]);
    let symbol = |pid, address| Value::Symbol { space: Space::User, address, pid };
    let user = |pid| {
        Value::Stack(Stack {
            space: Space::User,
            mode: StackMode::Bpftrace,
            pid,
            frames: vec![0x10],
            interrupted: Vec::new(),
            end: None,
        })
    };
    vec![
        string("a b"),
        string("ab"),
        string("(ab)"),
        string("ab#2"),
        pair("a,b", "c"),
        pair("a", "b,c"),
        symbol(1, 0x10),
        symbol(2, 0x10),
        symbol(1, 0x11),
        user(1),
        user(2),
        Value::Str(b"a\xff".to_vec()),
        Value::Str(b"a\xfe".to_vec()),
        string("a\u{fffd}"),
        Value::Username(8),
        Value::Username(9),
        Value::Timestamp { since_boot_ns: 7, format: "%Y".into() },
        Value::Timestamp { since_boot_ns: 8, format: "%Y".into() },
    ]
}

#[test]
fn a_reader_keeps_every_entry() {
    let keys = alike();
    let parsed: serde_json::Value = serde_json::from_str(&map(None, &ones(&keys))).unwrap();
    let rows = parsed["data"]["@x"].as_array().unwrap();
    let distinct: std::collections::BTreeSet<String> = rows.iter().map(|row| row["key"].to_string()).collect();
    assert_eq!((rows.len(), distinct.len()), (keys.len(), keys.len()), "{distinct:#?}");
    let parsed: serde_json::Value = serde_json::from_str(&bpftrace(None, &ones(&keys))).unwrap();
    let entries = parsed["data"]["@x"].as_object().unwrap();
    assert_eq!(entries.len(), keys.len(), "{entries:#?}");
}

#[test]
fn equal_names_are_numbered_past_names_that_keys_have() {
    let printed = bpftrace(None, &ones(&[string("ab"), string("a b"), string("ab#2"), string("(ab)")]));
    assert_eq!(
        printed,
        "{\"type\": \"map\", \"data\": {\"@x\": {\"ab\": 1, \"ab#3\": 1, \"ab#4\": 1, \"ab#2\": 1}}}\n"
    );
}

#[test]
fn keyed_maps_under_bpftrace_s_name() {
    let pair = |key: &str, value| (string(key), Value::Int(value));
    assert_eq!(
        bpftrace(None, &[pair("key2", 3), pair("key1", 2)]),
        "{\"type\": \"map\", \"data\": {\"@x\": {\"key1\": 2, \"key2\": 3}}}\n"
    );
    assert_eq!(bpftrace(None, &[pair("one", 1)]), "{\"type\": \"map\", \"data\": {\"@x\": {\"one\": 1}}}\n");
    let complex = Value::Tuple(vec![string("tmux: server"), Value::Int(2)]);
    assert_eq!(
        bpftrace(None, &[(complex, Value::Int(5))]),
        "{\"type\": \"map\", \"data\": {\"@x\": {\"tmux:server,2\": 5}}}\n"
    );
    assert_eq!(
        bpftrace(None, &[(stack(&[0xf001]), Value::Int(5))]),
        "{\"type\": \"map\", \"data\": {\"@x\": {\"\\ndo_idle+1\\n\": 5}}}\n"
    );
    let averages = [(string("c"), Value::Average { average: 3 }), (string("d"), Value::Average { average: 4 })];
    assert_eq!(bpftrace(Some(&STATS), &averages), "{\"type\": \"stats\", \"data\": {\"@x\": {\"c\": 3, \"d\": 4}}}\n");
    assert_eq!(
        bpftrace(Some(&HIST), &[(string("curl"), hist(&[-1, 0])), (string("sh"), hist(&[2]))]),
        "{\"type\": \"hist\", \"data\": {\"@x\": {\"sh\": [{\"min\": 2, \"max\": 3, \"count\": 1}], \"curl\": [{\"max\": \
         -1, \"count\": 1},{\"min\": 0, \"max\": 0, \"count\": 1}]}}}\n"
    );
    assert_eq!(map(None, &[]), "", "empty maps print nothing");
}

#[test]
fn top_and_div_apply() {
    let entries = [1, 2, 3].map(|n| (Value::Int(n), Value::Int(n * 10)));
    let print = MapPrint { top: 2, div: 10, flame: None };
    let printed = line(|json| keyed(json, None, print, &entries));
    assert_eq!(printed, rows(r#"{"key": [2], "value": 2},{"key": [3], "value": 3}"#));
}

#[test]
fn accompanying_lines() {
    let attached = "{\"type\": \"attached_probes\", \"count\": 1, \"data\": {\"probes\": 1}}\n";
    assert_eq!(line(|json| json.attached(1)), attached);
    let lost = "{\"type\": \"lost_events\", \"count\": 7, \"data\": {\"events\": 7}}\n";
    assert_eq!(line(|json| json.lost(7)), lost);
    assert_eq!(line(Json::end_of_run), "");
    let entry =
        vec![("what", Field::Text("map @x full".into())), ("count", Field::Count(3)), ("share", Field::Real(0.5))];
    let section = Section { name: "missing", title: String::new(), lines: Vec::new(), entries: vec![entry] };
    let quality = "{\"type\": \"quality\", \"data\": {\"missing\": [{\"what\": \"map @x full\", \"count\": 3, \"share\": 0.5}]}}\n";
    assert_eq!(line(|json| json.quality(&[section])), quality);
    assert_eq!(line(|json| json.quality(&[])), "");
    let out = Paper::default();
    let mut quiet = Json::new(Box::new(out.clone()), true);
    quiet.attached(1);
    quiet.flush().unwrap();
    assert_eq!(out.text(), "");
}
