//! A map's entries, ordered and converted for printing.
//!
//! In: a [`MapSnapshot`], and what to print of it. Out: entries in ascending order; keys as text.
//! Guarantee: the order is total, so equal contents print equally.

use std::borrow::Cow;
use std::cmp::Ordering;

use profiler_model::output::{MapPrint, MapSnapshot};
use profiler_model::text::write_value;
use profiler_model::value::{Symbols, Value};

/// The key (`None` for a scalar), the value to print, and the processes that share the key if there
/// are several.
pub(super) type Entry<'a> = (Option<&'a Value>, Cow<'a, Value>, &'a [u32]);

/// The entries to print: numbers ordered by value, histograms by total count, everything else by
/// key. Keeps the last `top` entries and divides their values.
pub(super) fn arranged(map: &MapSnapshot, print: MapPrint) -> Vec<Entry<'_>> {
    let mut entries: Vec<(usize, &(Option<Value>, Value))> = map.entries.iter().enumerate().collect();
    entries.sort_by(|(_, (a_key, a)), (_, (b_key, b))| {
        rank(a).cmp(&rank(b)).then_with(|| by_key(a_key.as_ref(), b_key.as_ref()))
    });
    let most = match print.top {
        0 => usize::MAX,
        top => usize::try_from(top).unwrap_or(usize::MAX),
    };
    let skipped = entries.len().saturating_sub(most);
    let latest = latest_interval(map);
    let shown = |value| aligned(divided(map, value, print.div), latest);
    let processes = |at: usize| map.processes.get(at).map_or(&[][..], Vec::as_slice);
    entries[skipped..].iter().map(|(at, (key, value))| (key.as_ref(), shown(value), processes(*at))).collect()
}

/// The last interval of any series of a map, to which all of them are extended; `None` if it
/// contains no series.
fn latest_interval(map: &MapSnapshot) -> Option<u64> {
    let of_series = |value: &Value| match value {
        Value::Series(series) => Some(series.latest),
        _ => None,
    };
    map.entries.iter().filter_map(|(_, value)| of_series(value)).max()
}

fn aligned(value: Cow<'_, Value>, latest: Option<u64>) -> Cow<'_, Value> {
    match (value.as_ref(), latest) {
        (Value::Series(series), Some(latest)) if series.latest != latest => {
            Cow::Owned(Value::Series(series.clone().up_to(latest)))
        }
        _ => value,
    }
}

/// The sort rank of a value, which precedes its key. Booleans, pointers and strings do not order a
/// map, but enums do.
fn rank(value: &Value) -> Option<i128> {
    match value {
        Value::Bool(_) => None,
        Value::Enum { number, .. } => Some(i128::from(*number)),
        value => value.rank(),
    }
}

fn by_key(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.compare(b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

fn divided<'a>(map: &MapSnapshot, value: &'a Value, by: u64) -> Cow<'a, Value> {
    let Ok(divisor) = i64::try_from(by) else { return Cow::Borrowed(value) };
    if divisor <= 1 {
        return Cow::Borrowed(value);
    }
    match (map.aggregation, value) {
        (Some(aggregation), value) => Cow::Owned(aggregation.divide(value.clone(), divisor)),
        (None, Value::Int(n)) => Cow::Owned(Value::Int(n / divisor)),
        (None, Value::Uint(n)) => Cow::Owned(Value::Uint(n / by)),
        (None, value) => Cow::Borrowed(value),
    }
}

/// Appends a key as printed between brackets: without the parentheses of a tuple and, as in
/// bpftrace, without those of a string that looks like a tuple.
pub(super) fn write_key(key: &Value, symbols: &dyn Symbols, out: &mut Vec<u8>) {
    let start = out.len();
    write_value(key, symbols, out);
    if out.len() >= start + 2 && out[start] == b'(' && out.last() == Some(&b')') {
        out.pop();
        out.remove(start);
    }
}
