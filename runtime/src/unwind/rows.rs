//! Call-frame information of a file as a sorted table.
//!
//! In: the sections of a file, and where needed its instructions. Out: the words of its rows,
//! sorted by address.
//! Guarantee: any bytes give a table, in bounded time and within the budget of this process, beyond
//! which a file has no rows; entries with errors are left out. Addresses in it increase strictly.

use gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, DebugFrame, EhFrame, FrameDescriptionEntry, LittleEndian,
    PartialFrameDescriptionEntry, UnwindContext, UnwindSection, X86_64,
};
use profiler_model::unwind::{
    END_OF_ADDRESSES, FROM_RBX, RBX_WORDS_BITS, Rule, SPECIAL, Special, address_of, row, rule_of,
};

use super::rule::{Bytes, rule, saved_rbx};
use super::sections::Sections;
use crate::host::budget::Reserved;

/// Limit of bytes of call-frame instructions, those of common entries counted for each function.
const MAX_WORK_BYTES: usize = 256 << 20;
/// The most bytes that aligning a function leaves unused before it.
const PADDING_BYTES: u64 = 15;

/// What a row takes here and in the table.
const ROW_BYTES: usize = 2 * size_of::<u64>();
/// What a function takes, with the row at its end and one without instructions.
const FUNCTION_BYTES: usize = size_of::<Function>() + 2 * ROW_BYTES;

const NONE: Rule = Rule::Special(Special::None);
/// The rule at the first instruction of a function, and everywhere in one that saves nothing.
const AT_CALL: Rule = Rule::FromRsp { words: 1, rbp: 0 };
/// Limit of a function to which a stack returns that no call has made. That of glibc has 26 bytes.
const MAX_BEGUN_BYTES: u64 = 64;
/// Limit of the code where a program begins, if nothing says where it ends: that of the dynamic
/// linker has 80 bytes.
const MAX_BEGINNING_BYTES: u64 = 256;
/// Opcode of a call with the distance to the function, and their size.
const CALL: u8 = 0xe8;
const CALL_BYTES: usize = 5;
/// The largest function in which calls are searched.
const MAX_SEARCHED_BYTES: u64 = 16 << 10;

/// Reads instructions: the address in the file and the size in bytes.
pub(super) type Instructions<'a, 'data> = &'a dyn Fn(u64, u64) -> Option<&'data [u8]>;

/// The rows of a file; empty if it has no call-frame information or too much of it.
pub(super) fn rows<'data>(sections: &Sections<'data>, instructions: Instructions<'_, 'data>) -> Vec<u64> {
    let mut entries = Entries::default();
    let eh_frame = EhFrame::new(sections.eh_frame, LittleEndian);
    entries.read(&eh_frame, &sections.bases, instructions);
    // Compilers write one of both for their code; but the code of `crt1.o`, with which programs
    // begin, and that of C in a program of Go, has the first one all the same.
    let mut debug_frame = DebugFrame::new(&sections.debug_frame, LittleEndian);
    debug_frame.set_address_size(8);
    entries.read(&debug_frame, &sections.bases, instructions);
    if !entries.rows.is_empty() {
        entries.add_beginning(sections.entry);
    }
    entries.arrange()
}

/// The functions of a file with their rows, in the order of the file.
#[derive(Debug, Default)]
struct Entries {
    functions: Vec<Function>,
    rows: Vec<u64>,
    work_bytes: usize,
    /// For both lists, and for the table that is made of them.
    reserved: Reserved,
    /// Whether there is not enough memory for the rows.
    is_refused: bool,
}

/// What one entry describes.
#[derive(Debug, Clone, Copy)]
struct Function {
    start: u64,
    end: u64,
    /// Index of its first row.
    first: usize,
    rows: usize,
    /// How many words below the CFA it saves RBX; 0 if it does not.
    saved_rbx: u32,
}

impl Entries {
    /// Adds what a section says of functions that are not known yet. If that is too much, nothing
    /// is left.
    fn read<'data, Section: UnwindSection<Bytes<'data>>>(
        &mut self,
        section: &Section,
        bases: &BaseAddresses,
        instructions: Instructions<'_, '_>,
    ) {
        let known = self.functions.len();
        let mut context = UnwindContext::new();
        let mut common = None;
        let mut entries = section.entries(bases);
        // After an error in the header of an entry, the next entry cannot be found.
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(entry) = entry else { continue };
            let Some(entry) = parse(&entry, &mut common) else { continue };
            if self.is_known(known, entry.initial_address()) {
                continue;
            }
            self.work_bytes += entry.entry_len() + entry.cie().entry_len();
            self.is_refused |= self.work_bytes > MAX_WORK_BYTES || !self.reserved.grow(FUNCTION_BYTES);
            if !self.is_refused {
                self.add(&entry, section, bases, &mut context);
            }
            if self.is_refused {
                *self = Entries::default();
                return;
            }
        }
        self.functions.sort_by_key(|function| function.start);
        self.find_rbx(instructions);
    }

    /// Whether one of the first functions, which are sorted, contains an address.
    fn is_known(&self, first: usize, address: u64) -> bool {
        let sorted = &self.functions[..first];
        let next = sorted.partition_point(|function| function.start <= address);
        next.checked_sub(1).is_some_and(|before| sorted[before].end > address)
    }

    /// The code where the program begins has no caller. That of the dynamic linker has no entry: it
    /// calls the functions that prepare the program, and all constructors.
    fn add_beginning(&mut self, start: u64) {
        if start == 0 || start >= END_OF_ADDRESSES || self.is_known(self.functions.len(), start) {
            return;
        }
        let next = self.functions.partition_point(|function| function.start <= start);
        let end = start + MAX_BEGINNING_BYTES;
        let end = self.functions.get(next).map_or(end, |function| end.min(function.start));
        let function = Function { start, end, first: self.rows.len(), rows: 1, saved_rbx: 0 };
        self.rows.push(row(start, Rule::Special(Special::Outermost).code()));
        self.functions.insert(next, function);
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
        let mut function_rbx = 0;
        match special {
            Some(special) => self.rows.push(row(start, Rule::Special(special).code())),
            None => match self.evaluate(entry, section, bases, context) {
                Ok(saved) => function_rbx = saved,
                Err(_) => return self.rows.truncate(first),
            },
        }
        self.functions.push(Function { start, end, first, rows: self.rows.len() - first, saved_rbx: function_rbx });
    }

    /// Adds the rows of a function; yields where it saves RBX.
    fn evaluate<'data, Section: UnwindSection<Bytes<'data>>>(
        &mut self,
        entry: &FrameDescriptionEntry<Bytes<'data>>,
        section: &Section,
        bases: &BaseAddresses,
        context: &mut UnwindContext<usize>,
    ) -> gimli::Result<u32> {
        let mut table = entry.rows(section, bases, context)?;
        let mut function_rbx = 0;
        while let Some(found) = table.next_row()? {
            let (start, end) = (found.start_address(), found.end_address());
            if !self.reserved.grow(ROW_BYTES) {
                self.is_refused = true;
                return Ok(0);
            }
            if start < end && start < entry.end_address() {
                self.rows.push(row(start, rule(found, section).code()));
                function_rbx = function_rbx.max(saved_rbx(found));
            }
        }
        Ok(function_rbx)
    }

    /// Completes the rules that need RBX: the function that such a function calls has saved it.
    /// They are those of the dynamic linker that find a function when it is called first.
    fn find_rbx(&mut self, instructions: Instructions<'_, '_>) {
        for index in 0..self.functions.len() {
            let function = self.functions[index];
            let rows = function.first..function.first + function.rows;
            if !self.rows[rows.clone()].iter().any(|row| is_from_rbx(*row)) {
                continue;
            }
            let size_bytes = (function.end - function.start).min(MAX_SEARCHED_BYTES);
            let called = instructions(function.start, size_bytes).unwrap_or_default();
            let Some(saved) = self.saved_by_called(function.start, called) else { continue };
            for row in self.rows[rows].iter_mut().filter(|row| is_from_rbx(**row)) {
                *row = with_saved_rbx(*row, saved);
            }
        }
    }

    /// Where the functions that these instructions call save RBX, if they agree on a place. Bytes
    /// that are no call hardly ever lead to the first one of a function.
    fn saved_by_called(&self, address: u64, instructions: &[u8]) -> Option<u32> {
        let mut places = (address..).zip(instructions.windows(CALL_BYTES)).filter_map(|(at, bytes)| {
            let (opcode, distance) = bytes.split_first()?;
            let distance = i32::from_le_bytes(distance.try_into().ok()?);
            let target = at.wrapping_add(CALL_BYTES as u64).wrapping_add_signed(distance.into());
            let found = self.functions.binary_search_by_key(&target, |function| function.start).ok()?;
            (*opcode == CALL).then_some(self.functions[found].saved_rbx)
        });
        let first = places.next()?;
        places.all(|place| place == first).then_some(first)
    }

    /// Whether a stack may have been made by hand that returns to the begin of this function: it
    /// is short and saves nothing, like the `__start_context` of glibc's `makecontext`. A call
    /// never returns there, as it is not after an instruction.
    fn may_begin(&self, function: &Function) -> bool {
        let is_short = function.end - function.start <= MAX_BEGUN_BYTES;
        is_short && function.rows == 1 && rule_of(self.rows[function.first]) == AT_CALL.code()
    }

    /// All rows by address. Where functions overlap, the one that starts later counts.
    fn arrange(self) -> Vec<u64> {
        let mut sorted = Vec::with_capacity(self.rows.len());
        for (index, function) in self.functions.iter().enumerate() {
            let next = self.functions.get(index + 1).map_or(u64::MAX, |next| next.start);
            let rows = &self.rows[function.first..function.first + function.rows];
            for row in rows.iter().take_while(|row| address_of(**row) < next) {
                push(&mut sorted, *row);
            }
            match next.saturating_sub(function.end) {
                0 => {}
                // No code is in the padding between two functions, so it needs no row of its own.
                1..=PADDING_BYTES => {
                    if self.functions.get(index + 1).is_some_and(|next| self.may_begin(next)) {
                        push(&mut sorted, row(next - 1, Rule::Special(Special::Begun).code()));
                    }
                }
                _ => push(&mut sorted, row(function.end, NONE.code())),
            }
        }
        sorted.shrink_to_fit();
        sorted
    }
}

/// Whether this row's rule is a `Rule::FromRbx`.
fn is_from_rbx(row: u64) -> bool {
    (FROM_RBX..SPECIAL).contains(&rule_of(row))
}

/// The row with the place where RBX is saved.
fn with_saved_rbx(from: u64, saved: u32) -> u64 {
    let words = rule_of(from) & ((1 << RBX_WORDS_BITS) - 1);
    row(address_of(from), Rule::FromRbx { words, saved }.code())
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
    if rows.last().is_none_or(|last| rule_of(*last) != rule_of(row)) {
        rows.push(row);
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
