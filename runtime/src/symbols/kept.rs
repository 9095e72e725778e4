//! Files in which stacks were taken, kept open until their names have been printed.
//!
//! In: the files of processes that need unwind tables. Out: the same files, when their processes
//! have ended and no path leads to them any more.
//! Guarantee: a bounded number of descriptors. A kept file cannot be mistaken for another one:
//! while it is open, its inode number is not used again.

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Mutex, PoisonError};

use profiler_model::value::FileId;

/// Limit of kept files: a quarter of the descriptors that a process usually may have.
const MAX_FILES: usize = 256;

/// The kept files by device and inode.
#[derive(Debug, Default)]
pub(crate) struct KeptFiles(Mutex<HashMap<FileId, File>>);

impl KeptFiles {
    /// Another descriptor of a kept file.
    pub(super) fn get(&self, id: FileId) -> Option<File> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id)?.try_clone().ok()
    }

    /// Keeps a file that a process has mapped, within limits.
    pub(crate) fn keep(&self, id: FileId, file: &File) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX_FILES && !kept.contains_key(&id) {
            // Without a free descriptor, its functions have no names once its processes have ended.
            kept.extend(file.try_clone().ok().map(|file| (id, file)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_bounded_number_of_files_is_kept() {
        let kept = KeptFiles::default();
        let file = File::open("/proc/self/exe").expect("this program");
        let id = |inode| FileId { device: 1, inode };
        for inode in 0..2 * MAX_FILES as u64 {
            kept.keep(id(inode), &file);
        }
        let inode = |file: &File| file.metadata().expect("it is open").ino();
        assert_eq!(kept.get(id(MAX_FILES as u64 - 1)).as_ref().map(inode), Some(inode(&file)));
        assert!(kept.get(id(MAX_FILES as u64)).is_none());
    }
}
