//! The time window that a view covers, as text.
//!
//! In: a [`Window`]. Out: text for people and for machines.
//! Guarantee: times for machines are in UTC, those for people in the user's time zone.

use profiler_model::output::Window;
use profiler_model::strftime::{Dialect, Zone, strftime};
use profiler_model::units::Unit;
use profiler_model::value::Symbols;

/// Nanoseconds since 1970 in UTC, in the format of RFC 3339.
pub(crate) fn utc(unix_ns: u64) -> String {
    strftime("%Y-%m-%dT%H:%M:%S.%fZ", unix_ns, &Zone::default(), Dialect::Strftime)
}

/// The time of day in the user's time zone.
fn local(unix_ns: u64, symbols: &dyn Symbols) -> String {
    strftime("%H:%M:%S", unix_ns, &symbols.zone(unix_ns), Dialect::Strftime)
}

/// For people: start, end and length.
pub(crate) fn for_people(window: &Window, symbols: &dyn Symbols) -> String {
    let length = Unit::Duration.text(window.length.as_secs_f64() * 1e9);
    format!("{} to {} ({length})", local(window.start_ns, symbols), local(window.end_ns, symbols))
}
