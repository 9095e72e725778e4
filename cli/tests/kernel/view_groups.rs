//! Views that show a part of the key: their rows equal those of a map keyed by that part alone.
//!
//! In: two maps updated by each event, one with a longer key than is shown. Out: a view of each;
//! the views agree in every number of every window.

use super::machine::{Directory, run, skip, with_enough_calls, workload};

/// The columns shown for each aggregation.
const KINDS: [(&str, &str, &str); 9] = [
    ("count", "count()", "count, rate, share"),
    ("sum", "sum($n)", "sum, rate, share"),
    ("avg", "avg($n)", "mean"),
    ("stats", "stats($n)", "count, mean, sum, share"),
    ("min", "min($n - 300)", "min"),
    ("max", "max($n - 300)", "max"),
    ("hist", "hist($n)", "count, p50, p99, max, share"),
    ("lhist", "lhist($n, 0, 600, 7)", "count, p50, p90, share"),
    ("dist", "dist($n * $n)", "count, mean, sum, min, p50, p90, p99, p99.9, max, share"),
];

/// The tables of comma-separated values, rows without title and times.
fn tables(script: &str, command: &str) -> Vec<(String, Vec<String>)> {
    let directory = Directory::new("view-groups");
    let output = directory.path("out");
    let ended = run(&["-q", "--strict", "-f", "csv", "-o", &output, "-e", script, "-c", command]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let text = std::fs::read_to_string(&output).expect("results");
    let mut tables: Vec<(String, String, Vec<String>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("view,")) {
        let fields: Vec<&str> = line.splitn(4, ',').collect();
        let [title, _, end, row] = fields[..] else { panic!("{line}") };
        match tables.last_mut().filter(|(known, at, _)| known == title && at == end) {
            Some((_, _, rows)) => rows.push(row.to_owned()),
            None => tables.push((title.to_owned(), end.to_owned(), vec![row.to_owned()])),
        }
    }
    tables.into_iter().map(|(title, _, rows)| (title, rows)).collect()
}

/// A script whose maps are updated by events on two CPUs, with two views of each kind.
fn script(clauses: &str) -> String {
    let views = KINDS.map(|(name, _, columns)| {
        let view = |what: &str, map: &str| {
            format!("view \"{name} {what}\" {{ of @{name}{map}  show part, {columns}  sort part  {clauses} }}\n")
        };
        view("grouped", "_wide") + &view("direct", "")
    });
    let body = KINDS.map(|(name, of, _)| format!("@{name}_wide[$part, $hidden, cpu] = {of}; @{name}[$part] = {of};\n"));
    format!(
        "{} tracepoint:syscalls:sys_enter_getppid /pid == cpid && comm == \"workload\"/ {{
            $part = rand % 5; $hidden = rand % 11; $n = rand % 600;
            {}
        }}",
        views.concat(),
        body.concat()
    )
}

fn agree(tables: &[(String, Vec<String>)]) -> usize {
    let (mut grouped, mut direct) = (Vec::new(), Vec::new());
    for (title, rows) in tables {
        match title.split_once(' ') {
            Some((kind, "grouped")) => grouped.push((kind, rows)),
            Some((kind, "direct")) => direct.push((kind, rows)),
            _ => panic!("{title}"),
        }
    }
    assert_eq!(grouped, direct);
    grouped.len()
}

#[test]
fn a_view_of_a_part_of_the_key_is_what_a_map_by_that_part_holds() {
    if skip() {
        return;
    }
    let command = format!("sh -c 'exec {} getppid 20000 2 >/dev/null'", workload());
    assert_eq!(agree(&tables(&script(""), &command)), KINDS.len());
    // The row for the rest is computed from rows, so it agrees too.
    assert_eq!(agree(&tables(&script("top 2 rest"), &command)), KINDS.len());
}

#[test]
fn the_same_is_true_of_every_window_under_load() {
    if skip() {
        return;
    }
    with_enough_calls(300_000, |calls| {
        let command = format!("sh -c 'exec {} getppid {} 2 >/dev/null'", workload(), calls / 2);
        agree(&tables(&script("every 20ms clear"), &command)) >= 2 * KINDS.len()
    });
}

#[test]
fn joined_maps_and_plain_numbers_are_put_together_by_what_is_shown() {
    if skip() {
        return;
    }
    let script = r#"
        view "joined" { of @calls, @bytes, @left  show name as "who", @calls.count, @bytes.sum, @bytes.share, @left.sum  sort name }
        view "all" { of @calls  show count  }
        BEGIN {
            $i = 0;
            while ($i < 12) {
                $name = $i % 3 == 0 ? "three" : "other";
                @calls[$name, $i] = count();
                if ($i % 2 == 0) { @bytes[$name, $i] = sum($i); }
                if ($name == "other") { @left[$name, $i] = 5 - $i; }
                $i++;
            }
            @bytes["only bytes", 99] = sum(60);
            exit();
        }"#;
    let ended = run(&["-q", "-e", script]);
    // 0, 3, 6, 9 have the key `three`; 1, 2, 4, 5, 7, 8, 10, 11 have `other`, and 2, 4, 8, 10 of
    // these are even.
    let expected = "joined
who         @calls.count  @bytes.sum  @bytes.share  @left.sum
only bytes             -          60        66.7 %          -
other                  8          24        26.7 %         -8
three                  4           6         6.7 %          -

all
count
   12

";
    assert_eq!(ended.stdout, expected, "{}", ended.stderr);
}

#[test]
fn a_modules_view_of_its_own_state_is_headed_as_it_is_written() {
    if skip() {
        return;
    }
    let directory = Directory::new("view-module");
    let module = "state own by tid { calls: u64 }
        pub view \"of the module\" { of own, @private  show tid as \"thread\", own.calls, @private.count }
        BEGIN { own.calls += 4; @private[tid] = count(); }";
    std::fs::write(directory.path("queue.prof"), module).expect("a module");
    std::fs::write(directory.path("main.prof"), "use queue\nBEGIN { printf(\"%d\\n\", tid); exit(); }")
        .expect("a script");
    let ended = run(&["-q", &directory.path("main.prof")]);
    let thread = ended.stdout.lines().next().unwrap_or_default();
    let rows = format!(
        "{thread}\nof the module\n{:<8}own.calls  @private.count\n{thread:<8}        4               1\n\n",
        "thread"
    );
    assert_eq!(ended.stdout, rows, "{}", ended.stderr);
}

#[test]
fn rows_of_several_keys_are_the_same_in_json() {
    if skip() {
        return;
    }
    let script = r#"view "v" { of @n  show name as "who", count, share  sort count desc  top 1 rest }
        BEGIN { for $i : 0..12 { $name = $i % 3 == 0 ? "three" : "other"; @n[$name, $i] = count(); } exit(); }"#;
    let ended = run(&["-q", "-f", "json", "-e", script]);
    let rows = r#""rows": [{"who": "other", "count": 8, "share": 66.667}], "rest": {"others": 1, "count": 4, "share": 33.333}"#;
    assert!(ended.stdout.contains(rows), "{}{}", ended.stdout, ended.stderr);
}
