//! Checks that a process the script filters for is the intended one.
//!
//! In: ids and names of processes, files with probes. Out: problems with advice.
//! Guarantee: findings reflect /proc at the time of the check; a process that may not be inspected
//! is assumed to be right.

use std::fs;
use std::path::Path;

use profiler_compiler::similar;

use super::filters::ProcessFilter;
use super::findings::{Finding, Kind};
use profiler_runtime::host;

/// Longest name of a thread, `TASK_COMM_LEN` minus its NUL.
const LONGEST_NAME: usize = 15;

/// What is wrong with the requested process, if anything.
pub(super) fn examine(wanted: &ProcessFilter) -> Option<Finding> {
    match wanted {
        // Idle tasks, and processes of other pid namespaces.
        ProcessFilter::Process(0, _) | ProcessFilter::Thread(0, _) => None,
        ProcessFilter::Process(pid, from) => process(*pid, from),
        ProcessFilter::Thread(tid, from) => (!exists(*tid)).then(|| {
            let words = format!("there is no thread {tid} (`{from}`)");
            Finding::wrong(Kind::WrongProcess, words, "`ls /proc/PID/task` lists a process's threads")
        }),
        ProcessFilter::Name(name) => thread_name(name),
    }
}

fn process(pid: u32, from: &str) -> Option<Finding> {
    let wrong = |words: String, advice: String| Some(Finding::wrong(Kind::WrongProcess, words, advice));
    if !exists(pid) {
        let words = format!("there is no process {pid} (`{from}`)");
        return match inner(pid) {
            Some((outer, name)) => wrong(
                format!("{words}; in a pid namespace of its own, that is process {outer} ({name})"),
                format!("use the number that it has here: {outer}"),
            ),
            None => wrong(words, "`pgrep -a NAME` finds a process's number".into()),
        };
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let name = field("Name:").unwrap_or("?");
    match field("Tgid:").and_then(|tgid| tgid.parse::<u32>().ok()) {
        Some(group) if group != pid => wrong(
            format!("{pid} (`{from}`) is a thread of process {group} ({name}), not a process"),
            format!("use the process's number, {group}, or compare `tid == {pid}`"),
        ),
        _ => match field("State:").and_then(|state| state.chars().next()) {
            Some('Z' | 'X') => wrong(
                format!("process {pid} ({name}, `{from}`) has ended, and its parent has not waited for it"),
                "`pgrep -a NAME` finds the number of one that runs".into(),
            ),
            Some('T') => wrong(
                format!("process {pid} ({name}, `{from}`) is stopped, so it does nothing"),
                format!("`kill -CONT {pid}` resumes it"),
            ),
            _ => None,
        },
    }
}

fn exists(id: u32) -> bool {
    Path::new(&format!("/proc/{id}")).exists()
}

/// The process that has this number in a nested pid namespace: its number here, and its name.
fn inner(pid: u32) -> Option<(u32, String)> {
    processes().find_map(|outer| {
        let status = fs::read_to_string(format!("/proc/{outer}/status")).ok()?;
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        let numbers: Vec<&str> = numbers.split_whitespace().collect();
        let name = status.lines().find_map(|line| line.strip_prefix("Name:"))?.trim().to_owned();
        (numbers.len() > 1 && numbers.last()?.parse() == Ok(pid)).then_some((outer, name))
    })
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn thread_name(name: &str) -> Option<Finding> {
    if name.len() > LONGEST_NAME {
        let cut: String = name.chars().take(LONGEST_NAME).collect();
        let words = format!("`comm` has {LONGEST_NAME} characters at most, so it never is \"{name}\"");
        return Some(Finding::wrong(Kind::WrongProcess, words, format!("compare with \"{cut}\"")));
    }
    let names: Vec<String> = processes().flat_map(thread_names).collect();
    if names.iter().any(|known| known == name) {
        return None;
    }
    let words = format!("no thread is called \"{name}\" now");
    let near = similar::nearest(name, names.iter().map(String::as_str), 1);
    let advice = match near.first() {
        Some(near) => format!("there is one called \"{near}\""),
        None => "`comm` is the name of the thread, not of its program's file: `ps -Leo comm` lists them".into(),
    };
    Some(Finding::wrong(Kind::WrongProcess, words, advice))
}

fn thread_names(pid: u32) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| Some(fs::read_to_string(entry.path().join("comm")).ok()?.trim_end().to_owned());
    threads.filter_map(name).collect()
}

/// Activity of a process: context switches of its threads plus clock ticks.
pub(super) fn activity(pid: u32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    Some(threads.map(|thread| of_thread(&thread.path())).sum())
}

fn of_thread(directory: &Path) -> u64 {
    let status = fs::read_to_string(directory.join("status")).unwrap_or_default();
    let switches = status.lines().filter_map(|line| line.split_once("voluntary_ctxt_switches:"));
    let switches: u64 = switches.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum();
    let stat = fs::read_to_string(directory.join("stat")).unwrap_or_default();
    // After the name, which may contain anything, come fields 3 and on; user and system time are 14
    // and 15.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    switches + fields.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>()
}

/// What an inactive process is waiting for.
pub(super) fn asleep(pid: u32) -> Finding {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let place = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    let place =
        if matches!(place.as_str(), "" | "0") { String::new() } else { format!(" (in `{place}` of the kernel)") };
    let words = format!("process {pid} ({}) slept all the time{place}, so it did nothing", name.trim_end());
    Finding::wrong(Kind::Asleep, words, "give it something to do, or look longer: `--duration 30s`")
}

/// A file with probes that a process has not mapped as code.
pub(super) fn not_mapped(pid: u32, path: &str) -> Option<Finding> {
    let other = host::other_code(pid, Path::new(path))?;
    let words = format!("process {pid} does not run code of {path}");
    let advice = match other.similar {
        Some(own) => format!("it runs {}: probe that file", own.display()),
        None => format!("`profiler list 'uprobe:*' -p {pid}` lists what it runs; it may be linked statically"),
    };
    Some(Finding::wrong(Kind::WrongProcess, words, advice))
}
