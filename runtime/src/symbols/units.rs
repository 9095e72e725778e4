//! The units of debug information of one file.
//!
//! In: its sections, and addresses. Out: what addr2line knows of an address.
//! Guarantee: where the file says which unit an address belongs to (`.debug_aranges`), only that
//! unit is parsed, as long as it refers to no other one; else the headers of all units are: the
//! 2,174 of glibc took 16 MB.

use std::cell::OnceCell;

use addr2line::Context;
use gimli::{
    DebugAranges, DebugInfo, DebugInfoOffset, DwarfSections, Reader as _, Section as _, UnitHeader, constants,
};

use super::metered::Metered;

/// Units that are kept, the ones used last.
const MAX_UNITS: usize = 32;

/// What was parsed of a file.
pub(super) struct Units {
    sections: DwarfSections<Metered>,
    /// First address, address after the last one, and offset of the unit; by address.
    ranges: Vec<(u64, u64, usize)>,
    /// By offset; `None` for a unit that cannot be parsed alone. The one used last is the last.
    alone: Vec<(usize, Option<Context<Metered>>)>,
    /// `None` inside if they cannot be parsed.
    all: OnceCell<Option<Context<Metered>>>,
}

impl Units {
    /// Reads which unit addresses belong to.
    pub(super) fn new(sections: DwarfSections<Metered>) -> Units {
        let mut ranges = ranges(&sections.debug_aranges).unwrap_or_default();
        ranges.sort_unstable();
        Units { sections, ranges, alone: Vec::new(), all: OnceCell::new() }
    }

    /// What is found in the unit of an address, or if that is nothing, in all units.
    pub(super) fn find<T>(&mut self, address: u64, look_up: impl Fn(&Context<Metered>) -> Option<T>) -> Option<T> {
        let after = self.ranges.partition_point(|(start, ..)| *start <= address);
        let range = after.checked_sub(1).and_then(|at| self.ranges.get(at)).filter(|(_, end, _)| address < *end);
        let found = range.map(|range| range.2).and_then(|unit| self.alone(unit)).and_then(&look_up);
        let all = || Context::from_dwarf(self.sections.borrow(Clone::clone)).ok();
        found.or_else(|| self.all.get_or_init(all).as_ref().and_then(look_up))
    }

    #[cfg(test)]
    pub(super) fn has_parsed_all(&self) -> bool {
        self.all.get().is_some()
    }

    /// The context of one unit.
    fn alone(&mut self, unit: usize) -> Option<&Context<Metered>> {
        match self.alone.iter().position(|(other, _)| *other == unit) {
            Some(at) => self.alone[at..].rotate_left(1),
            None => {
                if self.alone.len() == MAX_UNITS {
                    self.alone.remove(0);
                }
                self.alone.push((unit, self.parse(unit)));
            }
        }
        self.alone.last()?.1.as_ref()
    }

    fn parse(&self, unit: usize) -> Option<Context<Metered>> {
        let header = self.sections.debug_info.header_from_offset(DebugInfoOffset(unit)).ok()?;
        if self.refers_to_others(&header)? {
            return None;
        }
        let mut bytes = self.sections.debug_info.reader().clone();
        bytes.skip(unit).ok()?;
        bytes.truncate(header.length_including_self()).ok()?;
        // Offsets of units in `.debug_aranges` are those in the whole section.
        let mut ranges = self.sections.debug_aranges.reader().clone();
        ranges.empty();
        let mut dwarf = self.sections.borrow(Clone::clone);
        (dwarf.debug_info, dwarf.debug_aranges) = (DebugInfo::from(bytes), DebugAranges::from(ranges));
        Context::from_dwarf(dwarf).ok()
    }

    /// Whether a unit has references by offset in the whole section.
    fn refers_to_others(&self, header: &UnitHeader<Metered>) -> Option<bool> {
        let abbreviations = header.abbreviations(&self.sections.debug_abbrev).ok()?;
        let is_reference = |form| {
            matches!(form, constants::DW_FORM_ref_addr | constants::DW_FORM_GNU_ref_alt | constants::DW_FORM_ref_sup4)
        };
        // Compilers number them from 1.
        let mut all = (1..).map_while(|code| abbreviations.get(code));
        Some(all.any(|it| it.attributes().iter().any(|attribute| is_reference(attribute.form()))))
    }
}

fn ranges(section: &DebugAranges<Metered>) -> gimli::Result<Vec<(u64, u64, usize)>> {
    let (mut ranges, mut headers) = (Vec::new(), section.headers());
    while let Some(header) = headers.next()? {
        let mut entries = header.entries();
        while let Some(entry) = entries.next()? {
            let (start, size_bytes) = (entry.address(), entry.length());
            ranges.push((start, start.saturating_add(size_bytes), header.debug_info_offset().0));
        }
    }
    Ok(ranges)
}
