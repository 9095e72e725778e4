//! The files that processes have mapped lately, for those that end before anything looks at them.
//!
//! In: the kernel's records of mappings of code. Out: the files of a process.
//! Guarantee: at most [`MAX_MAPPINGS`] of them are kept, the last ones, and a file is named at most
//! once in [`PAUSE`]: thousands of processes of one program cost one reading of its files.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use profiler_model::value::FileId;

use crate::symbols::processes::Mapped;

/// Requests come some milliseconds after a program starts, which maps about five files.
const MAX_MAPPINGS: usize = 1024;
/// Time until a file is named again: its contents may have changed.
const PAUSE: Duration = Duration::from_millis(200);

/// The last mappings, oldest first.
#[derive(Debug, Default)]
pub(super) struct Recent {
    mappings: VecDeque<(u32, FileId, PathBuf)>,
    named: HashMap<FileId, Instant>,
}

impl Recent {
    /// Adds a record of a process.
    pub(super) fn add(&mut self, pid: u32, record: &[u8]) {
        let Some(Mapped { file, path, .. }) = Mapped::of(record).filter(|mapped| mapped.path.starts_with('/')) else {
            return;
        };
        if self.mappings.len() == MAX_MAPPINGS {
            self.mappings.pop_front();
        }
        self.mappings.push_back((pid, file, path.into()));
    }

    /// The files of a process that have not been named lately.
    pub(super) fn take(&mut self, pid: u32) -> Vec<(FileId, PathBuf)> {
        let now = Instant::now();
        self.named.retain(|_, at| now.duration_since(*at) < PAUSE);
        let (of_process, others) = self.mappings.drain(..).partition(|mapping| mapping.0 == pid);
        self.mappings = others;
        let of_process: VecDeque<(u32, FileId, PathBuf)> = of_process;
        let new = of_process.into_iter().filter(|(_, file, _)| self.named.insert(*file, now).is_none());
        new.map(|(_, file, path)| (file, path)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(inode: u64, path: &str) -> Vec<u8> {
        let mut record = vec![0; 72];
        record[48..56].copy_from_slice(&inode.to_ne_bytes());
        [&record, path.as_bytes(), &[0; 16]].concat()
    }

    #[test]
    fn a_file_is_named_once_for_all_processes() {
        let mut recent = Recent::default();
        for pid in [1, 2] {
            recent.add(pid, &record(7, "/bin/a"));
            recent.add(pid, &record(7, "/bin/a"));
            recent.add(pid, &record(0, "[vdso]"));
        }
        recent.add(2, &record(8, "/bin/b"));
        let file = |inode| FileId { device: 0, inode };
        assert_eq!(recent.take(1), [(file(7), PathBuf::from("/bin/a"))]);
        assert_eq!(recent.take(2), [(file(8), PathBuf::from("/bin/b"))]);
        assert_eq!(recent.take(2), []);
        recent.named.clear();
        recent.add(3, &record(7, "/bin/a"));
        assert_eq!(recent.take(3).len(), 1, "later");
    }

    #[test]
    fn the_last_mappings_are_kept() {
        let mut recent = Recent::default();
        (0..=MAX_MAPPINGS as u64).for_each(|inode| recent.add(inode as u32, &record(inode, "/bin/a")));
        assert_eq!(recent.take(0), []);
        assert_eq!((recent.take(1).len(), recent.take(MAX_MAPPINGS as u32).len()), (1, 1));
    }
}
