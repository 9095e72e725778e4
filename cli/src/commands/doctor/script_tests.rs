//! Golden tests of [`super`]: the same report on a wide terminal, on a narrow one, and in a pipe.

use std::time::Duration;

use crate::doctor::{Finding, Kind, Probe, Report, Row, State, Verdict};
use profiler_compiler::source::Source;

use super::*;

fn probe(name: &str, counted: Option<(u64, u64)>, cost: Option<(u64, u64)>) -> Probe {
    Probe {
        name: name.into(),
        way: "raw tracepoint".into(),
        points: 1,
        is_attached: true,
        is_event: true,
        has_fired: counted.is_some_and(|(seen, _)| seen > 0),
        cost: cost.map(|(runs, ns)| (runs, Duration::from_nanos(runs * ns))),
        counted,
        has_filter: true,
        received: Some(12),
        ..Probe::default()
    }
}

fn report() -> Report {
    let row = |name, state, finding: &str, advice: Option<&str>| Row {
        name,
        state,
        finding: finding.into(),
        advice: advice.map(str::to_owned),
    };
    let refused = Probe {
        name: "kprobe:vfs_read".into(),
        refusal: Some("cannot attach kprobe:vfs_read".into()),
        is_event: true,
        ..Probe::default()
    };
    let finding =
        |kind, words: &str, advice: &str| Finding { kind, is_wrong: true, words: words.into(), advice: advice.into() };
    Report {
        needs: vec![
            row("privileges", State::Works, "CAP_SYS_ADMIN", None),
            row("tracefs", State::Missing, "not mounted", Some("mount -t tracefs nodev /sys/kernel/tracing")),
        ],
        probes: vec![
            probe("tracepoint:syscalls:sys_enter_read", Some((1234, 12)), Some((45_678, 31))),
            probe("rawtracepoint:sched_switch", Some((0, 0)), Some((0, 0))),
            refused,
        ],
        spans: vec![("wait".into(), "3 started, 2 matched, 1 open".into())],
        findings: vec![
            finding(Kind::NotAttached, "cannot attach kprobe:vfs_read", "use a tracepoint"),
            finding(Kind::NeverFired, "rawtracepoint:sched_switch did not happen in 1.5 s", "look longer"),
            finding(Kind::NeverFired, "another did not happen in 1.5 s", "look longer"),
        ],
        elapsed: Some(Duration::from_millis(1500)),
        prints: 12,
        entries: 1,
        warnings: Vec::new(),
        verdict: Verdict::Refused,
    }
}

fn shown(width: Option<usize>) -> String {
    text(&Source::new("x.prof", ""), &report(), Page::new(width, false))
}

const WIDE: &str = "\
requirements of x.prof
  ok    privileges  CAP_SYS_ADMIN
  --    tracefs     not mounted
                    mount -t tracefs nodev /sys/kernel/tracing

probes, attached for 1.5 s
                                            attach type     fired  past filter    runs   mean  received  lost
  ok    tracepoint:syscalls:sys_enter_read  raw tracepoint  1,234           12  45,678  31 ns        12     0
  --    rawtracepoint:sched_switch          raw tracepoint      0            0       0      -        12     0
  FAIL  kprobe:vfs_read                     refused             -            -       -      -         -     -
  span wait: 3 started, 2 matched, 1 open
  printed 12 times; the maps have 1 entry (not shown)

findings
  - cannot attach kprobe:vfs_read
    = help: use a tracepoint
  - rawtracepoint:sched_switch did not happen in 1.5 s
    = help: look longer
  - another did not happen in 1.5 s

a requirement is missing or refused here
";

const NARROW: &str = "\
requirements of x.prof
  ok    privileges  CAP_SYS_ADMIN
  --    tracefs     not mounted
                    mount -t tracefs nodev
                    /sys/kernel/tracing

probes, attached for 1.5 s
  ok    tracepoint:syscalls:sys_enter_read
          raw tracepoint, fired 1,234, 12 past
          the filter, 45,678 runs of 31 ns, 12
          received, 0 lost
  --    rawtracepoint:sched_switch
          raw tracepoint, fired 0, 0 past the
          filter, 12 received, 0 lost
  FAIL  kprobe:vfs_read
          refused
  span wait: 3 started, 2 matched, 1 open
  printed 12 times; the maps have 1 entry (not
    shown)

findings
  - cannot attach kprobe:vfs_read
    = help: use a tracepoint
  - rawtracepoint:sched_switch did not happen in
    1.5 s
    = help: look longer
  - another did not happen in 1.5 s

a requirement is missing or refused here
";

#[test]
fn a_wide_terminal_shows_a_table() {
    assert_eq!(shown(Some(120)), WIDE);
    assert_eq!(shown(None), WIDE, "and a pipe the same");
}

#[test]
fn a_narrow_terminal_shows_a_paragraph_for_each_probe() {
    assert_eq!(shown(Some(48)), NARROW);
    for width in 42..120 {
        let text = shown(Some(width));
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
    }
}

#[test]
fn programs_read_the_same() {
    let text = document(&Source::new("x.prof", ""), &report());
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let data = &document["data"];
    assert_eq!((&data["verdict"], &data["seconds"]), (&"refused".into(), &1.5.into()));
    assert_eq!(data["probes"][0]["time_ns"], 45_678 * 31);
    assert_eq!(data["probes"][2]["refusal"], "cannot attach kprobe:vfs_read");
    assert_eq!(data["findings"][0]["kind"], "not-attached");
}
