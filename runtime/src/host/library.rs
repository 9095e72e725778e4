//! Finds shared libraries by name.
//!
//! In: `libc`, `libc.so.6`, `ssl`. Out: paths, from the dynamic linker's cache or the usual
//! directories; and the file system as a process sees it. Guarantee: a damaged cache yields nothing
//! and never panics.

use super::bounded::open_regular;
use profiler_compiler::target::TargetError;
use profiler_model::glob;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// Library directories that are searched without a cache.
const DIRECTORIES: [&str; 8] = [
    "/lib",
    "/usr/lib",
    "/lib64",
    "/usr/lib64",
    "/usr/local/lib",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
];

const CACHE_PATH: &str = "/etc/ld.so.cache";
/// Limit in bytes: a cache of a thousand libraries takes 80 KB.
const MAX_CACHE_BYTES: u64 = 16 << 20;
const CACHE_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const CACHE_HEADER_SIZE_BYTES: usize = 48;
const CACHE_ENTRY_SIZE_BYTES: usize = 24;

/// Flags of cache entries for this architecture: `FLAG_ELF_LIBC6` and the processor's ABI.
const CACHE_FLAGS: u32 = if cfg!(target_arch = "aarch64") { 0x0a03 } else { 0x0303 };

/// Limit of symbolic links that are followed, as in the kernel.
const MAX_LINKS: u32 = 40;

/// The file system as seen by a process.
#[derive(Debug)]
pub(super) struct Root {
    /// `/proc/PID/root` for a process with another root than ours.
    prefix: Option<PathBuf>,
    /// Whether the process is in another mount namespace.
    pub is_elsewhere: bool,
}

impl Root {
    /// Our own root.
    pub(super) fn own() -> Root {
        Root { prefix: None, is_elsewhere: false }
    }

    /// The root of a process, which `chroot` changes within a mount namespace.
    pub(super) fn of_process(pid: u32) -> Result<Root, TargetError> {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        if !proc.exists() {
            return Err(TargetError::Invalid(format!("no process has the id {pid}")));
        }
        let is_elsewhere = match (fs::read_link(proc.join("ns/mnt")), fs::read_link("/proc/self/ns/mnt")) {
            (Ok(theirs), Ok(ours)) => theirs != ours,
            _ => return Err(TargetError::Refused(format!("process {pid} may not be inspected: run as root"))),
        };
        let directory = proc.join("root");
        let has_another = is_elsewhere || identity(&directory).ok() != identity(Path::new("/")).ok();
        Ok(Root { prefix: has_another.then_some(directory), is_elsewhere })
    }

    /// The root of the process in a path of the form `/proc/PID/root/…`, and the rest of the path.
    pub(super) fn of_path(path: &str) -> Option<(Root, &str)> {
        let (pid, rest) = path.strip_prefix("/proc/")?.split_once('/')?;
        let within = rest.strip_prefix("root").filter(|within| within.starts_with('/'))?;
        let prefix = PathBuf::from(format!("/proc/{pid}/root"));
        let root = Root { prefix: Some(prefix), is_elsewhere: true };
        pid.bytes().all(|byte| byte.is_ascii_digit()).then_some((root, within))
    }

    /// Whether a path is in our `/proc`: a process in another mount namespace may have none, or a
    /// different one.
    pub(super) fn is_of_proc(path: &str) -> bool {
        path.starts_with("/proc/")
    }

    /// Resolves a path in that file system to one without symbolic links that we can open.
    pub(super) fn canonical(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        match &self.prefix {
            // Links are resolved manually: an absolute link would otherwise lead out of the prefix.
            Some(prefix) => resolve(prefix, path.as_ref()),
            None => canonical_file(path.as_ref()),
        }
    }
}

/// The path without symbolic links. A link in `/proc` (`/proc/PID/exe`) can lead to a file other
/// than the one its text names: a deleted file, or one in another mount namespace. Such a path is
/// returned unchanged.
fn canonical_file(path: &Path) -> io::Result<PathBuf> {
    let wanted = identity(path)?;
    Ok(match fs::canonicalize(path) {
        Ok(found) if identity(&found).is_ok_and(|file| file == wanted) => found,
        _ => path.to_owned(),
    })
}

/// Device and inode of a file.
pub(super) fn identity(path: &Path) -> io::Result<(u64, u64)> {
    path.metadata().map(|file| (file.dev(), file.ino()))
}

/// Resolves symbolic links with a directory as the root.
fn resolve(prefix: &Path, path: &Path) -> io::Result<PathBuf> {
    let mut left: Vec<PathBuf> = vec![path.to_owned()];
    let mut done = PathBuf::new();
    let mut links = 0;
    while let Some(path) = left.pop() {
        let mut parts = path.components();
        let Some(part) = parts.next() else { continue };
        left.push(parts.as_path().to_owned());
        match part {
            Component::RootDir | Component::Prefix(_) => done.clear(),
            Component::CurDir => {}
            Component::ParentDir => {
                done.pop();
            }
            Component::Normal(name) => {
                let here = prefix.join(&done).join(name);
                if here.symlink_metadata()?.is_symlink() {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(io::Error::other("too many symbolic links"));
                    }
                    left.push(fs::read_link(here)?);
                } else {
                    done.push(name);
                }
            }
        }
    }
    Ok(prefix.join(done))
}

/// The installed library with a name: the one that a program would be linked against now.
pub(super) fn installed(root: &Root, name: &str) -> Option<PathBuf> {
    let cache = read_cache(root);
    let entries = || cache_entries(&cache);
    let cached = entries().find(|(file, _)| *file == name).or_else(|| entries().find(|(file, _)| is_named(file, name)));
    if let Some((_, path)) = cached {
        return Some(PathBuf::from(path));
    }
    DIRECTORIES.iter().find_map(|directory| {
        let entries = root.canonical(directory).and_then(fs::read_dir).ok()?;
        let files = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut files: Vec<String> = files.filter(|file| is_named(file, name)).collect();
        files.sort_unstable();
        files.pop().map(|file| Path::new(directory).join(file))
    })
}

/// The installed libraries whose file names match a pattern.
pub(super) fn matching(root: &Root, pattern: &str) -> Vec<PathBuf> {
    let cache = read_cache(root);
    cache_entries(&cache).filter(|(file, _)| glob::matches(pattern, file)).map(|(_, path)| path.into()).collect()
}

/// Library names without version suffixes.
pub(super) fn names(root: &Root) -> Vec<String> {
    let cache = read_cache(root);
    let stem = |file: &str| file.split_once(".so").map(|(stem, _)| stem.to_owned());
    cache_entries(&cache).filter_map(|(file, _)| stem(file)).collect()
}

/// Whether a file matches a name: exactly, or as a library, with or without `lib` and version.
pub(super) fn is_named(file: &str, name: &str) -> bool {
    let is_versioned = |stem: &str| {
        // `libssl.so`, `libssl.so.3`; or `libc-2.31.so`, the naming of glibc until 2.34.
        let version =
            |rest: &str| rest.strip_prefix(".so").is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let old = |rest: &str| {
            rest.strip_prefix('-')
                .and_then(|rest| rest.strip_suffix(".so"))
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        file.strip_prefix(stem).is_some_and(|rest| version(rest) || old(rest))
    };
    let is_longer = name.contains(".so") && file.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    file == name || is_longer || is_versioned(name) || is_versioned(&format!("lib{name}"))
}

fn read_cache(root: &Root) -> Vec<u8> {
    let mut cache = Vec::new();
    let file = root.canonical(CACHE_PATH).and_then(|path| open_regular(&path));
    // What was read before an error counts.
    let _ = file.and_then(|file| file.take(MAX_CACHE_BYTES).read_to_end(&mut cache));
    cache
}

/// Name and path of each library for this architecture, in the order of the cache, which lists
/// newer versions first.
pub fn cache_entries(cache: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    // An old-format cache may precede the new one in the same file; offsets are relative to the new
    // one.
    let start = cache.windows(CACHE_MAGIC.len()).position(|window| window == CACHE_MAGIC);
    let cache = start.map_or(&[][..], |start| &cache[start..]);
    let count = word(cache, CACHE_MAGIC.len()).unwrap_or_default() as usize;
    let table = cache.get(CACHE_HEADER_SIZE_BYTES..).unwrap_or_default();
    table.chunks_exact(CACHE_ENTRY_SIZE_BYTES).take(count).filter_map(|entry| {
        let ours = word(entry, 0)? == CACHE_FLAGS;
        ours.then(|| Some((text(cache, word(entry, 4)?)?, text(cache, word(entry, 8)?)?)))?
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn text(bytes: &[u8], at: u32) -> Option<&str> {
    let rest = bytes.get(at as usize..)?;
    std::str::from_utf8(&rest[..rest.iter().position(|byte| *byte == 0)?]).ok()
}

#[cfg(test)]
mod tests {
    use super::{CACHE_FLAGS, CACHE_MAGIC, cache_entries, is_named, resolve};
    use std::fs;

    #[test]
    fn knows_names_of_libraries() {
        for (file, name, expected) in [
            ("libc.so.6", "libc", true),
            ("libc.so.6", "c", true),
            ("libc.so.6", "libc.so.6", true),
            ("libc.so.6", "libc.so", true),
            ("libc.so.60", "libc.so.6", false),
            ("libc-2.31.so", "libc", true),
            ("libssl.so.3", "ssl", true),
            ("libcap.so.2", "libc", false),
            ("libc.so.6", "lib", false),
            ("libc-client.so.2", "libc", false),
            ("bash", "bash", true),
        ] {
            assert_eq!(is_named(file, name), expected, "{file} as {name}");
        }
    }

    /// A cache with one library of this architecture and one of another.
    fn small_cache() -> Vec<u8> {
        let mut cache = CACHE_MAGIC.to_vec();
        for word in [2, 0, 0, 0, 0, 0, 0] {
            cache.extend_from_slice(&u32::to_le_bytes(word));
        }
        for flags in [CACHE_FLAGS ^ 0x0100, CACHE_FLAGS] {
            for word in [flags, 96, 106, 0, 0, 0] {
                cache.extend_from_slice(&word.to_le_bytes());
            }
        }
        cache.extend_from_slice(b"libx.so.1\0/lib/libx.so.1\0");
        cache
    }

    #[test]
    fn reads_caches_whole_and_damaged() {
        let cache = small_cache();
        assert_eq!(cache_entries(&cache).collect::<Vec<_>>(), [("libx.so.1", "/lib/libx.so.1")]);
        for at in 0..cache.len() {
            let mut damaged = cache.clone();
            damaged[at] ^= 0xff;
            let _ = cache_entries(&damaged).count() + cache_entries(&cache[..at]).count();
        }
    }

    #[test]
    fn links_stay_within_a_root() {
        let root = std::env::temp_dir().join(format!("profiler-root-{}", std::process::id()));
        fs::create_dir_all(root.join("usr/lib")).expect("a directory");
        fs::write(root.join("usr/lib/libx.so.1.2"), "").expect("a file");
        let link = |to: &str, from: &str| std::os::unix::fs::symlink(to, root.join(from)).expect("a link");
        link("/usr/lib", "lib");
        link("libx.so.1.2", "usr/lib/libx.so.1");
        link("../../../../lib/libx.so.1", "usr/lib/libx.so");
        link("loop", "loop");
        let found = resolve(&root, "/lib/libx.so".as_ref());
        assert_eq!(found.expect("a file"), root.join("usr/lib/libx.so.1.2"));
        assert!(resolve(&root, "/loop".as_ref()).is_err() && resolve(&root, "/lib/none".as_ref()).is_err());
        fs::remove_dir_all(root).expect("our own directory");
    }
}
