//! Accounting of spans, as plain data.
//!
//! In: the counters of a run. Out: numbers, and the same as one line of text.
//! Guarantee: every start is in exactly one of the counts of [`SpanLedger`].

use crate::text::thousands;

/// The outcomes of the starts and ends of a span.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpanLedger {
    /// The span's name.
    pub name: String,
    /// Starts that were opened.
    pub started: u64,
    /// Starts that an end closed.
    pub matched: u64,
    /// Starts that a second start replaced.
    pub replaced: u64,
    /// Starts that became too old.
    pub expired: u64,
    /// Starts that were evicted for newer ones; `None` for a span that does not evict.
    pub evicted: Option<u64>,
    /// Calls whose return no probe saw; `None` for a span that does not nest.
    pub abandoned: Option<u64>,
    /// Starts whose thread or process has ended; `None` if the key has neither, or if the value is
    /// stored with the thread.
    pub ended: Option<u64>,
    /// Whether `ended` counts threads; otherwise it counts processes.
    pub of_threads: bool,
    /// Starts that are still open.
    pub open: u64,
    /// Ends without a start.
    pub unmatched: u64,
    /// Those of `unmatched` whose key was busy.
    pub unmatched_busy: u64,
    /// Marks without a start; `None` for a span without marks.
    pub unmatched_marks: Option<u64>,
    /// Second starts that were refused; `None` for a span that does not keep its first start.
    pub kept: Option<u64>,
    /// Starts dropped because the map was full.
    pub dropped: u64,
    /// Starts dropped because the key was busy.
    pub dropped_busy: u64,
    /// Starts of functions dropped because the recursion was too deep; `None` where that is not
    /// counted.
    pub dropped_deep: Option<u64>,
    /// The greatest recursion depth.
    pub max_depth: u64,
    /// The capacity of the map, in keys.
    pub limit: u32,
    /// Open starts according to the map, if that differs from `open`.
    pub in_map: Option<u64>,
}

impl SpanLedger {
    /// Starts that the results lack.
    pub fn lost(&self) -> u64 {
        self.dropped + self.dropped_busy + self.dropped_deep.unwrap_or(0)
    }

    /// Whether nothing is missing: what began before the run, is open at its end, or was left out
    /// by a `restart` is no loss.
    pub fn is_whole(&self) -> bool {
        let broken = self.expired + self.evicted.unwrap_or(0) + self.unmatched_busy;
        self.lost() == 0 && broken == 0 && self.in_map.is_none()
    }

    /// The accounting on one line, without the name.
    pub fn summary(&self) -> String {
        let mut starts =
            vec![format!("{} started", thousands(self.started)), format!("{} matched", thousands(self.matched))];
        let some = [
            (self.replaced, "replaced"),
            (self.expired, "expired"),
            (self.evicted.unwrap_or(0), "evicted"),
            (self.abandoned.unwrap_or(0), "abandoned"),
            (
                self.ended.unwrap_or(0),
                if self.of_threads { "left by ended threads" } else { "left by ended processes" },
            ),
            (self.open, "open"),
        ];
        starts.extend(
            some.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{} {word}", thousands(*count))),
        );
        let mut parts = vec![starts.join(", ")];
        let number =
            |count: u64, one: &str, many: &str| format!("{} {}", thousands(count), if count == 1 { one } else { many });
        let mut add = |count: u64, one: &str, many: &str| {
            if count > 0 {
                parts.push(number(count, one, many));
            }
        };
        add(self.unmatched - self.unmatched_busy.min(self.unmatched), "end without a start", "ends without a start");
        add(self.unmatched_busy, "end while the key was busy", "ends while the key was busy");
        add(self.unmatched_marks.unwrap_or(0), "mark without a start", "marks without a start");
        add(self.kept.unwrap_or(0), "second start refused", "second starts refused");
        if self.dropped > 0 {
            let what = number(self.dropped, "start", "starts");
            parts.push(format!("{what} dropped, `limit {}` was reached", self.limit));
        }
        if self.dropped_busy > 0 {
            parts.push(format!("{} dropped while the key was busy", number(self.dropped_busy, "start", "starts")));
        }
        if let Some(deep @ 1..) = self.dropped_deep {
            parts.push(format!("{} dropped, deeper than {}", number(deep, "start", "starts"), self.max_depth));
        }
        if let Some(in_map) = self.in_map {
            parts.push(format!("the map has {} open, which is a bug in profiler", thousands(in_map)));
        }
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::SpanLedger;

    #[test]
    fn a_ledger_is_one_line_that_says_what_happened_and_nothing_else() {
        let mut ledger =
            SpanLedger { started: 1204, matched: 1200, open: 3, expired: 1, limit: 64, ..SpanLedger::default() };
        assert_eq!(ledger.summary(), "1,204 started, 1,200 matched, 1 expired, 3 open");
        ledger.unmatched = 2;
        ledger.dropped = 1;
        assert_eq!(
            ledger.summary(),
            "1,204 started, 1,200 matched, 1 expired, 3 open; 2 ends without a start; 1 start dropped, `limit 64` was reached"
        );
        assert_eq!(SpanLedger::default().summary(), "0 started, 0 matched");
    }
}
