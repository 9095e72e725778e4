//! What tab completion asks of the machine, in the milliseconds that it has.
//!
//! In: a file and the beginning of a name. Out: names of functions, source files and lines that
//! start like this.
//! Guarantee: names of functions are read without whole symbol tables, and again after their file
//! has changed. A file that cannot be read has no names.

use super::{Host, library, symbol_prefixes};
use profiler_compiler::target::Target as _;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, PoisonError};

/// The names on a machine that can be completed.
#[derive(Clone, Copy, Debug)]
pub struct Completion<'h>(pub(super) &'h Host);

impl Completion<'_> {
    /// The function symbols of a file that start with this prefix, sorted. If there are more than
    /// `most`, the first ones and the last.
    pub fn symbols(self, path: &str, beginning: &str, most: usize) -> Vec<String> {
        self.names_in(path).map_or_else(Vec::new, |names| names.symbols(beginning, most))
    }

    /// C++ and Rust names of functions with this prefix, up to the end of the component being
    /// typed.
    pub fn source_names(self, path: &str, beginning: &str, most: usize) -> Vec<symbol_prefixes::Part> {
        self.names_in(path).map_or_else(Vec::new, |names| names.source_names(beginning, most))
    }

    /// The names of a program's source files that start like this, and have code.
    pub fn source_files(self, path: &str, beginning: &str) -> BTreeSet<String> {
        let found = self.0.debug_information.get(path, self.0.arch());
        found.map_or_else(|_| BTreeSet::new(), |information| information.files_beginning(beginning))
    }

    /// The lines of a source file of a program that have code.
    pub fn source_lines(self, path: &str, file: &str) -> BTreeSet<u64> {
        let found = self.0.debug_information.get(path, self.0.arch());
        found.map_or_else(|_| BTreeSet::new(), |information| information.lines(file))
    }

    /// The short names of installed libraries, such as `libc`.
    pub fn libraries(self) -> Vec<String> {
        library::names(&library::Root::own())
    }

    /// The names in a file, read again after the file has changed.
    fn names_in(self, path: &str) -> Option<Arc<symbol_prefixes::Names>> {
        let path = Path::new(path);
        let changed = path.metadata().and_then(|meta| meta.modified()).ok();
        let known = self.0.names.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        if let Some(names) = known.filter(|names| names.changed == changed) {
            return Some(names);
        }
        let names = Arc::new(symbol_prefixes::Names::read(path)?);
        self.0.names.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), Arc::clone(&names));
        Some(names)
    }
}
