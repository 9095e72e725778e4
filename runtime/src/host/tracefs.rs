//! Tracepoints, from tracefs.
//!
//! In: the directories below `events`. Out: names and formats. Guarantee: an exact name costs one
//! look at one file.

use super::{NEAR_NAMES, io_error};
use profiler_compiler::target::{TargetError, TracepointFormat};
use profiler_compiler::{glob, similar, tracepoint_format};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Mount points of tracefs; the second is its location before Linux 4.1, where debugfs still shows
/// it.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The kernel's internal records: they have directories but cannot be attached to.
const INTERNAL_CATEGORY: &str = "ftrace";

/// The mount point of tracefs.
pub(super) fn root() -> Result<PathBuf, TargetError> {
    let mut refused = false;
    for root in ROOTS.map(Path::new) {
        match fs::metadata(root.join("events")) {
            Ok(_) => return Ok(root.to_owned()),
            Err(error) => refused |= error.kind() == io::ErrorKind::PermissionDenied,
        }
    }
    Err(TargetError::Refused(if refused {
        format!("{} may not be read: run as root, or with CAP_DAC_READ_SEARCH", ROOTS[0])
    } else {
        format!("tracefs is not mounted: mount -t tracefs tracefs {}", ROOTS[0])
    }))
}

/// Tracepoints that match two patterns, sorted.
pub(super) fn tracepoints(root: &Path, category: &str, event: &str) -> Result<Vec<(String, String)>, TargetError> {
    let mut found = matching(root, category, event)?;
    found.sort_unstable();
    if found.is_empty() {
        return Err(missing(root, category, event));
    }
    Ok(found)
}

/// The format of one tracepoint.
pub(super) fn format(root: &Path, category: &str, event: &str) -> Result<TracepointFormat, TargetError> {
    let path = root.join("events").join(plain(category)?).join(plain(event)?).join("format");
    let text = fs::read_to_string(&path).map_err(|error| match io_error(&path, &error) {
        TargetError::Missing { .. } => missing(root, category, event),
        other => other,
    })?;
    tracepoint_format::parse(&text)
        .ok_or_else(|| TargetError::Invalid(format!("{} is not of the known form", path.display())))
}

fn matching(root: &Path, category: &str, event: &str) -> Result<Vec<(String, String)>, TargetError> {
    let events = root.join("events");
    let mut found = Vec::new();
    for category in directories(&events, category)? {
        if category != INTERNAL_CATEGORY {
            let names = directories(&events.join(&category), event)?;
            found.extend(names.into_iter().map(|event| (category.clone(), event)));
        }
    }
    Ok(found)
}

/// Names of subdirectories that match a pattern; an exact name is looked up without listing the
/// directory.
fn directories(parent: &Path, pattern: &str) -> Result<Vec<String>, TargetError> {
    if !glob::is_pattern(pattern) {
        let is_there = plain(pattern).is_ok_and(|name| parent.join(name).is_dir());
        return Ok(if is_there { vec![pattern.to_owned()] } else { Vec::new() });
    }
    let entries = fs::read_dir(parent).map_err(|error| io_error(parent, &error))?;
    let names = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter(|name| glob::matches(pattern, name)).collect())
}

/// Checks that a name is a single path component.
fn plain(name: &str) -> Result<&str, TargetError> {
    let is_plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
    is_plain.then_some(name).ok_or(TargetError::Missing { near: Vec::new() })
}

/// A "missing" error with similar names, as `category:event`.
fn missing(root: &Path, category: &str, event: &str) -> TargetError {
    let wanted = format!("{category}:{event}");
    if glob::is_pattern(&wanted) {
        return TargetError::Missing { near: Vec::new() };
    }
    let all: Vec<String> =
        matching(root, "*", "*").unwrap_or_default().into_iter().map(|(c, e)| format!("{c}:{e}")).collect();
    let mut near = similar::nearest(&wanted, all.iter().map(String::as_str), NEAR_NAMES);
    if near.is_empty() {
        let event_of = |name: &'_ str| name.split_once(':').map_or(String::new(), |(_, event)| event.to_owned());
        let events: Vec<String> = all.iter().map(|name| event_of(name)).collect();
        let nearest = similar::nearest(event, events.iter().map(String::as_str), NEAR_NAMES);
        near =
            nearest.iter().flat_map(|event| all.iter().filter(move |name| event_of(name) == *event)).cloned().collect();
        near.truncate(NEAR_NAMES);
    }
    TargetError::Missing { near }
}

#[cfg(test)]
mod tests {
    use super::{format, matching, root, tracepoints};
    use profiler_compiler::target::TargetError;
    use std::fs;
    use std::path::PathBuf;

    /// A tracefs with two tracepoints and an internal record.
    fn small_tracefs(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("profiler-tracefs-{name}-{}", std::process::id()));
        for event in ["sched/sched_switch", "sched/sched_wakeup", "ftrace/function", "syscalls/sys_enter_openat"] {
            let directory = root.join("events").join(event);
            fs::create_dir_all(&directory).expect("a directory");
            fs::write(
                directory.join("format"),
                "name: x\nID: 7\nformat:\n\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n",
            )
            .expect("a file");
        }
        fs::write(root.join("events/sched/enable"), "0").expect("a file");
        root
    }

    #[test]
    fn lists_and_proposes() {
        let root = small_tracefs("list");
        let names = |category, event| tracepoints(&root, category, event);
        let pair = |c: &str, e: &str| (c.to_owned(), e.to_owned());
        assert_eq!(names("sched", "sched_switch"), Ok(vec![pair("sched", "sched_switch")]));
        assert_eq!(names("s*", "*w*").map(|found| found.len()), Ok(2));
        assert_eq!(matching(&root, "*", "*").map(|found| found.len()), Ok(3), "no internal records, no files");
        let near = |name: &str| Err(TargetError::Missing { near: vec![name.to_owned()] });
        assert_eq!(names("shced", "sched_switch"), near("sched:sched_switch"));
        assert_eq!(names("sys", "openat"), near("syscalls:sys_enter_openat"));
        assert_eq!(names("sched", "../sched"), Err(TargetError::Missing { near: Vec::new() }));
        assert_eq!(format(&root, "sched", "sched_switch").map(|format| (format.id, format.fields.len())), Ok((7, 1)));
        assert!(matches!(format(&root, "sched", "sched_swich"), Err(TargetError::Missing { near }) if near.len() == 1));
        fs::remove_dir_all(root).expect("our own directory");
    }

    #[test]
    fn agrees_with_the_kernel_s_list() {
        let Ok(root) = root() else {
            println!("SKIPPED: tracefs is not readable");
            return;
        };
        let listed = fs::read_to_string(root.join("available_events")).expect("the kernel's list");
        let mut listed: Vec<&str> = listed.lines().collect();
        listed.sort_unstable();
        let found = tracepoints(&root, "*", "*").expect("there are some");
        let mut found: Vec<String> = found.iter().map(|(category, event)| format!("{category}:{event}")).collect();
        found.sort_unstable();
        assert_eq!(found, listed);
    }
}
