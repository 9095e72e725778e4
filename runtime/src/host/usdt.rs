//! Static probes (USDT) of ELF files.
//!
//! In: an executable or shared library. Out: its probes with their file offsets.
//! Guarantee: addresses of the notes are corrected if the file was relocated after linking
//! (prelink, split debug files); a site outside all code segments is skipped.

use super::bounded::{Bounded, MAX_TABLE_BYTES, open_regular};
use super::{NEAR_NAMES, io_error};
use object::elf::PF_X;
use object::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, SegmentFlags};
use profiler_compiler::target::{Arch, StaticProbe, StaticSite, TargetError};
use profiler_compiler::usdt::{self, Argument, ArgumentLocation, Note};
use profiler_compiler::{glob, similar};
use std::collections::BTreeMap;
use std::path::Path;

const NOTES: &str = ".note.stapsdt";

const BASE: &str = ".stapsdt.base";

/// All static probes of a file, sorted; empty if it has none.
pub(super) fn read(path: &Path, arch: Arch) -> Result<Vec<StaticProbe>, TargetError> {
    let file = open_regular(path).map_err(|error| io_error(path, &error))?;
    let cache = Bounded::new(file, MAX_TABLE_BYTES);
    let invalid = |error: object::Error| TargetError::Invalid(format!("{}: {error}", path.display()));
    let file = object::File::parse(&cache).map_err(invalid)?;
    let Some(section) = file.section_by_name(NOTES) else { return Ok(Vec::new()) };
    let bytes = section.uncompressed_data().map_err(invalid)?;
    let address_bytes = if file.is_64() { 8 } else { 4 };
    let mut probes: BTreeMap<(String, String), Vec<StaticSite>> = BTreeMap::new();
    let base = file.section_by_name(BASE).map(|section| section.address());
    for mut note in usdt::notes(&bytes, address_bytes) {
        correct(&mut note, base);
        let Some(file_offset) = offset(&file, note.address, true) else { continue };
        let semaphore_offset = if note.semaphore == 0 { Some(0) } else { offset(&file, note.semaphore, false) };
        let Some(semaphore_offset) = semaphore_offset else { continue };
        let mut arguments = usdt::arguments(&note.arguments, arch);
        resolve(&mut arguments, &file, note.address);
        let sites = probes.entry((note.provider, note.name)).or_default();
        sites.push(StaticSite { file_offset, semaphore_offset, arguments });
    }
    Ok(probes.into_iter().map(|((provider, name), sites)| StaticProbe { provider, name, sites }).collect())
}

/// The probes that match two patterns.
pub(super) fn choose(all: &[StaticProbe], provider: &str, name: &str) -> Result<Vec<StaticProbe>, TargetError> {
    let matches = |probe: &&StaticProbe| {
        (probe.provider == provider || glob::matches(provider, &probe.provider))
            && (probe.name == name || glob::matches(name, &probe.name))
    };
    let found: Vec<StaticProbe> = all.iter().filter(matches).cloned().collect();
    if found.is_empty() {
        let names = all.iter().map(|probe| probe.name.as_str());
        let near = if glob::is_pattern(name) { Vec::new() } else { similar::nearest(name, names, NEAR_NAMES) };
        return Err(TargetError::Missing { near });
    }
    Ok(found)
}

/// Adds the distance by which the file was relocated after the note was written.
fn correct(note: &mut Note, base: Option<u64>) {
    let Some(base) = base.filter(|_| note.base != 0) else { return };
    let moved = base.wrapping_sub(note.base);
    note.address = note.address.wrapping_add(moved);
    if note.semaphore != 0 {
        note.semaphore = note.semaphore.wrapping_add(moved);
    }
}

/// The file offset of an address; with `is_code`, only in an executable segment.
fn offset<'data>(file: &impl object::Object<'data>, address: u64, is_code: bool) -> Option<u64> {
    let may_run = |flags| matches!(flags, SegmentFlags::Elf { p_flags } if p_flags & PF_X != 0);
    file.segments().filter(|segment| !is_code || may_run(segment.flags())).find_map(|segment| {
        let within = address.checked_sub(segment.address())?;
        let (start, size_bytes) = segment.file_range();
        (within < size_bytes).then(|| start.checked_add(within))?
    })
}

/// Resolves the variables that arguments refer to.
fn resolve<'data>(arguments: &mut [Argument], file: &impl object::Object<'data>, site: u64) {
    for argument in arguments {
        if matches!(&argument.place, ArgumentLocation::Memory(address) if address.symbol.is_some()) {
            argument.resolve(|name| {
                let mut symbols = file.symbols().chain(file.dynamic_symbols());
                let mut named = symbols.by_ref().filter(|symbol| symbol.is_definition() && symbol.name() == Ok(name));
                let address = named.next()?.address();
                // A local name can occur in several source files: then it is ambiguous which one
                // the note means.
                named.all(|symbol| symbol.address() == address).then(|| address.wrapping_sub(site).cast_signed())
            });
        }
    }
}
