//! The same scripts under bpftrace and under our drop-in of the same name.
//!
//! In: tests/tools/differential. Out: both outputs, compared.
//! Guarantee: the comparison omits only what cannot be equal: the head line, the workload's own
//! lines, empty lines.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::workload::workload;

/// The bpftrace version that the expected differences refer to.
const VERSION: &str = "bpftrace v0.17";

/// The version of bpftrace that `scripts/setup --peer` unpacks.
const CURRENT: &str = "bpftrace v0.27";

/// Number of concurrent runs: they spend most of their time waiting for the kernel.
pub const AT_ONCE: usize = 3;

/// A message that 0.17 prints wherever it may not raise this limit.
const LIMIT_OF_LOCKED_MEMORY: &str = "couldn't set RLIMIT_MEMLOCK";

/// How often bpftrace is started if it fails without a message; our drop-in always prints one.
const TRIES: usize = 4;

/// A script and its workload.
#[derive(Debug, Default)]
struct Case {
    name: String,
    workload: String,
    words: Vec<String>,
    script: String,
    differs: Option<String>,
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let text = include_str!("../../../tests/tools/differential");
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let case = cases.last_mut();
        match (line.strip_prefix("    "), line.strip_prefix('!')) {
            (Some(part), _) => case.expect("a name comes first").script.extend([part, "\n"]),
            (_, Some(reason)) => case.expect("a name comes first").differs = Some(reason.into()),
            _ => {
                let (name, rest) = line.split_once(": ").unwrap_or_else(|| panic!("no workload: {line}"));
                let (workload, words) = rest.split_once(" -- ").unwrap_or((rest, ""));
                let words = words.split_whitespace().map(String::from).collect();
                cases.push(Case { name: name.into(), workload: workload.into(), words, ..Case::default() });
            }
        }
    }
    cases
}

/// A directory in which `bpftrace` is our binary; removed when dropped.
pub struct Ours(PathBuf);

impl Ours {
    /// Tests of one process run at once: each has a directory of its own.
    pub fn new() -> Ours {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let of = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(format!("profiler-bpftrace-{}-{}", of.0, of.1));
        std::fs::create_dir(&directory).expect("a directory");
        symlink(env!("CARGO_BIN_EXE_profiler"), directory.join("bpftrace")).expect("a link");
        Ours(directory)
    }

    pub fn path(&self) -> PathBuf {
        self.0.join("bpftrace")
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a tool on a case.
fn run(tool: &Path, case: &Case) -> Output {
    let child = format!("{} {}", workload(), case.workload);
    let script = case.script.replace("{workload}", workload());
    Command::new(tool)
        .args(["-c", &child, "-e", &script])
        .args(&case.words)
        // Cargo's library path would be searched, and the files opened on the way counted.
        .env_remove("LD_LIBRARY_PATH")
        .stdin(Stdio::null())
        .output()
        .expect("it runs")
}

/// Runs bpftrace. On a busy machine, 0.17 sometimes exits without a message, or without having run
/// the script.
fn run_theirs(tool: &Path, case: &Case) -> Output {
    (1..TRIES).map(|_| run(tool, case)).find(|output| !is_mute(output)).unwrap_or_else(|| run(tool, case))
}

/// Whether bpftrace failed without a message.
pub fn is_mute(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    !output.status.success() && said.lines().all(|line| line.contains(LIMIT_OF_LOCKED_MEMORY))
}

/// The comparable lines of a tool's output.
pub fn answer(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said =
        if output.status.success() { String::new() } else { String::from_utf8_lossy(&output.stderr).into_owned() };
    let mut own: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty() && !is_of_others(line)).collect();
    // bpftrace prints entries of equal value in the order of the kernel's hash; we print them in
    // key order.
    for ties in own.chunk_by_mut(|a, b| tied(a).is_some() && tied(a) == tied(b)) {
        ties.sort_unstable();
    }
    own.into_iter().chain(said.lines()).fold(String::new(), |all, line| all + line.trim_end() + "\n")
}

/// The map and the value of a printed entry.
fn tied(line: &str) -> Option<(&str, &str)> {
    let (entry, value) = line.split_once("]: ")?;
    Some((entry.strip_prefix('@')?.split_once('[')?.0, value))
}

/// Whether a line is bpftrace's head line or printed by the workload.
fn is_of_others(line: &str) -> bool {
    const WORKLOAD: [&str; 6] = ["reads", "bytes", "opens", "calls", "sum", "execs"];
    let of_workload = |(name, number): (&str, &str)| WORKLOAD.contains(&name) && number.parse::<u64>().is_ok();
    line.starts_with("Attaching ") || line.split_once(' ').is_some_and(of_workload)
}

/// The path of bpftrace of that version, not of our drop-in. `None`, with a printed reason, if it
/// cannot be run.
pub fn theirs() -> Option<PathBuf> {
    if let Some(reason) = super::out_of_reach() {
        println!("SKIPPED: {reason}");
        return None;
    }
    let found = installed();
    if found.is_none() {
        println!("SKIPPED: {VERSION} is not installed (scripts/setup --tests)");
    }
    found
}

/// A current bpftrace, of the version whose differences are known.
pub fn current() -> Option<PathBuf> {
    if let Some(reason) = super::out_of_reach() {
        println!("SKIPPED: {reason}");
        return None;
    }
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/peer/bpftrace"));
    let found = Some(path).filter(|path| is_version(path, CURRENT));
    if found.is_none() {
        println!("SKIPPED: {CURRENT} is not in target/peer (scripts/setup --peer)");
    }
    found
}

fn installed() -> Option<PathBuf> {
    let places = ["/usr/bin/bpftrace", concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bpftrace/usr/bin/bpftrace")];
    places.into_iter().map(PathBuf::from).find(|path| is_version(path, VERSION))
}

fn is_version(path: &Path, version: &str) -> bool {
    let says = Command::new(path).arg("--version").output();
    says.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).starts_with(version))
}

#[test]
fn scripts_are_answered_as_bpftrace_answers_them() {
    let Some(theirs) = theirs() else { return };
    let ours = Ours::new();
    let cases = cases();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (expected, found) = (answer(&run_theirs(&theirs, case)), answer(&run(&ours.path(), case)));
                    let failure = match (&case.differs, expected == found) {
                        (None, true) | (Some(_), false) => continue,
                        (None, false) => format!("bpftrace:\n{expected}ours:\n{found}"),
                        (Some(reason), true) => format!("the answers are the same, although {reason}"),
                    };
                    failures.lock().expect("no test panics with it").push(format!("{}: {failure}", case.name));
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no test panics with it");
    let differing = cases.iter().filter(|case| case.differs.is_some()).count();
    println!("{} scripts, {differing} with known differences", cases.len());
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}
