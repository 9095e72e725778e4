//! Tests of [`super`].

use super::{Ids, Param, Type, Value, Written, duration_ns};
use crate::source::Span;

/// Knows a single cgroup and a single user.
struct One;

impl Ids for One {
    fn cgroup(&self, path: &str) -> Result<u64, String> {
        if path == "/a" { Ok(77) } else { Err("there is no such control group here".into()) }
    }

    fn user(&self, name: &str) -> Result<u64, String> {
        if name == "daemon" { Ok(1) } else { Err("there is no such user here".into()) }
    }
}

fn read(ty: Type, range: Option<(i64, i64)>, given: &[&str]) -> Result<Value, String> {
    let param = Param { range, ..Param::new("x", ty, Span::default()) };
    let given: Vec<Written> = given.iter().map(|text| Written { text: (*text).into(), quoted: false }).collect();
    param.read(&given, &One)
}

#[test]
fn values_are_read_by_type() {
    for (ty, text, number) in [
        (Type::Int, "-0x10", -16),
        (Type::Int, "1_000", 1000),
        (Type::Bool, "yes", 1),
        (Type::Bool, "false", 0),
        (Type::Duration, "1.5ms", 1_500_000),
        (Type::Duration, "0", 0),
        (Type::Duration, "2h", 7_200_000_000_000),
        (Type::Bytes, "64KiB", 65_536),
        (Type::Bytes, "64k", 65_536),
        (Type::Bytes, "1.5kB", 1_500),
        (Type::Bytes, "7", 7),
        (Type::Percent, "5%", 5),
        (Type::Percent, "100", 100),
    ] {
        assert_eq!(read(ty, None, &[text]), Ok(Value::Number(number)), "{text}");
    }
    assert_eq!(read(Type::Pid, None, &["13,12", "14", "12"]), Ok(Value::Set(vec![12, 13, 14])));
    assert_eq!(read(Type::Cgroup, None, &["/a,5"]), Ok(Value::Set(vec![5, 77])));
    assert_eq!(read(Type::User, None, &["0,daemon", "4294967294"]), Ok(Value::Set(vec![0, 1, 4_294_967_294])));
    assert_eq!(read(Type::String, None, &["a,b"]), Ok(Value::Text("a,b".into())));
    for ty in [Type::Pid, Type::Cgroup, Type::User, Type::String, Type::Path, Type::Regex, Type::Glob] {
        assert_eq!(read(ty, None, &["any"]), Ok(Value::Any));
    }
}

#[test]
fn what_is_wrong_has_name_value_unit_and_range() {
    let minutes = Some((0, 600_000_000_000));
    for (ty, range, given, words) in [
        (Type::Duration, minutes, &["20m"][..], "`x` cannot be `20m`: it takes a duration from 0ns to 10m"),
        (
            Type::Duration,
            minutes,
            &["20"],
            "`x` cannot be `20`: it takes a number with a unit (ns, us, ms, s, m, h, d), such as 5ms, from 0ns to 10m",
        ),
        (Type::Int, Some((1, 9)), &["10"], "`x` cannot be `10`: it takes an int from 1 to 9"),
        (Type::Percent, None, &["101"], "`x` cannot be `101`: it takes a percent from 0% to 100%"),
        (
            Type::Bytes,
            None,
            &["1XB"],
            "`x` cannot be `1XB`: it takes a number of bytes, alone or with a unit (KiB, MiB, GiB, kB, MB, GB), such as 64KiB",
        ),
        (Type::Bool, None, &["maybe"], "`x` cannot be `maybe`: it takes true or false"),
        (Type::Pid, None, &["12,0"], "`x` cannot be `0`: it takes process ids from 1 to 4194304, such as 12 or 12,13"),
        (Type::Pid, None, &["any", "3"], "`x` is both `any` and something (any,3)"),
        (Type::Int, None, &["1", "2"], "`x` is given 2 times (1,2), and takes one value"),
        (
            Type::Int,
            None,
            &["99999999999999999999"],
            "`x` cannot be `99999999999999999999`: it takes a whole number, such as 100, -1 or 0x2a",
        ),
        (
            Type::Duration,
            None,
            &["0.5ns"],
            "`x` cannot be `0.5ns`: it takes a number with a unit (ns, us, ms, s, m, h, d), such as 5ms",
        ),
        (Type::Cgroup, None, &["/b"], "`x` cannot be `/b`: there is no such control group here"),
        (Type::User, None, &["daemons"], "`x` cannot be `daemons`: there is no such user here"),
        (
            Type::User,
            None,
            &["4294967295"],
            "`x` cannot be `4294967295`: it takes login names or user ids, such as postgres or 0,1000",
        ),
    ] {
        assert_eq!(read(ty, range, given), Err(words.to_string()));
    }
}

#[test]
fn what_is_shown_reads_as_the_same_value() {
    for (ty, numbers) in [
        (Type::Duration, [0, 1, 1_500, 5_000_000, 90_000_000_000]),
        (Type::Bytes, [0, 1, 1000, 65_536, 3 << 30]),
        (Type::Percent, [0, 1, 5, 99, 100]),
        (Type::Int, [0, -1, 7, i64::MIN, i64::MAX]),
    ] {
        let param = Param::new("x", ty, Span::default());
        for number in numbers {
            let text = param.shown(&Value::Number(number));
            assert_eq!(read(ty, None, &[&text]), Ok(Value::Number(number)), "{text}");
        }
    }
}

#[test]
fn patterns_select_names_of_probes() {
    let part = |ty: Type, text: &str| {
        let value = read(ty, None, &[text])?;
        Ok::<_, String>(Param { value, ..Param::new("x", ty, Span::default()) }.as_part())
    };
    assert_eq!(part(Type::Regex, "^vfs_.*read$"), Ok(Some("vfs_*read".into())));
    assert_eq!(part(Type::Regex, "a|b"), Ok(None));
    assert_eq!(part(Type::Glob, "vfs_*"), Ok(Some("vfs_*".into())));
    assert_eq!(part(Type::Regex, "a("), Err("`x` cannot be `a(`: unclosed group (at character 2)".into()));
}

#[test]
fn bytes_have_the_size_of_the_type() {
    let param = |ty| Param::new("x", ty, Span::default());
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at * 8..][..8].try_into().expect("8 bytes"));
    let set = |count: u64| param(Type::Pid).bytes(&Value::Set((1..=count).collect()));
    assert_eq!(set(3).len(), 72);
    assert_eq!((word(&set(3), 0), word(&set(3), 3), word(&set(3), 4)), (3, 3, 0));
    assert_eq!((word(&set(8), 0), word(&set(9), 0), word(&set(500), 0)), (8, 9, 9));
    assert_eq!(word(&param(Type::Pid).bytes(&Value::Any), 0), 0);
    let text = param(Type::String).bytes(&Value::Text("ab".into()));
    assert_eq!((text.len(), word(&text, 0), &text[8..11]), (72, 0, &b"ab\0"[..]));
    assert_eq!(word(&param(Type::Path).bytes(&Value::Any), 0), 1);
    assert_eq!(param(Type::Int).bytes(&Value::Number(-1)), [0xff; 8]);
}

#[test]
fn a_duration_on_a_command_line_is_of_seconds_or_has_a_unit() {
    let cases = [
        ("5", Some(5_000_000_000)),
        ("1.5", Some(1_500_000_000)),
        ("1.5s", Some(1_500_000_000)),
        ("500ms", Some(500_000_000)),
        ("0", Some(0)),
        ("", None),
        ("s", None),
        ("5x", None),
        ("-5", None),
        ("300000d", None),
    ];
    for (text, ns) in cases {
        assert_eq!(duration_ns(text), ns, "{text}");
    }
}
