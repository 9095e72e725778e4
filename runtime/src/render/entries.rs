//! A map's entries in the order and form in which they are printed.
//!
//! In: a [`MapSnapshot`] and what to print of it. Out: entries, ascending; keys as text.
//! Guarantee: the order is total, so that equal contents print equally.

use std::borrow::Cow;
use std::cmp::Ordering;

use profiler_compiler::text::write_value;
use profiler_compiler::value::{Symbols, Value};

use super::{MapPrint, MapSnapshot};

/// A key, absent for a scalar, and the value to print.
pub(super) type Entry<'a> = (Option<&'a Value>, Cow<'a, Value>);

/// The entries to print: numbers by value, histograms by total count, all else by key; of them the last `top`, divided.
pub(super) fn arranged<'a>(map: &'a MapSnapshot<'_>, print: MapPrint) -> Vec<Entry<'a>> {
    let mut entries: Vec<&(Option<Value>, Value)> = map.entries.iter().collect();
    entries
        .sort_by(|(a_key, a), (b_key, b)| rank(a).cmp(&rank(b)).then_with(|| by_key(a_key.as_ref(), b_key.as_ref())));
    let most = match print.top {
        0 => usize::MAX,
        top => usize::try_from(top).unwrap_or(usize::MAX),
    };
    let skipped = entries.len().saturating_sub(most);
    let latest = latest_interval(map);
    let shown = |value| aligned(divided(map, value, print.div), latest);
    entries[skipped..].iter().map(|(key, value)| (key.as_ref(), shown(value))).collect()
}

/// The last interval of all series of a map, with which each of them ends; `None` when it holds none.
fn latest_interval(map: &MapSnapshot<'_>) -> Option<u64> {
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

/// What a value is sorted by before its key. Booleans, pointers and strings do not order a map, but enums do.
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

fn divided<'a>(map: &MapSnapshot<'_>, value: &'a Value, by: u64) -> Cow<'a, Value> {
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

/// Appends a key as it stands between brackets: the parentheses of a tuple go, and, as in bpftrace, those of a string that
/// looks like one.
pub(super) fn write_key(key: &Value, symbols: &dyn Symbols, out: &mut Vec<u8>) {
    let start = out.len();
    write_value(key, symbols, out);
    if out.len() >= start + 2 && out[start] == b'(' && out.last() == Some(&b')') {
        out.pop();
        out.remove(start);
    }
}
