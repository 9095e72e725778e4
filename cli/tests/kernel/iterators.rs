//! Iterators over kernel objects, compared with /proc.
//!
//! In: a process with known threads, files and mappings. Out: the same from `iter:task` and the
//! other iterators.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::machine::{Directory, Running, run, skip, wait_for, workload};

const THREADS: usize = 7;

/// Starts a process with `THREADS` sleeping threads in addition to its first.
fn sleepers() -> Running {
    let sleepers = Running::start(Command::new(workload()).args(["sleepers", &THREADS.to_string(), "600000"]));
    await_sleepers(sleepers.pid(), THREADS);
    sleepers
}

/// Waits until the threads of `workload sleepers` have their names and sleep, and the first one
/// waits for them: from then on, nothing of the process changes.
pub fn await_sleepers(pid: u32, sleepers: usize) {
    let stat = |thread: &String| fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).unwrap_or_default();
    let sleeps = |thread: &String| {
        let stat = stat(thread);
        stat.contains("(sleeper-") && stat.contains(") S ") || stat.contains("(workload) S ")
    };
    wait_for("the threads", || {
        let threads = threads(pid);
        (threads.len() == sleepers + 1 && threads.iter().all(sleeps)).then_some(())
    });
}

fn names(directory: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).expect("a process").filter_map(Result::ok);
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn threads(pid: u32) -> BTreeSet<String> {
    names(&format!("/proc/{pid}/task"))
}

/// Whether the kernel can limit an iterator to one process.
fn takes_a_process() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut numbers = release.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(1))
}

#[test]
fn every_thread_is_visited_once() {
    if skip() {
        return;
    }
    let process = sleepers();
    let pid = process.pid();
    let script =
        format!("iter:task / ctx.task.tgid == {pid} / {{ printf(\"%d %s\\n\", ctx.task.pid, ctx.task.comm); }}");
    let ended = run(&["-q", "--strict", "-e", &script]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let mut visited: Vec<String> = ended.stdout.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    visited.sort();
    let comm = |thread: &String| fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm")).expect("a thread");
    let expected: BTreeSet<String> = threads(pid).iter().map(|id| format!("{id} {}", comm(id).trim())).collect();
    assert_eq!(expected.len(), THREADS + 1);
    assert_eq!(visited, expected.into_iter().collect::<Vec<_>>());
}

#[test]
fn a_process_can_be_chosen() {
    if skip() || !takes_a_process() {
        return;
    }
    let process = sleepers();
    let pid = process.pid().to_string();
    let ended = run(&["-q", "--strict", "-p", &pid, "-e", "iter:task { @threads[ctx.task.tgid] = count(); }"]);
    assert_eq!(ended.stdout.trim(), format!("@threads[{pid}]: {}", THREADS + 1), "{}", ended.stderr);
}

#[test]
fn every_file_is_visited_once() {
    if skip() {
        return;
    }
    let process = sleepers();
    let pid = process.pid();
    let script = format!("iter:task_file / ctx.task.tgid == {pid} / {{ printf(\"%d\\n\", ctx.fd); }}");
    let ended = run(&["-q", "--strict", "-e", &script]);
    let visited: Vec<&str> = ended.stdout.lines().filter(|line| !line.is_empty()).collect();
    let found: BTreeSet<String> = visited.iter().map(|line| (*line).to_owned()).collect();
    assert_eq!(visited.len(), found.len(), "{}", ended.stdout);
    assert_eq!(found, names(&format!("/proc/{pid}/fd")), "{}", ended.stderr);
    assert!(found.contains("0"));
}

#[test]
fn mappings_are_those_of_the_process() {
    if skip() {
        return;
    }
    let process = sleepers();
    let pid = process.pid();
    // One thread is enough: all threads share the mappings.
    let script = format!(
        "iter:task_vma / ctx.task.pid == {pid} / {{ printf(\"%08lx-%08lx\\n\", ctx.vma.vm_start, ctx.vma.vm_end); }}"
    );
    let ended = run(&["-q", "--strict", "-e", &script]);
    let visited: Vec<String> = ended.stdout.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("a process");
    // That page belongs to the kernel and is in no process's list of mappings.
    let ranges = maps.lines().filter(|line| !line.ends_with("[vsyscall]")).filter_map(|line| line.split(' ').next());
    assert_eq!(visited, ranges.collect::<Vec<_>>(), "{}", ended.stderr);
}

#[test]
fn it_runs_after_begin_beside_other_probes_and_ends_when_alone() {
    if skip() {
        return;
    }
    let alone = "END { print(\"end\"); } iter:task { @visited = 1; } BEGIN { printf(\"begin %d\\n\", @visited); }";
    let ended = run(&["-q", "-e", alone]);
    assert_eq!(ended.stdout.trim(), "begin 0\nend\n\n\n@visited: 1", "{}", ended.stderr);
    let first_of_two = "iter:task / ctx.task.pid == 2 / { @first = 1; @kthreadd = count(); }
        tracepoint:syscalls:sys_enter_getppid / pid == cpid / { @calls = count(); @before = @first; }";
    let ended = run(&["-q", "-e", first_of_two, "-c", &format!("{} getppid 321", workload())]);
    for line in ["@kthreadd: 1", "@calls: 321", "@before: 1"] {
        assert_eq!(ended.lines(line), 1, "{line}: {}{}", ended.stdout, ended.stderr);
    }
}

#[test]
fn a_small_ring_loses_nothing() {
    if skip() {
        return;
    }
    // A small machine has few mappings. Each of these threads reports those of its process once.
    let _process = sleepers();
    let script =
        "config = { perf_rb_pages = 1 } iter:task_vma { printf(\"a line of some length, %d\\n\", ctx.task.pid); @++; }";
    let ended = run(&["-q", "--strict", "-e", script]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let printed = ended.stdout.lines().filter(|line| line.starts_with("a line")).count();
    // Far more than a page can hold.
    assert!(printed > 200, "{printed}");
    assert_eq!(ended.lines(&format!("@: {printed}")), 1, "{printed}");
}

#[test]
fn exit_stops_before_the_next_object() {
    if skip() {
        return;
    }
    let ended = run(&["-q", "-e", "iter:task { @++; if (@ == 3) { exit(7); } }"]);
    assert_eq!((ended.code(), ended.stdout.trim()), (7, "@: 3"), "{}", ended.stderr);
}

/// Since 6.2, programs can look up a thread.
#[test]
fn names_of_threads_are_found_by_their_numbers() {
    if skip() {
        return;
    }
    let process = sleepers();
    let script = format!(
        "iter:task / ctx.task.tgid == {} / {{ @[comm(ctx.task.pid) == ctx.task.comm, comm(0x7fffffff)] = count();
          @found[comm(ctx.task.pid)] = count(); @known[ctx.task.comm] = count();
          printf(\"%s %s\\n\", comm(ctx.task.pid), comm(0x7fffffff)); }}",
        process.pid()
    );
    let ended = run(&["-q", "--strict", "-e", &script]);
    if ended.stderr.contains("error[E0391]") {
        println!("SKIPPED: this kernel does not look up threads");
        return;
    }
    let lines = |of: &str| -> Vec<String> {
        let lines = ended.stdout.lines().filter_map(|line| line.strip_prefix(of));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(lines("@["), [format!("true, N/A]: {}", THREADS + 1)], "{}{}", ended.stdout, ended.stderr);
    // As keys, equal names are one, whatever was in the memory before.
    assert_eq!(lines("@found["), lines("@known["), "{}", ended.stdout);
    assert!(!lines("@found[").is_empty(), "{}", ended.stdout);
    let printed = ended.stdout.lines().filter(|line| line.ends_with(" N/A"));
    assert_eq!(printed.count(), THREADS + 1, "{}", ended.stdout);
}

/// The kernel says the paths of open files, and which of them exceed a size.
#[test]
fn files_have_their_whole_paths() {
    if skip() {
        return;
    }
    let process = sleepers();
    let pid = process.pid();
    let script = format!(
        "iter:task_file / ctx.task.tgid == {pid} / {{ printf(\"%d %s\\n\", ctx.fd, path(ctx.file.f_path));
          @short[path(ctx.file.f_path, 4)] = count(); @root[path(ctx.task.fs.root)] = count(); }}"
    );
    let ended = run(&["-q", "--strict", "-e", &script]);
    let open = names(&format!("/proc/{pid}/fd"));
    for fd in &open {
        let target = fs::read_link(format!("/proc/{pid}/fd/{fd}")).expect("an open file");
        let line = format!("{fd} {}", target.display());
        assert!(ended.stdout.lines().any(|printed| printed == line), "{line}: {}{}", ended.stdout, ended.stderr);
    }
    for line in [format!("@short[]: {}", open.len()), format!("@root[/]: {}", open.len())] {
        assert!(ended.stdout.lines().any(|printed| printed == line), "{line}: {}", ended.stdout);
    }
}

/// A BPF file system in a mount namespace of its own; it ends with the process that holds it.
struct Pins {
    _holder: Running,
    root: String,
    _directory: Directory,
}

impl Pins {
    fn new() -> Pins {
        let directory = Directory::new("pins");
        let place = directory.path("bpf");
        fs::create_dir(&place).expect("a directory");
        let mount = format!("mount -t bpf none {place} && exec sleep 6000");
        let holder = Running::start(Command::new("unshare").args(["-m", "sh", "-c", &mount]));
        let pid = holder.pid();
        wait_for("the file system", || {
            let mounts = fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap_or_default();
            mounts.contains(&format!(" {place} bpf ")).then_some(())
        });
        Pins { _holder: holder, root: format!("/proc/{pid}/root{place}"), _directory: directory }
    }

    /// The path of a file, as every process sees it.
    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }
}

#[test]
fn a_pinned_iterator_runs_whenever_its_file_is_read() {
    if skip() {
        return;
    }
    let pins = Pins::new();
    let file = pins.file("threads");
    let script = format!("iter:task:{file} {{ printf(\"%d %d\\n\", ctx.task.tgid, ctx.task.pid); }}");
    let ended = run(&["-q", "-e", &script]);
    assert_eq!((ended.code(), ended.stdout.trim()), (0, &*format!("Program pinned to {file}")), "{}", ended.stderr);
    // It is younger than the file.
    let process = sleepers();
    let pid = process.pid().to_string();
    let listed = fs::read_to_string(&file).expect("the list");
    let of_process = listed.lines().filter_map(|line| line.split_once(' ')).filter(|(of, _)| *of == pid);
    let found: Vec<String> = of_process.map(|(_, thread)| thread.to_owned()).collect();
    assert_eq!(found.len(), THREADS + 1, "{listed}");
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), threads(process.pid()));
    let again = run(&["-q", "-e", &script]);
    assert_eq!(again.code(), 3, "{}", again.stderr);
    assert!(again.stderr.contains(&format!("`rm {file}`")), "{}", again.stderr);
    // Only attached, not pinned.
    let other = pins.file("dry");
    let dry = run(&["-q", "--dry-run", "-e", &script.replace(&file, &other)]);
    assert_eq!(dry.code(), 0, "{}", dry.stderr);
    assert!(fs::metadata(&other).is_err());
}

#[test]
fn the_kernel_prints_what_printf_prints() {
    if skip() {
        return;
    }
    let pins = Pins::new();
    let file = pins.file("formats");
    let process = sleepers();
    let predicate = format!("/ ctx.task.pid == {} /", process.pid());
    let formats = [
        r#"printf("%d %5d|%-5d|%05d %+d % d %i 100%%\n", 7, 7, 7, 7, 7, 7, -7);"#,
        r#"printf("%u %x %X %08x %d\n", -1, -1, 255, 255, 1 << 40);"#,
        r#"printf("%ld %lu %llx %lld\n", -1, -1, -1, (uint64)1 << 63);"#,
        r#"printf("%s|%8s|%-20s|%c|%p\n", "a\tb", "abc", ctx.task.comm, 65, ctx.task.tgid);"#,
        r#"$n = ctx.task.tgid; if ($n > 0) { printf("%d\n", $n); } printf("no values\n");"#,
        r#"unroll(3) { printf("%s ", ctx.task.comm); } printf("\n%d %d\n", (uint8)300, ctx.task.pid == ctx.task.tgid);"#,
        r#"printf("%d%d%d%d%d%d%d%d%d%d%d%d\n", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);"#,
    ];
    for format in formats {
        let direct = run(&["-q", "-e", &format!("iter:task {predicate} {{ {format} }}")]);
        let pinned = run(&["-q", "-e", &format!("iter:task:{file} {predicate} {{ {format} }}")]);
        assert_eq!(pinned.code(), 0, "{format}: {}", pinned.stderr);
        let found = fs::read_to_string(&file).expect("the list");
        assert_eq!((direct.code(), direct.stdout.trim_end()), (0, found.trim_end()), "{format}: {}", direct.stderr);
        fs::remove_file(&file).expect("it is there");
    }
}

#[test]
fn warnings_that_nobody_reads_do_not_stop_a_pinned_iterator() {
    if skip() {
        return;
    }
    let pins = Pins::new();
    let file = pins.file("warnings");
    let script = format!(
        "config = {{ perf_rb_pages = 1; }} iter:task:{file} {{ $a = (int8[8])12345; $i = ctx.task.pid; \
         printf(\"%d %d\\n\", $a[$i % 100 + 8], $i); }}"
    );
    let ended = run(&["-q", "-k", "-e", &script]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let process = sleepers();
    for _ in 0..10 {
        let listed = fs::read_to_string(&file).expect("the list");
        let of_process = listed.lines().filter(|line| *line == format!("0 {}", process.pid()));
        assert_eq!(of_process.count(), 1, "{listed}");
    }
}
