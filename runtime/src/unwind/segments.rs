//! Places tables in segments.
//!
//! In: the sorted rows of a file. Out: where they are, and the segments to write.
//! Guarantee: a segment is handed out to be written once, so no program reads it while it changes.
//! All of them take no more than their share of what the control groups of this process leave.
//! Numbers increase until [`Segments::clear`].

use profiler_model::unwind::{MAX_SEGMENTS, RULE_MASK, SEGMENT_WORDS, Table, UNUSED, address_of};

use crate::memory::share_bytes;

/// Limit of rows in a file: half of the segments.
pub(super) const MAX_ROWS: usize = MAX_SEGMENTS as usize / 2 * SEGMENT_WORDS;
/// What the kernel takes for a segment, in the control group of this process: it allocates powers
/// of two, and an entry has a header.
const ALLOCATED_BYTES: u64 = 2 * SEGMENT_WORDS as u64 * 8;
/// Rows to which an index can refer: its words are in one segment.
const INDEXED_ROWS: usize = SEGMENT_WORDS * SEGMENT_WORDS;

/// The rows of a file from an address on, up to the next part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub start: u64,
    pub table: Table,
}

/// A segment as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub number: u32,
    /// All of them, [`SEGMENT_WORDS`].
    pub words: Vec<u64>,
}

/// The segments in use, and those to be written.
#[derive(Debug)]
pub(super) struct Segments {
    /// How many there may be.
    most: u32,
    /// The number of the next segment.
    next: u32,
    /// The last one that has space for more tables.
    open: Option<Segment>,
    full: Vec<Segment>,
}

impl Default for Segments {
    fn default() -> Segments {
        let share = share_bytes().map_or(MAX_SEGMENTS.into(), |bytes| bytes / ALLOCATED_BYTES);
        let most = u32::try_from(share).unwrap_or(MAX_SEGMENTS).min(MAX_SEGMENTS);
        Segments { most, next: 0, open: None, full: Vec::new() }
    }
}

impl Segments {
    /// How many are in use.
    pub(super) fn count(&self) -> u32 {
        self.next
    }

    /// Whether a file with this many rows has space, whatever is in the open segment.
    pub(super) fn has_space_for(&self, rows: usize) -> bool {
        let indexes = rows.div_ceil(INDEXED_ROWS);
        self.next as usize + rows.div_ceil(SEGMENT_WORDS) + indexes <= self.most as usize
    }

    /// Places the rows of a file; `None` if there is no space. Without rows the table is
    /// [`Table::NONE`].
    pub(super) fn place(&mut self, rows: &[u64]) -> Option<Vec<Part>> {
        if rows.is_empty() {
            return Some(vec![Part { start: 0, table: Table::NONE }]);
        }
        if !self.has_space_for(rows.len()) {
            return None;
        }
        let place = |(index, rows): (usize, &[u64])| {
            let start = if index == 0 { 0 } else { address_of(rows[0]) };
            Part { start, table: self.place_part(rows) }
        };
        Some(rows.chunks(INDEXED_ROWS).enumerate().map(place).collect())
    }

    fn place_part(&mut self, rows: &[u64]) -> Table {
        if rows.len() <= SEGMENT_WORDS {
            return self.append(rows);
        }
        let indexed = self.next;
        let mut index = Vec::with_capacity(rows.len().div_ceil(SEGMENT_WORDS));
        for (distance, rows) in (0..).zip(rows.chunks(SEGMENT_WORDS)) {
            index.push(rows[0] & !RULE_MASK | distance);
            let segment = self.start(rows);
            self.finish(segment);
        }
        Table { indexed: Some(indexed), ..self.append(&index) }
    }

    /// Adds words to the open segment, or to a new one if they do not fit.
    fn append(&mut self, words: &[u64]) -> Table {
        let open = self.open.take().and_then(|open| {
            if open.words.len() + words.len() <= SEGMENT_WORDS {
                return Some(open);
            }
            self.finish(open);
            None
        });
        let mut open = open.unwrap_or_else(|| self.start(&[]));
        // Both are at most `SEGMENT_WORDS`.
        let (first, count) = (open.words.len() as u16, words.len() as u16);
        open.words.extend_from_slice(words);
        let table = Table { segment: open.number, first, words: count, indexed: None };
        self.open = Some(open);
        table
    }

    fn start(&mut self, words: &[u64]) -> Segment {
        self.next += 1;
        Segment { number: self.next - 1, words: words.to_vec() }
    }

    fn finish(&mut self, mut segment: Segment) {
        segment.words.resize(SEGMENT_WORDS, UNUSED);
        self.full.push(segment);
    }

    /// The segments since the last call, which are to be written now.
    pub(super) fn take(&mut self) -> Vec<Segment> {
        if let Some(open) = self.open.take() {
            self.finish(open);
        }
        std::mem::take(&mut self.full)
    }

    /// Starts again from the first segment.
    pub(super) fn clear(&mut self) {
        *self = Segments::default();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::HashMap;

    use profiler_model::unwind::row;

    use super::*;

    /// All segments written so far.
    pub(in crate::unwind) type Written = HashMap<u32, Vec<u64>>;

    /// The index of the last word that is not above `wanted`, or 0, found as programs find it: by
    /// the signs of differences, in steps down from half of `length`.
    pub(in crate::unwind) fn search(words: &[u64], length: usize, wanted: u64) -> usize {
        let (mut found, mut step) = (0, length / 2);
        while step > 0 {
            let is_above = |word: &u64| wanted.wrapping_sub(*word).cast_signed() < 0;
            if !words.get(found + step).is_none_or(is_above) {
                found += step;
            }
            step /= 2;
        }
        found
    }

    /// The row for an address, found as programs find it.
    pub(in crate::unwind) fn find(written: &Written, table: Table, address: u64) -> Option<u64> {
        let wanted = row(address, RULE_MASK as u32);
        let last = |segment: u32, first: usize, count: usize| {
            let words = written.get(&segment)?.get(first..first + count)?;
            words.get(search(words, SEGMENT_WORDS, wanted)).copied()
        };
        let mut found = last(table.segment, table.first.into(), table.words.into())?;
        if let Some(indexed) = table.indexed {
            found = last(indexed + (found & RULE_MASK) as u32, 0, SEGMENT_WORDS)?;
        }
        Some(found).filter(|found| *found <= wanted)
    }

    fn write(segments: &mut Segments, into: &mut Written) {
        for segment in segments.take() {
            assert_eq!(segment.words.len(), SEGMENT_WORDS);
            assert!(into.insert(segment.number, segment.words).is_none(), "a segment is written once");
        }
    }

    fn rows(count: usize) -> Vec<u64> {
        (0..count as u64).map(|index| row(0x1000 + index * 8, (index % 7) as u32)).collect()
    }

    /// Whether a program finds each row at its address and at the one before the next.
    fn expect_each(written: &Written, parts: &[Part], rows: &[u64]) {
        let table =
            |address| parts.iter().rev().find(|part| part.start <= address).expect("the first starts at 0").table;
        for row in rows {
            let at = address_of(*row);
            assert_eq!(find(written, table(at), at), Some(*row));
            assert_eq!(find(written, table(at + 7), at + 7), Some(*row));
        }
        assert_eq!(find(written, parts[0].table, 0xfff), None);
    }

    #[test]
    fn small_tables_share_a_segment() {
        let (mut segments, mut written) = (Segments::default(), Written::new());
        let tables = [10, 900, 114, 1, 1024].map(|count| segments.place(&rows(count)).expect("space")[0].table);
        write(&mut segments, &mut written);
        let places = tables.map(|table| (table.segment, table.first, table.words, table.indexed));
        let expected = [(0, 0, 10, None), (0, 10, 900, None), (0, 910, 114, None), (1, 0, 1, None), (2, 0, 1024, None)];
        assert_eq!(places, expected);
        for (table, count) in tables.into_iter().zip([10, 900, 114, 1, 1024]) {
            expect_each(&written, &[Part { start: 0, table }], &rows(count));
        }
        assert_eq!(segments.place(&rows(1)).expect("space")[0].table.segment, 3, "written segments stay as they are");
    }

    #[test]
    fn a_long_table_has_an_index() {
        let (mut segments, mut written) = (Segments::default(), Written::new());
        let before = segments.place(&rows(7)).expect("space");
        let parts = segments.place(&rows(5000)).expect("space");
        write(&mut segments, &mut written);
        assert_eq!(parts, [Part { start: 0, table: Table { segment: 0, first: 7, words: 5, indexed: Some(1) } }]);
        expect_each(&written, &before, &rows(7));
        expect_each(&written, &parts, &rows(5000));
    }

    #[test]
    fn rows_beyond_an_index_are_a_second_part() {
        let (mut segments, mut written) = (Segments::default(), Written::new());
        let rows = rows(INDEXED_ROWS + 3000);
        let parts = segments.place(&rows).expect("space");
        write(&mut segments, &mut written);
        assert_eq!((parts.len(), parts[1].start), (2, address_of(rows[INDEXED_ROWS])));
        expect_each(&written, &parts, &rows);
    }

    #[test]
    fn without_space_nothing_is_placed() {
        let mut segments = Segments::default();
        let most = rows(MAX_ROWS);
        assert!(segments.place(&most).is_some());
        assert!(!segments.has_space_for(MAX_ROWS) && segments.place(&most).is_none());
        assert!(segments.take().last().is_some_and(|segment| segment.number < MAX_SEGMENTS));
        segments.clear();
        assert!(segments.place(&most).is_some() && segments.take()[0].number == 0);
    }

    #[test]
    fn code_without_rows_has_no_table() {
        assert_eq!(Segments::default().place(&[]), Some(vec![Part { start: 0, table: Table::NONE }]));
    }
}
