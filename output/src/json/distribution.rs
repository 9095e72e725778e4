//! Distributions as JSON.
//!
//! In: a [`Distribution`]. Out: an object with its statistics and its buckets.
//! Guarantee: the buckets contain every value, so two distributions are merged by adding the counts
//! of equal bounds.

use profiler_model::distribution::{Distribution, bounds};
use profiler_model::statistics::{Number, Statistic};
use profiler_model::text::distribution::shown;

use super::{put, write_integer, write_list};

pub(super) fn write_distribution(values: &Distribution, out: &mut Vec<u8>) {
    put(out, format_args!("{{"));
    if let Some(unit) = values.unit.name() {
        put(out, format_args!("\"unit\": \"{unit}\", "));
    }
    let percentiles = shown().filter(|statistic| matches!(statistic, Statistic::Percentile(_)));
    let exact = [Statistic::Count, Statistic::Sum, Statistic::Mean, Statistic::Min, Statistic::Max];
    for statistic in exact.into_iter().chain(percentiles) {
        put(out, format_args!("\"{statistic}\": "));
        match values.statistic(statistic) {
            Some(Number::Integer(n) | Number::Below(n)) => write_integer(n, out),
            Some(Number::Real(n)) => put(out, format_args!("{n}")),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b", ");
    }
    put(out, format_args!("\"negative\": {}, \"sub_bits\": {}, \"buckets\": ", values.negative, values.sub_bits));
    let buckets: Vec<_> = values.buckets.iter().collect();
    write_list(&buckets, out, |(index, count), out| {
        let (low, high) = bounds(**index, values.sub_bits).unwrap_or_default();
        out.extend_from_slice(b"{\"min\": ");
        write_integer(low.into(), out);
        out.extend_from_slice(b", \"max\": ");
        write_integer(high.into(), out);
        put(out, format_args!(", \"count\": {count}}}"));
    });
    out.push(b'}');
}
