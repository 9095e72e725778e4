//! Paths of control groups.
//!
//! In: the number of a group, and a pattern for the names of hierarchies. Out: `unified:/path`, several with commas between.
//! Guarantee: looked up anew each time, for groups come and go; a group that is not there gives nothing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use profiler_compiler::glob;

/// The name of the version 2 hierarchy, wherever it is mounted.
const UNIFIED: &str = "unified";

/// The paths of a group in all hierarchies whose name matches.
pub fn path(id: u64, hierarchies: &str) -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let found =
        roots(&mounts).into_iter().filter(|(name, _)| glob::matches(hierarchies, name)).filter_map(|(name, root)| {
            let path = find(&root, id)?;
            let within = path.strip_prefix(&root).ok()?;
            Some(format!("{name}:/{}", within.display()))
        });
    found.collect::<Vec<_>>().join(",")
}

/// The hierarchies' names and folders: version 2 first, then version 1 by name.
fn roots(mounts: &str) -> Vec<(String, PathBuf)> {
    let (mut unified, mut old) = (Vec::new(), Vec::new());
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(folder), Some(kind)) = (fields.next().map(PathBuf::from), fields.next()) else { continue };
        match kind {
            "cgroup2" => unified.push((UNIFIED.to_string(), folder)),
            "cgroup" => {
                let name = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
                old.push((name, folder));
            }
            _ => {}
        }
    }
    old.sort();
    unified.extend(old);
    unified
}

/// The folder with this number, looked for from the top down.
fn find(root: &Path, id: u64) -> Option<PathBuf> {
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        if fs::metadata(&folder).is_ok_and(|meta| meta.ino() == id) {
            return Some(folder);
        }
        // A group that goes away while we look is none.
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        open.extend(entries.flatten().filter(is_folder).map(|entry| entry.path()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{path, roots};

    #[test]
    fn version_2_comes_first() {
        let mounts = "cgroup /sys/fs/cgroup/memory cgroup rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n\
            cgroup2 /sys/fs/cgroup/x cgroup2 rw 0 0\nproc /proc proc rw 0 0\n";
        let names: Vec<String> = roots(mounts).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["unified", "cpu", "memory"]);
    }

    #[test]
    fn a_group_that_is_not_there_has_no_path() {
        assert_eq!(path(u64::MAX, "*"), "");
    }
}
