//! Accounting of spans: starts, ends, and starts that are still open.
//!
//! In: the counters of the object in `.bss`, and the maps of open spans. Out: [`SpanLedger`]s, and
//! whether a sweep is needed.
//! Guarantee: open starts are counted twice, from the counters and from the map. If the two differ
//! for longer than a program can take between updating one and the other, both numbers are
//! reported.

use std::io;
use std::time::{Duration, Instant};

use profiler_model::object::{Object, SpanCounter, TimeSpan, WhenFull};
use profiler_model::output::SpanLedger;

use crate::load::Loaded;
use crate::maps::each_of;
use crate::sys::bss::BssMapping;

/// How long counters and map may differ while a program is between the two updates.
const SETTLES: Duration = Duration::from_millis(100);

/// The accounting of all spans.
pub fn read(object: &Object, loaded: &Loaded) -> Vec<SpanLedger> {
    object.spans.iter().map(|span| settled(span, loaded)).collect()
}

/// The accounting of all spans from their counters alone; reads no map.
pub fn counted(object: &Object, loaded: &Loaded) -> Vec<SpanLedger> {
    object.spans.iter().map(|span| counters(span, |offset| loaded.globals().bss_u64(offset))).collect()
}

/// The number of starts so far, over all spans; reads no map.
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
            // While probes that detach slowly still count, the numbers may come from different
            // moments.
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
    let [started, evicted, abandoned] = [SpanCounter::Started, SpanCounter::Evicted, SpanCounter::Abandoned].map(sum);
    let ended = sum(SpanCounter::Ended);
    let closed = [matched, replaced, expired, evicted, abandoned, ended];
    SpanLedger {
        name: span.name.clone(),
        started,
        matched,
        replaced,
        expired,
        evicted: (span.when_full == WhenFull::Evict).then_some(evicted),
        abandoned: span.max_depth.map(|_| abandoned),
        ended: span.ended.map(|_| ended),
        of_threads: span.ended.is_some_and(|keys| keys.of_threads),
        open: closed.iter().fold(started, |open, closed| open.wrapping_sub(*closed)),
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

/// Reads how many starts of a span are open.
#[derive(Debug)]
pub struct Pending {
    words: BssMapping,
    span: TimeSpan,
}

impl Pending {
    /// For a span of a loaded object.
    pub fn new(span: &TimeSpan, loaded: &Loaded) -> io::Result<Pending> {
        let data = loaded.map(".bss").ok_or(io::ErrorKind::NotFound)?;
        let words = BssMapping::map(data.fd(), data.value_size_bytes())?;
        Ok(Pending { words, span: span.clone() })
    }

    /// Whether any start is open. Reads memory only.
    pub fn any(&self) -> bool {
        self.count() != 0
    }

    /// How many starts are open. Reads memory only.
    pub fn count(&self) -> u64 {
        counters(&self.span, |offset| self.words.bss_u64(offset)).open
    }
}
