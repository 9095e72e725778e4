//! Bounded reading of files that other users may control.
//!
//! In: a path, and a limit in bytes. Out: a regular file, or a reader of it for the `object` crate.
//! Guarantee: opening a FIFO, a socket, a device or a file of procfs, sysfs, tracefs and the like
//! fails without blocking and without side effects. A reader never reads more bytes than its limit,
//! however large the file claims to be, nor more than the budget (`host/budget.rs`) of this process
//! allows, and it reads in steps, so that the kernel's account of reads shows that it gets on.

use std::cell::{Cell, RefCell};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::rc::Rc;

use object::read::{ReadCache, ReadRef};

use super::budget::Reserved;
use crate::sys::file_system::is_of_the_kernel;

/// Limit in bytes of headers and tables read from one file: twice the size in the largest known
/// programs.
pub const MAX_TABLE_BYTES: u64 = 256 << 20;

/// Limit of symbols in one table.
pub const MAX_SYMBOLS: usize = 4 << 20;

/// What the cache takes for a string besides its bytes.
const ENTRY_BYTES: u64 = 64;

/// Bytes per step.
const STEP_BYTES: usize = 1 << 20;

/// Opens a regular file, following symbolic links.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open(path, 0, false)
}

/// Opens a regular file whose last path component is not a symbolic link.
pub fn open_regular_no_link(path: &Path) -> io::Result<File> {
    open(path, libc::O_NOFOLLOW, false)
}

/// As `open_regular`, but also a file of procfs and the like, for a script that names it. Some of
/// them block until there is data, unless they are opened so as not to.
pub fn open_of_any_system(path: &Path) -> io::Result<File> {
    open(path, 0, true)
}

/// `O_PATH` opens nothing, so the type of the file can be checked first; the second step opens the
/// same file.
fn open(path: &Path, flags: i32, of_the_kernel: bool) -> io::Result<File> {
    let found = OpenOptions::new().read(true).custom_flags(libc::O_PATH | flags).open(path)?;
    let kind = found.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if !kind.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if !of_the_kernel && is_of_the_kernel(&found)? {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file on a disk, but an answer of the kernel"));
    }
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// A file that is read a megabyte at a time: the kernel counts a read when it has ended, which
/// tells a slow reader from a stuck one.
#[derive(Debug)]
pub struct InSteps(pub File);

impl Read for InSteps {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = into.len().min(STEP_BYTES);
        self.0.read(&mut into[..length])
    }
}

impl Seek for InSteps {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

/// A file with a limit on the bytes read.
#[derive(Debug)]
pub struct Bounded<R: Read + Seek> {
    cache: ReadCache<Shared<R>>,
    file: Shared<R>,
    left_bytes: Cell<u64>,
    /// For the cache, which keeps everything that is read.
    reserved: RefCell<Reserved>,
}

/// A file that is read through the cache and past it.
#[derive(Debug)]
struct Shared<R>(Rc<RefCell<R>>);

/// Bytes of which a part can be copied, without another copy in a cache.
pub trait Copied {
    /// This many bytes from an offset on; `None` if they are not all there, or exceed a limit.
    /// Their memory is for the caller to reserve.
    fn copied(self, offset: u64, size_bytes: u64) -> Option<Vec<u8>>;
}

impl Copied for &[u8] {
    fn copied(self, offset: u64, size_bytes: u64) -> Option<Vec<u8>> {
        let start = usize::try_from(offset).ok()?;
        Some(self.get(start..)?.get(..usize::try_from(size_bytes).ok()?)?.to_vec())
    }
}

impl<R: Read + Seek> Copied for &Bounded<R> {
    fn copied(self, offset: u64, size_bytes: u64) -> Option<Vec<u8>> {
        // A file that claims more than it has must not cost that much memory.
        let end = offset.checked_add(size_bytes)?;
        if end > ReadRef::len(self).ok()? || !self.may_read(size_bytes) {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(size_bytes).ok()?];
        let mut file = self.file.0.borrow_mut();
        file.seek(SeekFrom::Start(offset)).ok()?;
        file.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }
}

impl<R: Read + Seek> Bounded<R> {
    /// Reads from `file` at most `most_bytes`.
    pub fn new(file: R, most_bytes: u64) -> Bounded<R> {
        let file = Rc::new(RefCell::new(file));
        Bounded {
            cache: ReadCache::new(Shared(Rc::clone(&file))),
            file: Shared(file),
            left_bytes: Cell::new(most_bytes),
            reserved: RefCell::default(),
        }
    }

    /// Whether this many more bytes are within the limit, which is lowered by them.
    fn may_read(&self, size_bytes: u64) -> bool {
        let left = self.left_bytes.get().checked_sub(size_bytes);
        left.inspect(|left| self.left_bytes.set(*left)).is_some()
    }

    /// Charges bytes that the cache is about to keep.
    fn charge(&self, size_bytes: u64) -> Result<(), ()> {
        let in_memory = usize::try_from(size_bytes).map_err(drop)?;
        // Cached bytes need no I/O but are charged again: this bounds the work too.
        (self.may_read(size_bytes) && self.reserved.borrow_mut().grow(in_memory)).then_some(()).ok_or(())
    }
}

impl<R: Read> Read for Shared<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(into)
    }
}

impl<R: Seek> Seek for Shared<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.borrow_mut().seek(to)
    }
}

impl<'a, R: Read + Seek> ReadRef<'a> for &'a Bounded<R> {
    fn len(self) -> Result<u64, ()> {
        (&self.cache).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.charge(size)?;
        (&self.cache).read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let found = (&self.cache).read_bytes_at_until(range, delimiter)?;
        self.charge(found.len() as u64 + ENTRY_BYTES)?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use object::read::ReadRef as _;

    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        assert!(open_regular(Path::new("/proc/self/exe")).is_ok());
        for answer in ["/proc/self/status", "/sys/kernel/uevent_seqnum"] {
            assert!(open_of_any_system(Path::new(answer)).is_ok(), "{answer}");
            let refused = open_regular(Path::new(answer)).expect_err(answer);
            assert_eq!(refused.to_string(), "not a file on a disk, but an answer of the kernel");
        }
        assert!(open_regular_no_link(Path::new("/proc/self/exe")).is_err());
        assert_eq!(open_regular(Path::new("/dev/null")).expect_err("a device").to_string(), "not a regular file");
        assert_eq!(open_regular(Path::new("/tmp")).expect_err("a directory").kind(), io::ErrorKind::IsADirectory);
        assert_eq!(open_regular(Path::new("/no/such")).expect_err("none").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn no_more_is_read_than_allowed() {
        let file = Bounded::new(Cursor::new(vec![7; 100]), 60);
        assert_eq!((&file).read_bytes_at(0, 50).map(<[u8]>::len), Ok(50));
        assert!((&file).read_bytes_at(50, 20).is_err());
        assert_eq!((&file).read_bytes_at(50, 10).map(<[u8]>::len), Ok(10));
        assert!((&file).read_bytes_at(60, u64::MAX).is_err());
        assert!((&file).copied(0, 1).is_none(), "nothing is left");
    }

    #[test]
    fn what_is_copied_is_all_there() {
        let file = Bounded::new(Cursor::new((0..100).collect::<Vec<u8>>()), 60);
        assert_eq!((&file).copied(90, 10), Some((90..100).collect()));
        assert!((&file).copied(90, 11).is_none() && (&file).copied(u64::MAX, 2).is_none());
        let bytes: &[u8] = &[1, 2, 3];
        assert_eq!((bytes.copied(1, 2), bytes.copied(1, 3), bytes.copied(4, 0)), (Some(vec![2, 3]), None, None));
    }

    #[test]
    fn a_file_that_claims_more_than_the_budget_is_not_read() {
        let claims = Bounded::new(Cursor::new(vec![0; 100]), u64::MAX);
        assert!((&claims).read_bytes_at(0, crate::host::budget::MAX_BYTES as u64 + 1).is_err());
        assert_eq!((&claims).read_bytes_at(0, 10).map(<[u8]>::len), Ok(10));
    }
}
