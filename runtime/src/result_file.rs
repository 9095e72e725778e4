//! Files for results, which other users may have prepared a trap for.
//!
//! In: a path that the user gave. Out: a file, which only its owner can read if it has results.
//! Guarantee: no file or directory of another user is written, and no symbolic link that another
//! user had made before is followed. (The owner of a directory further up can exchange a part of
//! the path while it is resolved; what is written then is still in a directory of ours or root's.)
//! A regular file is replaced as a whole once there is something to write: until then the last
//! result is there. What is not a regular file (a terminal, a pipe, `/dev/null`) is written to
//! directly.
//!
//! Another user is one who is neither root nor we, nor the one who called `sudo`.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use crate::sys::account::effective_uid;
use crate::sys::file_system::is_proc;

/// Mode of files with results: they contain data about other users' processes.
pub const OWNER_ONLY: u32 = 0o600;

/// Mode of files without results, as far as the process's `umask` permits.
pub const ALL_READ: u32 = 0o666;

/// Symbolic links that are followed one after the other: as many as the kernel follows.
const MOST_LINKS: usize = 40;

/// Files of this process so far.
static FILES: AtomicU32 = AtomicU32::new(0);

/// A file that is being written.
#[derive(Debug)]
pub struct ResultFile {
    file: File,
    /// The new file that has not yet replaced the old one.
    new: Option<New>,
}

/// A new file in a directory, and the name that it will have.
#[derive(Debug)]
struct New {
    directory: File,
    name: OsString,
    temporary: OsString,
}

impl ResultFile {
    /// Prepares a file that will have this mode; nothing is replaced yet.
    pub fn create(path: &Path, mode: u32) -> io::Result<ResultFile> {
        let mut path = std::path::absolute(path)?;
        for _ in 0..MOST_LINKS {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                return Err(io::Error::from_raw_os_error(libc::EISDIR));
            };
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW);
            let directory = options.open(resolved(parent)?)?;
            let found = match fs::symlink_metadata(within(&directory, name)) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return ResultFile::new_in(directory, name, mode);
                }
                Err(error) => return Err(error),
            };
            refuse_other(&found)?;
            let kind = found.file_type();
            if kind.is_symlink() && !is_proc(&directory)? {
                path = parent.join(fs::read_link(within(&directory, name))?);
            } else if kind.is_file() {
                return ResultFile::new_in(directory, name, mode);
            } else {
                // A link of procfs leads to a descriptor of ours, as `/dev/stdout` does.
                let follow = if kind.is_symlink() { 0 } else { libc::O_NOFOLLOW };
                let mut options = OpenOptions::new();
                options.write(true).custom_flags(follow | libc::O_NOCTTY);
                return Ok(ResultFile { file: options.open(within(&directory, name))?, new: None });
            }
        }
        Err(io::Error::from_raw_os_error(libc::ELOOP))
    }

    fn new_in(directory: File, name: &OsStr, mode: u32) -> io::Result<ResultFile> {
        refuse_other(&directory.metadata()?)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        loop {
            let mut temporary = OsString::from(".");
            temporary.push(name);
            temporary.push(format!(".{}.{}", std::process::id(), FILES.fetch_add(1, Relaxed)));
            match options.open(within(&directory, &temporary)) {
                Ok(file) => {
                    return Ok(ResultFile { file, new: Some(New { directory, name: name.to_owned(), temporary }) });
                }
                // It is left from a process with our number that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// From now on the file has its name.
    pub fn publish(&mut self) -> io::Result<()> {
        if let Some(new) = &self.new {
            fs::rename(within(&new.directory, &new.temporary), within(&new.directory, &new.name))?;
            self.new = None;
        }
        Ok(())
    }

    /// Writes all of it, then publishes it: a failure leaves the old file.
    pub fn write_whole(mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let mut out = io::BufWriter::new(&self.file);
        write(&mut out)?;
        out.flush()?;
        drop(out);
        self.publish()
    }
}

/// Results that are written bit by bit: the first one publishes the file.
impl Write for ResultFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.publish()?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.publish()?;
        self.file.flush()
    }
}

impl Drop for ResultFile {
    fn drop(&mut self) {
        if let Some(new) = &self.new {
            // It was ours, and has no results.
            let _ = fs::remove_file(within(&new.directory, &new.temporary));
        }
    }
}

/// The path of a name in an open directory, which the directory's owner cannot lead elsewhere.
fn within(directory: &File, name: &OsStr) -> PathBuf {
    Path::new(&format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name)
}

/// The path of a directory without symbolic links. Refuses those of other users.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let mut done = PathBuf::from("/");
    let parts = |path: &Path| path.components().rev().map(|part| part.as_os_str().to_owned()).collect::<Vec<_>>();
    let (mut left, mut links) = (parts(path), 0);
    while let Some(part) = left.pop() {
        if part == ".." {
            done.pop();
            continue;
        }
        // The root replaces all before it.
        let next = done.join(&part);
        let found = fs::symlink_metadata(&next)?;
        if !found.file_type().is_symlink() {
            done = next;
            continue;
        }
        refuse_other(&found)?;
        links += 1;
        if links > MOST_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        left.extend(parts(&fs::read_link(&next)?));
    }
    Ok(done)
}

fn refuse_other(found: &Metadata) -> io::Result<()> {
    let caller = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    refuse(found, effective_uid(), caller)
}

fn refuse(found: &Metadata, us: u32, caller: Option<u32>) -> io::Result<()> {
    let owner = found.uid();
    if owner == 0 || owner == us || (us == 0 && caller == Some(owner)) {
        return Ok(());
    }
    let kind = found.file_type();
    let what = match () {
        () if kind.is_dir() => "the directory",
        () if kind.is_symlink() => "a symbolic link on the way",
        () if kind.is_fifo() => "the pipe",
        () => "it",
    };
    let words = format!("{what} belongs to another user ({owner}): choose another place, or redirect standard output");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, words))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let path = std::env::temp_dir().join(format!("profiler-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a directory");
            Place(path)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn create(path: &Path) -> io::Result<ResultFile> {
        ResultFile::create(path, OWNER_ONLY)
    }

    #[test]
    fn a_file_is_replaced_when_there_is_something_to_write() {
        let place = Place::new("replaced");
        let path = place.path("out");
        fs::write(&path, "last result").expect("a file");
        drop(create(&path).expect("prepared"));
        assert_eq!(fs::read_to_string(&path).expect("kept"), "last result");
        let failed = create(&path).expect("prepared").write_whole(|out| {
            out.write_all(b"half")?;
            out.flush()?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(&path).expect("kept"), "last result");
        let mut file = create(&path).expect("prepared");
        file.write_all(b"one ").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("replaced"), "one ");
        file.write_all(b"two").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("replaced"), "one two");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        create(&path).expect("prepared").write_whole(|_| Ok(())).expect("an empty file");
        assert_eq!(fs::read_to_string(&path).expect("replaced"), "");
        // Two files of one name do not disturb each other.
        let (mut first, mut second) = (create(&path).expect("prepared"), create(&path).expect("prepared"));
        first.write_all(b"first").expect("written");
        second.write_all(b"second").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("replaced"), "second");
        assert_eq!(fs::read_dir(&place.0).expect("listed").count(), 1, "nothing else is left");
    }

    #[test]
    fn what_is_not_a_regular_file_is_written_to() {
        for path in ["/dev/null", "/dev/stdout", "/proc/self/fd/2"] {
            assert!(create(Path::new(path)).is_ok_and(|file| file.new.is_none()), "{path}");
        }
        assert_eq!(create(Path::new("/")).expect_err("a directory").kind(), io::ErrorKind::IsADirectory);
        assert_eq!(create(Path::new("/no/such")).expect_err("none").kind(), io::ErrorKind::NotFound);
        let place = Place::new("links");
        let (target, link) = (place.path("target"), place.path("link"));
        symlink("target", &link).expect("a link");
        create(&link).expect("prepared").write_all(b"x").expect("written");
        assert_eq!(fs::read_to_string(&target).expect("written"), "x", "our own link is followed");
        assert!(fs::symlink_metadata(&link).expect("there").file_type().is_symlink());
        symlink("round", place.path("round")).expect("a link");
        for path in ["round", "round/new"] {
            assert_eq!(create(&place.path(path)).expect_err("a circle").raw_os_error(), Some(libc::ELOOP));
        }
        fs::create_dir(place.path("one")).expect("a directory");
        symlink("one/../one/.", place.path("two")).expect("a link");
        create(&place.path("two/../two/file")).expect("prepared").write_all(b"y").expect("written");
        assert_eq!(fs::read_to_string(place.path("one/file")).expect("written"), "y");
    }

    /// Needs root, to make files of another user.
    #[test]
    fn nothing_of_another_user_is_written_or_followed() {
        const OTHER: u32 = 54_321;
        if effective_uid() != 0 {
            println!("SKIPPED: needs root");
            return;
        }
        let place = Place::new("planted");
        let (ours, theirs) = (place.path("ours"), place.path("theirs"));
        for directory in [&ours, &theirs] {
            fs::create_dir(directory).expect("a directory");
            fs::write(directory.join("file"), "precious").expect("a file");
            symlink(ours.join("file"), directory.join("link")).expect("a link");
            symlink(&ours, directory.join("way")).expect("a link");
        }
        chown(ours.join("file"), Some(OTHER), None).expect("its file");
        std::os::unix::fs::lchown(ours.join("link"), Some(OTHER), None).expect("its link");
        std::os::unix::fs::lchown(ours.join("way"), Some(OTHER), None).expect("its link");
        symlink(ours.join("way"), place.path("through")).expect("a link of ours to one of its");
        chown(&theirs, Some(OTHER), None).expect("its directory");
        let table = [
            (ours.join("file"), "it belongs to another user (54321)"),
            (ours.join("link"), "a symbolic link on the way belongs"),
            (ours.join("way/new"), "a symbolic link on the way belongs"),
            (place.path("through/new"), "a symbolic link on the way belongs"),
            (theirs.join("new"), "the directory belongs"),
            (theirs.join("file"), "the directory belongs"),
        ];
        for (path, words) in table {
            let error = create(&path).expect_err("another user's").to_string();
            assert!(error.starts_with(words), "{}: {error}", path.display());
        }
        assert_eq!(fs::read_to_string(ours.join("file")).expect("there"), "precious");
        let found = fs::metadata(&theirs).expect("there");
        assert!(refuse(&found, 0, Some(OTHER)).is_ok(), "who called sudo");
        assert!(refuse(&found, OTHER, None).is_ok() && refuse(&found, 1, Some(OTHER)).is_err());
    }
}
