//! Probes limited to one process: other processes are not slowed down and not counted.
//!
//! In: two processes of the same program, one of which the script traces. Out: the counts of that
//! process only, and no breakpoint in the other one's code.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::process::Command;

use profiler_compiler::target::Target as _;
use profiler_runtime::host::Host;

use super::faults::{OnDemand, number};
use super::machine::{self, Directory, PROFILER, attached, run, skip, workload};

/// A private copy of the workload, which no other test probes.
fn own_workload(directory: &Directory, name: &str) -> String {
    let path = directory.path(name);
    machine::copy(workload(), &path);
    path
}

/// The first byte of `workload_step` in the memory of a process that runs the file.
fn first_byte(path: &str, pid: u32) -> u8 {
    let offset = Host::new().functions(path, "workload_step").expect("a function")[0].file_offset;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("its mappings");
    let address = maps.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = (number(start)?, number(end)?);
        let is_code = fields.next()?.contains('x');
        let first = number(fields.next()?)?;
        let is_within = (first..first + (end - start)).contains(&offset);
        (is_code && is_within && line.ends_with(path)).then(|| start + offset - first)
    });
    let mut memory = File::open(format!("/proc/{pid}/mem")).expect("its memory");
    memory.seek(SeekFrom::Start(address.expect("it runs the workload"))).expect("an address");
    let mut byte = [0];
    memory.read_exact(&mut byte).expect("its code");
    byte[0]
}

/// Two processes of the workload.
struct Two {
    wanted: OnDemand,
    other: OnDemand,
    /// The first byte of the function without a probe.
    untouched: u8,
    path: String,
    _directory: Directory,
}

impl Two {
    fn new() -> Two {
        let directory = Directory::new("scope");
        let path = own_workload(&directory, "workload");
        let (wanted, other) = (OnDemand::start(&path, None), OnDemand::start(&path, None));
        let untouched = first_byte(&path, other.pid());
        Two { wanted, other, untouched, path, _directory: directory }
    }

    /// Runs a script while both processes call; the other process must not be affected. Returns the
    /// script's output.
    fn run(&mut self, arguments: &[&str]) -> String {
        let profiler = attached(arguments);
        assert_ne!(first_byte(&self.path, self.wanted.pid()), self.untouched, "{arguments:?}: nothing is attached");
        assert_eq!(
            first_byte(&self.path, self.other.pid()),
            self.untouched,
            "{arguments:?}: the other process has a breakpoint"
        );
        self.wanted.call(100);
        self.other.call(1000);
        self.wanted.call(11);
        profiler.signal("INT");
        let ended = profiler.end();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        ended.stdout
    }
}

#[test]
fn a_filter_on_the_process_leaves_others_without_breakpoints() {
    if skip() {
        return;
    }
    let mut two = Two::new();
    let (pid, path) = (two.wanted.pid(), two.path.clone());
    for filter in [
        format!("pid == {pid}"),
        format!("{pid} == pid && arg0 >= 0"),
        "pid == $1".into(),
        format!("pid == {pid} || pid == {}", std::process::id()),
    ] {
        let script = format!("uprobe:{path}:workload_step /{filter}/ {{ @steps = count(); }}");
        let printed = two.run(&["-q", "-e", &script, &pid.to_string()]);
        assert_eq!(number(&printed, "@steps"), 111, "{filter}: {printed}");
    }
    let inside = format!("uretprobe:{path}:workload_step {{ if (pid == {pid}) {{ @steps = count(); }} }}");
    assert_eq!(number(&two.run(&["-q", "-e", &inside]), "@steps"), 111);
}

#[test]
fn a_filter_is_found_wherever_it_is_written() {
    if skip() {
        return;
    }
    let mut two = Two::new();
    let (pid, path) = (two.wanted.pid(), two.path.clone());
    let counted = format!("uprobe:{path}:workload_step");
    let ended = format!("uretprobe:{path}:workload_step");
    for script in [
        format!("{counted} /arg0 >= 0 ? pid == {pid} : pid == 1/ {{ @steps = count(); }}"),
        format!("{counted} /pid != {pid} ? 0 : 1/ {{ @steps = count(); }}"),
        format!("{counted} /!(pid != {pid} || arg0 < 0)/ {{ @steps = count(); }}"),
        format!("{counted} /strcontains(comm, \"workload\") && pid == {pid}/ {{ @steps = count(); }}"),
        format!("{counted} /strncmp(str(arg1), \"x\", 1) != 2 && pid == {pid}/ {{ @steps = count(); }}"),
        format!("{counted} {{ if (pid != {pid}) {{ return; }} @steps = count(); }}"),
        format!("{counted} {{ if (pid == 1) {{ @no = count(); }} else if (pid == {pid}) {{ @steps = count(); }} }}"),
        format!("macro wanted() {{ pid == {pid} && arg0 >= 0 }} {counted} /wanted()/ {{ @steps = count(); }}"),
        format!("macro wanted() {{ $is = pid == {pid}; $is }} {counted} /wanted()/ {{ @steps = count(); }}"),
        // A later stage without a filter finds nothing where no start can be.
        format!("span call by tid {{ start {counted} /pid == {pid}/ end {ended} }} call:end {{ @steps = count(); }}"),
        format!(
            "span call by (pid, what: 1) {{ start {counted} /pid == {pid}/ end {ended} }}
             call:end {{ @steps = count(); }}"
        ),
        format!(
            "span call by tid {{ start {counted} /pid == {pid}/ end {ended} }}
             span pause by tid {{ start call:end end {counted} }} call:end {{ @steps = count(); }} pause:end {{ }}"
        ),
    ] {
        let printed = two.run(&["-q", "-e", &script]);
        assert_eq!(number(&printed, "@steps"), 111, "{script}: {printed}");
    }
}

#[test]
fn what_another_process_can_change_is_not_left_out() {
    if skip() {
        return;
    }
    let (mut one, mut other) = (OnDemand::start(workload(), None), OnDemand::start(workload(), None));
    let (pid, path) = (one.pid(), workload());
    for script in [
        // The key is not of a task, so the other process ends the last span.
        "span pause by (what: 1) { start uretprobe:PATH:workload_step /pid == PID/ end uprobe:PATH:workload_step }
         pause:end { @steps = count(); } uprobe:PATH:workload_step /pid == OTHER/ { @seen = count(); }",
        "uprobe:PATH:workload_step /pid == PID || arg0 >= 0/ { @seen = count(); if (pid == PID) { @steps = count(); } }",
        "uprobe:PATH:workload_step /pid != 1/ { @seen = count(); if (pid == PID) { @steps = count(); } }",
        "uprobe:PATH:workload_step { if (pid == PID) { @steps = count(); } else { @seen = count(); } }",
        "uprobe:PATH:workload_step { if (pid == PID) { @steps = count(); } @seen = count(); }",
        "macro seen() { @seen = count(); pid == PID } uprobe:PATH:workload_step /seen()/ { @steps = count(); }",
    ] {
        let replaced = script.replace("PATH", path).replace("PID", &pid.to_string());
        let script = replaced.replace("OTHER", &other.pid().to_string());
        let profiler = attached(&["-q", "-e", &script]);
        one.call(10);
        other.call(20);
        profiler.signal("INT");
        let ended = profiler.end();
        // Other tests call the function too.
        assert!(number(&ended.stdout, "@seen") >= 20, "{script}: {}", ended.stdout);
        assert_eq!(number(&ended.stdout, "@steps"), 10, "{script}: {}", ended.stdout);
    }
}

#[test]
fn a_parameter_with_processes_leaves_others_without_breakpoints() {
    if skip() {
        return;
    }
    let mut two = Two::new();
    let path = two.path.clone();
    let mut second = OnDemand::start(&path, None);
    let script = format!(
        "param pid: pid = any \"these\"
         uprobe:{path}:workload_step /pid == $pid/ {{ @steps[pid] = count(); }}
         span call by tid {{ start uprobe:{path}:workload_step /pid == $pid/  end uretprobe:{path}:workload_step /pid == $pid/ }}
         call:end {{ @calls = count(); }}"
    );
    let both = format!("{},{}", two.wanted.pid(), second.pid());
    let directory = Directory::new("scope");
    let (source, object) = (directory.file("x.prof", &script), directory.path("x.bpf.o"));
    let built = Command::new(PROFILER).args(["build", &source, "-o", &object]).output().expect("profiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for what in [&source, &object] {
        let printed = two.run(&["-q", what, "--pid", &both]);
        assert_eq!(number(&printed, &format!("@steps[{}]", two.wanted.pid())), 111, "{printed}");
        assert_eq!(number(&printed, "@calls"), 111, "{printed}");
    }
    // Every process in the list is probed; `any` means all processes.
    let profiler = attached(&["-q", &source, "--pid", &both]);
    second.call(7);
    profiler.signal("INT");
    assert_eq!(number(&profiler.end().stdout, &format!("@steps[{}]", second.pid())), 7);
    let profiler = attached(&["-q", &source]);
    assert_ne!(first_byte(&path, two.other.pid()), two.untouched);
    two.other.call(5);
    profiler.signal("INT");
    assert_eq!(number(&profiler.end().stdout, &format!("@steps[{}]", two.other.pid())), 5);
}

#[test]
fn a_filter_with_an_effect_runs_for_everybody() {
    if skip() {
        return;
    }
    let (mut one, mut other) = (OnDemand::start(workload(), None), OnDemand::start(workload(), None));
    let script =
        format!("uprobe:{}:workload_step /@seen++ >= 0 && pid == {}/ {{ @steps = count(); }}", workload(), one.pid());
    let profiler = attached(&["-q", "-e", &script]);
    let before = (one.pid(), other.pid());
    one.call(10);
    other.call(20);
    profiler.signal("INT");
    let ended = profiler.end();
    // Other tests call the function too.
    assert!(number(&ended.stdout, "@seen") >= 30, "{before:?}: {}", ended.stdout);
    assert_eq!(number(&ended.stdout, "@steps"), 10);
}

#[test]
fn several_processes_are_one_p_option() {
    if skip() {
        return;
    }
    let mut three = [(); 3].map(|()| OnDemand::start(workload(), None));
    let list = format!("{},{}", three[0].pid(), three[1].pid());
    let script = format!(
        "uprobe:{0}:workload_step {{ @steps[pid] = count(); }} uretprobe:{0}:workload_step {{ @returns[pid] = count(); }}
         tracepoint:syscalls:sys_enter_getppid {{ @calls[pid] = count(); }}",
        workload()
    );
    let profiler = attached(&["-q", "-e", &script, "-p", &list]);
    three.iter_mut().zip([3, 4, 5]).for_each(|(process, calls)| process.call(calls));
    // The exit of one target does not end the run.
    assert_eq!(three[0].end(), 0);
    three[1].call(10);
    assert_eq!(three[1].end(), 0);
    let ended = profiler.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    for map in ["steps", "returns", "calls"] {
        let of = |index: usize| number(&ended.stdout, &format!("@{map}[{}]", three[index].pid()));
        assert_eq!((of(0), of(1), of(2)), (3, 14, 0), "{map}: {}", ended.stdout);
    }
}

#[test]
fn processes_are_named() {
    if skip() {
        return;
    }
    let directory = Directory::new("named");
    let program = own_workload(&directory, "so-named-here");
    let mut both = [(); 2].map(|()| OnDemand::start(&program, None));
    let script = format!("uprobe:{program}:workload_step {{ @steps[pid] = count(); }}");
    let profiler = attached(&["-e", &script, "-p", "so-named-here"]);
    for process in &mut both {
        process.call(6);
    }
    for process in &mut both {
        assert_eq!(process.end(), 0);
    }
    let ended = profiler.end();
    let mut pids = both.each_ref().map(OnDemand::pid);
    pids.sort_unstable();
    for pid in pids {
        assert_eq!(number(&ended.stdout, &format!("@steps[{pid}]")), 6, "{}", ended.stdout);
    }
    let note = format!("note: `so-named-here` is process {}, {}\n", pids[0], pids[1]);
    assert!(ended.stderr.contains(&note), "{}", ended.stderr);
    let ended = run(&["-e", "BEGIN { }", "-p", "no-such-name"]);
    assert_eq!(ended.code(), 2);
    assert!(ended.stderr.contains("no process is named `no-such-name` now"), "{}", ended.stderr);
}

#[test]
fn the_command_is_probed_and_nobody_else() {
    if skip() {
        return;
    }
    let directory = Directory::new("command");
    let path = own_workload(&directory, "workload");
    let bpftrace = directory.path("bpftrace");
    std::os::unix::fs::symlink(PROFILER, &bpftrace).expect("a link");
    let script = format!(
        "uprobe:{path}:workload_step {{ @steps = count(); @who[pid == cpid] = count(); }}
         uretprobe:{path}:workload_step {{ @returns = count(); }}
         usdt:{path}:workload:step {{ @static = count(); }}
         software:page-faults:1 {{ @faults[pid == cpid] = count(); }}
         profile:hz:997 {{ @samples[pid == cpid] = count(); }}"
    );
    let command = format!("{path} on-demand");
    for arguments in [&[PROFILER, "run"][..], &[&bpftrace]] {
        let mut other = OnDemand::start(&path, None);
        let untouched = first_byte(&path, other.pid());
        let mut line = Command::new(arguments[0]);
        let mut child = OnDemand::within(line.args(&arguments[1..]).args(["-q", "-e", &script, "-c", &command]));
        assert_eq!(first_byte(&path, other.pid()), untouched, "{arguments:?}: another process has a breakpoint");
        other.call(1000);
        child.call(77);
        other.call(1000);
        let printed = child.end_with_output();
        assert_eq!(number(&printed, "@steps"), 77, "{arguments:?}: {printed}");
        assert_eq!(number(&printed, "@returns"), 77, "{arguments:?}: {printed}");
        assert!(printed.contains("@who[true]: 77") || printed.contains("@who[1]: 77"), "{printed}");
        assert!(printed.contains("@faults["), "{printed}");
        let others = ["[false]", "[0]"];
        assert!(!printed.lines().any(|line| others.iter().any(|key| line.contains(key))), "{arguments:?}: {printed}");
    }
}

#[test]
fn a_command_says_how_long_if_a_parameter_has_the_processes() {
    if skip() {
        return;
    }
    let directory = Directory::new("beside");
    let path = own_workload(&directory, "workload");
    let mut wanted = OnDemand::start(&path, None);
    let script = format!(
        "param pid: pid = any \"these\"
         uprobe:{path}:workload_step /pid == $pid/ {{ @steps = count(); }}
         usdt:{path}:workload:step /pid == $pid/ {{ @static = count(); }}
         software:page-faults:1 /pid == $pid/ {{ @faults = count(); }}"
    );
    let source = directory.file("x.prof", &script);
    let command = format!("{path} on-demand");
    let pid = wanted.pid().to_string();
    let line = ["run", "-q", &source, "--pid", &pid, "-c", &command];
    let mut child = OnDemand::within(Command::new(PROFILER).args(line));
    child.call(77);
    wanted.call(9);
    let printed = child.end_with_output();
    assert_eq!(number(&printed, "@steps"), 9, "{printed}");
    // Without it, the command is what is traced.
    let mut child = OnDemand::within(Command::new(PROFILER).args(["run", "-q", &source, "-c", &command]));
    child.call(77);
    wanted.call(9);
    assert_eq!(number(&child.end_with_output(), "@steps"), 77);
}

#[test]
fn a_table_without_rows_says_that_its_process_does_not_run_the_file() {
    if skip() {
        return;
    }
    let (directory, busybox) = (Directory::new("static"), "/bin/busybox");
    if !fs::exists(busybox).is_ok_and(|exists| exists) {
        println!("SKIPPED: busybox, which is linked statically, is not here");
        return;
    }
    let is_static = machine::Running::start(Command::new(busybox).args(["sleep", "1000"]));
    let dynamic = OnDemand::start(&own_workload(&directory, "workload"), None);
    let run = |pid: u32, more: &[&str]| {
        run(&[&["mem/alloc", "--pid", &pid.to_string(), "--duration", "100ms"], more].concat())
    };
    let said = run(is_static.pid(), &["--lib", "libc"]);
    let words = format!("process {} does not run code of /", is_static.pid());
    assert!(said.stdout.matches(&words).count() == 1, "{}", said.stdout);
    assert!(said.stdout.contains("it may be linked statically"), "{}", said.stdout);
    // Without symbols, no file of the process has the functions.
    let said = run(is_static.pid(), &[]);
    assert!(said.code() == 1 && said.stderr.matches("error").count() == 1, "{}", said.stderr);
    assert!(said.stderr.contains("has no function symbols: it is stripped"), "{}", said.stderr);
    let said = run(dynamic.pid(), &[]);
    assert!(said.code() == 0 && !said.stdout.contains("does not run code"), "{}", said.stderr);
}

#[test]
fn tracepoints_see_everybody_beside_a_command() {
    if skip() {
        return;
    }
    let mut other = OnDemand::start(workload(), None);
    let script = format!("tracepoint:syscalls:sys_enter_getppid /pid == {}/ {{ @calls = count(); }}", other.pid());
    let command = format!("{} on-demand", workload());
    let mut child = OnDemand::within(Command::new(PROFILER).args(["run", "-q", "-e", &script, "-c", &command]));
    other.call(9);
    let printed = child.end_with_output();
    assert_eq!(number(&printed, "@calls"), 9, "{printed}");
}

#[test]
fn a_process_that_is_not_there_is_named_and_the_others_are_probed() {
    if skip() {
        return;
    }
    let mut one = OnDemand::start(workload(), None);
    // Linux assigns no pid above 2^22.
    let script =
        format!("uprobe:{}:workload_step /pid == {} || pid == 4194305/ {{ @steps = count(); }}", workload(), one.pid());
    let profiler = attached(&["-e", &script]);
    one.call(8);
    profiler.signal("INT");
    let ended = profiler.end();
    assert_eq!(number(&ended.stdout, "@steps"), 8, "{}", ended.stdout);
    assert!(
        ended.stderr.contains("WARNING: there is no process 4194305: nothing is attached for it"),
        "{}",
        ended.stderr
    );
}

/// A recipe that filters by the process has nothing to show, and says which process is not there.
#[test]
fn a_process_that_a_recipe_is_for_and_that_is_not_there_is_named_once() {
    if skip() {
        return;
    }
    let one = OnDemand::start(workload(), None);
    // Functions of a library are probed, and system calls are not those of one process.
    for recipe in ["syscall/counts", "lock/futex", "db/tls"] {
        let pids = format!("{},4194304", one.pid());
        let ended = run(&["-q", recipe, "--pid", &pids, "--duration", "20ms"]);
        let named = ended.stderr.matches("WARNING: there is no process 4194304").count();
        assert_eq!((ended.code(), named), (0, 1), "{recipe}: {}", ended.stderr);
        assert!(!ended.stderr.contains(&format!("no process {}", one.pid())), "{recipe}: {}", ended.stderr);
    }
}

#[test]
fn one_function_reached_by_two_names_is_one_probe() {
    if skip() {
        return;
    }
    let directory = Directory::new("names");
    let path = own_workload(&directory, "workload");
    let (hard, soft) = (directory.path("hard"), directory.path("soft"));
    fs::hard_link(&path, &hard).expect("a link");
    std::os::unix::fs::symlink(&path, &soft).expect("a link");
    let script = format!(
        "uprobe:libpthread:pthread_create, uprobe:libc:pthread_create, uprobe:libc:pthread_creat* {{ @threads = count(); }}
         uprobe:{path}:workload_step, uprobe:{hard}:workload_step, uprobe:{soft}:workload_ste* {{ @steps = count(); }}
         uprobe:{hard}:workload_step {{ @own = count(); }}
         uretprobe:{path}:workload_step, uprobe:{path}:workload_step {{ @both = count(); }}
         span call by tid {{ start uprobe:{path}:workload_step, uprobe:{hard}:workload_step  end uretprobe:{hard}:workload_step, uretprobe:{soft}:workload_step }}
         call:end {{ @calls = count(); }}"
    );
    let command = format!("sh -c '{path} functions 4; exec {path} sleepers 7 1'");
    let ended = run(&["-q", "-e", &script, "-c", &command]);
    assert_eq!((ended.code(), number(&ended.stdout, "@threads")), (0, 7), "{} {}", ended.stdout, ended.stderr);
    let ended = run(&["-q", "--strict", "-e", &script, "-c", &format!("{path} functions 50")]);
    let of = |map: &str| number(&ended.stdout, map);
    let counts = (of("@steps"), of("@own"), of("@both"), of("@calls"));
    assert_eq!((ended.code(), counts), (0, (50, 50, 100, 50)), "{} {}", ended.stdout, ended.stderr);
}

#[test]
fn the_file_that_a_process_runs_is_probed_when_it_has_no_path_here() {
    if skip() {
        return;
    }
    let directory = Directory::new("deleted");
    let path = own_workload(&directory, "workload");
    let mut deleted = OnDemand::start(&path, None);
    fs::remove_file(&path).expect("our own file");
    let mounted = directory.path("mounted");
    fs::create_dir(&mounted).expect("a directory");
    let hidden = format!(
        "mount -t tmpfs none {mounted} && cp {} {mounted}/hidden && exec {mounted}/hidden on-demand",
        workload()
    );
    let mut elsewhere = OnDemand::within(Command::new("unshare").args(["-m", "sh", "-c", &hidden]));
    for process in [&mut deleted, &mut elsewhere] {
        let exe = format!("/proc/{}/exe", process.pid());
        let script = format!("uprobe:{exe}:workload_step {{ @steps = count(); @who[probe] = count(); }}");
        for options in [&["-q", "-e", &script][..], &["-q", "-e", &script, "-p", &process.pid().to_string()]] {
            let profiler = attached(options);
            process.call(13);
            profiler.signal("INT");
            let ended = profiler.end();
            assert_eq!(number(&ended.stdout, "@steps"), 13, "{options:?}: {} {}", ended.stdout, ended.stderr);
            assert!(ended.stdout.contains(&format!("@who[uprobe:{exe}:workload_step]: 13")), "{}", ended.stdout);
        }
    }
}

#[test]
fn a_wildcard_skips_what_the_kernel_refuses_and_names_it() {
    if skip() || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let directory = Directory::new("refused");
    let path = own_workload(&directory, "workload");
    let offset = Host::new().functions(&path, "workload_nest").expect("a function")[0].file_offset;
    // The kernel refuses to probe a breakpoint instruction. The process never calls the function.
    let mut code = fs::read(&path).expect("a program");
    code[usize::try_from(offset).expect("an offset")] = 0xcc;
    let changed = directory.path("changed");
    fs::write(&changed, &code).expect("a file");
    // `cp` keeps the mode of the file that it overwrites.
    let status = Command::new("cp").args([&changed, &path]).status();
    assert!(status.is_ok_and(|status| status.success()));
    let mut process = OnDemand::start(&path, None);
    let script = format!("uprobe:{path}:workload_* {{ @[func] = count(); }}");
    let profiler = attached(&["-e", &script]);
    process.call(21);
    profiler.signal("INT");
    let ended = profiler.end();
    assert_eq!(number(&ended.stdout, "@[workload_step]"), 21, "{} {}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("functions is not probed: `workload_nest`; "), "{}", ended.stderr);
    // Without a wildcard, or if nothing else matches, it is an error that names this function only.
    for name in ["workload_nest", "workload_nes*"] {
        let ended = run(&["-e", &format!("uprobe:{path}:{name} {{ }}")]);
        assert_ne!(ended.code(), 0, "{}", ended.stderr);
        let words = format!("cannot attach uprobe:{path}:workload_nest to workload_nest of {path}: ");
        assert!(ended.stderr.contains(&words), "{}", ended.stderr);
    }
}
