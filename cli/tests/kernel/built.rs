//! Objects of `profiler build`: built once, run with other parameter values, and refused when they
//! do not match what the script compiles to.
//!
//! In: scripts, and processes that make a known number of calls. Out: what runs of one object
//! count, and refusals.

use std::process::Command;

use super::machine::{Directory, Ended, PROFILER, attached, copy, run, skip, workload};
use super::parameters::Callers;

const SCRIPT: &str = "// Counts calls of getppid.
param pid: pid = any \"whose calls\"
param least: int = 7 \"a number\" in 0..1000
param every: duration = 1h \"how often\"
tracepoint:syscalls:sys_enter_getppid /pid == $pid/ { @calls[pid] = count(); @least = $least; }
interval:$every { exit(); }
";

fn build(arguments: &[&str]) -> Ended {
    let output = Command::new(PROFILER).arg("build").args(arguments).output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { status: output.status, stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// Writes a script and builds it; returns the path of the object.
fn built(directory: &Directory, script: &str, arguments: &[&str]) -> String {
    let (script, object) = (directory.file("script.prof", script), directory.path("script.o"));
    let ended = build(&[&[script.as_str(), "-o", &object], arguments].concat());
    assert!(ended.status.success(), "{}", ended.stderr);
    object
}

fn lines(ended: &Ended) -> Vec<&str> {
    let mut lines: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with('@')).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn an_object_that_is_built_once_counts_exactly_what_each_run_names() {
    if skip() {
        return;
    }
    let directory = Directory::new("built");
    let object = built(&directory, SCRIPT, &["--least", "8"]);
    std::fs::remove_file(directory.path("script.prof")).expect("the object has its script");
    for (of, least) in [(&[0_usize, 2][..], None), (&[1], Some("30")), (&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], Some("9"))] {
        let mut callers = Callers::start(12);
        let pids = callers.pids();
        let mut arguments = vec!["-q".to_string(), object.clone()];
        // One option for each pid, as in `--pid 1 --pid 2`.
        arguments.extend(of.iter().flat_map(|at| ["--pid".to_string(), pids[*at].to_string()]));
        arguments.extend(least.iter().map(|least| format!("--least={least}")));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let running = attached(&arguments);
        callers.go();
        running.signal("INT");
        let ended = running.end();
        let mut expected: Vec<String> = of.iter().map(|at| format!("@calls[{}]: {}", pids[*at], 101 + at)).collect();
        expected.push(format!("@least: {}", least.unwrap_or("8")));
        expected.sort();
        assert_eq!(lines(&ended), expected, "{}", ended.stderr);
    }
}

#[test]
fn a_value_in_the_name_of_a_probe_attaches_the_same_programs_elsewhere() {
    if skip() {
        return;
    }
    let directory = Directory::new("built-elsewhere");
    // A private copy: other tests run the workload at the same time.
    let program = directory.path("program");
    copy(workload(), &program);
    let script = format!(
        "param fn: string = \"workload_step\" \"which function\"
        uprobe:{program}:$fn {{ @calls = count(); }}"
    );
    let object = built(&directory, &script, &[]);
    let functions = format!("{program} functions 100");
    let ended = run(&["-q", &object, "-c", &functions]);
    assert_eq!(lines(&ended), ["@calls: 100"], "{}", ended.stderr);
    let steps = run(&["-q", &object, "-c", &functions, "--fn", "main"]);
    assert_eq!(lines(&steps), ["@calls: 1"], "{}", steps.stderr);
    let missing = run(&["-q", &object, "-c", &functions, "--fn", "no_such_function"]);
    assert_eq!((missing.code(), missing.stdout.as_str()), (1, ""), "{}", missing.stderr);
    assert!(missing.stderr.contains("no_such_function"), "{}", missing.stderr);
}

#[test]
fn an_interval_of_an_object_has_the_period_of_the_run() {
    if skip() {
        return;
    }
    let directory = Directory::new("built-interval");
    let object = built(&directory, SCRIPT, &[]);
    // With the period given at build time, this would take an hour.
    let ended = run(&["-q", &object, "--every", "5ms", "--pid", "1"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
}

#[test]
fn clauses_of_spans_and_views_have_the_values_of_the_run() {
    if skip() {
        return;
    }
    let directory = Directory::new("built-clauses");
    // A private copy: other tests run the workload at the same time.
    let program = directory.path("clauses");
    copy(workload(), &program);
    let script = "
        param old: duration = 1h \"when a call is too old\"
        param room: int = 4096 \"most calls at a time\"
        param rows: int = 3 \"rows of the table\"
        param show: duration = 1h \"how often\"
        span call by (at: nsecs) {
          start tracepoint:syscalls:sys_enter_getppid / comm == \"clauses\" /
          expire $old
          limit $room
        }
        call:start { @started = count(); }
        call:expire { @expired = count(); }
        BEGIN { @by[1] = 1; @by[2] = 2; @by[3] = 3; @by[4] = 4; }
        view \"by\" { of @by top $rows every $show }";
    let object = built(&directory, script, &[]);
    let found = |seconds: u32, arguments: &[&str]| {
        let command = format!("sh -c '{program} getppid 100; sleep {seconds}'");
        let ended = run(&[&["-q", &object, "-c", &command], arguments].concat());
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let rows = ended.stdout.lines().filter(|line| line.starts_with(['1', '2', '3', '4'])).count();
        let tables = ended.stdout.lines().filter(|line| line.starts_with("by, ")).count();
        let maps: Vec<String> = lines(&ended).into_iter().map(str::to_owned).collect();
        (maps.join(" "), rows / tables, tables > 3)
    };
    // Nothing expires within an hour, so entries stay open up to the limit.
    assert_eq!(found(0, &[]), ("@started: 100".into(), 3, false));
    assert_eq!(found(0, &["--room", "30", "--rows=2"]), ("@started: 30".into(), 2, false));
    // The tracer may be late on a busy machine.
    let in_time = |seconds| found(seconds, &["--old", "1ms", "--show", "100ms"]);
    let expected = ("@expired: 100 @started: 100".to_owned(), 3, true);
    let seen: Vec<_> = [1, 4, 16].into_iter().map(in_time).take_while(|found| *found != expected).collect();
    assert!(seen.len() < 3, "{seen:?}");
}

#[test]
fn what_an_object_cannot_take_is_refused_with_a_code_before_it_is_loaded() {
    let directory = Directory::new("built-refused");
    let script = "param least: int = 7 \"a number\" in 0..1000
        param which: regex = \"^sys_enter_getppid$\" \"which call\"
        tracepoint:syscalls:$which { @ = $least + getopt(\"more\", 2) + $1; }
        interval:1h { }";
    let object = built(&directory, script, &["3", "--", "--more=4"]);
    let refused = |arguments: &[&str], code: &str, words: &str| {
        let ended = run(&[&[object.as_str()], arguments].concat());
        let first = ended.stderr.lines().next().unwrap_or_default();
        assert_eq!((ended.code(), ended.stdout.as_str()), (1, ""), "{}", ended.stderr);
        assert!(first.starts_with(&format!("error[{code}]: ")) && first.contains(words), "{}", ended.stderr);
    };
    refused(&["--least", "1001"], "E0358", "it takes an int from 0 to 1000");
    refused(&["--which", "^sys_enter_getpid$"], "E0183", "the programs would be others");
    refused(&["--", "--more=5"], "E0183", "`--more` is a constant");
    refused(&["4"], "E0183", "`$1`, `$2` and so on are constants");
    refused(&["--probe-filter", "^tracepoint"], "E0183", "`--probe-filter` would change the programs");
    let ended = run(&["--dry-run", &object, "3", "--least", "9", "--", "--more=4"]);
    assert!(skip() || ended.code() == 0, "what it was built with is no change: {}", ended.stderr);
}

#[test]
fn an_object_of_another_version_machine_or_maker_is_refused_with_a_code() {
    let directory = Directory::new("built-others");
    let object = built(&directory, "BEGIN { exit(); }", &[]);
    let bytes = std::fs::read(&object).expect("an object");
    let changed = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len(), "nothing moves");
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).expect(from);
        let mut changed = bytes.clone();
        changed[at..at + from.len()].copy_from_slice(to.as_bytes());
        changed
    };
    let version = format!("\"profiler\":\"{}\"", env!("CARGO_PKG_VERSION"));
    let other_version = version.replace("0.", "9.");
    let machine = format!("\"machine\":\"{}\"", std::env::consts::ARCH);
    let other_machine = machine.replace(char::is_numeric, "0");
    // Replace the program's exit instruction with another one.
    let mut other_code = bytes.clone();
    let exit = bytes.windows(8).rposition(|insn| insn == [0x95, 0, 0, 0, 0, 0, 0, 0]).expect("it ends");
    other_code[exit] = 0x05;
    for (bytes, code) in [
        (changed(".profiler", ".profi1er"), "E0180"),
        (changed(&version, &other_version), "E0181"),
        (changed("\"format\":", "\"fo_mat\":"), "E0181"),
        (changed("\"files\"", "\"filez\""), "E0180"),
        (changed(&machine, &other_machine), "E0182"),
        (other_code, "E0180"),
    ] {
        let path = directory.path("other.o");
        std::fs::write(&path, bytes).expect("a file");
        let ended = run(&[&path]);
        assert_eq!((ended.code(), ended.stdout.as_str()), (1, ""), "{}", ended.stderr);
        assert!(ended.stderr.starts_with(&format!("error[{code}]: `{path}`")), "{code}: {}", ended.stderr);
        assert!(ended.stderr.contains("= help: "), "{}", ended.stderr);
    }
}

#[test]
fn a_damaged_object_is_refused_with_a_code() {
    let directory = Directory::new("built-damaged");
    let script = "param least: int = 7 \"a number\"
        BEGIN { @a[1] = $least; @b = hist(5); exit(); }
        view \"a\" { of @a show key as \"which\", value top 3 }";
    let bytes = std::fs::read(built(&directory, script, &[])).expect("an object");
    let path = directory.path("damaged.o");
    let mut random = 1_u64;
    for _ in 0..200 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (at, bit) = ((random >> 33) as usize % bytes.len(), random >> 30 & 7);
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << bit;
        std::fs::write(&path, damaged).expect("a file");
        let ended = run(&["-q", &path]);
        assert_eq!((ended.code(), ended.stdout.as_str()), (1, ""), "byte {at}, bit {bit}: {}", ended.stderr);
        assert!(ended.stderr.starts_with("error[E"), "byte {at}, bit {bit}: {}", ended.stderr);
    }
}

#[test]
fn an_object_knows_the_file_whose_functions_it_probes() {
    if skip() {
        return;
    }
    let directory = Directory::new("built-file");
    let program = directory.path("program");
    copy(workload(), &program);
    let object = built(&directory, &format!("uprobe:{program}:workload_step {{ @ = count(); }}"), &[]);
    let functions = format!("{program} functions 3");
    let ended = run(&["-q", &object, "-c", &functions]);
    assert_eq!(lines(&ended), ["@: 3"], "{}", ended.stderr);
    std::fs::remove_file(&program).expect("our own");
    copy("/bin/sh", &program);
    let ended = run(&["-q", &object]);
    assert_eq!((ended.code(), ended.stdout.as_str()), (1, ""), "{}", ended.stderr);
    let first = format!("error[E0182]: `{object}` no longer fits: `{program}` has changed since it was built");
    assert!(ended.stderr.starts_with(&first), "{}", ended.stderr);
}

/// A line without the times of a window, in JSON or CSV.
fn without_times(line: &str) -> String {
    let line = match (line.split_once("\"start\": "), line.split_once("\"units\": ")) {
        (Some((before, _)), Some((_, after))) => format!("{before}{after}"),
        _ => line.to_owned(),
    };
    let is_time = |part: &&str| part.starts_with("20") && part.ends_with('Z');
    line.split(',').filter(|part| !is_time(part)).collect::<Vec<_>>().join(",")
}

#[test]
fn an_object_prints_what_its_script_prints() {
    if skip() {
        return;
    }
    let directory = Directory::new("built-same");
    let script = "param least: int = 3 \"the smallest\"
        BEGIN {
            printf(\"%s %d\\n\", \"text\", $least);
            @a[\"one\"] = 1; @a[\"two\"] = 2; @h[1] = hist(5); @d = dist(1000); @t = (1, \"x\"); @s = stats(4);
            @l = lhist(5, 0, 10, 1); print(@a); print((1, true)); printf(\"%s\\n\", strerror(2));
            exit(7);
        }
        END { printf(\"end\\n\"); }
        view \"a\" { of @a show key, value, value * 2 as \"twice\" where value >= 1 sort value desc top 1 }";
    let object = built(&directory, script, &[]);
    let script = directory.path("script.prof");
    for format in ["text", "json", "csv"] {
        for more in [&[][..], &["--least", "9"]] {
            let results = |what: &str| {
                let ended = run(&[&["-q", "-f", format, what], more].concat());
                assert_eq!(ended.code(), 7, "{}", ended.stderr);
                ended.stdout.lines().map(without_times).collect::<Vec<_>>()
            };
            assert_eq!(results(&object), results(&script), "{format} {more:?}");
        }
    }
}

/// An object does not have the ids of the functions that its programs are loaded for: libbpf finds
/// them by name, also for programs that may sleep.
#[test]
fn an_object_has_iterators() {
    if skip() {
        return;
    }
    let directory = Directory::new("built-iterators");
    let object = built(
        &directory,
        "iter:task / ctx.task.pid == 2 / { printf(\"%s\\n\", ctx.task.comm); }
        wall:hz:50 { @[ustack(3)] = count(); exit(); }
        END { printf(\"stacks %d\\n\", len(@) > 0); clear(@); }",
        &[],
    );
    let ended = run(&["-q", &object]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("kthreadd\n") && ended.stdout.contains("stacks 1\n"), "{}", ended.stdout);
}

#[test]
fn an_object_that_changes_the_system_needs_the_same_permission_as_its_script() {
    let directory = Directory::new("built-unsafe");
    let object = built(&directory, "BEGIN { system(\"true\"); exit(); }", &["--unsafe"]);
    let ended = run(&["-q", &object]);
    assert_eq!((ended.code(), ended.stdout.as_str()), (3, ""), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("error[E0601]: "), "{}", ended.stderr);
    assert!(skip() || run(&["-q", "--unsafe", &object]).code() == 0);
}

#[test]
fn an_object_of_a_bpftrace_script_leaves_out_what_is_missing_as_the_script_does() {
    if skip() {
        return;
    }
    let directory = Directory::new("built-bt");
    let text = format!("uprobe:{}:no_such_function {{ @x = 1; }} interval:ms:1 {{ @y = 1; exit(); }}", workload());
    let (script, object) = (directory.file("script.bt", &text), directory.path("script.o"));
    let ended = build(&[&script, "-o", &object]);
    assert!(ended.status.success() && ended.stderr.contains("no_such_function"), "{}", ended.stderr);
    let ended = run(&["-q", &object]);
    assert_eq!((ended.code(), lines(&ended)), (0, vec!["@y: 1"]), "{}", ended.stderr);
}

#[test]
fn help_of_an_object_shows_its_parameters_with_its_values() {
    let directory = Directory::new("built-help");
    let object = built(&directory, SCRIPT, &["--least", "8"]);
    let output = Command::new(PROFILER).args(["help", &object]).output().expect("the binary runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Counts calls of getppid.") && text.contains("--least    int       8"), "{text}");
    assert_eq!(run(&[&object, "--help"]).stdout.lines().count(), text.lines().count());
}
