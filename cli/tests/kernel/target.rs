//! The filters of `std/target`, one by one and together.
//!
//! In: processes that differ in name, user, parent and control group, each with its own number of
//! calls. Out: the sum of the calls, which tells exactly whose were counted.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use profiler_compiler::source::Source;

use super::faults::{OnDemand, number};
use super::machine::{Directory, attached, copy, run, skip, workload};
use super::parameters::translated_bytes;

const MODULE: &str = include_str!("../../../stdlib/std/target.prof");
const NOBODY: u32 = 65534;

/// Counts calls that pass the filters, as the current thread and as a thread given by its task.
fn script(program: &str) -> String {
    format!(
        "use std/target
        uprobe:{program}:workload_step /target.is()/ {{ @calls = count(); }}
        uprobe:{program}:workload_step /target.is_task(curtask)/ {{ @tasks = count(); }}"
    )
}

/// Processes of one program, none of which other tests probe.
struct Processes {
    directory: Directory,
    program: String,
    /// They make 1, 10, 100 … calls.
    all: Vec<OnDemand>,
}

/// Indices of [`Processes::all`].
const PLAIN: usize = 0;
const NAMED: usize = 1;
const NOBODY_S: usize = 2;
const OF_SHELL: usize = 3;

impl Processes {
    fn start() -> Processes {
        let directory = Directory::new("target");
        let (program, named) = (directory.path("workload"), directory.path("so-named"));
        copy(workload(), &program);
        std::fs::hard_link(&program, &named).expect("a link");
        let all = vec![
            OnDemand::start(&program, None),
            OnDemand::start(&named, None),
            OnDemand::within(Command::new(&program).arg("on-demand").uid(NOBODY)),
            OnDemand::within(Command::new("sh").args(["-c", &format!("sh -c '{program} on-demand; true'; true")])),
        ];
        Processes { directory, program, all }
    }

    /// Whose calls are counted with these filters. A process that starts during the run is the last
    /// one.
    fn counted(&mut self, filters: &[&str]) -> Vec<usize> {
        let script = self.directory.file("script.prof", &script(&self.program));
        let running = attached(&[&["-q", &script], filters].concat());
        self.all.push(OnDemand::start(&self.program, None));
        let mut calls = 1;
        for process in &mut self.all {
            process.call(calls);
            calls *= 10;
        }
        let late = self.all.pop().expect("the last one");
        running.signal("INT");
        let ended = running.end();
        drop(late);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let sum = number(&ended.stdout, "@calls");
        assert_eq!(sum, number(&ended.stdout, "@tasks"), "{filters:?}: {}", ended.stdout);
        let digits = format!("{sum:05}");
        assert!(digits.bytes().all(|digit| digit == b'0' || digit == b'1'), "{filters:?}: {sum}");
        digits.bytes().rev().enumerate().filter(|(_, digit)| *digit == b'1').map(|(index, _)| index).collect()
    }
}

#[test]
fn each_filter_passes_the_threads_that_it_names() {
    if skip() {
        return;
    }
    let mut processes = Processes::start();
    let pid = |index: usize| processes.all[index].pid().to_string();
    let both = format!("{},{}", pid(PLAIN), pid(NAMED));
    let (named, shell, own) = (pid(NAMED), pid(OF_SHELL), std::process::id().to_string());
    let user = NOBODY.to_string();
    let late = processes.all.len();
    for (filters, expected) in [
        (&["--pid", &both][..], &[PLAIN, NAMED][..]),
        (&["--tid", &named], &[NAMED]),
        (&["--comm", "^so-"], &[NAMED]),
        (&["--comm", "^workload$", "--pid", &both], &[PLAIN]),
        (&["--user", &user], &[NOBODY_S]),
        (&["--user", "nobody"], &[NOBODY_S]),
        (&["--user", "nobody,root", "--comm", "workload"], &[PLAIN, NOBODY_S, OF_SHELL, late]),
        (&["--user", "0", "--comm", "workload"], &[PLAIN, OF_SHELL, late]),
        // The shell's child is a shell too.
        (&["--tree", &shell], &[OF_SHELL]),
        (&["--tree", &own], &[PLAIN, NAMED, NOBODY_S, OF_SHELL, late]),
        (&["--tree", &named, "--user", &user], &[]),
    ] {
        assert_eq!(processes.counted(filters), expected, "{filters:?}");
    }
}

/// The id of a container that no other test uses.
const CONTAINER: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";

/// The control group that Docker gives this container.
fn scope() -> String {
    format!("/docker-{CONTAINER}.scope")
}

/// A control group below another one; removed when dropped.
struct Groups(String);

impl Groups {
    fn new() -> Option<Groups> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let root = fields.find(|line| line.get(2) == Some(&"cgroup2"))?[1].to_owned();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = format!("{root}/profiler-target-{}-{number}", std::process::id());
        std::fs::create_dir_all(format!("{path}/inner/inmost")).ok()?;
        Some(Groups(path))
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for part in ["/inner/inmost", "/inner", &scope(), ""] {
            let _ = std::fs::remove_dir(format!("{}{part}", self.0));
        }
    }
}

/// A control group for a test; `None`, with a printed reason, if the test cannot run here.
fn groups() -> Option<Groups> {
    let is_usable = |groups: &Groups| Path::new(&groups.0).join("cgroup.procs").exists();
    let made = if skip() { return None } else { Groups::new().filter(is_usable) };
    if made.is_none() {
        println!("SKIPPED: no control group can be made here");
    }
    made
}

#[test]
fn a_control_group_includes_those_below_it() {
    let Some(groups) = groups() else { return };
    let mut processes = Processes::start();
    for (index, part) in [(PLAIN, ""), (NAMED, "/inner"), (NOBODY_S, "/inner/inmost")] {
        let procs = format!("{}{part}/cgroup.procs", groups.0);
        std::fs::write(procs, processes.all[index].pid().to_string()).expect("it moves");
    }
    let path = |part: &str| format!("{}{part}", groups.0);
    for (filters, expected) in [
        (&["--cgroup", &path("")][..], &[PLAIN, NAMED, NOBODY_S][..]),
        (&["--cgroup", &path("/inner")], &[NAMED, NOBODY_S]),
        (&["--cgroup", &path("/inner/inmost")], &[NOBODY_S]),
        (&["--cgroup", &path("/inner"), "--user", "0"], &[NAMED]),
    ] {
        assert_eq!(processes.counted(filters), expected, "{filters:?}");
    }
    // A control group with processes cannot be removed.
    processes.all.clear();
}

#[test]
fn a_container_is_found_by_its_id() {
    let Some(groups) = groups() else { return };
    let mut processes = Processes::start();
    let group = format!("{}{}", groups.0, scope());
    std::fs::create_dir_all(&group).expect("a control group");
    std::fs::write(format!("{group}/cgroup.procs"), processes.all[NAMED].pid().to_string()).expect("it moves");
    for id in [&CONTAINER[..12], CONTAINER] {
        assert_eq!(processes.counted(&["--cgroup", id]), [NAMED], "{id}");
        assert_eq!(processes.counted(&["--container", id]), [NAMED], "{id}");
    }
    assert_eq!(processes.counted(&["--container", &CONTAINER[..12], "--user", "1"]), [0; 0]);
    // Both have to hold.
    assert_eq!(processes.counted(&["--container", CONTAINER, "--cgroup", &groups.0]), [NAMED]);
    assert_eq!(processes.counted(&["--container", CONTAINER, "--cgroup", &format!("{}/inner", groups.0)]), [0; 0]);
    processes.all.clear();
    let unknown = run(&["cpu/profile", "--container", "abcdefabcdef"]);
    assert!(unknown.stderr.contains("no control group here bears this container's id"), "{}", unknown.stderr);
}

#[test]
fn a_filter_that_is_not_given_costs_one_load() {
    if skip() {
        return;
    }
    let size = |filter: &str, given: &[(&str, &str)]| {
        let probe = format!("tracepoint:syscalls:sys_enter_getppid {filter} {{ @calls[pid] = count(); }}");
        let mut source = Source::new("script", format!("use std/target\n{probe}"));
        source.append_module("stdlib/std/target.prof", MODULE, "std/target");
        translated_bytes(&source, given)
    };
    let (bare, none, one) = (size("", &[]), size("/target.is()/", &[]), size("/target.is()/", &[("pid", "1")]));
    println!("bytes: without filters {bare}, none given {none}, one given {one}");
    // A load is an address of two instructions and the load itself. One more instruction keeps the
    // current task in a register.
    assert!(none > bare && none <= bare + 7 * 24 + 8, "{bare} {none}");
    assert!(one > none, "{none} {one}");
}
