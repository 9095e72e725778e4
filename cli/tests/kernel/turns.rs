//! `print(@x); clear(@x)` under load: every event is in exactly one printed window.
//!
//! In: workloads with known counts, maps that handlers print and clear as often as they can. Out:
//! sums over all that was printed.

use std::collections::BTreeMap;

use super::machine::{Directory, copy, patience, run, run_beside, skip, with_enough_calls, workload};

/// For each map, the sum of all printed values, and the values in order.
#[derive(Debug, Default)]
struct Sums {
    totals: BTreeMap<String, u64>,
    windows: BTreeMap<String, Vec<u64>>,
}

/// Parses text: `@x: 5`, `@x[key]: 5`, `@x: { .count = 5, .average = 1 }`, and rows of histograms
/// below `@x:`.
fn sums(text: &str) -> Sums {
    let mut sums = Sums::default();
    let mut last = String::new();
    for line in text.lines().filter(|line| line.starts_with(['@', '['])) {
        let (map, value) = match line.strip_prefix('@') {
            Some(rest) => {
                let end = rest.find(['[', ':']).expect("a map's name ends");
                (rest[..end].to_owned(), rest.rsplit_once(": ").map_or("", |(_, value)| value))
            }
            None => (last.clone(), line.split_once([')', ']']).expect("a row of a histogram").1),
        };
        let value = value.strip_prefix("{ .count = ").unwrap_or(value).trim_start();
        let digits = value.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("");
        if let Ok(number) = digits.parse::<u64>() {
            *sums.totals.entry(map.clone()).or_default() += number;
            sums.windows.entry(map.clone()).or_default().push(number);
        }
        last = map;
    }
    sums
}

/// The script with longer periods on an emulated machine, which cannot print as often.
fn patiently(script: &str) -> String {
    let mut parts = script.split("interval:ms:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (period, rest) = part.split_once(' ').expect("a period");
        let period_ms = period.parse::<u32>().expect("a number") * patience();
        format!("{text}interval:ms:{period_ms} {rest}")
    })
}

fn sums_of(script: &str, command: &str) -> (Sums, String) {
    let ended = run(&["-q", "-e", &patiently(script), "-c", command]);
    assert!(ended.code() == 0 && is_complete(&ended.stderr), "{}", ended.stderr);
    (sums(&ended.stdout), ended.stdout)
}

/// Whether nothing is missing from the results but ticks: on a busy machine, those that would be
/// more than a second late do not run.
fn is_complete(stderr: &str) -> bool {
    stderr.lines().all(|line| line == "Missing from these results:" || line.starts_with("  ticks of interval:"))
}

/// Two threads that call `getppid` this often in total.
fn getppid(calls: u64) -> String {
    format!("sh -c 'exec {} getppid {} 2 >/dev/null'", workload(), calls / 2)
}

const CALL: &str = "tracepoint:syscalls:sys_enter_getppid /pid == cpid && comm == \"workload\"/";

#[test]
fn what_is_printed_and_cleared_adds_up_to_what_happened_for_every_kind_of_map() {
    if skip() {
        return;
    }
    let script = format!(
        "{CALL} {{
            @total = count(); $key = rand % 3000;
            @count = count(); @sum = sum(1); @stats = stats(1); @hist = hist($key); @lhist = lhist($key, 0, 3000, 500); @number++;
            @keyed[$key] = count(); @assigned[$key]++; @spread[$key % 8] = lhist($key, 0, 3000, 1000);
        }}
        interval:ms:10 {{
            print(@count); print(@sum); clear(@count);
            print(@stats); print(@hist); print(@lhist); print(@number); print(@keyed); print(@assigned); print(@spread);
            clear(@sum); clear(@stats); clear(@hist); clear(@lhist); clear(@number);
            clear(@keyed); clear(@assigned); clear(@spread);
        }}"
    );
    with_enough_calls(300_000, |calls| {
        let (sums, _) = sums_of(&script, &getppid(calls));
        for map in ["total", "count", "sum", "stats", "hist", "lhist", "number", "keyed", "assigned", "spread"] {
            assert_eq!(sums.totals.get(map), Some(&calls), "@{map}: {:?}", sums.totals);
        }
        let windows = &sums.windows["count"];
        assert_eq!(&sums.windows["sum"], windows, "windows of one handler are of one moment");
        assert_eq!(&sums.windows["number"], windows, "windows of one handler are of one moment");
        windows.iter().filter(|count| **count > 0).count() > 1
    });
}

/// A program run that is in progress when a window ends belongs to that window completely.
#[test]
fn no_printed_window_has_a_part_of_a_run() {
    if skip() {
        return;
    }
    let (calls, updates) = (30, 60_000);
    let script = format!(
        "{CALL} {{ for $i : 0..{updates} {{ @a = count(); @k[$i % 500] = count(); @z = count(); }} }}
        interval:ms:5 {{ print(@a); print(@k); print(@z); clear(@a); clear(@k); clear(@z); }}"
    );
    let (sums, _) = sums_of(&script, &getppid(calls));
    for map in ["a", "k", "z"] {
        assert_eq!(sums.totals.get(map), Some(&(calls * updates)), "@{map}: {:?}", sums.totals);
    }
    let windows = &sums.windows["a"];
    assert!(windows.iter().all(|count| count % updates == 0), "windows with a part of a run: {windows:?}");
    assert_eq!(&sums.windows["z"], windows);
}

/// Programs attached to user functions can be preempted in the middle.
#[test]
fn what_preemptible_programs_count_adds_up() {
    if skip() {
        return;
    }
    let (processes, calls) = (6, 40_000);
    let directory = Directory::new("turns");
    let program = directory.path("workload");
    copy(workload(), &program);
    let script = format!(
        "uprobe:{program}:workload_step {{ @steps[arg0 % 2000] = count(); @n++; @total = count(); }}
        interval:ms:10 {{ print(@n); print(@steps); clear(@n); clear(@steps); }}"
    );
    let command = vec![format!("{program} functions {calls}"); processes].join(" & ") + " & wait";
    let ended = run_beside(&["-q", "-e", &patiently(&script)], &command);
    assert!(ended.code() == 0 && is_complete(&ended.stderr), "{}", ended.stderr);
    let sums = sums(&ended.stdout);
    let all = processes as u64 * calls;
    assert_eq!((sums.totals["n"], sums.totals["steps"], sums.totals["total"]), (all, all, all));
}

#[test]
fn handlers_with_maps_of_their_own_have_windows_of_their_own() {
    if skip() {
        return;
    }
    let calls = 300_000;
    let script = format!(
        "{CALL} {{ @a[cpu] = count(); @both = count(); }}
        {CALL} {{ @c[comm]++; }}
        interval:ms:10 {{ print(@a); print(@both); clear(@both); clear(@a); }}
        interval:ms:30 {{ $odd = rand % 2; if ($odd == 1) {{ print(@both); clear(@both); }} }}
        interval:ms:20 {{ print(@c); clear(@c); }}"
    );
    let (sums, _) = sums_of(&script, &getppid(calls));
    for map in ["a", "both", "c"] {
        assert_eq!(sums.totals.get(map), Some(&calls), "@{map}: {:?}", sums.totals);
    }
}

#[test]
fn zero_keeps_the_keys_and_loses_nothing() {
    if skip() {
        return;
    }
    let script = format!(
        "BEGIN {{ @keyed[\"never\"] = count(); @counted[\"never\"] = count(); zero(@keyed); }}
        {CALL} {{ @keyed[comm] = count(); @counted[comm]++; @bare++; @length = max(len(@counted)); }}
        interval:ms:10 {{ print(@keyed); print(@counted); print(@bare); zero(@keyed); zero(@counted); zero(@bare); }}"
    )
    .replace("@counted[\"never\"] = count();", "@counted[\"never\"] = 0;");
    with_enough_calls(300_000, |calls| {
        let (sums, text) = sums_of(&script, &getppid(calls));
        for map in ["keyed", "counted", "bare"] {
            assert_eq!(sums.totals.get(map), Some(&calls), "@{map}: {:?}", sums.totals);
        }
        let last = text.rsplit("@bare").next().expect("the maps at the end");
        assert!(last.contains("@counted[never]: 0") && last.contains("@keyed[never]: 0"), "{last}");
        let length = sums.totals["length"];
        assert!(length <= 2, "keys are counted once: {length}");
        // A window begins without the keys of the last one, until that is printed. On a busy
        // machine all calls can be in such a gap.
        length == 2
    });
}

#[test]
fn what_is_printed_together_is_of_one_moment_and_nothing_is_lost() {
    if skip() {
        return;
    }
    let updates = 10;
    let script = format!(
        "{CALL} {{ for $i : 0..{updates} {{ @a = count(); @k[$i] = sum(1); @d[\"d\"] = dist(1); @z = stats(1); }} }}
        interval:ms:10 {{ print(@a); print(@k); print(@d); print(@z); }}"
    );
    with_enough_calls(100_000, |calls| {
        let (sums, text) = sums_of(&script, &getppid(calls));
        let all = calls * updates;
        let (a, z) = (&sums.windows["a"], &sums.windows["z"]);
        assert!(a.iter().all(|count| count % updates == 0), "a part of a run: {a:?}");
        assert!(a.is_sorted() && a.last() == Some(&all), "{a:?}");
        assert_eq!(a, z, "{text}");
        let keys: Vec<u64> = sums.windows["k"].chunks(updates as usize).map(|keys| keys.iter().sum()).collect();
        let counts: Vec<u64> = a.iter().copied().filter(|count| *count > 0).collect();
        assert_eq!(keys, counts, "{text}");
        a.iter().filter(|count| **count > 0 && **count < all).count() > 1
    });
    // Other handlers print the current contents.
    with_enough_calls(100_000, |calls| {
        let (sums, _) = sums_of(&format!("{script} interval:ms:7 {{ print(@a); }}"), &getppid(calls));
        let (a, z, all) = (&sums.windows["a"], &sums.windows["z"], calls * updates);
        assert_eq!((a.last(), z.last()), (Some(&all), Some(&all)));
        a.len() > z.len()
    });
}

#[test]
fn what_is_read_in_between_is_the_window_that_is_printed() {
    if skip() {
        return;
    }
    let script = format!(
        "{CALL} {{ @d[\"a\"] = dist(1); @k[\"a\"] = count(); @most = max(@k[\"a\"]); }}
        interval:ms:10 {{
            print(@k); print(@d); printf(\"@asked: %d\\n\", p50(@d[\"a\"])); print(@k[\"a\"]); clear(@k); clear(@d);
        }}
        END {{ clear(@d); clear(@k); }}"
    );
    with_enough_calls(200_000, |calls| {
        let (sums, text) = sums_of(&script, &getppid(calls));
        let pairs: Vec<&[u64]> = sums.windows["k"].chunks(2).collect();
        assert!(pairs.iter().all(|pair| pair[0] == pair[1]), "{pairs:?}");
        // Programs see the present window.
        text.contains("@asked: 1") && pairs.len() > 1 && sums.totals["most"] < calls
    });
}
