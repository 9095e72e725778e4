//! Resolves a binary's name in a probe to files.
//!
//! In: a path (with `*`), a command, or a library. Out: canonical paths of ELF files.
//! Guarantee: a path is never searched for elsewhere. A name without `/` is searched first in the
//! process (if one is given), then among the commands, the libraries, the files of the current
//! directory, and (if no process is given) the files that any process executes; the first of these
//! that has it wins.

use super::bounded::open_regular;
use super::library::{self, Root, identity};
use super::mapped;
use super::replaced;
use super::{NEAR_NAMES, io_error};
use profiler_compiler::target::TargetError;
use profiler_compiler::{glob, similar};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Component, Path, PathBuf};

/// The files that a name refers to, sorted; at least one.
pub(super) fn find(name: &str, pid: Option<u32>) -> Result<Vec<String>, TargetError> {
    // The link `/proc/PID/root` reads as "/", which would be our own root.
    let (root, name) = match Root::of_path(name) {
        Some(found) => found,
        None if Root::is_of_proc(name) => (Root::own(), name),
        None => (pid.map_or_else(|| Ok(Root::own()), Root::of_process)?, name),
    };
    if name.is_empty() {
        return Err(TargetError::Missing { near: Vec::new() });
    }
    let is_pattern = glob::is_pattern(name);
    if name == "*" {
        return existing(&Root::own(), &pid.map_or_else(mapped::of_all, mapped::of_process), |path| {
            is_elf(path).is_ok()
        });
    }
    if let Some(found) = pid.filter(|_| !is_pattern).and_then(|pid| replaced_and_mapped(&root, name, pid)) {
        return Ok(found);
    }
    if let Some(found) = pid.filter(|_| !name.contains('/')).and_then(|pid| mapped_as(name, pid)) {
        return Ok(found);
    }
    let candidates = if name.contains('/') {
        let path = absolute(name);
        if is_pattern { expand(&root, &path) } else { vec![path] }
    } else {
        by_name(&root, name, pid)
    };
    if is_pattern {
        return existing(&root, &candidates, |path| is_elf(path).is_ok());
    }
    existing(&root, &candidates, |_| true)
        .and_then(|found| {
            found.iter().try_for_each(|path| is_elf(Path::new(path)))?;
            Ok(found)
        })
        .map_err(|error| if matches!(error, TargetError::Missing { .. }) { missing(&root, name) } else { error })
}

/// The replaced files that the process still maps, together with the files it maps under this name;
/// `None` if nothing was replaced.
fn replaced_and_mapped(root: &Root, name: &str, pid: u32) -> Option<Vec<String>> {
    let mut found = replaced::find(pid, name);
    found.retain(|path| is_elf(Path::new(path)).is_ok());
    if found.is_empty() {
        return None;
    }
    let path = absolute(name);
    let mut mapped = mapped::named(pid, path.file_name()?.to_str()?);
    if name.contains('/') {
        let wanted = root.canonical(&path).and_then(|path| identity(&path)).ok();
        mapped.retain(|mapped| identity(mapped).ok() == wanted);
    }
    mapped.retain(|path| is_elf(path).is_ok());
    found.extend(in_order(mapped).unwrap_or_default());
    Some(found)
}

/// The candidates that exist, canonical, sorted and without duplicates.
fn existing(root: &Root, candidates: &[PathBuf], keep: impl Fn(&Path) -> bool) -> Result<Vec<String>, TargetError> {
    let canonical = candidates.iter().filter_map(|path| root.canonical(path).ok());
    in_order(canonical.filter(|path| keep(path)))
}

/// Paths, sorted and without duplicates; at least one.
fn in_order(paths: impl IntoIterator<Item = PathBuf>) -> Result<Vec<String>, TargetError> {
    let texts = paths.into_iter().filter_map(|path| path.into_os_string().into_string().ok());
    let mut found: Vec<String> = texts.collect();
    found.sort_unstable();
    found.dedup();
    if found.is_empty() { Err(TargetError::Missing { near: Vec::new() }) } else { Ok(found) }
}

/// Candidates for a name without `/`, from the first source that has any.
fn by_name(root: &Root, name: &str, pid: Option<u32>) -> Vec<PathBuf> {
    let commands = || -> Vec<PathBuf> {
        let directories = command_directories();
        if glob::is_pattern(name) {
            return directories.iter().flat_map(|directory| expand(root, &directory.join(name))).collect();
        }
        let is_file = |path: &PathBuf| root.canonical(path).is_ok_and(|path| path.is_file());
        directories.iter().map(|directory| directory.join(name)).find(is_file).into_iter().collect()
    };
    let libraries = || {
        if glob::is_pattern(name) {
            library::matching(root, name)
        } else {
            library::installed(root, name).into_iter().collect()
        }
    };
    let is_wanted = |path: &PathBuf| {
        let is_it = |file: String| {
            if glob::is_pattern(name) { glob::matches(name, &file) } else { library::is_named(&file, name) }
        };
        file_name(path).is_some_and(is_it)
    };
    let here = || Some(absolute(name)).filter(|path| root.canonical(path).is_ok()).into_iter().collect();
    let running = || if pid.is_none() { mapped::of_all().into_iter().filter(is_wanted).collect() } else { Vec::new() };
    let places: [&dyn Fn() -> Vec<PathBuf>; 4] = [&commands, &libraries, &here, &running];
    places.iter().map(|place| place()).find(|found| !found.is_empty()).unwrap_or_default()
}

/// The programs and libraries that a process has mapped under a name without `/`; `None` if there
/// are none.
fn mapped_as(name: &str, pid: u32) -> Option<Vec<String>> {
    let mut found = if glob::is_pattern(name) {
        let mut found = mapped::of_process(pid);
        found.retain(|path| file_name(path).is_some_and(|file| glob::matches(name, &file)));
        found
    } else {
        mapped::named(pid, name)
    };
    found.retain(|path| is_elf(path).is_ok());
    in_order(found).ok()
}

fn command_directories() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|directory| directory.is_absolute()).collect()
}

/// Makes a path absolute.
fn absolute(path: &str) -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")).join(path)
}

/// Paths that match a pattern, with wildcards in any component; relative to the root.
fn expand(root: &Root, pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.components() {
        let Component::Normal(part) = part else {
            if part == Component::ParentDir {
                for path in &mut found {
                    path.push("..");
                }
            }
            continue;
        };
        let part = part.to_string_lossy();
        if glob::is_pattern(&part) {
            found = found.iter().flat_map(|directory| entries(root, directory, &part)).collect();
        } else {
            for path in &mut found {
                path.push(part.as_ref());
            }
        }
    }
    found
}

/// Entries of a directory that match a pattern; hidden files only if the pattern begins with a dot.
fn entries(root: &Root, directory: &Path, pattern: &str) -> Vec<PathBuf> {
    let Ok(entries) = root.canonical(directory).and_then(fs::read_dir) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let shown = names.filter(|name| !name.starts_with('.') || pattern.starts_with('.'));
    shown.filter(|name| glob::matches(pattern, name)).map(|name| directory.join(name)).collect()
}

/// Checks that a file can be probed; the error says why not.
fn is_elf(path: &Path) -> Result<(), TargetError> {
    let meta = fs::metadata(path).map_err(|error| io_error(path, &error))?;
    if !meta.is_file() {
        let what = if meta.is_dir() { "a directory" } else { "not a regular file" };
        return Err(TargetError::Invalid(format!("{} is {what}", path.display())));
    }
    let mut file = BufReader::new(open_regular(path).map_err(|error| io_error(path, &error))?);
    match file.fill_buf() {
        Ok([0x7f, b'E', b'L', b'F', ..]) => Ok(()),
        Ok([b'#', b'!', ..]) => Err(script(path, file)),
        Ok(_) => Err(TargetError::Invalid(format!("{} is not an ELF file", path.display()))),
        Err(error) => Err(io_error(path, &error)),
    }
}

/// The error for a script, with its interpreter from the first line: `#!/usr/bin/env python3` is
/// run by `python3`.
fn script(path: &Path, file: impl BufRead) -> TargetError {
    const MOST_READ: u64 = 256;
    let mut line = Vec::new();
    let read = file.take(MOST_READ).read_until(b'\n', &mut line).unwrap_or_default();
    let line = String::from_utf8_lossy(&line[..read]);
    let mut words = line.trim_start_matches("#!").split_whitespace();
    let program = words.next().map_or("", |first| {
        let is_option = |word: &&str| word.starts_with('-') || word.contains('=');
        if first.ends_with("/env") { words.find(|word| !is_option(word)).unwrap_or(first) } else { first }
    });
    let path = path.display();
    TargetError::Invalid(format!("{path} is a script, not an ELF file: probe {program}, the program that runs it"))
}

/// A "missing" error with similar names: of the same directory for a path, of commands and
/// libraries for a name.
fn missing(root: &Root, name: &str) -> TargetError {
    let near = if let Some((directory, file)) = name.rsplit_once('/') {
        let siblings = entries(root, &absolute(&format!("{directory}/")), "*");
        let names: Vec<_> = siblings.iter().filter_map(|path| file_name(path)).collect();
        let near = similar::nearest(file, names.iter().map(String::as_str), NEAR_NAMES);
        near.into_iter().map(|near| format!("{directory}/{near}")).collect()
    } else {
        let commands = command_directories();
        let files = commands.iter().flat_map(|directory| entries(root, directory, "*"));
        let mut names: Vec<String> = files.filter_map(|path| file_name(&path)).collect();
        names.extend(library::names(root));
        similar::nearest(name, names.iter().map(String::as_str), NEAR_NAMES)
    };
    TargetError::Missing { near }
}

fn file_name(path: &Path) -> Option<String> {
    path.file_name()?.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{find, script};
    use profiler_compiler::target::TargetError;
    use std::path::{Path, PathBuf};

    fn own() -> PathBuf {
        std::env::current_exe().and_then(std::fs::canonicalize).expect("a path")
    }

    #[test]
    fn finds_paths_patterns_and_commands() {
        let own = own();
        let path = own.to_str().expect("text");
        assert_eq!(find(path, None), Ok(vec![path.to_owned()]));
        let pattern = format!("{}/*", own.parent().expect("a directory").display());
        assert!(find(&pattern, None).is_ok_and(|found| found.contains(&path.to_owned())));
        let shell = find("sh", None).expect("every machine has one");
        assert_eq!(find("/bin/sh", None), Ok(shell));
    }

    #[test]
    fn finds_the_libraries_of_a_process() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("our own");
        if !maps.contains("libc.so") {
            println!("SKIPPED: statically linked");
            return;
        }
        let of_process = find("libc", Some(std::process::id())).expect("we run with it");
        assert!(maps.contains(&of_process[0]));
        assert_eq!(find("libc", None), Ok(of_process.clone()));
        assert_eq!(find("c", None).as_ref(), Ok(&of_process));
        assert_eq!(find("libc.so.6", None), Ok(of_process));
        let own_name = own().file_name().expect("a name").to_str().expect("text").to_owned();
        assert!(find(&own_name, Some(std::process::id())).is_ok_and(|found| found.len() == 1));
    }

    #[test]
    fn looks_into_the_mounts_of_a_process() {
        let mut child = match std::process::Command::new("unshare").args(["-m", "sleep", "1000"]).spawn() {
            Ok(child) => child,
            Err(error) => return println!("SKIPPED: unshare: {error}"),
        };
        let ours = std::fs::read_link("/proc/self/ns/mnt").expect("our own");
        let pid = child.id();
        // `unshare` execs `sleep` in the same process after a moment.
        let is_sleep = || {
            let exe = std::fs::read_link(format!("/proc/{pid}/exe"));
            exe.is_ok_and(|exe| exe.ends_with("sleep") || exe.ends_with("busybox"))
        };
        while !is_sleep() && child.try_wait().expect("our own child").is_none() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let moved = is_sleep();
        let separate = std::fs::read_link(format!("/proc/{pid}/ns/mnt")).is_ok_and(|theirs| theirs != ours);
        let found = ["sh", "/bin/sh", "libc", "/usr/bin/sle*"].map(|name| find(name, Some(pid)));
        child.kill().and_then(|()| child.wait()).expect("our own child");
        if !(moved && separate) {
            return println!("SKIPPED: no mount namespace of its own");
        }
        for found in found {
            let found = found.expect("the same files are mounted there");
            assert!(found[0].starts_with(&format!("/proc/{pid}/root/")), "{found:?}");
        }
    }

    #[test]
    fn says_why_not() {
        let invalid = |name: &str, word: &str| match find(name, None) {
            Err(TargetError::Invalid(words)) => assert!(words.contains(word), "{words}"),
            other => panic!("{other:?}"),
        };
        invalid("/etc/passwd", "not an ELF file");
        invalid("/tmp", "a directory");
        invalid("/dev/null", "not a regular file");
        assert!(matches!(find("", None), Err(TargetError::Missing { .. })));
        assert!(matches!(find("/no/such*", None), Err(TargetError::Missing { .. })));
        assert!(
            matches!(find("/bin/shh", None), Err(TargetError::Missing { near }) if near.contains(&"/bin/sh".into()))
        );
        assert!(matches!(find("libcc", None), Err(TargetError::Missing { near }) if near.contains(&"libc".into())));
        assert!(matches!(find("sh", Some(u32::MAX)), Err(TargetError::Invalid(_))));
    }

    #[test]
    fn names_the_program_of_a_script() {
        for (line, program) in
            [("#!/bin/sh -e\n", "/bin/sh"), ("#! /usr/bin/env -S A=1 python3 -u\n", "python3"), ("#!", "")]
        {
            let TargetError::Invalid(words) = script(Path::new("/x"), line.as_bytes()) else { panic!("{line}") };
            assert!(words.contains(&format!("probe {program},")), "{words}");
        }
    }
}
