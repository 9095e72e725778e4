//! Symbols and debug information of mapped files.
//!
//! In: opened files and their paths. Out: their symbols, and the origins of their code.
//! Guarantee: each version of a file is read once while it is kept; what is kept is bounded, and
//! dropped for what is needed now. The full symbol table of a stripped file, and its debug
//! information, are those of its separate debug file.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use super::image::{Contents, Image, NamedAddress};
use super::line_cache::{FileKey, LineCache};
use super::lines::{Found, Lines, Read};
use super::packed::PackedSymbols;
use crate::host::bounded::{Bounded, InSteps, MAX_TABLE_BYTES, open_regular};
use crate::host::debug_files::{Program, Search, hex};
use crate::host::debug_sections::DebugSections;

/// Limit in bytes of cached symbols; above it the cache is emptied. The half million symbols of
/// rustc and LLVM take 7 MB.
const MAX_KEPT_BYTES: usize = 16 << 20;
/// Limit of cached files, some of which have an open debug file.
const MAX_FILES: usize = 512;

/// All files read so far.
#[derive(Debug)]
pub(super) struct Files {
    known: HashMap<FileKey, Rc<Known>>,
    kept_bytes: usize,
    lines: LineCache,
    search: Search,
    /// Files with more symbols than are read, since they were last taken.
    large: u64,
    /// Files without lines for lack of memory, since they were last taken.
    refused: u64,
}

/// What is known of a file.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub image: Image,
    /// In hexadecimal digits.
    pub build_id: Option<Arc<str>>,
    lines: Place,
}

/// Where the debug information of a file is.
#[derive(Debug, Default)]
enum Place {
    #[default]
    Nowhere,
    Inside,
    Separate(PathBuf),
}

/// An opened file whose symbols have been read.
#[derive(Debug, Clone)]
pub(super) struct ReadFile {
    pub known: Rc<Known>,
    pub key: FileKey,
    contents: Contents,
}

impl ReadFile {
    /// Bytes in memory, which have no separate debug file.
    pub(super) fn of_bytes(bytes: &[u8]) -> ReadFile {
        let known = Known { image: Image::parse(bytes), ..Known::default() };
        ReadFile { known: Rc::new(known), key: FileKey::default(), contents: Contents::Bytes(bytes.into()) }
    }

    /// The symbol at an offset of the file.
    pub(super) fn symbol(&self, offset: u64) -> Option<NamedAddress<'static>> {
        self.known.image.find(offset, &self.contents)
    }
}

impl Files {
    /// Nothing is read yet.
    pub(super) fn new() -> Files {
        Files {
            known: HashMap::new(),
            kept_bytes: 0,
            lines: LineCache::default(),
            search: Search::new(),
            large: 0,
            refused: 0,
        }
    }

    /// The number of files that have no lines for lack of memory; each is returned once.
    pub(super) fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }

    /// The number of files with more symbols than are read; each is returned once.
    pub(super) fn take_large(&mut self) -> u64 {
        std::mem::take(&mut self.large)
    }

    /// Reads the symbols of a file.
    pub(super) fn read(&mut self, file: File, program: Program<'_>) -> ReadFile {
        let key = file.metadata().map(|meta| (meta.dev(), meta.ino(), meta.len(), (meta.mtime(), meta.mtime_nsec())));
        let key = key.unwrap_or_default();
        let known = match self.known.get(&key) {
            Some(known) => Rc::clone(known),
            None => {
                let mut known = self.parse(&file, program);
                if known.image.is_too_large {
                    // There may be enough memory without what is kept.
                    self.clear();
                    self.lines.clear();
                    known = self.parse(&file, program);
                }
                self.large += u64::from(known.image.is_too_large);
                self.keep(key, known)
            }
        };
        ReadFile { known, key, contents: Contents::File(Arc::new(file)) }
    }

    /// The origin of what is at an offset of a file.
    pub(super) fn origin(&mut self, read: &ReadFile, offset: u64) -> Found {
        let Some(address) = read.known.image.address_of(offset) else { return Found::default() };
        let file = || match (&read.known.lines, &read.contents) {
            (Place::Inside, Contents::File(file)) => file.try_clone().ok(),
            (Place::Separate(path), _) => open_regular(path).ok(),
            _ => None,
        };
        if let Place::Nowhere = read.known.lines {
            return Found::default();
        }
        let lines = || file().map_or(Read::Nothing, |file| Lines::read(InSteps(file)));
        let found = self.lines.find(read.key, address, lines);
        self.refused += u64::from(found.is_refused);
        found
    }

    fn parse(&self, file: &File, program: Program<'_>) -> Known {
        let Some(bytes) = file.try_clone().ok().map(bounded) else { return Known::default() };
        let mut image = Image::parse(&bytes);
        let Some(sections) = DebugSections::parse(&bytes) else { return Known { image, ..Known::default() } };
        let build_id = (!sections.build_id.is_empty()).then(|| hex(&sections.build_id).into());
        if sections.has_lines() {
            return Known { image, build_id, lines: Place::Inside };
        }
        let Some((path, found)) = self.search.find(program, &sections) else {
            image.add_packed(packed(file, &sections));
            return Known { image, build_id, lines: Place::Nowhere };
        };
        if found.has_symbols
            && !sections.has_symbols
            && let Ok(file) = open_regular(&path).map(Arc::new)
            && let Ok(read) = file.try_clone()
        {
            image.add_symbols_of(Image::parse(&bounded(read)), &file);
        } else {
            image.add_packed(packed(file, &sections));
        }
        let lines = if found.has_lines() { Place::Separate(path) } else { Place::Nowhere };
        Known { image, build_id, lines }
    }

    /// Adds a file to the cache, which is emptied first if it is full.
    fn keep(&mut self, key: FileKey, known: Known) -> Rc<Known> {
        let size_bytes = known.image.size_bytes();
        if self.kept_bytes + size_bytes > MAX_KEPT_BYTES || self.known.len() >= MAX_FILES {
            self.clear();
        }
        self.kept_bytes += size_bytes;
        let known = Rc::new(known);
        self.known.insert(key, Rc::clone(&known));
        known
    }

    fn clear(&mut self) {
        self.known.clear();
        self.kept_bytes = 0;
    }
}

/// The symbols that are compressed in a file, if it has no full symbol table.
fn packed(file: &File, sections: &DebugSections) -> Option<PackedSymbols> {
    let place = sections.packed_symbols.filter(|_| !sections.has_symbols)?;
    PackedSymbols::new(file.try_clone().ok()?, place)
}

fn bounded(file: File) -> Bounded<InSteps> {
    Bounded::new(InSteps(file), MAX_TABLE_BYTES)
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
