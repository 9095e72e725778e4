//! Which maps are printed, or printed and cleared, as one atomic step.
//!
//! In: scripts. Out: the groups of maps that have windows, and how often a handler ends a window.

use profiler_compiler::check::Options;
use profiler_compiler::compile::{self, Stages};
use profiler_compiler::ir::verify::verify;
use profiler_compiler::source::Source;
use profiler_compiler::words::CATALOGUE;

#[path = "support/fixture.rs"]
mod fixture;

fn stages(script: &str) -> Stages {
    let target = fixture::Machine::new(true);
    let source = Source::new("turns", script);
    compile::stages(&source, &CATALOGUE, &target, &Options::default())
        .unwrap_or_else(|errors| panic!("{script}: {errors:?}"))
}

/// The double-buffered maps, by the bit of their window: `@a @b | @c`.
fn windows(stages: &Stages) -> String {
    let mut groups: Vec<Vec<&str>> = Vec::new();
    for map in &stages.object.maps {
        if let Some(alternate) = &map.alternate {
            groups.resize(groups.len().max(alternate.bit as usize + 1), Vec::new());
            groups[alternate.bit as usize].push(&map.name);
        }
    }
    let groups: Vec<String> = groups.iter().filter(|maps| !maps.is_empty()).map(|maps| maps.join(" ")).collect();
    groups.join(" | ")
}

fn turns(stages: &Stages) -> usize {
    stages.object.events.iter().filter(|event| event.word.as_str() == "turn").count()
}

const FILL: &str = "state seen by pid { calls: u64 } interval:s:2 { @a = count(); @b[1]++; @c = 1; seen.calls++; } ";

#[test]
fn a_print_and_the_clear_that_follows_are_one_step() {
    for (handler, wanted, ends) in [
        ("print(@a); clear(@a);", "@a", 1),
        ("print(@a); zero(@a);", "@a", 1),
        ("print(@a, 5); time(); clear(@a);", "@a", 1),
        ("print(@a); print(@b); clear(@a); clear(@b);", "@a @b", 1),
        ("print(@a); clear(@a); print(@b); clear(@b);", "@a @b", 1),
        ("{ print(@a); } if (@c > 1) { printf(\"x\"); } { clear(@a); }", "@a", 1),
        ("if (@c > 1) { print(@a); clear(@a); } else { print(@b); clear(@b); }", "@a | @b", 2),
        ("if (@c > 1) { return; } print(@a); clear(@a);", "@a", 1),
        ("print(@a); clear(@a); if (@c > 1) { return; } print(@b); clear(@b);", "@a | @b", 2),
        ("print(seen); print(@a); clear(seen); clear(@a);", "@a seen", 1),
        // A map that is cleared around a condition is not cleared separately inside it.
        ("print(@a); if (@c > 1) { print(@a); clear(@a); print(@b); clear(@b); } clear(@a);", "@a | @b", 2),
    ] {
        let stages = stages(&format!("{FILL} interval:s:1 {{ {handler} }}"));
        assert_eq!((windows(&stages).as_str(), turns(&stages)), (wanted, ends), "{handler}");
        verify(&stages.ir).unwrap_or_else(|fault| panic!("{handler}: {fault:?}"));
    }
}

#[test]
fn what_may_not_be_both_printed_and_emptied_stays_in_one_place() {
    for script in [
        "interval:s:1 { clear(@a); }",
        "interval:s:1 { print(@a); }",
        "interval:s:1 { clear(@a); print(@a); }",
        "interval:s:1 { print(@b[1]); clear(@b); }",
        "interval:s:1 { if (@c > 1) { print(@a); } clear(@a); }",
        "interval:s:1 { print(@a); if (@c > 1) { return; } clear(@a); }",
        "interval:s:1 { print(@a); exit(); clear(@a); }",
        "interval:s:1 { print(@a); } interval:s:3 { clear(@a); }",
        "interval:s:1 { for $i : 0..3 { print(@a); clear(@a); } }",
        "END { print(@a); clear(@a); }",
        "BEGIN { print(@a); clear(@a); }",
    ] {
        let stages = stages(&format!("{FILL} {script}"));
        assert_eq!((windows(&stages).as_str(), turns(&stages)), ("", 0), "{script}");
        assert_eq!(stages.object.generation_offset, None, "{script}");
    }
}

#[test]
fn maps_that_programs_only_aggregate_into_are_printed_as_of_one_moment() {
    let fill = "interval:s:2 { @a = count(); @b[pid] = sum(1); @c = dist(1); @n++; } ";
    for (handler, wanted, records) in [
        ("print(@a); print(@b);", "@a @b", 2),
        (
            "print(@a); printf(\"%d\", p99(@c)); print(@b[1]); print(@b); print(@c); printf(\"%d\", @c.p50);",
            "@a @b @c",
            2,
        ),
        ("if (@n > 1) { print(@a); print(@b); }", "@a @b", 2),
        ("print(@a); print(@n); clear(@n);", "@n | @a", 2),
        ("print(@a); print(@b); print(@n); clear(@n);", "@n | @a @b", 2),
        ("print(@a); print(@b); } interval:ms:5 { print(@b); print(@c);", "@a @b @c", 4),
        // A single print is consistent by itself. A map that programs read or clear elsewhere is
        // not double-buffered.
        ("print(@a); print(@a);", "", 0),
        ("print(@a); print(@n);", "", 0),
        ("print(@a); print(@b); } interval:s:9 { clear(@b);", "", 0),
        ("print(@a); print(@b); } interval:s:9 { @n = @a;", "", 0),
        ("print(@a); print(@b); } interval:s:9 { @n = len(@b);", "", 0),
        ("print(@a); print(@b); } interval:s:9 { delete(@b, 1);", "", 0),
        ("print(@a); print(@b); } interval:s:9 { for $kv : @b { @n = $kv.1 }", "", 0),
        ("print(@a); if (@n > 1) { return; } print(@b);", "", 0),
    ] {
        let stages = stages(&format!("{fill} interval:s:1 {{ {handler} }}"));
        assert_eq!((windows(&stages).as_str(), turns(&stages)), (wanted, records), "{handler}");
        verify(&stages.ir).unwrap_or_else(|fault| panic!("{handler}: {fault:?}"));
    }
}

#[test]
fn maps_that_a_view_clears_belong_to_the_view() {
    let script = r#"view "v" { of @a  show count  every 1s clear } interval:s:1 { print(@a); print(@b); clear(@a); clear(@b); }"#;
    let stages = stages(&format!("{script} {FILL}"));
    assert_eq!(windows(&stages), "@a | @b");
    assert!(stages.object.maps[0].is_cleared_by_views() && !stages.object.maps[1].is_cleared_by_views());
}

#[test]
fn second_places_take_half_of_the_memory_for_maps_at_most() {
    let script = |memory: u64| {
        format!(
            "config = {{ max_map_memory_mb = {memory} }} let @big = hash(1000000);
            interval:s:2 {{ @big[rand] = 1; @a = count(); }}
            interval:s:1 {{ print(@big); clear(@big); }} interval:s:1 {{ print(@a); clear(@a); }}"
        )
    };
    assert_eq!(windows(&stages(&script(512))), "@big | @a");
    assert_eq!(windows(&stages(&script(64))), "@a", "the large one stays in one place");
}

#[test]
fn programs_have_four_bodies_at_most() {
    let script = "interval:s:2 { @a++; @b++; @c++; } interval:s:1 { print(@a); clear(@a); }
        interval:s:1 { print(@b); clear(@b); } interval:s:1 { print(@c); clear(@c); }";
    assert_eq!(windows(&stages(script)), "@a | @b");
}

/// The concatenated texts of the numbers below `count`.
fn times(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_would_be_too_large_twice_stays_in_one_place() {
    let many = |count: usize| {
        let body = times(count, |n| format!("@b[{n}] = count();"));
        windows(&stages(&format!("interval:s:2 {{ @a = count(); {body} }} interval:s:1 {{ print(@a); clear(@a); }}")))
    };
    assert_eq!(many(20), "@a");
    assert_eq!(many(200), "");
    // A program may use 64 maps.
    let fill = times(40, |n| format!("@m{n}[1] = 1;"));
    let empty = times(40, |n| format!("print(@m{n}); clear(@m{n});"));
    assert_eq!(windows(&stages(&format!("interval:s:2 {{ {fill} }} interval:s:1 {{ {empty} }}"))), "");
}
