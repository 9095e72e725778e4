//! Call-frame information of a file as a sorted table.
//!
//! In: the sections of a file. Out: the words of its rows, sorted by address.
//! Guarantee: any bytes give a table, in bounded time and memory; entries with errors are left out.
//! Addresses in it increase strictly.

use gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, DebugFrame, EhFrame, FrameDescriptionEntry, LittleEndian,
    PartialFrameDescriptionEntry, UnwindContext, UnwindSection, X86_64,
};
use profiler_model::unwind::{Rule, Special, row};

use super::rule::{Bytes, rule};
use super::sections::Sections;

/// End of the addresses that a row can have.
const END_OF_ADDRESSES: u64 = 1 << 48;
/// Limit of rows in a file before equal ones are merged.
const MAX_ROWS: usize = 16 << 20;
/// Limit of bytes of call-frame instructions, those of common entries counted for each function.
const MAX_WORK_BYTES: usize = 256 << 20;
/// The most bytes that aligning a function leaves unused before it.
const PADDING_BYTES: u64 = 15;

const NONE: Rule = Rule::Special(Special::None);

/// The rows of a file; empty if it has no call-frame information or too much of it.
pub(super) fn rows(sections: &Sections<'_>) -> Vec<u64> {
    let eh_frame = EhFrame::new(sections.eh_frame, LittleEndian);
    let rows = Entries::read(&eh_frame, &sections.bases);
    if !rows.is_empty() {
        return rows;
    }
    let mut debug_frame = DebugFrame::new(sections.debug_frame, LittleEndian);
    debug_frame.set_address_size(8);
    Entries::read(&debug_frame, &sections.bases)
}

/// The functions of a file with their rows, in the order of the file.
#[derive(Debug, Default)]
struct Entries {
    functions: Vec<Function>,
    rows: Vec<u64>,
    work_bytes: usize,
}

/// What one entry describes.
#[derive(Debug, Clone, Copy)]
struct Function {
    start: u64,
    end: u64,
    /// Index of its first row.
    first: usize,
    rows: usize,
}

impl Entries {
    fn read<'data, Section: UnwindSection<Bytes<'data>>>(section: &Section, bases: &BaseAddresses) -> Vec<u64> {
        let mut read = Entries::default();
        let mut context = UnwindContext::new();
        let mut common = None;
        let mut entries = section.entries(bases);
        // After an error in the header of an entry, the next entry cannot be found.
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(entry) = entry else { continue };
            let Some(entry) = parse(&entry, &mut common) else { continue };
            read.work_bytes += entry.entry_len() + entry.cie().entry_len();
            if read.work_bytes > MAX_WORK_BYTES || read.rows.len() > MAX_ROWS {
                return Vec::new();
            }
            read.add(&entry, section, bases, &mut context);
        }
        read.arrange()
    }

    /// Adds the rows of an entry, or nothing if it has an error.
    fn add<'data, Section: UnwindSection<Bytes<'data>>>(
        &mut self,
        entry: &FrameDescriptionEntry<Bytes<'data>>,
        section: &Section,
        bases: &BaseAddresses,
        context: &mut UnwindContext<usize>,
    ) {
        let (start, end, first) = (entry.initial_address(), entry.end_address(), self.rows.len());
        // Linkers leave entries at 0 for functions that they have discarded.
        if start == 0 || start >= end || end >= END_OF_ADDRESSES {
            return;
        }
        let special = if entry.is_signal_trampoline() {
            Some(Special::Signal)
        } else if entry.cie().return_address_register() != X86_64::RA {
            Some(Special::Unsupported)
        } else {
            None
        };
        match special {
            Some(special) => self.rows.push(row(start, Rule::Special(special).code())),
            None if self.evaluate(entry, section, bases, context).is_err() => return self.rows.truncate(first),
            None => {}
        }
        self.functions.push(Function { start, end, first, rows: self.rows.len() - first });
    }

    fn evaluate<'data, Section: UnwindSection<Bytes<'data>>>(
        &mut self,
        entry: &FrameDescriptionEntry<Bytes<'data>>,
        section: &Section,
        bases: &BaseAddresses,
        context: &mut UnwindContext<usize>,
    ) -> gimli::Result<()> {
        let mut table = entry.rows(section, bases, context)?;
        while let Some(found) = table.next_row()? {
            let (start, end) = (found.start_address(), found.end_address());
            if start < end && start < entry.end_address() {
                self.rows.push(row(start, rule(found, section).code()));
            }
        }
        Ok(())
    }

    /// All rows by address. Where functions overlap, the one that starts later counts.
    fn arrange(mut self) -> Vec<u64> {
        self.functions.sort_by_key(|function| function.start);
        let mut sorted = Vec::with_capacity(self.rows.len());
        for (index, function) in self.functions.iter().enumerate() {
            let next = self.functions.get(index + 1).map_or(u64::MAX, |next| next.start);
            let rows = &self.rows[function.first..function.first + function.rows];
            for row in rows.iter().take_while(|row| **row >> 16 < next) {
                push(&mut sorted, *row);
            }
            // No code is in the padding between two functions, so it needs no row.
            if next.saturating_sub(function.end) > PADDING_BYTES {
                push(&mut sorted, row(function.end, NONE.code()));
            }
        }
        sorted.shrink_to_fit();
        sorted
    }
}

/// Parses an entry. Its common entry is usually that of the one before.
fn parse<'data, Section: UnwindSection<Bytes<'data>>>(
    entry: &PartialFrameDescriptionEntry<'_, Section, Bytes<'data>>,
    common: &mut Option<(Section::Offset, CommonInformationEntry<Bytes<'data>>)>,
) -> Option<FrameDescriptionEntry<Bytes<'data>>> {
    let parsed = entry.parse(|section, bases, offset| match common {
        Some((known, common)) if *known == offset => Ok(common.clone()),
        _ => {
            let parsed = section.cie_from_offset(bases, offset)?;
            *common = Some((offset, parsed.clone()));
            Ok(parsed)
        }
    });
    parsed.ok()
}

/// Appends a row unless it has the same rule as the one before it.
fn push(rows: &mut Vec<u64>, row: u64) {
    if rows.last().is_none_or(|last| *last as u16 != row as u16) {
        rows.push(row);
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
