//! How much memory this process uses, and may use.
//!
//! In: the control groups of this process. Out: the least that one of them and its ancestors leave.
//! Guarantee: what cannot be read sets no limit. Memory that the kernel can take back, the contents
//! of files, counts as free. What is left is read once: what this process does with it must not
//! make it smaller.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::cgroups::{UNIFIED, roots};

/// The name of the hierarchy of version 1 that limits memory.
const MEMORY: &str = "memory";

/// Bytes that the control groups of this process leave; `None` without a limit.
pub(crate) fn available_bytes() -> Option<u64> {
    static AVAILABLE: OnceLock<Option<u64>> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let found = groups(&read("/proc/self/cgroup"), &read("/proc/mounts"));
        found.iter().filter_map(|group| left_by(group)).min()
    })
}

/// The share in bytes of what may grow with the machine, what is read of files and unwind tables,
/// each: an eighth of what there was. The rest is for the script's maps, results and this program.
pub(crate) fn share_bytes() -> Option<u64> {
    available_bytes().map(|bytes| bytes / 8)
}

/// Memory of this process in bytes, without the contents of files.
pub(crate) fn resident_bytes() -> usize {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kilobytes.unwrap_or(0) << 10
}

/// The directories of the groups that limit the memory of a process, from the text of its
/// `/proc/PID/cgroup`. A mount may show the group of a container as its root.
fn groups(of_process: &str, mounts: &str) -> Vec<PathBuf> {
    let roots = roots(mounts);
    let mut found = Vec::new();
    for line in of_process.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let name = match controllers {
            "" => UNIFIED,
            _ if controllers.split(',').any(|name| name == MEMORY) => MEMORY,
            _ => continue,
        };
        for (_, root) in roots.iter().filter(|(known, _)| known == name) {
            let within = Path::new(path.trim_start_matches('/'));
            found.extend(within.ancestors().map(|ancestor| root.join(ancestor)));
        }
    }
    found
}

/// What a group leaves; `None` if it sets no limit.
fn left_by(group: &Path) -> Option<u64> {
    let text = |name: &str| fs::read_to_string(group.join(name)).ok();
    let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
    let (limit, used) = number("memory.max")
        .zip(number("memory.current"))
        .or_else(|| number("memory.limit_in_bytes").zip(number("memory.usage_in_bytes")))?;
    let stat = text("memory.stat").unwrap_or_default();
    let counted = |names: [&str; 2]| {
        let fields = stat.lines().filter_map(|line| line.split_once(' '));
        fields.filter(|(name, _)| names.contains(name)).find_map(|(_, bytes)| bytes.parse::<u64>().ok()).unwrap_or(0)
    };
    // Files in memory, of which those of tmpfs stay.
    let free = counted(["file", "total_cache"]).saturating_sub(counted(["shmem", "total_shmem"]));
    Some(limit.saturating_sub(used.saturating_sub(free)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_are_those_of_the_process_and_their_ancestors() {
        let mounts = "cgroup /c/memory cgroup rw,memory 0 0\ncgroup /c/cpu cgroup rw,cpu 0 0\n";
        let found = groups("4:memory:/a/b\n3:cpu:/x\n0::/\n", mounts);
        assert_eq!(found, ["/c/memory/a/b", "/c/memory/a", "/c/memory/"].map(PathBuf::from));
        let found = groups("0::/a\n", "cgroup2 /u cgroup2 rw 0 0\n");
        assert_eq!(found, ["/u/a", "/u/"].map(PathBuf::from));
        assert_eq!(groups("damaged\n", mounts), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn files_in_memory_are_free() {
        let group = std::env::temp_dir().join(format!("profiler-group-{}", std::process::id()));
        fs::create_dir_all(&group).expect("a directory");
        let write = |name: &str, text: &str| fs::write(group.join(name), text).expect("written");
        assert_eq!(left_by(&group), None);
        write("memory.max", "max\n");
        write("memory.current", "900\n");
        write("memory.stat", "anon 500\nfile 400\nshmem 100\n");
        assert_eq!(left_by(&group), None, "no limit");
        write("memory.max", "1000\n");
        assert_eq!(left_by(&group), Some(400));
        write("memory.max", "500\n");
        assert_eq!(left_by(&group), Some(0));
        fs::remove_dir_all(group).expect("our own directory");
    }
}
