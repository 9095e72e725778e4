//! The debug information read last.
//!
//! In: files by their identity. Out: their lines.
//! Guarantee: at most [`MAX_FILES`] files are kept, and at most [`MAX_KEPT_BYTES`] besides the one
//! used last; a file without debug information is not read again while it is kept. For a file that
//! does not fit into memory, all others are dropped.

use super::lines::{Found, Lines, Read};

/// Identity and version of a file: device, inode, size, and time of the last change.
pub(super) type FileKey = (u64, u64, u64, (i64, i64));

/// Limit of kept files.
const MAX_FILES: usize = 16;
/// Limit in bytes of what is kept of files.
const MAX_KEPT_BYTES: usize = 4 << 20;

/// Lines of files; the one used last is the last.
#[derive(Debug, Default)]
pub(super) struct LineCache {
    kept: Vec<(FileKey, Option<Lines>)>,
}

impl LineCache {
    /// The origin of an address of a file, which `read` reads if it is not kept.
    pub(super) fn find(&mut self, file: FileKey, address: u64, read: impl Fn() -> Read) -> Found {
        let mut is_refused = false;
        match self.kept.iter().position(|(other, _)| *other == file) {
            Some(at) => self.kept[at..].rotate_left(1),
            None => {
                // Before the next file is read.
                self.shrink();
                let mut found = read();
                if let Read::Refused = found {
                    self.clear();
                    found = read();
                }
                is_refused = matches!(found, Read::Refused);
                self.kept.push((file, if let Read::Lines(lines) = found { Some(*lines) } else { None }));
            }
        }
        let mut found = self.in_last(address);
        if found.is_refused && self.kept.len() > 1 {
            self.kept.drain(..self.kept.len() - 1);
            found = self.in_last(address);
        }
        Found { is_refused: is_refused || found.is_refused, ..found }
    }

    fn in_last(&mut self, address: u64) -> Found {
        let last = self.kept.last_mut().and_then(|(_, lines)| lines.as_mut());
        last.map(|lines| lines.find(address)).unwrap_or_default()
    }

    /// Drops all files.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }

    /// Makes space for one more file.
    fn shrink(&mut self) {
        let size_bytes = |lines: &Option<Lines>| lines.as_ref().map_or(0, Lines::size_bytes);
        let mut total: usize = self.kept.iter().map(|(_, lines)| size_bytes(lines)).sum();
        while total > MAX_KEPT_BYTES || self.kept.len() >= MAX_FILES {
            let (_, oldest) = self.kept.remove(0);
            total -= size_bytes(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_used_last_are_kept() {
        let mut cache = LineCache::default();
        let mut reads = |number: u64| {
            let is_read = std::cell::Cell::new(false);
            cache.find((0, number, 0, (0, 0)), 1, || {
                is_read.set(true);
                Read::Nothing
            });
            is_read.get()
        };
        let most = MAX_FILES as u64;
        assert!((0..most).all(&mut reads));
        assert!(!reads(0), "it is kept");
        assert!(reads(most) && !reads(0), "another one had to go");
        assert!(reads(1));
    }
}
