//! Files that a process still maps although they were replaced by an update or deleted.
//!
//! In: a process, and the name or path of a file as in the script. Out: paths that open the mapped
//! files.
//! Guarantee: they lead to the very file that the process runs, as long as it maps it.

use std::fs;
use std::path::Path;

use super::library::is_named;
use super::mapped::read_maps;

/// Suffix that the kernel appends to the path of a deleted file.
pub(super) const MARK: &str = " (deleted)";

/// Deleted or replaced files that a process maps and that match a name; empty for most processes.
pub(super) fn find(pid: u32, name: &str) -> Vec<String> {
    let maps = read_maps(pid).unwrap_or_default();
    in_maps(&maps, name).map(|range| format!("/proc/{pid}/map_files/{range}")).collect()
}

/// The first address range of each such file.
fn in_maps<'a>(maps: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let place = canonical_directory(name);
    let is_wanted = move |path: &str| match &place {
        Some(place) => path == name || path == place,
        None => path.rsplit('/').next().is_some_and(|file| is_named(file, name)),
    };
    let mut seen = Vec::new();
    maps.lines().filter_map(move |line| {
        let path = line.find('/').map(|at| &line[at..])?.strip_suffix(MARK)?;
        let mut fields = line.split(' ');
        let (range, file) = (fields.next()?, (fields.nth(2)?, fields.next()?));
        let is_new = is_wanted(path) && !seen.contains(&file);
        is_new.then(|| {
            seen.push(file);
            range
        })
    })
}

/// A path with a canonical directory, as the kernel prints it; `None` for a name without a
/// directory.
fn canonical_directory(name: &str) -> Option<String> {
    let path = Path::new(name);
    let directory = path.parent().filter(|_| name.contains('/'))?;
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    Some(directory.join(path.file_name()?).display().to_string())
}

#[cfg(test)]
mod tests {
    use super::in_maps;

    const MAPS: &str = "7f00-7f01 r--p 00000000 08:01 11         /none/libx.so.1 (deleted)\n\
        7f01-7f02 r-xp 00001000 08:01 11         /none/libx.so.1 (deleted)\n\
        7f03-7f04 r-xp 00001000 08:01 12         /none/libx.so.1\n\
        7f05-7f06 r-xp 00001000 08:01 13         /none/libx.so.1 (deleted)\n\
        7f07-7f08 r-xp 00001000 08:01 14         /opt/my app (deleted)\n\
        7f09-7f0a rw-p 00000000 00:00 0\n";

    #[test]
    fn each_file_without_a_path_is_found_once_by_name_or_path() {
        let find = |name| in_maps(MAPS, name).collect::<Vec<_>>();
        assert_eq!(find("libx"), ["7f00-7f01", "7f05-7f06"]);
        assert_eq!(find("/none/libx.so.1"), ["7f00-7f01", "7f05-7f06"]);
        assert_eq!(find("/opt/my app"), ["7f07-7f08"]);
        assert_eq!(find("/elsewhere/libx.so.1"), [""; 0]);
        assert_eq!(find("liby"), [""; 0]);
    }
}
