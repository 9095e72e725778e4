//! Parameters and modules: one object with many values, exact sets, filters without cost.
//!
//! In: processes that wait for a line and then make a known number of calls. Out: which processes
//! were counted, and how often.

use std::cell::RefCell;
use std::io::{self, Read as _, Write};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use profiler_compiler::check::Options;
use profiler_compiler::object::Object;
use profiler_compiler::source::Source;
use profiler_compiler::{CATALOGUE, compile};
use profiler_output::text::Text;
use profiler_runtime::host::Host;
use profiler_runtime::load::{LoadOptions, load_with};
use profiler_runtime::params::Values;
use profiler_runtime::session::{self, RunOptions};
use profiler_runtime::symbols::HostSymbols;

use super::machine::{Directory, run, skip, workload};

/// A writer whose bytes can be inspected.
#[derive(Debug, Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Processes that call getppid after `Callers::go`: the first 101 times, the second 102 times,
/// and so on.
pub struct Callers(Vec<Child>);

impl Callers {
    pub fn start(count: usize) -> Callers {
        let caller = |number: usize| {
            let line = format!("echo ready; read word; exec '{}' getppid {}", workload(), 101 + number);
            let mut command = Command::new("sh");
            let mut child =
                command.args(["-c", &line]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
            // Shells call getppid when they start, so wait for `ready`.
            let mut word = [0; 6];
            let read = child.stdout.as_mut().map(|stdout| stdout.read_exact(&mut word));
            assert!(read.is_some_and(|read| read.is_ok()), "it is ready");
            child
        };
        Callers((0..count).map(caller).collect())
    }

    pub fn pids(&self) -> Vec<u32> {
        self.0.iter().map(Child::id).collect()
    }

    /// Lets all callers run and waits for them to exit.
    pub fn go(&mut self) {
        for child in &mut self.0 {
            let written = child.stdin.take().map(|mut stdin| stdin.write_all(b"go\n"));
            assert!(written.is_some_and(|written| written.is_ok()), "it waits");
        }
        for child in &mut self.0 {
            assert!(child.wait().is_ok_and(|status| status.success()), "it ends well");
        }
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const SCRIPT: &str = "
param pid: pid = any \"whose calls\"
param name: string = any \"of which command\"
param least: int = 7 \"a number\" in 0..1000
tracepoint:syscalls:sys_enter_getppid /pid == $pid && comm == $name/ { @calls[pid] = count(); @least = $least; }";

fn built(script: &str) -> Object {
    built_from(&Source::new("test", script))
}

fn built_from(source: &Source) -> Object {
    let compiled = compile(source, &CATALOGUE, &Host::new(), &Options::default());
    compiled.unwrap_or_else(|problems| panic!("{problems:?}")).object
}

/// The size of a script's first program with these values, as the kernel runs it.
pub fn translated_bytes(source: &Source, given: &[(&str, &str)]) -> u64 {
    size(&built_from(source), given)
}

fn size(object: &Object, given: &[(&str, &str)]) -> u64 {
    let values = Values::read(object, &named(given), &Host::new()).expect("they are good");
    let loaded = load_with(object, &values, LoadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    loaded.translated_size_bytes(&object.programs[0].name).expect("the kernel says").into()
}

fn named(given: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
    given.iter().map(|(name, value)| ((*name).to_string(), Some((*value).to_string()))).collect()
}

/// The output of an object with these values while the callers run.
fn printed(object: &Object, given: &[(&str, &str)], callers: Callers) -> Vec<String> {
    let values = Values::read(object, &named(given), &Host::new()).expect("they are good");
    let (out, callers) = (Shared::default(), RefCell::new(callers));
    let options = RunOptions {
        values: Some(values),
        quiet: true,
        duration: Some(Duration::from_millis(1)),
        when_attached: Some(&|| callers.borrow_mut().go()),
        ..RunOptions::default()
    };
    let mut render = Text::new(Box::new(out.clone()), Box::new(io::sink()), true);
    session::run(object, &CATALOGUE, options, &mut render, &HostSymbols::new()).expect("it runs");
    let text = String::from_utf8_lossy(&out.0.borrow()).into_owned();
    let mut lines: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    lines.sort();
    lines
}

fn expected(pids: &[u32], of: &[usize], least: u32) -> Vec<String> {
    let mut lines: Vec<String> = of.iter().map(|at| format!("@calls[{}]: {}", pids[*at], 101 + at)).collect();
    lines.push(format!("@least: {least}"));
    lines.sort();
    lines
}

#[test]
fn one_object_counts_exactly_the_processes_that_each_run_names() {
    if skip() {
        return;
    }
    let object = built(SCRIPT);
    let before = object.elf.clone();
    for of in
        [&[0][..], &[0, 5], &[1, 2, 3, 4, 5, 6, 7, 8], &[0, 1, 2, 3, 4, 5, 6, 7, 8], &[11, 3, 4, 0, 1, 2, 9, 7, 6, 5]]
    {
        let callers = Callers::start(12);
        let pids = callers.pids();
        let list: Vec<String> = of.iter().map(|at| pids[*at].to_string()).collect();
        let found = printed(&object, &[("pid", &list.join(",")), ("least", "30")], callers);
        assert_eq!(found, expected(&pids, of, 30), "{of:?}");
    }
    assert_eq!(object.elf, before, "the object stays what it is");
}

#[test]
fn any_counts_all_and_a_name_those_of_the_name() {
    if skip() {
        return;
    }
    let object = built(SCRIPT);
    for (given, counts) in [(&[][..], true), (&[("name", "workload")], true), (&[("name", "workloa")], false)] {
        let callers = Callers::start(3);
        let pids = callers.pids();
        let found = printed(&object, given, callers);
        // Other processes on this machine may call getppid too.
        for line in expected(&pids, &[0, 1, 2], 7).iter().filter(|line| line.starts_with("@calls")) {
            assert_eq!(found.contains(line), counts, "{line} in {found:?} with {given:?}");
        }
    }
}

#[test]
fn what_an_object_does_not_take_is_refused_before_it_is_loaded() {
    let script = format!("param every: duration = 10ms \"how often\"{SCRIPT} interval:$every {{ }}");
    let object = built(&script);
    let refused = |given: &[(&str, &str)]| Values::read(&object, &named(given), &Host::new()).expect_err("a refusal");
    assert_eq!(
        refused(&[("every", "20ms"), ("least", "1001"), ("pdi", "3")]),
        [
            "there is no parameter `--pdi`; did you mean `--pid`?",
            "`--every` is 10ms in this object: it decided what is attached or shown when the object was built; build it again",
            "`--least` cannot be `1001`: it takes an int from 0 to 1000",
        ]
    );
    assert!(Values::read(&object, &named(&[("every", "10ms")]), &Host::new()).is_ok());
}

#[test]
fn a_filter_on_any_leaves_no_code_behind() {
    if skip() {
        return;
    }
    let filtered = built(SCRIPT);
    let bare = built(&SCRIPT.replace("/pid == $pid && comm == $name/ ", ""));
    let (bare, any) = (size(&bare, &[]), size(&filtered, &[]));
    let (one, two) = (size(&filtered, &[("pid", "1")]), size(&filtered, &[("pid", "1,2")]));
    let (eight, many) =
        (size(&filtered, &[("pid", "1,2,3,4,5,6,7,8")]), size(&filtered, &[("pid", "1,2,3,4,5,6,7,8,9")]));
    println!("bytes: without a filter {bare}, any {any}, one {one}, two {two}, eight {eight}, nine {many}");
    // Each of the two filters leaves only the load of its `any` word: a two-instruction address and
    // the load.
    assert_eq!(any, bare + 2 * 24);
    assert!(any < one && one < two && two < eight && many < eight, "{any} {one} {two} {eight} {many}");
}

#[test]
fn control_groups_are_given_by_path_and_by_number() {
    if skip() {
        return;
    }
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let root =
        mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|line| line.get(2) == Some(&"cgroup2"));
    let root = root.map_or("/sys/fs/cgroup", |line| line[1]);
    let path = format!("{root}/profiler-test-{}", std::process::id());
    if std::fs::create_dir(&path).is_err() || !std::path::Path::new(&path).join("cgroup.procs").exists() {
        let _ = std::fs::remove_dir(&path);
        println!("SKIPPED: no control group can be made here");
        return;
    }
    let id = {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::metadata(&path).expect("a directory").ino().to_string()
    };
    let object = built(
        "param group: cgroup = any \"whose calls\"
        tracepoint:syscalls:sys_enter_getppid /cgroup == $group/ { @calls[pid] = count(); }",
    );
    for given in [path.as_str(), path.trim_start_matches(root), &id] {
        let callers = Callers::start(3);
        let pids = callers.pids();
        std::fs::write(format!("{path}/cgroup.procs"), pids[1].to_string()).expect("it moves");
        let found = printed(&object, &[("group", given)], callers);
        assert_eq!(found, [format!("@calls[{}]: 102", pids[1])], "{given}");
    }
    std::fs::remove_dir(&path).expect("our own");
}

#[test]
fn modules_keep_their_names_apart_and_their_probes_attach() {
    if skip() {
        return;
    }
    let directory = Directory::new("modules");
    let module = |kind: &str| {
        format!(
            "// Counts calls.\nuse calls/shared\npub param least: int = 2 \"a number\"\npub @n\npub macro twice(x) {{ x * 2 }}
            tracepoint:syscalls:sys_enter_getppid /pid == cpid/ {{ @n = sum(twice($least)); @own = {kind}; shared.seen(@own); }}"
        )
    };
    std::fs::create_dir(directory.path("calls")).expect("a directory");
    directory.file("calls/one.prof", &module("1"));
    directory.file("calls/two.prof", &module("comm"));
    directory.file("calls/shared.prof", "pub @all\nstate thread by tid { calls: u64 }\npub macro seen(@m) { @all[1] = count(); thread.calls++; }\nBEGIN { }");
    let script = directory.file(
        "script.prof",
        "use calls/one\nuse calls/two as other\nuse calls/shared\n\
        tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { @n = count(); @sum = sum(one.twice(3)); }",
    );
    let command = format!("{} getppid 500", workload());
    let ended = run(&["-q", "-c", &command, &script, "--one.least", "5", "--other.least=6"]);
    let mut lines: Vec<&str> = ended.stdout.lines().filter(|line| !line.is_empty()).collect();
    // Drop the workload's own lines about timing.
    lines.retain(|line| line.starts_with('@'));
    assert_eq!(
        lines,
        ["@n: 500", "@one.n: 5000", "@other.n: 6000", "@shared.all[1]: 1000", "@sum: 3000"],
        "{}",
        ended.stderr
    );
}
