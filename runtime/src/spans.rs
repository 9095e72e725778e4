//! The ledgers of spans.
//!
//! In: the counters of the object in `.bss`, and the maps with what is open. Out: [`SpanLedger`]s, and whether a sweep is needed.
//! Guarantee: what is open is counted twice, from the counters and from the map; when the two differ for longer than a program
//! can take between them, both numbers are told.

use std::io;
use std::time::{Duration, Instant};

use profiler_compiler::object::{Object, SpanCounter, TimeSpan, WhenFull};

use crate::load::Loaded;
use crate::maps::each_of;
use crate::sys::words::Words;

/// What became of the starts and ends of a span.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpanLedger {
    /// The span's name.
    pub name: String,
    /// Starts that opened.
    pub started: u64,
    /// Those that an end closed.
    pub matched: u64,
    /// Those that a second start closed.
    pub replaced: u64,
    /// Those that became too old.
    pub expired: u64,
    /// Those that made room for others; `None` for a span that has no such.
    pub evicted: Option<u64>,
    /// Those that are open still.
    pub open: u64,
    /// Ends without a start.
    pub unmatched: u64,
    /// Of these, ends that found the key busy.
    pub unmatched_busy: u64,
    /// Marks without a start; `None` for a span without marks.
    pub unmatched_marks: Option<u64>,
    /// Second starts that were refused, where the span says so.
    pub kept: Option<u64>,
    /// Starts for which there was no room.
    pub dropped: u64,
    /// Starts that found the key busy.
    pub dropped_busy: u64,
    /// Starts of functions that had called themselves too often; `None` where that is not counted.
    pub dropped_deep: Option<u64>,
    /// How deep functions may be there.
    pub max_depth: u64,
    /// How many keys there is room for.
    pub limit: u32,
    /// What is open as the map has it, when that is another number.
    pub in_map: Option<u64>,
}

/// How long counters and map may differ, because a program is just between them.
const SETTLES: Duration = Duration::from_millis(100);

impl SpanLedger {
    /// Starts that are missing from the results.
    pub fn lost(&self) -> u64 {
        self.dropped + self.dropped_busy + self.dropped_deep.unwrap_or(0)
    }

    /// The ledger on one line, without the name.
    pub fn summary(&self) -> String {
        let mut starts =
            vec![format!("{} started", thousands(self.started)), format!("{} matched", thousands(self.matched))];
        let some = [
            (self.replaced, "replaced"),
            (self.expired, "expired"),
            (self.evicted.unwrap_or(0), "evicted"),
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
            parts.push(format!("the map has {} open, which is a fault of profiler", thousands(in_map)));
        }
        parts.join("; ")
    }
}

/// A number with a comma between its thousands.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The ledgers of all spans.
pub fn read(object: &Object, loaded: &Loaded) -> Vec<SpanLedger> {
    object.spans.iter().map(|span| settled(span, loaded)).collect()
}

/// Starts so far, of all spans; no map is read for it.
pub fn started(object: &Object, loaded: &Loaded) -> u64 {
    let of = |span: &TimeSpan| counters(span, |offset| loaded.globals().bss_u64(offset)).started;
    object.spans.iter().map(of).sum()
}

fn settled(span: &TimeSpan, loaded: &Loaded) -> SpanLedger {
    let deadline = Instant::now() + SETTLES;
    loop {
        let mut ledger = counters(span, |offset| loaded.globals().bss_u64(offset));
        let in_map = span.map.as_ref().and_then(|map| open_in_map(span, map, loaded).ok());
        let again = counters(span, |offset| loaded.globals().bss_u64(offset));
        let agrees = in_map.is_none_or(|open| open == ledger.open);
        if agrees && ledger == again {
            return ledger;
        }
        if Instant::now() >= deadline {
            // While probes that are slow to detach still count, the numbers are those of one moment or another.
            ledger.in_map = in_map.filter(|open| ledger == again && *open != ledger.open);
            return ledger;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn counters(span: &TimeSpan, word: impl Fn(u32) -> Option<u64>) -> SpanLedger {
    let sum = |counter: SpanCounter| {
        let at = |cpu: u32| span.counters_offset + cpu * span.stride_bytes + counter as u32 * 8;
        (0..span.copies).fold(0u64, |sum, cpu| sum.wrapping_add(word(at(cpu)).unwrap_or(0)))
    };
    let [matched, replaced, expired] = [SpanCounter::Matched, SpanCounter::Replaced, SpanCounter::Expired].map(sum);
    let (started, evicted) = (sum(SpanCounter::Started), sum(SpanCounter::Evicted));
    SpanLedger {
        name: span.name.clone(),
        started,
        matched,
        replaced,
        expired,
        evicted: (span.when_full == WhenFull::Evict).then_some(evicted),
        open: [matched, replaced, expired, evicted].iter().fold(started, |open, closed| open.wrapping_sub(*closed)),
        unmatched: sum(SpanCounter::Unmatched),
        unmatched_busy: sum(SpanCounter::EndsBusy),
        unmatched_marks: span.has_marks.then(|| sum(SpanCounter::UnmatchedMarks)),
        kept: span.keeps.then(|| sum(SpanCounter::Kept)),
        dropped: sum(SpanCounter::DroppedFull),
        dropped_busy: sum(SpanCounter::DroppedBusy),
        dropped_deep: span.max_depth.map(|_| sum(SpanCounter::DroppedDeep)),
        max_depth: span.max_depth.unwrap_or(0),
        limit: span.limit,
        in_map: None,
    }
}

fn open_in_map(span: &TimeSpan, map: &str, loaded: &Loaded) -> io::Result<u64> {
    let map = loaded.map(map).ok_or(io::ErrorKind::NotFound)?;
    let mut open = 0;
    each_of(&map, |_, value| {
        let word = value.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        open += span.open_in(word);
    })?;
    Ok(open)
}

/// Whether anything of a span is open.
#[derive(Debug)]
pub struct Pending {
    words: Words,
    span: TimeSpan,
}

impl Pending {
    /// For a span of a loaded object.
    pub fn new(span: &TimeSpan, loaded: &Loaded) -> io::Result<Pending> {
        let data = loaded.map(".bss").ok_or(io::ErrorKind::NotFound)?;
        let words = Words::map(data.fd(), data.value_size_bytes())?;
        Ok(Pending { words, span: span.clone() })
    }

    /// Reads memory only.
    pub fn any(&self) -> bool {
        counters(&self.span, |offset| self.words.at(offset)).open != 0
    }
}

#[cfg(test)]
mod tests {
    use super::{SpanLedger, thousands};

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

    #[test]
    fn thousands_are_apart() {
        let texts: Vec<String> = [0, 999, 1000, 1_234_567].map(thousands).to_vec();
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
    }
}
