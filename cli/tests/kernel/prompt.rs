//! The interactive prompt, over pipes and on a terminal, on the running kernel.
//!
//! In: typed lines, system calls of this process. Out: the prompt's output; exact counts.

use std::io::{Read as _, Write as _};
use std::os::unix::process::parent_id;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::machine::{Directory, Limit, assert_gone, held, skip, wait_for};

/// The timeout, far longer than any step takes.
const LIMIT: Duration = Duration::from_secs(30);
/// How often the timeout is checked.
const LOOK: Duration = Duration::from_millis(500);

/// A running prompt.
struct Prompt {
    child: Child,
    /// Its standard input, until it is closed.
    typed: Option<ChildStdin>,
    /// Its output, in pieces as they arrive.
    pieces: Receiver<Vec<u8>>,
    /// Output that no call has consumed yet.
    shown: String,
}

impl Drop for Prompt {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prompt {
    fn start(command: &mut Command) -> Prompt {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let (typed, mut shown) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        let (sender, pieces) = channel();
        thread::spawn(move || {
            let mut piece = vec![0; 1 << 16];
            while let Ok(length @ 1..) = shown.read(&mut piece) {
                if sender.send(piece[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Prompt { child, typed, pieces, shown: String::new() }
    }

    fn in_pipe() -> Prompt {
        Prompt::start(Command::new(env!("CARGO_BIN_EXE_profiler")).arg("repl"))
    }

    /// Starts a prompt on a terminal of 100 columns.
    fn on_terminal(directory: &Directory) -> Prompt {
        let line = format!("stty cols 100 rows 40; exec {} repl", env!("CARGO_BIN_EXE_profiler"));
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env("XDG_STATE_HOME", directory.path("")).env("NO_COLOR", "1");
        Prompt::start(command.env("TERM", "xterm"))
    }

    fn type_in(&mut self, text: &str) {
        let typed = self.typed.as_mut().expect("it reads");
        typed.write_all(text.as_bytes()).and_then(|()| typed.flush()).expect("it reads");
    }

    /// Reads up to a line that contains `text`, and returns all lines up to it.
    fn until(&mut self, text: &str) -> String {
        self.read_to(text, |shown| {
            let line_end = |at: usize| shown[at..].find('\n').map(|end| at + end + 1);
            shown.find(text).and_then(line_end)
        })
    }

    /// Reads until `text` appears anywhere in the output.
    fn shows(&mut self, text: &str) -> String {
        self.read_to(text, |shown| shown.find(text).map(|at| at + text.len()))
    }

    /// Reads until `end` finds a match. On timeout, fails with the output so far.
    fn read_to(&mut self, text: &str, end: impl Fn(&str) -> Option<usize>) -> String {
        let mut limit = Limit::of(LIMIT);
        loop {
            if let Some(end) = end(&self.shown) {
                let rest = self.shown.split_off(end);
                return std::mem::replace(&mut self.shown, rest);
            }
            match self.pieces.recv_timeout(LOOK) {
                Ok(piece) => {
                    let more: Vec<u8> = piece.into_iter().chain(self.pieces.try_iter().flatten()).collect();
                    self.shown.push_str(&String::from_utf8_lossy(&more));
                }
                Err(RecvTimeoutError::Timeout) if limit.lasts() => {}
                Err(why) => panic!("`{text}` did not come ({why}); this is on the screen:\n{}", self.shown),
            }
        }
    }

    /// Closes its input and waits for it to exit.
    fn end(mut self) -> i32 {
        self.typed = None;
        let ended = wait_for("the end of the prompt", || self.child.try_wait().expect("our own"));
        ended.code().unwrap_or(-1)
    }
}

/// Fails unless a prompt soon has no BPF objects.
fn assert_holds_nothing(prompt: &Prompt) {
    wait_for("the end of its BPF objects", || held(prompt.child.id()).is_empty().then_some(()));
}

fn call_getppid(times: u32) {
    for _ in 0..times {
        std::hint::black_box(parent_id());
    }
}

/// The id of the thread that runs the test: other tests of this process make the same calls.
fn thread() -> String {
    let link = std::fs::read_link("/proc/thread-self").expect("procfs");
    link.file_name().expect("a number").to_string_lossy().into_owned()
}

fn counter() -> String {
    format!("tracepoint:syscalls:sys_enter_getppid / tid == {} / {{ @calls = count(); }}\n", thread())
}

/// Whether the `script` command, which creates terminals, is installed; prints a message if not.
fn has_script() -> bool {
    let has = Command::new("script").arg("--version").output().is_ok();
    if !has {
        println!("SKIPPED: script(1), which makes terminals, is not installed");
    }
    has
}

#[test]
fn programs_count_exactly_while_others_come_and_go() {
    if skip() {
        return;
    }
    let mut prompt = Prompt::in_pipe();
    prompt.type_in(&counter());
    prompt.until("[1] 1 probe");
    call_getppid(100);
    prompt.type_in("@calls\n");
    prompt.until("@calls: 100");
    prompt.type_in("nosuch { }\ninterval:ms:20 {\n  @ticks = count();\n}\n");
    prompt.until("[3] 1 probe");
    call_getppid(23);
    prompt.type_in(":ps\n");
    prompt.until("  CPU  lost  program");
    let row = prompt.until("[1] ");
    // The program runs for every call on this machine, but counts only those of this thread.
    let cells: Vec<&str> = row.split_whitespace().take(3).collect();
    assert!(cells[..2] == ["[1]", "1"] && cells[2].parse::<u64>().is_ok_and(|runs| runs >= 123), "{row}");
    assert!(row.contains(&format!(" 0  {}", counter().trim_end())), "{row}");
    prompt.type_in(":clear @ticks\n:stop 3\n@calls\n");
    prompt.until("[3] stopped");
    prompt.until("@calls: 123");
    prompt.type_in(":stop all\n");
    prompt.until("[1] stopped");
    assert_holds_nothing(&prompt);
    assert_eq!(prompt.end(), 0);
}

#[test]
fn a_map_is_shown_in_the_words_of_a_view() {
    if skip() {
        return;
    }
    let mut prompt = Prompt::in_pipe();
    let of = |map: &str| counter().replace("@calls", map);
    prompt.type_in(&of("@calls[comm, pid]"));
    prompt.until("[1] 1 probe");
    call_getppid(42);
    prompt.type_in("@calls show pid, count, share sort count desc top 5\n@calls sort p99 top 1\n");
    prompt.until("@calls\n");
    let table = prompt.until("100");
    assert!(table.contains("pid") && table.contains("count") && table.contains("share"), "{table}");
    let row: Vec<&str> = table.lines().last().unwrap_or_default().split_whitespace().collect();
    assert_eq!(row[..2], [std::process::id().to_string().as_str(), "42"], "{table}");
    prompt.until("error[E0231]: `@calls` holds `count()`, which does not provide `p99`");
    prompt.type_in("@calls top 1 every 1s\n");
    prompt.until("`:watch @calls 1s`");
    assert_eq!(prompt.end(), 0);
}

/// The cells of the first row of a table that a prompt shows under a title.
fn row(prompt: &mut Prompt, title: &str) -> Vec<String> {
    prompt.until(&format!("{title}\n"));
    prompt.until("\n");
    prompt.until("\n").split_whitespace().take(2).map(str::to_owned).collect()
}

#[test]
fn views_are_shown_when_asked_for_and_at_the_end() {
    if skip() {
        return;
    }
    let mut prompt = Prompt::in_pipe();
    let program = counter().replace("@calls = count();", "@calls[pid] = count(); @twice[pid] = sum(2);");
    prompt.type_in(&format!("{} view \"own\" {{ of @calls show pid, count }}\n", program.trim_end()));
    prompt.until("[1] 1 probe");
    let pid = std::process::id().to_string();
    call_getppid(7);
    prompt.type_in(":views\n");
    assert_eq!(row(&mut prompt, "own"), [&pid, "7"]);
    call_getppid(4);
    prompt.type_in(":views 1\nview \"typed\" { of @calls, @twice show count, sum }\n");
    assert_eq!(row(&mut prompt, "own"), [&pid, "11"]);
    assert_eq!(row(&mut prompt, "typed"), ["11", "22"]);
    prompt.type_in("view \"v\" { of @calls show nothing }\nview \"v\" { of @calls every 1s }\n");
    prompt.until("error[E0230]");
    prompt.until("`:watch @calls 1s`");
    prompt.type_in(":stop 1\n");
    assert_eq!(row(&mut prompt, "own"), [&pid, "11"]);
    let end = prompt.until("[1] stopped");
    assert!(!end.contains("@twice"), "maps are printed when asked for: {end}");
    assert_eq!(prompt.end(), 0);
}

#[test]
fn an_edited_program_goes_on_counting_where_the_old_one_ended() {
    if skip() {
        return;
    }
    let mut prompt = Prompt::in_pipe();
    let body = "@calls = count(); @by[comm, pid] = count(); @last[pid] = @n; @n++; @h = hist(pid)";
    let of = |body: &str| counter().replace("@calls = count()", body);
    prompt.type_in(&format!("{}\n", of(body).trim_end().replacen("sys_enter_getppid", "sys_enter_getppid ", 1)));
    prompt.until("[1] 1 probe");
    call_getppid(100);
    // A refused edit leaves the old program as it is.
    prompt.type_in(&format!(":edit 1 {}", of("@calls = cuont()")));
    prompt.until("error[E0203]");
    prompt.type_in(&format!(
        ":edit 1 {}",
        of(&format!("{body}; @new = 1")).replace("@last[pid] = @n", "@last[comm] = 7")
    ));
    let said = prompt.until("replaces [1]");
    assert!(said.ends_with("; kept @by, @calls, @h, @n; empty @last, @new\n"), "{said}");
    call_getppid(23);
    prompt.type_in("@calls\n@by\n@n\n@h\n");
    prompt.until("@calls: 123\n");
    prompt.until(&format!("{}]: 123\n", std::process::id()));
    prompt.until("@n: 123\n");
    prompt.until(" 123 |@@");
    assert_eq!(prompt.end(), 0);
}

#[test]
fn an_error_is_shown_and_the_prompt_goes_on() {
    if skip() {
        return;
    }
    let mut prompt = Prompt::in_pipe();
    prompt.type_in("BEGIN { prinf(1); }\n:type curtask->comm\n:type t:sched:sched_switch args.prev_pid + 1\nprintf(\"%d\\n\", 6 * 7)\n:nosuch\n");
    prompt.until("error[E0203]");
    prompt.until("string[16]");
    prompt.until("int64");
    prompt.until("42");
    prompt.until("there is no `:nosuch`");
    assert_eq!(prompt.end(), 0);
}

#[test]
fn nothing_stays_attached_when_it_is_killed() {
    if skip() {
        return;
    }
    let mut prompt = Prompt::in_pipe();
    prompt.type_in(&counter());
    prompt.type_in("tracepoint:sched:sched_switch { @[args.next_comm] = count(); }\n");
    prompt.until("[2] 1 probe");
    let ids = held(prompt.child.id());
    assert!(ids.len() > 4, "{ids:?}");
    prompt.child.kill().expect("it is killed");
    prompt.child.wait().expect("it ends");
    assert_gone(&ids);
}

#[test]
fn on_a_terminal_it_completes_and_results_stand_above_the_line() {
    if skip() || !has_script() {
        return;
    }
    let directory = Directory::new("prompt");
    let mut prompt = Prompt::on_terminal(&directory);
    prompt.until("Control-D leaves");
    // Tab completes the event. The open brace continues on the next line.
    prompt.type_in("tracepoint:syscalls:sys_enter_getppi\t {\n");
    prompt.type_in(&format!("if (tid == {}) {{ @calls = count(); printf(\"called\\n\"); }} }}\n", thread()));
    prompt.until("[1] 1 probe");
    call_getppid(1);
    prompt.until("called");
    prompt.type_in("@ca\t\n");
    prompt.until("@calls: 1");
    prompt.type_in(":quit\n");
    assert_eq!(prompt.end(), 0);
    let history = wait_for("the history", || std::fs::read_to_string(directory.path("profiler/history")).ok());
    assert!(history.contains("sys_enter_getppid"), "{history}");
    let mode = std::fs::metadata(directory.path("profiler/history")).expect("a file").permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
}

/// Deletes the line being typed.
const DROP_LINE: &str = "\x15";

#[test]
fn tab_completes_programs_recipes_and_parameters() {
    if skip() || !has_script() {
        return;
    }
    let directory = Directory::new("completion");
    let mut prompt = Prompt::on_terminal(&directory);
    prompt.until("Control-D leaves");
    for (typed, shown) in [
        (format!("uprobe:{}:mai\t", env!("CARGO_BIN_EXE_profiler")), "profiler:main"),
        (format!("uprobe:{}:profiler_cli::compl\t", env!("CARGO_BIN_EXE_profiler")), "\"profiler_cli::complete::"),
        ("use proc/exi\t".into(), "use proc/exits"),
        (":load proc/exi\t".into(), ":load proc/exits"),
        (":load proc/exits --na\t".into(), "--name "),
        (":load lock/futex --\t".into(), "--min        duration: only waits of at least this"),
        ("lock/fut\t".into(), "lock/futex"),
        ("opensno\t".into(), "opensnoop"),
        ("lock/futex --mi\t".into(), "--min "),
        ("opensnoop --durat\t".into(), "--duration "),
        ("tracepoint:sched:sched_switch { print(args.prev_com\t".into(), "args.prev_comm"),
        (":dump veri\t".into(), ":dump verifier"),
        ("curtask->group_lea\t".into(), "curtask->group_leader"),
        (":type curtask->group_lea\t".into(), ":type curtask->group_leader"),
        (":type tracepoint:sched:sched_switch args.prev_com\t".into(), "args.prev_comm"),
        (":type tracepoint:sched:sched_proce\t".into(), "sched_process_"),
    ] {
        prompt.type_in(&typed);
        prompt.shows(shown);
        prompt.type_in(DROP_LINE);
    }
    prompt.type_in(":quit\n");
    assert_eq!(prompt.end(), 0);
}

#[test]
fn a_recipe_is_loaded_with_values_of_its_parameters() {
    if skip() {
        return;
    }
    let directory = Directory::new("load");
    directory.file("beside.prof", "pub macro twice(n) { n * 2 }\n");
    let script = format!(
        "use beside\nparam most: int = 1 \"calls\"\ntracepoint:syscalls:sys_enter_getppid / tid == {} / {{ @calls = count(); @most = beside.twice($most); }}\n",
        thread()
    );
    let path = directory.file("own script.prof", &script);
    let mut prompt = Prompt::in_pipe();
    prompt.type_in(&format!(":load {path} --most 21\n"));
    prompt.until("[1] 1 probe");
    call_getppid(7);
    prompt.type_in("@calls\n@most\n:ps\n");
    prompt.until("@calls: 7\n");
    prompt.until("@most: 42\n");
    prompt.until(&format!(" 0  {path} --most 21\n"));
    prompt.type_in(&format!(":load {path} --least 1\n:load proc/exits --name nobody\n"));
    prompt.until("neither the command nor the script has an option `--least`");
    prompt.until("[3] 1 probe");
    assert_eq!(prompt.end(), 0);
}

#[test]
fn a_probe_is_explained_with_its_arguments_and_what_it_costs_here() {
    if skip() {
        return;
    }
    let mut prompt = Prompt::in_pipe();
    prompt.type_in(":probe tracepoint:syscalls:sys_enter_swapon\n");
    let quiet = prompt.until("has not fired in 200 ms");
    assert!(quiet.starts_with("tracepoint:syscalls:sys_enter_swapon\n  kind       system call"), "{quiet}");
    assert!(
        quiet.contains("  fields     args.__syscall_nr  int\n             args.specialfile   const char *\n"),
        "{quiet}"
    );
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut limit = Limit::of(LIMIT);
            while !is_over.load(Ordering::Relaxed) && limit.lasts() {
                call_getppid(1000);
            }
        });
        // On a busy machine, the thread may not have a CPU in the measured time.
        wait_for("a thousand calls", || {
            prompt.type_in(":probe tracepoint:syscalls:sys_enter_getppid\n");
            let busy = prompt.until("  measured   ");
            let (times, _) = busy.rsplit_once("fired ")?.1.split_once(" times in 200 ms")?;
            times.parse::<u64>().is_ok_and(|times| times >= 1000).then_some(())
        });
        is_over.store(true, Ordering::Relaxed);
    });
    prompt.type_in(":probe tracepoint:sched:sched_*\n:probe tracepoint:sched:sched_swich\n:ps\n");
    let several = prompt.until("more\n");
    assert!(several.contains("tracepoint:sched:sched_kthread_stop  comm, pid\n"), "{several}");
    assert!(several.lines().last().is_some_and(|line| line.starts_with("… and ")), "{several}");
    prompt.until("near names: sched:sched_switch");
    prompt.until("no program is running");
    assert_holds_nothing(&prompt);
    assert_eq!(prompt.end(), 0);
}

#[test]
fn a_program_that_prints_faster_than_a_terminal_shows_leaves_the_prompt_usable() {
    if skip() || !has_script() {
        return;
    }
    let directory = Directory::new("flood");
    let mut prompt = Prompt::on_terminal(&directory);
    prompt.until("Control-D leaves");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut limit = Limit::of(LIMIT);
            while !is_over.load(Ordering::Relaxed) && limit.lasts() {
                call_getppid(1000);
            }
        });
        prompt.type_in(
            "tracepoint:syscalls:sys_enter_getppid { printf(\"called by %s\\n\", comm); @calls = count(); }\n",
        );
        prompt.until("[1] 1 probe");
        for _ in 0..3 {
            prompt.until("called by ");
            prompt.type_in("6 * 7\n");
            prompt.until("42\r\n");
        }
        prompt.type_in(":stop all\n");
        prompt.until("[1] stopped");
        is_over.store(true, Ordering::Relaxed);
    });
    prompt.type_in(":quit\n");
    assert_eq!(prompt.end(), 0);
}

#[test]
fn a_span_of_one_line_is_known_to_the_next_and_both_are_saved_as_one_script() {
    if skip() {
        return;
    }
    let directory = Directory::new("saved");
    let path = directory.path("saved.prof");
    let mut prompt = Prompt::in_pipe();
    prompt.type_in(
        "span call by tid { start tracepoint:syscalls:sys_enter_getppid end tracepoint:syscalls:sys_exit_getppid }\n",
    );
    prompt.until("[1] 2 probes");
    prompt.type_in(&format!("call:end / tid == {} / {{ @calls = count(); }}\n", thread()));
    prompt.until("[2] ");
    call_getppid(5);
    prompt.type_in("@calls\n");
    prompt.until("@calls: 5");
    prompt.type_in(&counter());
    prompt.until("[3] 1 probe");
    prompt.type_in(&format!(":save {path}\n"));
    prompt.until("saved to");
    assert_eq!(prompt.end(), 0);
    let saved = std::fs::read_to_string(&path).expect("it is written");
    assert_eq!(saved.matches("span call").count(), 1, "{saved}");
    let ended =
        Command::new(env!("CARGO_BIN_EXE_profiler")).args(["run", "-q", "--dry-run", &path]).output().expect("it runs");
    assert_eq!(ended.status.code(), Some(0), "{saved}\n{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn a_recipe_runs_as_on_the_command_line_and_the_prompt_returns() {
    if skip() {
        return;
    }
    let mut prompt = Prompt::in_pipe();
    prompt.type_in(&counter());
    prompt.until("[1] 1 probe");
    // It ends with its command; the program of the prompt counts meanwhile.
    prompt.type_in("opensnoop -c 'sh -c \"cat /nosuch1 /nosuch2; exit 0\"'\n6 * 7\n");
    let table = prompt.until("42\n");
    assert!(table.contains("/nosuch1") && table.contains("No such file"), "{table}");
    call_getppid(5);
    prompt.type_in("lock/latncy --pid 1\nproc/opens --nosuch 1\n@calls\n");
    prompt.until("did you mean the recipe `lock/latency`?");
    prompt.until("has an option `--nosuch`");
    prompt.until("@calls: 5\n");
    assert_eq!(prompt.end(), 0);
}

#[test]
fn control_c_ends_a_recipe_and_not_the_prompt() {
    if skip() || !has_script() {
        return;
    }
    let directory = Directory::new("recipe");
    let mut prompt = Prompt::on_terminal(&directory);
    prompt.until("Control-D leaves");
    prompt.type_in(&counter());
    prompt.until("[1] 1 probe");
    // Twice: a signal that has ended a run is forgotten.
    for _ in 0..2 {
        prompt.type_in("proc/opens --comm no-such-program\r");
        prompt.shows("probes");
        prompt.type_in("\x03");
        prompt.shows("> ");
    }
    call_getppid(3);
    prompt.type_in("@calls\n");
    prompt.until("@calls: 3");
    prompt.type_in(":quit\n");
    assert_eq!(prompt.end(), 0);
}
