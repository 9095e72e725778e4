//! Functions, types and source lines from the debug information (DWARF) of programs.
//!
//! In: a program or library, and questions about it. Out: parameters with types and places, types
//! by name, the code of lines.
//! Guarantee: arbitrary bytes give an answer in bounded time and memory. What is not certain to be
//! right is an error or an unreadable parameter, never a guess.
//!
//! `file` finds and reads the file that has the information, `entries` walks its entries, and
//! `types` converts types. `function` describes a function at its entry, where `location` and
//! `calls` tell where its parameters are; `instruction` describes it at another instruction, and
//! `frames` tells where its frame begins. `code` finds the function that contains an address,
//! `lines` the code of a source line, and `names` types and variables.

mod calls;
mod code;
mod entries;
mod file;
mod frames;
mod function;
mod instruction;
mod lines;
mod location;
mod names;
mod ranges;
#[cfg(test)]
mod tests;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use profiler_compiler::btf::Added;
use profiler_compiler::target::{
    Arch, LineSite, ProgramAnswers, ProgramFunction, ProgramInstruction, ProgramQuestions, TargetError,
};

use entries::{Entries, Index};
use file::File;
use instruction::Instruction;
use types::Types;

/// Why a question has no answer after the limit of reading.
const EXHAUSTED: &str = "its debug information is damaged, or larger than this program reads";

/// The debug information of a file. Everything but its sections is read when it is needed.
#[derive(Debug)]
pub struct DebugInformation {
    file: File,
    arch: Arch,
    index: Mutex<Index>,
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

    /// Answers questions; the types of what is described are added. `clones` has the offsets of
    /// functions that the compiler made from others, whose calling convention they need not have:
    /// `parse.constprop.0`.
    pub fn describe(&self, questions: &ProgramQuestions, clones: &BTreeSet<u64>, added: &mut Added) -> ProgramAnswers {
        let dwarf = self.file.dwarf();
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = Entries::new(&dwarf, &mut index);
        let mut types = Types::new(&entries, added, questions.names_only);
        let mut answers = ProgramAnswers::default();
        for offset in &questions.functions {
            let function = self.function(&entries, *offset, clones.contains(offset), &mut types);
            answers.functions.insert(*offset, function);
        }
        for wanted in &questions.instructions {
            let function = self.instruction(&entries, *wanted, clones, &mut types);
            answers.instructions.insert(*wanted, function);
        }
        let address = |site: Option<u64>| site.and_then(|offset| self.file.address_of(offset));
        let wanted: Vec<_> = questions.types.iter().map(|ty| (ty, address(ty.site))).collect();
        answers.types = names::types(&entries, &wanted, &mut types);
        answers.variables = names::variables(&entries, &questions.variables, &mut types);
        types.finish();
        if entries.is_exhausted() { ProgramAnswers::refused(questions, EXHAUSTED) } else { answers }
    }

    /// The code of a line of a source file, given by the end of its path.
    ///
    /// # Errors
    /// The line has no code, or the name is that of no file or of several.
    pub fn line_sites(&self, file: &str, line: u64) -> Result<Vec<LineSite>, TargetError> {
        let dwarf = self.file.dwarf();
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = Entries::new(&dwarf, &mut index);
        let places = lines::places(&entries, file, line);
        if entries.is_exhausted() {
            return Err(TargetError::Invalid(EXHAUSTED.into()));
        }
        let site = |place: lines::Place| {
            let file_offset = self.file.offset_of(place.address)?;
            Some(LineSite {
                function: place.function,
                at: ProgramInstruction { file_offset, scope: place.scope.0 as u64 },
            })
        };
        let sites: Vec<LineSite> = places?.into_iter().filter_map(site).collect();
        if sites.is_empty() {
            return Err(TargetError::Invalid("the code of this line is not in the file".into()));
        }
        Ok(sites)
    }

    /// The names of source files with code, without directories, that start like this.
    pub fn files_beginning(&self, beginning: &str) -> BTreeSet<String> {
        self.in_line_tables(|entries| lines::files_beginning(entries, beginning))
    }

    /// The lines of a source file that have code; none if several files have this name.
    pub fn lines(&self, file: &str) -> BTreeSet<u64> {
        self.in_line_tables(|entries| lines::lines(entries, file))
    }

    /// What is found before the limit of reading.
    fn in_line_tables<T>(&self, find: impl FnOnce(&Entries<'_, '_>) -> T) -> T {
        let dwarf = self.file.dwarf();
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        find(&Entries::new(&dwarf, &mut index))
    }

    fn function(
        &self,
        entries: &Entries<'_, '_>,
        file_offset: u64,
        is_clone: bool,
        types: &mut Types<'_, '_, '_>,
    ) -> Result<ProgramFunction, String> {
        let address = self.address_of(file_offset)?;
        let at = entries.function_at(address)?;
        function::describe(entries, (at, address), is_clone, self.arch, types)
    }

    fn instruction(
        &self,
        entries: &Entries<'_, '_>,
        ProgramInstruction { file_offset, scope }: ProgramInstruction,
        clones: &BTreeSet<u64>,
        types: &mut Types<'_, '_, '_>,
    ) -> Result<ProgramFunction, String> {
        let address = self.address_of(file_offset)?;
        let scopes = code::at_address(entries, address);
        let scope = scopes.iter().find(|known| known.at.0 as u64 == scope);
        let (Some(function), Some(scope)) = (scopes.first(), scope) else {
            return Err("the debug information does not describe the function with this line".into());
        };
        let (function, scope) = (function.at, scope.at);
        // Before its first instruction, a function has its parameters where its caller put them.
        if function == scope && entries.function_at(address) == Ok(function) {
            return function::describe(entries, (function, address), clones.contains(&file_offset), self.arch, types);
        }
        let at = Instruction { function, scope, address, arch: self.arch };
        instruction::describe(entries, self.file.frames(), at, types)
    }

    fn address_of(&self, file_offset: u64) -> Result<u64, String> {
        self.file.address_of(file_offset).ok_or_else(|| "this place in the file is not code".to_owned())
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
