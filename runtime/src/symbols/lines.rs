//! Source lines and inlined functions of the code of one file.
//!
//! In: a file with DWARF, and addresses as in its headers. Out: their origins.
//! Guarantee: a damaged or malicious file yields wrong origins or none. Its sections, and what is
//! parsed of them, are within the budget of this process. Parsing takes a limited number of steps,
//! of the same order for one address as for all addresses of a file.

use std::fmt;
use std::io::{self, Read as _, Seek, SeekFrom};
use std::rc::Rc;

use addr2line::{Context, Frame};
use gimli::{DwarfSections, SectionId};
use profiler_model::value::{Inlined, Origin, Source};

use super::metered::{Meter, Metered, Section};
use super::units::Units;
use crate::host::bounded::Bounded;
use crate::host::budget::Reserved;
use crate::host::debug_sections::{DebugSections, Place};
use crate::host::demangle::{MAX_NAME_BYTES, readable};
use crate::host::inflate::inflate;

/// Limit of inlined functions at one address; the outermost ones beyond are left out.
const MAX_INLINED: usize = 64;
/// Steps of parsing until what was parsed is dropped, to be parsed again when it is needed. A step
/// is a read; it takes some nanoseconds. All units of glibc take 4.6 million steps and 10 MB.
const MAX_STEPS: u64 = 16 << 20;
/// How often a file is parsed until it has no lines any more.
const MAX_PARSES: u32 = 32;
/// Limit of the headers of a file.
const MAX_HEADER_BYTES: u64 = 16 << 20;

/// The debug information of a file.
pub struct Lines {
    sections: Vec<(SectionId, Rc<Section>)>,
    empty: Rc<Section>,
    meter: Rc<Meter>,
    units: Option<Units>,
    parses_left: u32,
    _reserved: Reserved,
}

/// The result of reading a file.
#[derive(Debug)]
pub enum Read {
    Lines(Box<Lines>),
    /// It has no debug information, or none that can be read.
    Nothing,
    /// There is not enough memory left for its debug information.
    Refused,
}

/// What an address belongs to.
#[derive(Debug, Default)]
pub struct Found {
    /// Its line, and the inlined functions.
    pub origin: Origin,
    /// Number of names that were truncated.
    pub cut_names: u64,
    /// Whether there was too little memory to find more.
    pub is_refused: bool,
}

impl Lines {
    /// Reads the sections of a file. Nothing is parsed yet.
    pub fn read<File: io::Read + Seek>(mut file: File) -> Read {
        let found = DebugSections::parse(&Bounded::new(&mut file, MAX_HEADER_BYTES));
        let Some(found) = found.filter(DebugSections::has_lines) else { return Read::Nothing };
        let all_bytes = found.places.iter().try_fold(0_u64, |sum, (_, place)| sum.checked_add(place.contents_bytes()));
        let all_bytes = all_bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let Some(reserved) = all_bytes.and_then(Reserved::new) else { return Read::Refused };
        let meter = Rc::new(Meter::default());
        let section = |bytes| Rc::new(Section { bytes, meter: Rc::clone(&meter), endian: found.endian });
        let mut sections = Vec::new();
        for (id, place) in &found.places {
            match contents(&mut file, *place) {
                Contents::Bytes(bytes) => sections.push((*id, section(bytes))),
                Contents::Damaged => return Read::Nothing,
                Contents::Refused => return Read::Refused,
            }
        }
        let empty = section(Vec::new());
        let parses_left = MAX_PARSES;
        Read::Lines(Box::new(Lines { sections, empty, meter, units: None, parses_left, _reserved: reserved }))
    }

    /// Memory use in bytes.
    pub fn size_bytes(&self) -> usize {
        let sections = self.sections.iter().map(|(_, section)| section.bytes.capacity());
        sections.sum::<usize>() + self.meter.parsed_bytes()
    }

    /// The origin of the instruction at an address.
    pub fn find(&mut self, address: u64) -> Found {
        self.meter.start_here();
        if self.units.is_none() {
            let Some(left) = self.parses_left.checked_sub(1) else { return Found::default() };
            self.parses_left = left;
            self.meter.fill(MAX_STEPS);
            self.units = self.parse();
        }
        let has_line = |found: &Found| found.origin.source.is_some();
        let look_up = |context: &Context<Metered>| lookup(context, address).filter(has_line);
        let found = self.units.as_mut().and_then(|units| units.find(address, look_up)).unwrap_or_default();
        // A context keeps its errors.
        if self.meter.is_empty() {
            self.units = None;
            self.meter.release();
            return Found { is_refused: self.meter.is_refused(), ..found };
        }
        found
    }

    /// Reads which units there are.
    fn parse(&self) -> Option<Units> {
        let section = |id: SectionId| {
            let found = self.sections.iter().find(|(other, _)| *other == id);
            Ok::<_, gimli::Error>(Metered::new(found.map_or(&self.empty, |(_, section)| section)))
        };
        DwarfSections::load(section).ok().map(Units::new)
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("size_bytes", &self.size_bytes()).finish_non_exhaustive()
    }
}

/// The contents of a section.
enum Contents {
    Bytes(Vec<u8>),
    Damaged,
    /// There is not enough memory left for its compressed bytes.
    Refused,
}

/// Reads a section, for whose contents memory is reserved.
fn contents<File: io::Read + Seek>(file: &mut File, place: Place) -> Contents {
    let packed = place.unpacked_bytes.map_or(0, |_| place.size_bytes);
    let Some(_packed) = usize::try_from(packed).ok().and_then(Reserved::new) else { return Contents::Refused };
    let read = || {
        file.seek(SeekFrom::Start(place.offset)).ok()?;
        let mut bytes = Vec::with_capacity(usize::try_from(place.size_bytes).ok()?);
        io::Read::take(file, place.size_bytes).read_to_end(&mut bytes).ok()?;
        let Some(unpacked_bytes) = place.unpacked_bytes else { return Some(bytes) };
        inflate(&bytes, usize::try_from(unpacked_bytes).ok()?)
    };
    read().map_or(Contents::Damaged, Contents::Bytes)
}

fn lookup(context: &Context<Metered>, address: u64) -> Option<Found> {
    // The information of a unit may be in a file of its own (`.dwo`), which is not read.
    let mut frames = context.find_frames(address).skip_all_loads().ok()?;
    let mut found = Found::default();
    let mut inner: Option<Frame<'_, Metered>> = None;
    // The last frame is the function itself, whose name is that of its symbol.
    while let Ok(Some(outer)) = frames.next() {
        if let Some(inlined) = inner.replace(outer).and_then(|frame| inlined(frame, &mut found.cut_names))
            && found.origin.inlined.len() < MAX_INLINED
        {
            found.origin.inlined.push(inlined);
        }
    }
    found.origin.source = inner.as_ref().and_then(source);
    Some(found)
}

/// An inlined function; `None` if its name is unknown.
fn inlined(frame: Frame<'_, Metered>, cut_names: &mut u64) -> Option<Inlined> {
    let source = source(&frame);
    let name = readable(frame.function?.name.bytes());
    *cut_names += u64::from(name.is_cut);
    Some(Inlined { name: name.text, source })
}

fn source(frame: &Frame<'_, Metered>) -> Option<Source> {
    let location = frame.location.as_ref()?;
    Some(Source { file: bounded(location.file?), line: location.line? })
}

/// A path, cut to the limit of names.
fn bounded(path: &str) -> String {
    let end = (0..=path.len().min(MAX_NAME_BYTES)).rev().find(|end| path.is_char_boundary(*end));
    path.get(..end.unwrap_or(0)).unwrap_or_default().to_owned()
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
