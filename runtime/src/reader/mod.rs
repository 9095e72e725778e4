//! Reads the files of traced processes, in a process of its own.
//!
//! In: questions for names of addresses, and for unwind tables. Out: answers, or `None`.
//! Guarantee: whoever asks waits for a bounded time. What reads has no descriptor of a program, a
//! link or a map, and may only read: a file system that does not answer holds that process, and
//! neither this one nor what this one has attached. A file that breaks the reading process costs
//! its answer, and the next question goes to a new process.
//!
//! Files of traced processes are on file systems of others (FUSE, NFS), and others write what is in
//! them. A thread that waits for such a file system cannot be killed, and while it exists its
//! process keeps its descriptors open: programs would stay attached after a SIGKILL.

mod asking;
mod child;
mod pace;
pub mod serve;
mod wire;

use std::sync::Arc;

pub(crate) use asking::{Asking, Channel, Work};
use child::Children;
pub use child::NAME;

/// Where files are read. Clones share one process.
#[derive(Debug, Clone, Default)]
pub struct Reader(Option<Arc<Children>>);

impl Reader {
    /// In this process: waiting and failures are the caller's.
    pub fn here() -> Reader {
        Reader(None)
    }

    /// In a process that runs this program again under the name [`NAME`], for which it must
    /// call [`serve::serve`]. Nothing is started before the first question.
    pub fn apart() -> Reader {
        Reader(Some(Arc::default()))
    }
}
