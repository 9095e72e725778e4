//! Unwind tables on disk, so that a large program is read once and not by every run.
//!
//! In: a directory, and the call-frame information of files. Out: their rows.
//! Guarantee: only entries that this user wrote are used: the directory belongs to the user and no
//! other user may enter it. Entries are found by a keyed hash of the information itself, so no file
//! can provide the table of another. An entry is complete or absent, and all entries together are
//! at most [`MAX_BYTES`].

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::sections::Sections;
use crate::sys::account::effective_uid;

/// Smaller sections are parsed about as fast as an entry is read.
const MIN_SECTION_BYTES: usize = 64 << 10;
/// Limit of all entries.
const MAX_BYTES: u64 = 256 << 20;
/// Limit of an entry, in rows.
const MAX_ROWS: u64 = 4 << 20;
/// First bytes of an entry. The number changes with the encoding of rows and with their making.
const MAGIC: [u8; 8] = *b"unwind05";
/// The magic number and the checksum.
const HEAD_BYTES: u64 = 16;
/// Rights of all users but the owner.
const OTHERS: u32 = 0o077;
const SECRET: &str = "key";
const SECRET_BYTES: usize = 16;

/// A directory of entries.
#[derive(Debug)]
pub(super) struct Cache {
    directory: PathBuf,
    secret: Secret,
}

/// What keys of entries are hashed with. Whoever does not know it cannot make two files with one
/// key.
pub(crate) type Secret = [u8; SECRET_BYTES];

/// The key of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Digest(u64);

/// The key for the rows of these sections; `None` if an entry would be of no use.
pub(super) fn digest(secret: &Secret, sections: &Sections<'_>) -> Option<Digest> {
    if sections.eh_frame.len() + sections.debug_frame.len() < MIN_SECTION_BYTES {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    (secret, MAGIC, sections.eh_frame, &sections.debug_frame).hash(&mut hasher);
    let bases = &sections.bases.eh_frame;
    (bases.section, bases.text, bases.data, sections.entry).hash(&mut hasher);
    Some(Digest(hasher.finish()))
}

impl Cache {
    /// Opens a directory, which is made if it is missing. Fails if it is not private.
    pub(super) fn open(directory: &Path) -> io::Result<Cache> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let metadata = fs::symlink_metadata(directory)?;
        if !metadata.is_dir() || !is_private(&metadata) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the directory is not private"));
        }
        let secret = secret(directory)?;
        Ok(Cache { directory: directory.to_path_buf(), secret })
    }

    /// The secret of its keys.
    pub(super) fn secret(&self) -> Secret {
        self.secret
    }

    /// The rows of an entry; `None` if there is none, or if it is damaged.
    pub(super) fn read(&self, digest: Digest) -> Option<Vec<u64>> {
        let mut file = open(&self.path(digest)).ok()?;
        let metadata = file.metadata().ok()?;
        let rows = metadata.len().checked_sub(HEAD_BYTES)? / 8;
        if !metadata.is_file() || !is_private(&metadata) || rows > MAX_ROWS {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).ok()?);
        file.read_to_end(&mut bytes).ok()?;
        let (words, rest) = bytes.strip_prefix(&MAGIC)?.as_chunks::<8>();
        let mut words = words.iter().copied().map(u64::from_le_bytes);
        let checksum = words.next()?;
        let rows: Vec<u64> = words.collect();
        (rest.is_empty() && rows.is_sorted() && checksum == self.checksum(digest, &rows)).then_some(rows)
    }

    /// Adds an entry. Without space for it, the entries that were written first go.
    pub(super) fn write(&self, digest: Digest, rows: &[u64]) -> io::Result<()> {
        if rows.len() as u64 > MAX_ROWS {
            return Ok(());
        }
        let mut bytes = [MAGIC, self.checksum(digest, rows).to_le_bytes()].concat();
        bytes.extend(rows.iter().flat_map(|row| row.to_le_bytes()));
        make_space(&self.directory, bytes.len() as u64)?;
        place(&self.directory, &self.path(digest), &bytes)
    }

    /// Covers the key too, so an entry that gets into another's place is damaged.
    fn checksum(&self, digest: Digest, rows: &[u64]) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.secret, digest.0, rows).hash(&mut hasher);
        hasher.finish()
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.directory.join(format!("{:016x}", digest.0))
    }
}

fn is_private(metadata: &Metadata) -> bool {
    metadata.uid() == effective_uid() && metadata.mode() & OTHERS == 0
}

/// Opens a file that is not a link. Opening does not block, whatever it is.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Writes a file so that readers and concurrent writers see all of it or nothing. The temporary
/// name is random: several threads may write, and processes in other namespaces can have our PID.
fn place(directory: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = directory.join(format!("new-{:016x}", u64::from_ne_bytes(random()?)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let placed = file.write_all(bytes).and_then(|()| fs::rename(&new, path));
    if placed.is_err() {
        let _ = fs::remove_file(&new);
    }
    placed
}

/// The secret of a directory.
fn secret(directory: &Path) -> io::Result<Secret> {
    let path = directory.join(SECRET);
    let mut secret = [0; SECRET_BYTES];
    if open(&path).and_then(|mut file| file.read_exact(&mut secret)).is_err() {
        secret = random()?;
        place(directory, &path, &secret)?;
    }
    Ok(secret)
}

fn random<const LENGTH: usize>() -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Removes the oldest entries until there is space for this many bytes.
fn make_space(directory: &Path, size_bytes: u64) -> io::Result<()> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)?.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() && entry.file_name() != SECRET {
            entries.push((metadata.modified()?, metadata.len(), entry.path()));
        }
    }
    entries.sort();
    let mut used: u64 = entries.iter().map(|(_, size_bytes, _)| size_bytes).sum();
    for (_, freed, path) in entries {
        if used.saturating_add(size_bytes) <= MAX_BYTES {
            break;
        }
        let _ = fs::remove_file(path);
        used = used.saturating_sub(freed);
    }
    Ok(())
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
