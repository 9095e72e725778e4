//! Views against workloads with known counts: no event is lost or counted twice between windows.
//!
//! In: views with the shortest possible windows, while two CPUs are busy. Out: sums over all
//! windows.

use std::collections::BTreeMap;

use super::machine::{Directory, Ended, copy, run, run_beside, skip, with_enough_calls, workload};

/// Sums of the rows of all tables of comma-separated values, by view and column, and the windows.
#[derive(Debug, Default)]
struct Sums {
    totals: BTreeMap<String, u64>,
    /// The end times of each view's windows.
    windows: BTreeMap<String, Vec<String>>,
    /// The same sums for each window end.
    by_window: BTreeMap<(String, String), u64>,
}

fn sums(csv: &str) -> Sums {
    let mut sums = Sums::default();
    let mut names: Vec<&str> = Vec::new();
    for line in csv.lines().filter(|line| !line.is_empty()) {
        let fields: Vec<&str> = line.split(',').collect();
        if fields[0] == "view" {
            names = fields;
            continue;
        }
        assert_eq!(fields.len(), names.len(), "{line}");
        let view = fields[0].to_owned();
        let ends = sums.windows.entry(view.clone()).or_default();
        if ends.last().map(String::as_str) != Some(fields[2]) {
            ends.push(fields[2].to_owned());
        }
        for (name, field) in names.iter().zip(&fields).skip(4).filter(|(_, field)| !field.is_empty()) {
            let number = field.parse::<u64>().expect("a number");
            let what = format!("{view} {name}");
            *sums.by_window.entry((what.clone(), fields[2].to_owned())).or_default() += number;
            *sums.totals.entry(what).or_default() += number;
        }
    }
    sums
}

fn results(script: &str, command: &str) -> (Ended, Sums) {
    let directory = Directory::new("views");
    let output = directory.path("out");
    let ended = run(&["-q", "-f", "csv", "-o", &output, "-e", script, "-c", command]);
    assert_eq!((ended.code(), ended.stderr.lines().count()), (0, 0), "{}", ended.stderr);
    let text = std::fs::read_to_string(&output).expect("results");
    (ended, sums(&text))
}

#[test]
fn the_windows_of_every_kind_of_map_add_up_to_what_happened() {
    if skip() {
        return;
    }
    let script = r#"
        view "keyed" { of @counted, @assigned, @spread  show @counted.count, @assigned.sum, @spread.count  every 10ms clear }
        view "bare" { of @all  show count  every 10ms clear }
        view "number" { of @number  show value  every 10ms clear }
        tracepoint:syscalls:sys_enter_getppid /pid == cpid && comm == "workload"/ {
            $key = rand % 3000;
            @counted[$key] = count(); @assigned[$key]++; @spread[$key] = lhist($key, 0, 3000, 1000);
            @all = count(); @number++; @total = count();
        }"#;
    with_enough_calls(1_000_000, |calls| {
        let (_, sums) = results(script, &format!("sh -c 'exec {} getppid {} 2 >/dev/null'", workload(), calls / 2));
        for what in [
            "keyed counted.count",
            "keyed assigned.sum",
            "keyed spread.count",
            "bare count",
            "number value",
            "@total count",
        ] {
            assert_eq!(sums.totals.get(what), Some(&calls), "{what}: {:?}", sums.totals);
        }
        ["keyed", "bare", "number"].iter().all(|view| sums.windows[*view].len() > 1)
    });
}

#[test]
fn a_run_that_is_under_way_when_a_window_ends_is_in_that_window_with_all_that_it_does() {
    if skip() {
        return;
    }
    let updates = 150_000;
    let script = format!(
        r#"view "long" {{ of @counted, @bare  show @counted.count, @bare.count  every 5ms clear }}
        view "one" {{ of @one  show count  every 5ms clear }}
        tracepoint:syscalls:sys_enter_getppid /pid == cpid && comm == "workload"/ {{
            for $i : 0..{updates} {{ @counted[$i % 500] = count(); @bare[$i % 7] = lhist($i, 0, 10, 5); @one = count(); }}
        }}"#
    );
    with_enough_calls(12, |calls| {
        let (_, sums) = results(&script, &format!("sh -c 'exec {} getppid {} 2 >/dev/null'", workload(), calls / 2));
        for what in ["long counted.count", "long bare.count", "one count"] {
            assert_eq!(sums.totals.get(what), Some(&(calls * updates)), "{what}: {:?}", sums.totals);
        }
        let torn: Vec<_> = sums.by_window.iter().filter(|(_, count)| **count % updates != 0).collect();
        assert!(torn.is_empty(), "windows with a part of a run: {torn:?}");
        sums.windows["one"].len() > 1
    });
}

/// Programs attached to user functions can be preempted in the middle.
/// The tick that is due when a window ends belongs to it, however late it is.
#[test]
fn a_window_has_the_ticks_that_are_due_by_its_end() {
    if skip() {
        return;
    }
    let script = r#"
        param every: duration = 5ms "how often"
        interval:$every { for $i : 0..2000 { @work = count(); } @ticks = count(); }
        view "ticks" { of @ticks  show count  every $every clear }
        view "work" { of @work  show count  every $every clear }"#;
    let ended = run(&["-q", "-f", "json", "--duration", "500ms", "-e", script]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let windows: Vec<serde_json::Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |view: &str| {
        let windows = windows.iter().filter(|it| it["data"]["view"] == view);
        windows.map(|it| it["data"]["rows"][0]["count"].as_u64().unwrap_or(0)).collect::<Vec<_>>()
    };
    let (ticks, work) = (of("ticks"), of("work"));
    assert!(ticks.len() > 1 && ticks.len() == work.len(), "{}", ended.stdout);
    assert!(ticks[..ticks.len() - 1].iter().all(|count| *count >= 1), "{ticks:?}");
    assert!(ticks.iter().zip(&work).all(|(ticks, work)| ticks * 2000 == *work), "{ticks:?} {work:?}");

    let never = run(&["-q", "-f", "json", "--duration", "20ms", "-e", script, "--every", "0s"]);
    assert_eq!((never.code(), never.stderr.as_str()), (0, ""));
    let shown: Vec<&str> = never.stdout.lines().collect();
    assert!(shown.len() == 2 && shown.iter().all(|line| line.contains(r#""rows": []"#)), "{}", never.stdout);
}

#[test]
fn the_windows_of_preemptible_programs_add_up() {
    if skip() {
        return;
    }
    let processes = 6;
    let directory = Directory::new("views");
    let program = directory.path("workload");
    copy(workload(), &program);
    let script = format!(
        r#"view "steps" {{ of @steps  show count, sum  every 10ms clear }}
        uprobe:{program}:workload_step {{ @steps[arg0 % 2000] = stats(1); @total = count(); }}"#
    );
    with_enough_calls(60_000, |calls| {
        let command = vec![format!("{program} functions {calls}"); processes].join(" & ") + " & wait";
        let output = directory.path("out");
        let ended = run_beside(&["-q", "-f", "csv", "-o", &output, "-e", &script], &command);
        assert_eq!((ended.code(), ended.stderr.lines().count()), (0, 0), "{}", ended.stderr);
        let sums = sums(&std::fs::read_to_string(&output).expect("results"));
        let all = processes as u64 * calls;
        assert_eq!(
            (sums.totals["steps count"], sums.totals["steps sum"], sums.totals["@total count"]),
            (all, all, all)
        );
        sums.windows["steps"].len() > 1
    });
}

#[test]
fn what_other_probes_see_of_a_map_is_the_present_window() {
    if skip() {
        return;
    }
    let script = r#"view "w" { of @calls  show sum  every 20ms clear }
        tracepoint:syscalls:sys_enter_getppid /pid == cpid && comm == "workload"/ { @calls[comm]++; @most = max(@calls[comm]); @length = max(len(@calls)); }"#;
    // On a busy machine the timer may not get a processor before the calls are over.
    let most_in_a_window = |calls: u64| {
        let (_, sums) = results(script, &format!("sh -c 'exec {} getppid {calls} >/dev/null'", workload()));
        assert_eq!(sums.totals.get("@length max"), Some(&1), "the number of keys begins anew with each window");
        sums.totals["@most max"]
    };
    let is_split =
        [400_000, 1_600_000, 6_400_000].into_iter().any(|calls| u128::from(calls) > most_in_a_window(calls).into());
    assert!(is_split, "no window holds everything");
}

#[test]
fn percentiles_of_all_others_are_those_of_all_their_values() {
    if skip() {
        return;
    }
    // 1, 2, … 100 in ten keys of ten values. Two keys are shown, so the rest has eighty values, of
    // which fifty are below 51.
    let script = r#"view "v" { of @h  show key, count, p50, max  sort key desc  top 2 rest }
        BEGIN { for $i : 0..100 { @h[$i / 10] = lhist($i + 1, 0, 200, 1); } exit(); }"#;
    let ended = run(&["-q", "-e", script]);
    let expected = "v\nkey         count  p50   max\n9              10  <96  <101\n8              10  <86   <91\n… 8 others     80  <41   <81\n\n";
    assert_eq!(ended.stdout, expected);
}

#[test]
fn several_maps_are_joined_by_their_keys() {
    if skip() {
        return;
    }
    let script = r#"view "both" { of @a, @b  show name as "who", n, @a.value, @b.sum, @b.share  sort name }
        BEGIN { $name = "x"; $n = 2; @a[$name, $n] = 7; @b[$name, $n] = sum(3); @b["y", 1] = sum(1); @a["a long one", 300] = 9; exit(); }"#;
    let ended = run(&["-q", "-e", script]);
    let expected = "both\nwho         n    @a.value  @b.sum  @b.share\na long one  300         9       -         -\nx           2           7       3    75.0 %\ny           1           -       1    25.0 %\n\n";
    assert_eq!(ended.stdout, expected, "{}", ended.stderr);
}

#[test]
fn maps_with_a_view_are_not_printed_beside_it() {
    if skip() {
        return;
    }
    let script = r#"view "v" { of @a } BEGIN { @a[1] = 5; @b[2] = 6; exit(); }"#;
    assert_eq!(run(&["-q", "-e", script]).stdout, "\n\n@b[2]: 6\n\nv\nkey  value\n1        5\n\n");
    let only = r#"view "v" { of @a } BEGIN { @a[1] = 5; exit(); }"#;
    assert_eq!(run(&["-q", "-e", only]).stdout, "v\nkey  value\n1        5\n\n");
    let empty = r#"view "v" { of @a } BEGIN { if (pid == 0) { @a[1] = 5; } exit(); }"#;
    assert_eq!(run(&["-q", "-e", empty]).stdout, "v\n(no rows)\n\n");
    // Nor is one without entries that no view shows, of which bpftrace prints an empty line.
    let cleared = r#"view "v" { of @a } BEGIN { @a[1] = 5; @b[1] = count(); exit(); } END { clear(@b); }"#;
    assert_eq!(run(&["-q", "-e", cleared]).stdout, "v\nkey  value\n1        5\n\n");
}

#[test]
fn a_view_without_rows_says_its_sentence() {
    if skip() {
        return;
    }
    let script = |every: &str, end: &str| {
        format!(
            r#"view "v" {{ of @a {every} empty "none: is it idle?" }} view "w" {{ of @b {every} empty "none: is it idle?" }}
            BEGIN {{ if (pid == 0) {{ @a[1] = 5; @b[1] = 5; }} }} interval:150ms {{ exit(); }} END {{ {end} }}"#
        )
    };
    let at_end = script("", "");
    assert_eq!(run(&["-q", "-e", &at_end]).stdout, "none: is it idle?\n");
    // Words of `END` do not replace it.
    assert_eq!(run(&["-q", "-e", &script("", r#"printf("end\n");"#)]).stdout, "end\nnone: is it idle?\n");
    let windows = run(&["-q", "-e", &script("every 50ms clear", "")]).stdout;
    assert!(windows.lines().count() >= 2, "{windows}");
    assert!(windows.lines().all(|line| line.ends_with("): none: is it idle?")), "{windows}");
    let for_programs = run(&["-q", "-f", "json", "-e", &at_end]).stdout;
    assert_eq!(
        for_programs.matches(r#""rows": [], "empty": "none: is it idle?", "quality""#).count(),
        2,
        "{for_programs}"
    );
    let sheet = run(&["-q", "-f", "csv", "-e", &at_end]);
    assert!(sheet.stderr.contains("v: none: is it idle?"), "{}", sheet.stderr);
    assert!(!sheet.stdout.contains("none"), "{}", sheet.stdout);
    let some = r#"view "v" { of @a empty "none" } BEGIN { @a[1] = 5; exit(); }"#;
    assert_eq!(run(&["-q", "-e", some]).stdout, "v\nkey  value\n1        5\n\n");
}

#[test]
fn words_of_the_end_replace_tables_without_rows() {
    if skip() {
        return;
    }
    let script = |before: &str, end: &str| {
        format!(
            r#"view "v" {{ of @a }} view "w" {{ of @b }}
            BEGIN {{ {before} @b[1] = 5; if (pid == 0) {{ @a[1] = 5; }} exit(); }} END {{ {end} }}"#
        )
    };
    let text = |before, end| run(&["-q", "-e", &script(before, end)]).stdout;
    let w = "w\nkey  value\n1        5\n\n";
    assert_eq!(text("", r#"printf("nothing\n");"#), format!("nothing\n{w}"));
    // Other words, and empty lines, are not about the tables.
    assert_eq!(text(r#"printf("go\n");"#, ""), format!("go\nv\n(no rows)\n\n{w}"));
    assert_eq!(text("", r#"printf("\n");"#), format!("\nv\n(no rows)\n\n{w}"));
    let said = script("", r#"printf("nothing\n");"#);
    let for_programs = run(&["-q", "-f", "json", "-e", &said]).stdout;
    assert!(for_programs.contains(r#""v""#) && for_programs.contains(r#""w""#), "{for_programs}");
    let every = r#"view "v" { of @a every 1h } BEGIN { if (pid == 0) { @a[1] = 5; } exit(); } END { printf("x\n"); }"#;
    assert!(run(&["-q", "-e", every]).stdout.ends_with("): v (no rows)\n"));
}
