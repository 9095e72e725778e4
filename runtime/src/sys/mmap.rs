//! A kernel file as bytes in memory.
//!
//! In: a path in a kernel file system. Out: [`MappedFile`], readable as a slice.
//! Guarantee: only files that cannot shrink are mapped (those of sysfs and procfs); all others are
//! read.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;

/// The whole contents of a file.
#[derive(Debug)]
pub struct MappedFile(Content);

#[derive(Debug)]
enum Content {
    Mapped { start: NonNull<u8>, size_bytes: usize },
    Read(Vec<u8>),
}

// SAFETY: the mapping is private, read-only and lives until drop; it is not tied to a thread.
unsafe impl Send for Content {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Content {}

impl MappedFile {
    /// Opens a file: maps it if it is in a kernel file system and the kernel allows it, otherwise
    /// reads it.
    pub fn open(path: &Path) -> io::Result<MappedFile> {
        let mut file = File::open(path)?;
        // A file on disk could be truncated while it is mapped; touching the lost part would kill
        // the process.
        if path.starts_with("/sys")
            && let Some(mapped) = map(&file)
        {
            return Ok(MappedFile(mapped));
        }
        // Since 6.16: `/sys/kernel/btf/vmlinux` can be mapped. Before, mmap fails with ENODEV.
        let mut bytes = Vec::with_capacity(file.metadata().map_or(0, |meta| meta.len() as usize) + 1);
        file.read_to_end(&mut bytes)?;
        Ok(MappedFile(Content::Read(bytes)))
    }
}

/// Maps a whole file; `None` when it is empty or cannot be mapped.
fn map(file: &File) -> Option<Content> {
    let size_bytes = usize::try_from(file.metadata().ok()?.len()).ok().filter(|size| *size > 0)?;
    // SAFETY: a new private mapping at an address that the kernel chooses; no memory of ours is
    // touched.
    let start = unsafe {
        libc::mmap(std::ptr::null_mut(), size_bytes, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    Some(Content::Mapped { start: NonNull::new(start.cast())?, size_bytes })
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: the mapping has this size, is readable and never written, and lives as long
            // as `self`.
            Content::Mapped { start, size_bytes } => unsafe { std::slice::from_raw_parts(start.as_ptr(), *size_bytes) },
            Content::Read(bytes) => bytes,
        }
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        if let Content::Mapped { start, size_bytes } = self {
            // SAFETY: exactly the mapping that `map` made; no slice of it outlives `self`.
            unsafe { libc::munmap(start.as_ptr().cast(), *size_bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MappedFile;
    use std::path::Path;

    #[test]
    fn is_what_reading_gives() {
        for path in ["/sys/kernel/btf/vmlinux", "/proc/version", "/etc/passwd"] {
            let Ok(read) = std::fs::read(path) else {
                println!("SKIPPED: {path} is not readable");
                continue;
            };
            let mapped = MappedFile::open(Path::new(path)).expect("it is readable");
            assert!(mapped.as_ref() == read, "{path}");
        }
        assert!(MappedFile::open(Path::new("/no/such/file")).is_err());
    }
}
