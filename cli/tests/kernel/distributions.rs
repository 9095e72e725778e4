//! Aggregations over known distributions of values.
//!
//! In: numbers that a workload passes, and scripts that aggregate them. Out: exact counts, sums and
//! buckets, and percentiles within the documented error.

use super::machine::{Directory, copy, run, run_beside, skip, workload};

/// `workload functions` passes 0 … CALLS-1 in each of `PROCESSES` processes, on all CPUs.
const CALLS: u64 = 5000;
const PROCESSES: u64 = 4;

/// The fields of an entry's JSON that the tests compare.
#[derive(Debug, Default, PartialEq)]
struct Entry {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    negative: u64,
    percentiles: [u64; 4],
    buckets: Vec<(u64, u64, u64)>,
}

/// The integer after `"name": `; it is quoted when a double cannot represent it.
fn number(text: &str, name: &str) -> u64 {
    let at = text.find(&format!("\"{name}\": ")).unwrap_or_else(|| panic!("{name}: {text:.200}")) + name.len() + 4;
    let digits: String = text[at..].trim_start_matches('"').chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{name}: {text:.200}"))
}

/// The entry that begins after `start`.
fn entry(json: &str, start: &str) -> Entry {
    let at = json.find(start).unwrap_or_else(|| panic!("no {start} in {json:.200}"));
    let text = &json[at + start.len()..];
    let text = &text[..text.find(']').expect("the end of the buckets")];
    let buckets = text[text.find('[').expect("buckets")..].split('{').skip(1);
    Entry {
        count: number(text, "count"),
        sum: number(text, "sum"),
        min: number(text, "min"),
        max: number(text, "max"),
        negative: number(text, "negative"),
        percentiles: ["p50", "p90", "p99", "p99.9"].map(|name| number(text, name)),
        buckets: buckets.map(|text| (number(text, "min"), number(text, "max"), number(text, "count"))).collect(),
    }
}

/// Compares an entry with the values that were recorded.
#[expect(clippy::cast_precision_loss, reason = "the error is far larger")]
fn agrees(entry: &Entry, mut values: Vec<u64>, error: f64, what: &str) {
    values.sort_unstable();
    let (first, last) = (values[0], values[values.len() - 1]);
    assert_eq!((entry.count, entry.negative), (values.len() as u64, 0), "{what}");
    assert_eq!((entry.sum, entry.min, entry.max), (values.iter().sum(), first, last), "{what}");
    for (found, thousandths) in entry.percentiles.iter().zip([500, 900, 990, 999]) {
        let rank = (values.len() * thousandths).div_ceil(1000).max(1);
        let exact = values[rank - 1];
        assert!(found.abs_diff(exact) as f64 <= exact as f64 * error, "{what} {thousandths}: {found} for {exact}");
    }
    for (low, high, count) in &entry.buckets {
        let inside = values.iter().filter(|value| (low..=high).contains(value)).count() as u64;
        assert_eq!(*count, inside, "{what}: {low}..={high}");
    }
    assert_eq!(entry.buckets.iter().map(|(_, _, count)| count).sum::<u64>(), entry.count, "{what}");
}

/// Runs the workload's processes, two at a time, with a probe on each call.
fn traced(statements: &str) -> String {
    let directory = Directory::new("distributions");
    let program = directory.path("workload");
    copy(workload(), &program);
    let script = format!("uprobe:{program}:workload_step {{ {statements} }}");
    let command = format!("{program} execs {PROCESSES} {CALLS} 2");
    let ended = run_beside(&["--strict", "-f", "json", "-e", &script], &command);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    ended.stdout
}

/// Applies `of` to the values that all processes pass.
fn all(of: impl Fn(u64) -> u64) -> Vec<u64> {
    (0..PROCESSES).flat_map(|_| (0..CALLS).map(&of)).collect()
}

#[test]
fn percentiles_are_within_the_error_and_all_else_is_exact() {
    if skip() {
        return;
    }
    let json = traced(
        "$n = arg0;
         @uniform = dist($n * 17280000000); @cubes = dist($n * $n * $n); @constant = dist(1234567);
         @modes = dist($n % 10 == 0 ? 50000000 + $n : 800 + $n % 100);
         @borders = dist(((uint64)1 << ($n % 47)) + $n % 3 - ($n % 47 > 0 ? 1 : 0));
         @coarse = dist($n * $n, 25%); @fine = dist($n * $n, 0.1%);",
    );
    let border = |n: u64| (1u64 << (n % 47)) + n % 3 - u64::from(!n.is_multiple_of(47));
    let modes = |n: u64| if n.is_multiple_of(10) { 50_000_000 + n } else { 800 + n % 100 };
    let named = |name: &str| entry(&json, &format!("{{\"@{name}\": "));
    agrees(&named("uniform"), all(|n| n * 17_280_000_000), 0.01, "up to a day");
    agrees(&named("cubes"), all(|n| n * n * n), 0.01, "cubes");
    agrees(&named("constant"), all(|_| 1_234_567), 0.0, "a constant");
    agrees(&named("modes"), all(modes), 0.01, "two modes");
    agrees(&named("borders"), all(border), 0.01, "borders of buckets");
    agrees(&named("coarse"), all(|n| n * n), 0.25, "25 %");
    agrees(&named("fine"), all(|n| n * n), 0.001, "0.1 %");
}

#[test]
fn keys_keep_their_values_apart() {
    if skip() {
        return;
    }
    let json = traced("@by[arg0 % 3, \"odd\"] = dist(arg0 * arg0 * 1000); @fine[arg0 % 2] = dist(arg0, 0.1%);");
    let of = |part: u64, by: u64| (0..PROCESSES).flat_map(move |_| (0..CALLS).filter(move |n| n % by == part));
    for part in 0..3 {
        let found = entry(&json, &format!("{{\"key\": [{part},\"odd\"], \"value\": "));
        agrees(&found, of(part, 3).map(|n| n * n * 1000).collect(), 0.01, "by remainder");
    }
    for part in 0..2 {
        let map = &json[json.find("\"@fine\"").expect("the map")..];
        agrees(&entry(map, &format!("{{\"key\": [{part}], \"value\": ")), of(part, 2).collect(), 0.001, "by remainder");
    }
}

#[test]
fn entries_are_asked_for_and_removed_whole() {
    if skip() {
        return;
    }
    let script = "BEGIN {
        @x[\"a\"] = dist(1); @x[\"a\"] = dist(1000); @x[\"a\"] = dist(-5); @x[\"b\"] = dist(1 << 40); @all = dist(-5); @all = dist(7);
        printf(\"%d %d\\n\", has_key(@x, \"a\"), has_key(@x, \"c\"));
        printf(\"%d %d\\n\", delete(@x, \"b\"), delete(@x, \"b\"));
        printf(\"%d %d %d %d\\n\", @x[\"a\"].count, @x[\"a\"].min, @x[\"a\"].max, @x[\"a\"].sum);
        printf(\"%d %d %t|\\n\", p50(@all), percentile(@all, 99.9), p99(@x[\"a\"]));
        printf(\"%d %s\\n\", has_key(@x, \"b\"), p99(@x[\"b\"]));
        exit();
    }";
    let ended = run(&["--strict", "-e", script]);
    let lines: Vec<&str> = ended.stdout.lines().filter(|line| !line.starts_with('[')).take(5).collect();
    assert_eq!(lines, ["1 0", "1 0", "3 -5 1000 996", "-5 7 1 µs|", "0 null"], "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn a_full_map_counts_what_it_refuses() {
    if skip() {
        return;
    }
    // A key has four pages. 0 to 9 and the powers of two from 2^6 on need more.
    let script = "config = { max_map_keys = 2 } BEGIN { for $i : 0..40 { @x[1] = dist((uint64)1 << $i); } exit(); }";
    let ended = run(&["-e", script]);
    assert!(ended.stderr.contains("@x"), "{}", ended.stderr);
    let kept: Vec<u64> =
        ended.stdout.lines().filter_map(|line| line.strip_prefix("count ")?.split(' ').next()?.parse().ok()).collect();
    // Page 0 holds six values, each of the seven others one.
    assert_eq!(kept, [13], "{}{}", ended.stdout, ended.stderr);
}

/// Merges two entries of the same error by hand, as the page of `dist` describes it.
fn merged(one: &Entry, other: &Entry) -> Entry {
    let mut buckets = std::collections::BTreeMap::new();
    for (low, high, count) in one.buckets.iter().chain(&other.buckets) {
        *buckets.entry((*low, *high)).or_insert(0) += count;
    }
    let (count, min, max) = (one.count + other.count, one.min.min(other.min), one.max.max(other.max));
    let percentile = |thousandths: u64| {
        let (mut rank, mut found) = ((count * thousandths).div_ceil(1000), max);
        for ((low, high), count) in &buckets {
            if rank <= *count {
                found = (low + (high - low) / 2).clamp(min, max);
                break;
            }
            rank -= count;
        }
        found
    };
    Entry {
        count,
        sum: one.sum + other.sum,
        min,
        max,
        negative: one.negative + other.negative,
        percentiles: [500, 900, 990, 999].map(percentile),
        buckets: buckets.into_iter().map(|((low, high), count)| (low, high, count)).collect(),
    }
}

#[test]
fn separate_runs_are_merged_by_what_their_json_has() {
    if skip() {
        return;
    }
    let of = |from: u64, to: u64| {
        let script = format!(
            "BEGIN {{ for $i : {from}..{to} {{ @one = dist($i * $i * 37); @by[$i % 2 == 0 ? \"even\" : \"odd\"] = dist($i * 1000, 0.1%); }} exit(); }}"
        );
        let ended = run(&["-q", "--strict", "-f", "json", "-e", &script]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        ["{\"@one\": ", "{\"key\": [\"even\"], \"value\": ", "{\"key\": [\"odd\"], \"value\": "]
            .map(|start| entry(&ended.stdout, start))
    };
    let (first, second, third, whole) = (of(3, 900), of(900, 1000), of(1000, 5000), of(3, 5000));
    for at in 0..whole.len() {
        let by_two = merged(&merged(&first[at], &second[at]), &third[at]);
        assert_eq!(by_two, whole[at]);
        assert_eq!(merged(&third[at], &merged(&second[at], &first[at])), whole[at], "in any order");
    }
}
