//! Paths of control groups.
//!
//! In: the id of a group, and a pattern for the names of hierarchies. Out: `unified:/path`, several
//! separated by commas. Also the directories where hierarchies are mounted.
//! Guarantee: the path is looked up at each call, because groups come and go. A group that does not
//! exist yields nothing. A hierarchy that is mounted several times is reported once.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use profiler_model::glob;

/// The name of the version 2 hierarchy, wherever it is mounted.
pub(crate) const UNIFIED: &str = "unified";

/// The paths of a group in all hierarchies whose name matches.
pub(crate) fn path(id: u64, hierarchies: &str) -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let roots = roots(&mounts).into_iter().filter(|(name, _)| glob::matches(hierarchies, name));
    let found = roots.filter_map(|(name, root)| {
        let device = fs::metadata(&root).ok()?.dev();
        let path = find(&root, id)?;
        let within = path.strip_prefix(&root).ok()?;
        Some(Found { device, name, within: within.display().to_string() })
    });
    let lines = once_a_hierarchy(found).into_iter().map(|found| format!("{}:/{}", found.name, found.within));
    lines.collect::<Vec<_>>().join(",")
}

/// A group in one mount of a hierarchy.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    /// The device number, which is the same for all mounts of a hierarchy.
    device: u64,
    name: String,
    /// The path below the mount's root.
    within: String,
}

/// Keeps one mount of each hierarchy. A mount may show only a part of it, as in a container; the
/// mount with the longest path starts nearest to the hierarchy's root.
fn once_a_hierarchy(found: impl Iterator<Item = Found>) -> Vec<Found> {
    let mut kept: Vec<Found> = Vec::new();
    for found in found {
        match kept.iter_mut().find(|other| other.device == found.device) {
            Some(other) if other.within.len() < found.within.len() => *other = found,
            Some(_) => {}
            None => kept.push(found),
        }
    }
    kept
}

/// The names and directories of the hierarchies: version 2 first, then version 1 by name.
pub(crate) fn roots(mounts: &str) -> Vec<(String, PathBuf)> {
    let (mut unified, mut old) = (Vec::new(), Vec::new());
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(directory), Some(kind)) = (fields.next().map(PathBuf::from), fields.next()) else { continue };
        match kind {
            "cgroup2" => unified.push((UNIFIED.to_string(), directory)),
            "cgroup" => {
                let name = directory.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
                old.push((name, directory));
            }
            _ => {}
        }
    }
    old.sort();
    unified.extend(old);
    unified
}

/// The directory with this inode number, searched from the root down.
fn find(root: &Path, id: u64) -> Option<PathBuf> {
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        if fs::metadata(&directory).is_ok_and(|meta| meta.ino() == id) {
            return Some(directory);
        }
        // A group that is removed during the search is skipped.
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        open.extend(entries.flatten().filter(is_directory).map(|entry| entry.path()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Found, once_a_hierarchy, path, roots};

    #[test]
    fn version_2_comes_first() {
        let mounts = "cgroup /sys/fs/cgroup/memory cgroup rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n\
            cgroup2 /sys/fs/cgroup/x cgroup2 rw 0 0\nproc /proc proc rw 0 0\n";
        let names: Vec<String> = roots(mounts).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["unified", "cpu", "memory"]);
    }

    #[test]
    fn a_hierarchy_that_is_mounted_several_times_is_reported_once() {
        let found =
            |device, name: &str, within: &str| Found { device, name: name.to_owned(), within: within.to_owned() };
        let mounts = [
            found(27, "unified", "a"),
            found(27, "unified", "user/a"),
            found(27, "unified", "user/a"),
            found(28, "cpu", "a"),
        ];
        assert_eq!(once_a_hierarchy(mounts.into_iter()), [found(27, "unified", "user/a"), found(28, "cpu", "a")]);
    }

    #[test]
    fn a_group_that_is_not_there_has_no_path() {
        assert_eq!(path(u64::MAX, "*"), "");
    }
}
