//! The scripts that bpftrace ships: each is started, an event that it reports is triggered, and it
//! must report it.
//!
//! In: tests/tools/table, the scripts that `scripts/setup` unpacks to target/tools: those of 0.17,
//! and in directories below it those of later versions. Out: a line for each tool and version.
//! Guarantee: if a kernel lacks what a script needs, the diagnostic is checked as strictly as the
//! output elsewhere.

mod beside;
mod differential;
mod idioms;
#[path = "../patience/mod.rs"]
mod patience;
mod random;
mod started;
mod table;
#[path = "../workload/mod.rs"]
mod workload;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use started::Started;
use table::{Tool, contains, fill};

/// The repository's root.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The tool that 0.17 does not have; it is not tested where only the scripts of 0.17 are.
const ONLY_LATER: &str = "biolatency-kp";

/// One test for each script: each gets a line in the kernel matrix, and they run in parallel.
macro_rules! tools {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            fed(&stringify!($name).replace('_', "-"));
        })*

        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

tools! {
    bashreadline biolatency biolatency_kp biosnoop biostacks bitesize capable cpuwalk dcsnoop execsnoop gethostlatency killsnoop loads mdflush
    naptime oomkill opensnoop pidpersec runqlat runqlen setuids ssllatency sslsnoop statsnoop swapin syncsnoop syscount tcpaccept
    tcpconnect tcpdrop tcplife tcpretrans tcpsynbl threadsnoop undump vfscount vfsstat writeback xfsdist
}

/// The path of a version's script: unpacked by `scripts/setup`, or installed.
fn script(name: &str, version: &str) -> Option<PathBuf> {
    let places = if version == table::FIRST {
        [format!("{ROOT}/target/tools/{name}.bt"), format!("/usr/sbin/{name}.bt")]
    } else {
        [format!("{ROOT}/target/tools/{version}/{name}.bt"), String::new()]
    };
    places.map(PathBuf::from).into_iter().find(|path| path.exists())
}

/// The reason why nothing can be traced here.
fn out_of_reach() -> Option<&'static str> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !status.lines().any(|line| line.starts_with("Uid:\t0\t0\t")) {
        return Some("programs load and attach as root only");
    }
    let tracepoints = PathBuf::from("/sys/kernel/tracing/events/syscalls");
    (!tracepoints.exists()).then_some("the kernel's tracepoints cannot be read (is tracefs mounted?)")
}

/// The kernel's name in the table; `None` for a kernel that is not in the table, where a diagnostic
/// is accepted as well as the report.
fn kernel() -> Option<&'static str> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let is_machine = release.contains("-cloud-");
    let has_kprobes = PathBuf::from("/sys/kernel/tracing/kprobe_events").exists();
    match () {
        () if is_machine && release.starts_with("6.1.") => Some("6.1"),
        () if is_machine && release.starts_with("6.12.") => Some("6.12"),
        () if !has_kprobes && release.starts_with("6.18.") => Some("6.18"),
        () => None,
    }
}

fn fed(name: &str) {
    if let Some(reason) = out_of_reach() {
        println!("SKIPPED: {reason}");
        return;
    }
    let tools = table::tools();
    let mut fed = 0;
    for version in table::VERSIONS {
        let Some(tool) = table::of_version(&tools, name, version) else { continue };
        let Some(path) = script(name, version) else { continue };
        let is_fed = start_and_feed(tool, version, &path);
        fed += 1;
        if is_fed && tool.once {
            break;
        }
    }
    if fed == 0 && name != ONLY_LATER {
        println!("SKIPPED: bpftrace's scripts are not in target/tools (scripts/setup --tests)");
    }
}

/// Starts a script: it must report what the table says, or be refused as the table says. Returns
/// whether it reported.
fn start_and_feed(tool: &Tool, version: &str, path: &Path) -> bool {
    let name = format!("{} of {version}", tool.name);
    let refused = kernel().and_then(|kernel| tool.refused.get(kernel));
    let mut started = Started::start(path);
    match (started.is_attached(), refused) {
        (true, None) => {
            let mut outcome = report(tool, started);
            for _ in 1..tool.tries {
                if outcome.is_ok() {
                    break;
                }
                let mut again = Started::start(path);
                assert!(again.is_attached(), "{name} started before");
                outcome = report(tool, again);
            }
            outcome.unwrap_or_else(|missing| panic!("{name}: {missing}"));
            return true;
        }
        (false, Some((says, reason))) => {
            let said = started.end().1;
            assert!(said.contains(says), "{name} is to say {says:?}: {said}");
            assert!(said.contains(" = "), "{name} gives no advice: {said}");
            println!("{name}: refused: {reason}");
        }
        (true, Some((says, reason))) if says.starts_with("Attached") => {
            let said = started.end().1;
            assert!(said.contains(says), "{name} is to say {says:?}: {said}");
            println!("{name}: sees nothing: {reason}");
        }
        (true, Some((_, reason))) => panic!("{name} starts, although {reason}"),
        (false, None) => {
            let said = started.end().1;
            assert!(kernel().is_none() && said.starts_with("error["), "{name} does not start: {said}");
            println!("{name}: refused: {}", said.lines().next().unwrap_or_default());
        }
    }
    false
}

/// Triggers the event that the tool reports, and checks its report; an error has what is missing.
fn report(tool: &Tool, mut started: Started) -> Result<(), String> {
    let values = triggered(tool);
    let patterns: Vec<String> = tool.shows.iter().map(|pattern| fill(pattern, &values)).collect();
    if tool.waits {
        started.wait_for(|shown| are_shown(&patterns, shown));
    }
    let (shown, said) = started.end();
    remove(&values);
    for pattern in &patterns {
        let line = shown.lines().find(|line| contains(line, pattern));
        let line = line.ok_or_else(|| format!("it does not show `{pattern}`:\n{shown}{said}"))?;
        println!("{}: {}", tool.name, line.trim());
    }
    Ok(())
}

fn are_shown(patterns: &[String], shown: &str) -> bool {
    patterns.iter().all(|pattern| shown.lines().any(|line| contains(line, pattern)))
}

/// Triggers the event that the tool reports. The values are those that the patterns name.
fn triggered(tool: &Tool) -> BTreeMap<String, String> {
    let mut values = surroundings(tool);
    let act = fill(&tool.act, &values);
    // Words are separated by one space. The last word of a typed line may contain spaces.
    let words = act.splitn(if act.starts_with("bash ") { 2 } else { 9 }, ' ');
    // Cargo's library path would be searched: its files are not what the act is about.
    let mut workload = Command::new(workload::workload());
    let done = workload.arg("act").args(words).env_remove("LD_LIBRARY_PATH").output().expect("the workload");
    assert!(done.status.success(), "{}: `{act}` failed: {}", tool.name, String::from_utf8_lossy(&done.stderr));
    for line in String::from_utf8_lossy(&done.stdout).lines() {
        let (name, value) = line.split_once(' ').expect("a name and a value");
        values.insert(name.into(), value.into());
    }
    values
}

/// Values that an act may use: a device (`PROFILER_DISK`) or a file instead, and the name of a file
/// that does not exist.
fn surroundings(tool: &Tool) -> BTreeMap<String, String> {
    let unique = format!("{}-{}", tool.name, std::process::id());
    let disk = std::env::var("PROFILER_DISK").unwrap_or_else(|_| format!("{ROOT}/target/tools-{unique}"));
    let disk_name = disk.rsplit('/').next().unwrap_or_default().to_string();
    let file_name = format!("missing-{unique}");
    [("disk", disk), ("disk_name", disk_name), ("file", format!("/tmp/{file_name}")), ("file_name", file_name)]
        .map(|(name, value)| (name.to_string(), value))
        .into()
}

fn remove(values: &BTreeMap<String, String>) {
    if let Some(disk) = values.get("disk").filter(|disk| !disk.starts_with("/dev/")) {
        // Not every act creates the file.
        let _ = std::fs::remove_file(disk);
    }
}

#[test]
fn every_script_is_in_the_table_and_has_a_test() {
    let tested: Vec<String> = TESTED.iter().map(|name| name.replace('_', "-")).collect();
    let mut named: Vec<String> = table::tools().into_iter().map(|tool| tool.name).collect();
    named.dedup();
    assert_eq!(named, tested);
    let mut directories = Vec::new();
    for version in table::VERSIONS {
        let below = if version == table::FIRST { String::new() } else { format!("/{version}") };
        let Ok(files) = std::fs::read_dir(format!("{ROOT}/target/tools{below}")) else { continue };
        directories.push(version);
        for file in files.filter_map(|file| file.ok()?.file_name().into_string().ok()) {
            let Some(name) = file.strip_suffix(".bt") else { continue };
            assert!(tested.iter().any(|known| known == name), "{file} of {version} is not in the table");
        }
    }
    println!("the scripts of {directories:?}");
    if directories.is_empty() {
        println!("SKIPPED: bpftrace's scripts are not in target/tools (scripts/setup --tests)");
    }
}

/// A tool of a version that is not here is not tested, which is said once for each version.
#[test]
fn the_scripts_of_all_versions_are_here() {
    for version in table::VERSIONS {
        if script("opensnoop", version).is_none() {
            println!("SKIPPED: bpftrace's scripts of {version} are not in target/tools (scripts/setup --tests)");
        }
    }
}

#[test]
fn the_page_says_what_the_table_says() {
    let path = format!("{ROOT}/spec/bpftrace-tools.md");
    let text = std::fs::read_to_string(&path).expect("the page");
    let at = text.find("| tool |").expect("the page has the table");
    let end = text[at..].find("\n\n").map_or(text.len(), |end| at + end + 1);
    let page = table::page(&table::tools());
    if std::env::var_os("PROFILER_BLESS").is_some() {
        std::fs::write(&path, format!("{}{page}{}", &text[..at], &text[end..])).expect("it is written");
        return;
    }
    assert_eq!(text[at..end], page, "PROFILER_BLESS=1 rewrites it");
}
