//! Functions and their types from the debug information (DWARF) of programs.
//!
//! In: a program or library, and offsets of functions in it. Out: their parameters with types and
//! places, and the types of their results.
//! Guarantee: arbitrary bytes give an answer in bounded time and memory. What is not certain to be
//! right is an error or an unreadable parameter, never a guess.
//!
//! `file` finds and reads the file that has the information, `entries` walks its entries,
//! `function` describes a function, `location` and `calls` tell where its parameters are, and
//! `types` converts types.

mod calls;
mod entries;
mod file;
mod function;
mod location;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use profiler_compiler::btf::Added;
use profiler_compiler::target::{Arch, ProgramFunction};

use entries::{Entries, Index};
use file::File;
use types::Types;

/// The debug information of a file. Everything but its sections is read when it is needed.
#[derive(Debug)]
pub struct DebugInformation {
    file: File,
    arch: Arch,
    index: Mutex<Index>,
}

/// A function to describe.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Offset of its first byte in the file.
    pub file_offset: u64,
    /// Whether the compiler made it from another function, whose calling convention it need not
    /// have: `parse.constprop.0`.
    pub is_clone: bool,
}

impl DebugInformation {
    /// The debug information of the file at this path, or of the separate file that belongs to it.
    ///
    /// # Errors
    /// Why there is none, as a sentence.
    pub fn of(path: &Path, arch: Arch) -> Result<DebugInformation, String> {
        Ok(DebugInformation { file: File::find(path, arch)?, arch, index: Mutex::default() })
    }

    /// The debug information in these bytes of a file.
    ///
    /// # Errors
    /// Why there is none, as a sentence.
    pub fn parse(bytes: &[u8], arch: Arch) -> Result<DebugInformation, String> {
        Ok(DebugInformation { file: File::parse(bytes, arch)?, arch, index: Mutex::default() })
    }

    /// Describes functions; their types are added to `types`. An error is the reason why a function
    /// has no description, as a sentence.
    pub fn describe(&self, wanted: &[Wanted], types: &mut Added) -> Vec<Result<ProgramFunction, String>> {
        let dwarf = self.file.dwarf();
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = Entries::new(&dwarf, &mut index);
        let mut types = Types::new(&entries, types);
        let mut found: BTreeMap<u64, Result<ProgramFunction, String>> = BTreeMap::new();
        for function in wanted {
            let describe = || self.function(&entries, *function, &mut types);
            found.entry(function.file_offset).or_insert_with(describe);
        }
        types.finish();
        let unread = || Err("its debug information is damaged, or larger than this program reads".to_owned());
        let is_cut = entries.is_exhausted();
        wanted
            .iter()
            .map(
                |function| {
                    if is_cut { unread() } else { found.get(&function.file_offset).cloned().unwrap_or_else(unread) }
                },
            )
            .collect()
    }

    fn function(
        &self,
        entries: &Entries<'_, '_>,
        wanted: Wanted,
        types: &mut Types<'_, '_, '_>,
    ) -> Result<ProgramFunction, String> {
        let address = self.file.address_of(wanted.file_offset);
        let address = address.ok_or_else(|| "this place in the file is not code".to_owned())?;
        let at = entries.function_at(address)?;
        function::describe(entries, (at, address), wanted.is_clone, self.arch, types)
    }
}

/// Descriptions, cached by path.
#[derive(Debug, Default)]
pub(super) struct Cache {
    files: Mutex<BTreeMap<String, Result<Arc<DebugInformation>, String>>>,
}

impl Cache {
    /// The debug information of a file, read once.
    pub(super) fn get(&self, path: &str, arch: Arch) -> Result<Arc<DebugInformation>, String> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || DebugInformation::of(Path::new(path), arch).map(Arc::new);
        files.entry(path.to_owned()).or_insert_with(read).clone()
    }
}
