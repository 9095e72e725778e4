//! What other users of a machine can prepare to disturb a tracer.
//!
//! In: other users' FIFOs and files on the paths where symbols are searched, programs that exec
//! each other, code that is mapped and unmapped. Out: every run ends with its results, and
//! addresses without a symbol are counted.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{chown, symlink};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::machine::{self, Alone, Directory, Limit, attached, copy, run, skip, wait_for, workload};

/// Timeout of a step, far longer than a step takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A workload that answers each input line with one line.
struct Workload {
    process: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Workload {
    fn start(command: &mut Command) -> Workload {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let (input, output) = (process.stdin.take().expect("a pipe"), process.stdout.take().expect("a pipe"));
        let (send, answers) = channel();
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
        });
        Workload { process, input, answers }
    }

    /// Starts a program that generates code at run time, and returns the address of that code.
    /// `None` on processors that it has no code for.
    fn that_makes_code() -> Option<(Workload, u64)> {
        Workload::that_makes_code_with(&[])
    }

    /// The same with arguments for the workload.
    fn that_makes_code_with(arguments: &[&str]) -> Option<(Workload, u64)> {
        if !cfg!(target_arch = "x86_64") {
            println!("SKIPPED: the workload makes code for x86-64 only");
            return None;
        }
        let made = Workload::start(Command::new(workload()).arg("made").args(arguments));
        let address = u64::from_str_radix(&made.answer(), 16).expect("an address");
        Some((made, address))
    }

    fn answer(&self) -> String {
        let mut limit = Limit::of(PATIENCE);
        loop {
            match self.answers.recv_timeout(Duration::from_millis(500)) {
                Err(RecvTimeoutError::Timeout) if limit.lasts() => {}
                answer => return answer.expect("an answer"),
            }
        }
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}").expect("it reads");
        self.answer()
    }

    fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Makes the generated code call getppid five times while a script counts the stacks. They are
    /// walked by frame pointers, so all are equal. Returns the script's standard output and
    /// standard error.
    fn counted_stacks(&mut self, mode: &str) -> (String, String) {
        let script = format!(
            "tracepoint:syscalls:sys_enter_getppid /pid == {}/ {{ @calls++; @[ustack({mode}, fp)] = count(); if (@calls == 5) {{ exit(); }} }}",
            self.pid()
        );
        let running = attached(&["-e", &script]);
        assert_eq!(self.ask("5"), "done 5");
        let ended = running.end();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        assert!(ended.stdout.contains("]: 5\n"), "{}{}", ended.stdout, ended.stderr);
        (ended.stdout, ended.stderr)
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A file in `/tmp`, removed at the end of the test.
struct PerfMap(String);

impl PerfMap {
    fn of(pid: u32) -> PerfMap {
        PerfMap(format!("/tmp/perf-{pid}.map"))
    }
}

impl Drop for PerfMap {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn mkfifo(path: &str) {
    assert!(Command::new("mkfifo").arg(path).status().is_ok_and(|status| status.success()), "mkfifo {path}");
}

#[test]
fn a_fifo_in_the_place_of_a_perf_map_delays_nothing() {
    if skip() {
        return;
    }
    let Some((mut made, address)) = Workload::that_makes_code() else { return };
    let map = PerfMap::of(made.pid());
    mkfifo(&map.0);
    let (stdout, stderr) = made.counted_stacks("bpftrace");
    assert!(stdout.contains(&format!("{:#x}", address + 18)), "{stdout}");
    assert!(stderr.contains("perf maps and jitdumps that were not read: "), "{stderr}");
}

#[test]
fn perf_maps_of_the_processs_user_count_and_those_of_others_do_not() {
    if skip() {
        return;
    }
    let Some((mut made, address)) = Workload::that_makes_code() else { return };
    let map = PerfMap::of(made.pid());
    fs::write(&map.0, format!("{address:x} 40 made::code\n")).expect("a file");
    let (stdout, stderr) = made.counted_stacks("perf");
    assert!(stdout.contains(&format!("made::code+18 ({})\n", map.0)), "{stdout}");
    assert!(!stderr.contains("perf maps"), "{stderr}");
    chown(&map.0, Some(65534), None).expect("we are root");
    let (stdout, stderr) = made.counted_stacks("perf");
    assert!(!stdout.contains("made::code"), "{stdout}");
    assert!(stderr.contains("perf maps and jitdumps that were not read: "), "{stderr}");
}

#[test]
fn jitdumps_of_the_processs_user_count_and_those_of_others_do_not() {
    if skip() {
        return;
    }
    let directory = Directory::new("hostile-jitdump");
    let Some((mut made, address)) = Workload::that_makes_code_with(&[&directory.path("")]) else { return };
    let dump = directory.path(&format!("jit-{}.dump", made.pid()));
    let map = PerfMap::of(made.pid());
    fs::write(&map.0, format!("{address:x} 40 in_the_perf_map\n")).expect("a file");
    let (stdout, stderr) = made.counted_stacks("perf");
    assert!(stdout.contains(&format!("workload_made+18 ({dump})\n")), "{stdout}");
    assert!(!stderr.contains("were not read"), "{stderr}");
    chown(&dump, Some(65534), None).expect("we are root");
    let (stdout, stderr) = made.counted_stacks("perf");
    assert!(stdout.contains(&format!("in_the_perf_map+18 ({})\n", map.0)), "{stdout}");
    assert!(stderr.contains("perf maps and jitdumps that were not read: "), "{stderr}");
    chown(&dump, Some(0), None).expect("we are root");
    // The mapped file is read, not what is at its path now; and it grows.
    let mut grown = fs::OpenOptions::new().append(true).open(&dump).expect("the file");
    fs::remove_file(&dump).expect("it is there");
    symlink(directory.path("none"), &dump).expect("a link");
    let name = b"grown\0";
    let length = 24 + 32 + name.len() as u32;
    let words = [0, length, 0, 0, 1, 1].map(u32::to_ne_bytes).concat();
    // Its code is not in the file yet.
    let numbers = [address, address, 0x40, 9].map(u64::to_ne_bytes).concat();
    let length_with_code = (length + 0x40).to_ne_bytes();
    let record = [&words[..4], &length_with_code, &words[8..], &numbers, name].concat();
    grown.write_all(&record).expect("written");
    let (stdout, _) = made.counted_stacks("bpftrace");
    assert!(stdout.contains("        grown+18\n"), "{stdout}");
}

#[test]
fn generated_code_has_its_name_after_its_process_has_ended() {
    if skip() {
        return;
    }
    if !cfg!(target_arch = "x86_64") {
        return println!("SKIPPED: the workload makes code for x86-64 only");
    }
    let directory = Directory::new("hostile-ended");
    let command = format!("sh -c 'echo 5 | {} made {}'", workload(), directory.path(""));
    let script = "tracepoint:syscalls:sys_enter_getppid / comm == \"workload\" / { @[ustack(fp)] = count(); }";
    let ended = run(&["-e", script, "-c", &command]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("        workload_made+18\n"), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn a_return_address_that_is_no_code_ends_the_stack() {
    if skip() {
        return;
    }
    let Some((mut made, _)) = Workload::that_makes_code() else { return };
    let (stdout, stderr) = made.counted_stacks("bpftrace");
    assert!(stdout.contains("\n        [stack ends here: 0x2f6763742f6c6563 is not code]\n]: 5\n"), "{stdout}");
    assert!(stderr.contains("user stacks that end at an address that is not code: 1\n"), "{stderr}");
}

#[test]
fn cat_of_a_fifo_or_a_device_is_an_error_that_is_printed() {
    if skip() {
        return;
    }
    let directory = Directory::new("cat");
    let fifo = directory.path("fifo");
    mkfifo(&fifo);
    let script = format!("BEGIN {{ cat(\"{fifo}\"); cat(\"/dev/zero\"); cat(\"/proc/version\"); exit(); }}");
    let ended = run(&["-q", "-e", &script]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    for path in [&fifo, "/dev/zero"] {
        assert!(
            ended.stderr.contains(&format!("failed to open file '{path}' (not a regular file)")),
            "{}",
            ended.stderr
        );
    }
    assert!(ended.stdout.starts_with("Linux version"), "{}", ended.stdout);
}

/// Both programs are mapped at the same addresses, so the second one is symbolized correctly only
/// if the two are distinguished.
#[test]
fn a_name_is_no_command() {
    if skip() {
        return;
    }
    let directory = Directory::new("name");
    // A thread has the first 15 characters of its program's name.
    for name in ["x;>owned", "$(>owned)", "it's;>owned'", "a\n>owned"] {
        copy(workload(), &directory.path(name));
        let script = "tracepoint:syscalls:sys_enter_getppid
            /pid == cpid/ { system(\"echo %q\", comm); exec(\"echo\", comm, str(comm), 7); exit(); }";
        let command = format!("\"{}\" getppid 1", directory.path(name));
        let mut profiler = machine::profiler(&["-q", "--unsafe", "-e", script, "-c", &command]);
        let ended = machine::Running::start(profiler.current_dir(directory.path(""))).end();
        for words in [format!("{name}\n"), format!("{name} {name} 7\n")] {
            assert!(ended.stdout.contains(&words), "{name}: {} {}", ended.stdout, ended.stderr);
        }
        assert!(!fs::exists(directory.path("owned")).expect("a directory"), "{name} was run");
    }
}

#[test]
fn a_program_is_not_named_after_the_one_that_ran_before_it() {
    if skip() {
        return;
    }
    let directory = Directory::new("become");
    let second = directory.path("second");
    copy(workload(), &second);
    let output = directory.path("output");
    let mut first = Workload::start(Command::new("setarch").args(["-R", workload(), "on-demand"]));
    assert_eq!(first.answer(), "ready");
    let pid = first.pid();
    let script = format!(
        "uprobe:{}:workload_step,uprobe:{second}:workload_step /pid == {pid}/
         {{ printf(\"%s.\\n\", ustack(perf, 1)); @calls++; if (@calls == 2) {{ exit(); }} }}",
        workload()
    );
    let running = attached(&["-q", "-o", &output, "-e", &script]);
    let stacks = || fs::read_to_string(&output).unwrap_or_default().matches(".\n").count();
    assert_eq!(first.ask("1"), "done 1");
    wait_for("the first stack", || (stacks() == 1).then_some(()));
    assert_eq!(first.ask(&format!("become {second}")), "ready");
    assert_eq!(first.ask("1"), "done 1");
    let ended = running.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let text = fs::read_to_string(&output).expect("results");
    let frames: Vec<&str> = text.lines().filter(|line| line.starts_with('\t')).collect();
    assert_eq!(frames.len(), 2, "{text}");
    let place = |frame: &str| frame.rsplit_once(" (").map(|(place, _)| place.to_owned());
    assert_eq!(place(frames[0]), place(frames[1]), "they are at the same addresses: {text}");
    assert!(frames[0].ends_with(&format!("({})", workload())) && frames[1].ends_with(&format!("({second})")), "{text}");
}

/// Processor time of a process, in clock ticks.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process of ours");
    let (_, fields) = stat.rsplit_once(") ").expect("a command");
    fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum()
}

fn resident_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process of ours");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// The kernel emits a record for each executable mapping. Records above our limit are counted as
/// lost.
#[test]
fn a_process_that_maps_and_unmaps_code_costs_little_and_is_counted() {
    if skip() {
        return;
    }
    // The names of ended processes in other tests come from the same records.
    let _alone = Alone::start();
    let script = "uprobe:libc:getpid { @[usym(reg(\"ip\"))] = count(); }";
    let running = attached(&["--stats", "-e", script]);
    let (before, memory) = (ticks(running.pid()), resident_kb(running.pid()));
    let mut churning = Command::new(workload()).args(["churn", "400000"]).spawn().expect("a workload");
    let pid = churning.id();
    let mut theirs = 0;
    while churning.try_wait().expect("a child of ours").is_none() {
        theirs = fs::read_to_string(format!("/proc/{pid}/stat")).map_or(theirs, |_| ticks(pid));
        thread::sleep(Duration::from_millis(5));
    }
    let ours = ticks(running.pid()) - before;
    let grown = resident_kb(running.pid()).saturating_sub(memory);
    // A slow kernel may have left time to read all records so far, so stop the reader.
    running.signal("STOP");
    let churned = Command::new(workload()).args(["churn", "40000"]).status();
    running.signal("CONT");
    assert!(churned.is_ok_and(|status| status.success()), "a workload");
    // Make something that is symbolized, so that the ring buffers are read.
    let ended_well = Command::new(workload()).arg("on-demand").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut calling = ended_well.expect("a workload");
    writeln!(calling.stdin.take().expect("a pipe"), "3").expect("it reads");
    calling.wait().expect("a child of ours");
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    println!("ours {ours} ticks, theirs {theirs}; {grown} kB more\n{}", ended.stderr);
    assert!(grown < 20 << 10, "{grown} kB more");
    let lost = ended
        .stderr
        .lines()
        .find_map(|line| line.trim().strip_prefix("records of process mappings: ring buffer full: "));
    let lost: u64 = lost.map_or(0, |count| count.parse().expect("a number"));
    assert!(lost > 0, "{}", ended.stderr);
}

/// `script` runs a command on a terminal and records what the command writes to it.
#[test]
fn a_terminal_gets_no_commands_from_traced_programs() {
    if skip() {
        return;
    }
    let directory = Directory::new("terminal");
    let name = directory.file("a\x1b[31mb\x07", "c\x1b]0;title\x07d\n");
    let kept = directory.path("kept");
    let script = format!(
        "tracepoint:syscalls:sys_enter_openat /pid == cpid && str(args.filename) == \"{name}\"/ {{
            printf(\"\\x1b[1mp %s\\x1b[0m\\n\", str(args.filename)); print(str(args.filename)); @[str(args.filename)] = count();
            warnf(\"%s\", str(args.filename)); cat(\"{name}\"); exit(); }}"
    );
    let program = directory.file("program.prof", &script);
    let target = directory.file("target.sh", "while :; do read line < \"$NAME\"; sleep 0.01; done");
    let line = format!("{} run -q {program} -c 'sh {target}'", super::machine::PROFILER);
    let run = |command: &mut Command| command.env("TERM", "xterm").env("NAME", &name).output().expect("it starts");
    let terminal = run(Command::new("script").args(["-q", "-e", "-c", &line, &kept]));
    if !terminal.status.success() {
        return println!("SKIPPED: script: {}", String::from_utf8_lossy(&terminal.stderr));
    }
    let bytes = fs::read(&kept).expect("what a terminal got");
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.matches("a\\x1b[31mb\\x07").count() >= 4, "{text:?}");
    assert!(text.contains("\x1b[1mp ") && text.contains("c\\x1b]0;title\\x07d"), "{text:?}");
    assert!(!text.contains("\x1b[31m") && !text.contains('\x07'), "{text:?}");
    let pipe = run(Command::new("sh").args(["-c", &line]));
    let text = String::from_utf8_lossy(&pipe.stdout);
    assert!(text.matches("a\x1b[31mb\x07").count() >= 3 && text.contains("c\x1b]0;title\x07d"), "{text:?}");
}
