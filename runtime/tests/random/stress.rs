//! Scripts at the edges: deep, long, wide, many.
//!
//! In: scripts made by rule. Out: each one's fate. Guarantee: what compiles loads and does the same on every executor; what does not
//! compile has a diagnostic; which of the two is written here.

use crate::can_load;
use crate::executors::{Verdict, compare, forms};
use crate::loads::{Verdict as Loading, judge};

/// What becomes of a script.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    /// It loads, and all executors agree.
    Agrees,
    /// It loads; what it does depends on the machine.
    Loads,
    /// The first error has this code.
    Declined(u16),
}

use Fate::{Agrees, Declined, Loads};

fn times(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect()
}

fn joined(count: usize, between: &str, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<String>>().join(between)
}

fn begin(body: &str) -> String {
    format!("BEGIN {{ {body} }}\n")
}

fn nested(depth: usize, open: &str, inside: &str, close: &str) -> String {
    begin(&format!("@ = {}{inside}{};", open.repeat(depth), close.repeat(depth)))
}

fn alive(count: usize) -> String {
    let made = times(count, |n| format!("$v{n} = uid + {n} * 3; "));
    begin(&format!("{made} if (uid == 0) {{ @a++; }} @ = {};", joined(count, " ^ ", |n| format!("$v{n}"))))
}

/// Of many maps, each with few entries: the kernel's memory is not what is tested.
const FEW_ENTRIES: &str = "config = { max_map_keys = 64 }\n";

fn deep_ifs(depth: usize) -> String {
    let open = times(depth, |n| format!("if (uid + {n} < {}) {{ @[{n}] = {n}; ", n + 2));
    begin(&format!("{open} {}", "}".repeat(depth)))
}

fn deep_loops(depth: usize) -> String {
    let open = times(depth, |n| format!("for $i{n} : 0..2 {{ if ($i{n} + uid == 9) {{ break; }} @r{n} += $i{n}; "));
    begin(&format!("{open} @n++; @last = $i0; {}", "}".repeat(depth)))
}

fn strings(size: usize) -> String {
    let head = format!("config = {{ max_strlen = {size}; max_map_keys = 64 }}\n");
    let text = "x".repeat(size.min(5000) - 1);
    head + &begin(&format!(
        "$s = \"{text}\"; $t = uid == 0 ? $s : comm; @s[$t] = $s; @t = @s[$s]; printf(\"%s\\n\", $t);"
    ))
}

fn tuple(parts: usize) -> String {
    let value = joined(parts, ", ", |n| format!("uid + {n}"));
    begin(&format!("$t = ({value}); @t = $t; @k[$t] = $t.{}; print($t);", parts - 1))
}

fn nested_tuple(depth: usize) -> String {
    let value = (0..depth).fold("uid".to_string(), |inner, n| format!("({inner}, {n}, comm)"));
    begin(&format!("$t = {value}; @[$t] = 1; print($t);"))
}

/// Objects of 48 bytes, all alive at once.
fn frames(count: usize) -> String {
    let made = times(count, |n| format!("$t{n} = (uid, {n}, uid + {n}, 1, 2, comm); "));
    let used = times(count, |n| format!("@[$t{n}] = $t{n}.1; "));
    begin(&(made + &used))
}

fn printf(values: usize) -> String {
    let values = times(values, |n| format!(", {}", if n % 2 == 0 { "uid" } else { "comm" }));
    begin(&format!(
        "printf(\"{}\\n\"{values});",
        joined(values.matches(',').count(), " ", |n| { if n % 2 == 0 { "%d".into() } else { "%s".into() } })
    ))
}

fn maps(count: usize) -> String {
    begin(&times(count, |n| format!("@m{n}[uid] = count(); @h{n} = hist(uid + {n}); ")))
}

fn probes(count: usize) -> String {
    times(count, |n| format!("interval:s:{} {{ @[probe, {n}] = count(); @last = {n}; }}\n", n + 1))
}

/// Every script with its fate.
fn cases() -> Vec<(&'static str, String, Fate)> {
    vec![
        ("120 parentheses", nested(120, "(", "uid", ")"), Agrees),
        ("300 parentheses", nested(300, "(", "uid", ")"), Declined(107)),
        ("120 negations", nested(60, "-(~", "uid", ")"), Agrees),
        (
            "800 operators in a row",
            begin(&format!("@ = {};", joined(400, " + ", |n| format!("uid * {n}")))),
            Declined(108),
        ),
        ("240 operators in a row", begin(&format!("@ = {};", joined(120, " - ", |n| format!("uid * {n}")))), Agrees),
        ("a right-leaning tree", nested(120, "(uid - ", "uid", ")"), Agrees),
        ("60 nested choices", nested(60, "(uid > 3 ? 1 : ", "2", ")"), Agrees),
        (
            "100 conditions in a row",
            begin(&format!("@ = {};", joined(100, " && ", |n| format!("uid < {}", n + 1)))),
            Agrees,
        ),
        ("40 variables alive", alive(40), Agrees),
        ("60 variables alive", alive(60), Agrees),
        ("120 variables alive", alive(120), Declined(511)),
        ("30 nested conditions", deep_ifs(30), Agrees),
        ("120 nested conditions", deep_ifs(120), Agrees),
        ("loops in loops, 6 deep, with conditions", deep_loops(6), Agrees),
        ("loops in loops, 7 deep", deep_loops(7), Declined(364)),
        ("strings of 64 bytes", strings(64), Agrees),
        ("strings of 4096 bytes", strings(4096), Agrees),
        ("strings of 16384 bytes", strings(16384), Agrees),
        ("a tuple of 16", tuple(16), Agrees),
        ("a tuple of 64", tuple(64), Agrees),
        ("a tuple of 300", tuple(300), Declined(319)),
        ("tuples in tuples, 12 deep", nested_tuple(12), Agrees),
        ("6 objects in the frame", frames(6), Agrees),
        ("9 objects in the frame", frames(9), Agrees),
        ("60 objects alive", frames(60), Agrees),
        ("printf of 20", printf(20), Agrees),
        ("printf of 100", printf(100), Agrees),
        ("a format of 9000 characters", begin(&format!("printf(\"{}%d\\n\", uid);", "x".repeat(9000))), Agrees),
        ("60 maps", maps(30), Agrees),
        ("200 maps", maps(100), Declined(513)),
        ("100 probes", probes(100), Agrees),
        ("1100 probes", probes(1100), Declined(501)),
        ("unrolled 100 times", begin("unroll (100) { @[uid + 1] = count(); $x = uid; @h = hist($x); }"), Agrees),
        ("unrolled 10000 times", begin("unroll (100) { unroll (100) { @[uid] = count(); } }"), Declined(510)),
        (
            "50 histograms of 1000 buckets",
            FEW_ENTRIES.to_owned() + &begin(&times(50, |n| format!("@h{n}[uid] = lhist(uid + {n}, 0, 1000, 1); "))),
            Agrees,
        ),
        (
            "the least number divided",
            begin(
                "$x = (int64)(0x7fffffffffffffff + 1 + uid); @a = $x / -1; @b = $x % -1; @c = $x / ($x - $x); @d = -$x;",
            ),
            Agrees,
        ),
        (
            "40 reads of the task",
            begin(&times(40, |n| format!("@[{n}] = curtask->real_parent->real_parent->prio; "))),
            Loads,
        ),
    ]
}

#[test]
fn scripts_at_the_edges_load_or_are_declined_with_a_diagnostic() {
    if !can_load() {
        return;
    }
    let mut wrong = Vec::new();
    for (name, text, expected) in cases() {
        let fate = match judge(&text) {
            Loading::Loads if expected == Loads => Ok(Loads),
            Loading::Loads => match forms(&text).map(|forms| compare(&forms, 1, |_| {})) {
                Ok(Verdict::Agree | Verdict::Lost) => Ok(Agrees),
                other => Err(format!("{:?}", other.map_err(|_| "does not compile twice"))),
            },
            Loading::Declined(diagnostics) => {
                Ok(Declined(diagnostics.iter().find(|d| d.is_error()).map_or(0, |d| d.code.0)))
            }
            Loading::TooLarge => Err("too large for the verifier".into()),
            Loading::Refused(words) => Err(words),
        };
        println!("{name}: {fate:?}");
        if fate != Ok(expected) {
            wrong.push(format!("{name} should be {expected:?}: {fate:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
