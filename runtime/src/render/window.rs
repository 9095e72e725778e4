//! The time that a view is about.
//!
//! In: two moments. Out: text for people and for machines.
//! Guarantee: the length is that of a clock that nobody sets.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use profiler_compiler::strftime::{Dialect, Zone, strftime};
use profiler_compiler::units::Unit;
use profiler_compiler::value::Symbols;

/// A moment on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Nanoseconds since 1970.
    pub unix_ns: u64,
    /// On the clock that nobody sets.
    pub at: Instant,
}

/// From one moment to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its start.
    pub start: Moment,
    /// Its end.
    pub end: Moment,
}

impl Moment {
    /// This moment.
    pub fn now() -> Moment {
        let unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        Moment { unix_ns, at: Instant::now() }
    }

    /// In UTC, as RFC 3339 has it.
    fn utc(self) -> String {
        strftime("%Y-%m-%dT%H:%M:%S.%fZ", self.unix_ns, &Zone::default(), Dialect::Strftime)
    }

    /// The time of day, where the user is.
    fn local(self, symbols: &dyn Symbols) -> String {
        strftime("%H:%M:%S", self.unix_ns, &symbols.zone(self.unix_ns), Dialect::Strftime)
    }
}

impl Window {
    /// Its length.
    pub fn length(&self) -> Duration {
        self.end.at.saturating_duration_since(self.start.at)
    }

    /// Its start for machines.
    pub fn start_text(&self) -> String {
        self.start.utc()
    }

    /// Its end for machines.
    pub fn end_text(&self) -> String {
        self.end.utc()
    }

    /// For people: from when to when, and how long that is.
    pub fn text(&self, symbols: &dyn Symbols) -> String {
        let length = Unit::Duration.text(self.length().as_secs_f64() * 1e9);
        format!("{} to {} ({length})", self.start.local(symbols), self.end.local(symbols))
    }
}
