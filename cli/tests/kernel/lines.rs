//! User stacks with source lines and inlined functions.
//!
//! In: tests/debug-info/lines.c, compiled with debug information in several places; a C compiler
//! and binutils. Out: the stack at `target` has the functions and lines that the source states.
//! Without the tools, a test prints `SKIPPED: reason`.

use std::fs;
use std::process::Command;

use super::machine::{Directory, Running, copy, profiler, skip, wait_for};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/debug-info/lines.c");
/// Overrides the setting of scripts.
const SETTING: &str = "BPFTRACE_SHOW_DEBUG_INFO";

fn skip_here() -> bool {
    let is_other = cfg!(not(target_arch = "x86_64"));
    if is_other {
        println!("SKIPPED: user stacks are walked by unwind tables on x86-64 only");
    }
    is_other || skip()
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// Compiles the source; `None`, with a printed reason, if there is no compiler or no binutils.
fn compiled(directory: &Directory, arguments: &[&str]) -> Option<String> {
    if ["cc", "objcopy", "strip"].iter().any(|tool| !succeeds(tool, &["--version"])) {
        println!("SKIPPED: cc, objcopy or strip is not here");
        return None;
    }
    let path = directory.path("lines");
    let all = [&["-O2", "-g", "-o", &path, SOURCE], arguments].concat();
    assert!(succeeds("cc", &all), "cc {all:?}");
    Some(path)
}

/// Runs an objcopy or strip command that must succeed.
fn objcopy(arguments: &[&str]) {
    assert!(succeeds("objcopy", arguments), "objcopy {arguments:?}");
}

/// The number of the line that ends with a comment.
fn line(comment: &str) -> usize {
    let source = fs::read_to_string(SOURCE).expect("the source");
    let at = source.lines().position(|line| line.ends_with(&format!(" // {comment}")));
    at.expect(comment) + 1
}

/// What a run printed that took one stack of a program, with variables in the tracer's environment.
fn traced(program: &str, script: &str, variables: &[(&str, &str)]) -> String {
    traced_as("text", program, script, variables)
}

/// The same in another format. Tables that are not there in time, on a busy machine, are there the
/// next time.
fn traced_as(format: &str, program: &str, script: &str, variables: &[(&str, &str)]) -> String {
    let running = Running::start(&mut Command::new(program));
    let script = script.replace("TARGET", &format!("uprobe:{program}:target"));
    wait_for("a stack by tables", || {
        let mut tracer = profiler(&["-q", "-f", format, "-e", &script, "-p", &running.pid().to_string()]);
        let ended = Running::start(tracer.env_remove(SETTING).envs(variables.iter().copied())).end();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        (!ended.stdout.contains("no unwind table yet")).then_some(ended.stdout)
    })
}

const STACK: &str = "TARGET { printf(\"%s\", ustack); exit(); }";

/// The frames from `target` to `main`, without offsets from functions that have a caller.
fn frames(output: &str) -> Vec<String> {
    let without_offset = |frame: &str| {
        let (name, rest) = frame.split_once('+').unwrap_or((frame, ""));
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        format!("{name}{rest}")
    };
    let all = output.lines().filter(|line| !line.is_empty()).map(|line| without_offset(line.trim()));
    let mut frames: Vec<String> = all.collect();
    let main = frames.iter().position(|frame| frame.starts_with("main")).expect(output);
    frames.truncate(main + 1);
    frames
}

fn with_lines() -> Vec<String> {
    let at = |name: &str, comment: &str| format!("{name}@{SOURCE}:{}", line(comment));
    vec![
        at("target", "target"),
        at("[inlined] innermost", "innermost"),
        at("[inlined] middle", "middle"),
        at("outer", "outer"),
        at("plain", "plain"),
        at("main", "main"),
    ]
}

const WITHOUT_LINES: [&str; 4] = ["target", "outer", "plain", "main"];

#[test]
fn frames_have_their_lines_and_inlined_functions() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("lines");
    for arguments in [&["-gdwarf-5"][..], &["-gdwarf-4"], &["-gz=zlib"], &["-static"]] {
        let Some(program) = compiled(&directory, arguments) else { return };
        assert_eq!(frames(&traced(&program, STACK, &[])), with_lines(), "{arguments:?}");
    }
}

#[test]
fn the_setting_leaves_lines_out() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("lines-off");
    let Some(program) = compiled(&directory, &[]) else { return };
    let script = |value: &str| format!("config = {{ show_debug_info = {value} }} {STACK}");
    assert_eq!(frames(&traced(&program, &script("true"), &[])), with_lines());
    let off = traced(&program, &script("false"), &[]);
    assert_eq!(frames(&off), WITHOUT_LINES);
    assert!(!off.contains('@') && !off.contains("inlined"), "{off}");
    let by_environment = traced(&program, STACK, &[(SETTING, "0")]);
    assert_eq!(by_environment, off);
}

#[test]
fn perf_mode_has_inlined_functions_but_no_lines() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("lines-perf");
    let Some(program) = compiled(&directory, &[]) else { return };
    let output = traced(&program, &STACK.replace("ustack", "ustack(perf)"), &[]);
    let frames: Vec<(&str, &str)> = output.lines().filter_map(|line| line.trim().split_once(' ')).take(4).collect();
    let (addresses, names): (Vec<&str>, Vec<&str>) = frames.into_iter().unzip();
    let outer = names[3].strip_prefix("outer+").and_then(|rest| rest.split_once(' '));
    assert_eq!(names[..3], [&format!("target+0 ({program})"), "innermost (inlined)", "middle (inlined)"]);
    assert_eq!(outer.map(|(_, module)| module), Some(format!("({program})").as_str()), "{output}");
    assert!(addresses[1..].iter().all(|address| *address == addresses[1]), "{output}");
}

#[test]
fn json_frames_have_files_and_lines() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("lines-json");
    let Some(program) = compiled(&directory, &[]) else { return };
    let output = traced_as("json", &program, "TARGET { @[ustack(3)] = count(); exit(); }", &[]);
    let documents = output.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect(line));
    let map = documents.into_iter().find(|document| document["type"] == "map").expect("a map");
    let frames = map["data"]["@"][0]["key"][0]["frames"].as_array().expect(&output).clone();
    let expected = [("target", false), ("innermost", true), ("middle", true), ("outer", false), ("plain", false)];
    assert_eq!(frames.len(), expected.len(), "{output}");
    for (frame, (name, is_inlined)) in frames.iter().zip(expected) {
        let found = (&frame["name"], &frame["file"], &frame["line"], frame["inlined"] == true);
        assert_eq!(found, (&name.into(), &SOURCE.into(), &line(name).into(), is_inlined), "{output}");
        assert_eq!(frame["offset"].is_u64(), !is_inlined, "{output}");
    }
    assert!(frames[1..4].iter().all(|frame| frame["address"] == frames[1]["address"]), "{output}");
}

#[test]
fn stacks_of_several_processes_with_the_same_lines_are_one_row() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("lines-alike");
    let Some(program) = compiled(&directory, &[]) else { return };
    let _programs = [0; 2].map(|_| Running::start(&mut Command::new(&program)));
    let script = format!(
        "uprobe:{program}:target {{ @[ustack(1)] = count(); @all[pid] = count(); if (len(@all) == 2) {{ exit(); }} }}"
    );
    let ended = Running::start(profiler(&["-q", "-e", &script]).env_remove(SETTING)).end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let frame = format!("target+0@{SOURCE}:{}", line("target"));
    assert_eq!(ended.stdout.lines().filter(|line| line.trim() == frame).count(), 1, "{}", ended.stdout);
    assert_eq!(ended.stdout.matches("@all[").count(), 2, "{}", ended.stdout);
}

/// A stripped program whose debug file is `debug`, as distributions do.
fn stripped(directory: &Directory, program: &str, debug: &str, options: &[&str]) -> String {
    objcopy(&[&["--only-keep-debug", program, debug], options].concat());
    let stripped = directory.path("stripped");
    objcopy(&["--strip-all", &format!("--add-gnu-debuglink={debug}"), program, &stripped]);
    stripped
}

/// The frames of a program without symbols, where the functions are only counted.
fn traced_stripped(program: &str, with_symbols: &str, variables: &[(&str, &str)]) -> String {
    let symbols = Command::new("nm").arg(with_symbols).output().expect("nm").stdout;
    let symbols = String::from_utf8_lossy(&symbols).into_owned();
    let target = symbols.lines().find_map(|line| line.strip_suffix(" T target")).expect("a symbol");
    traced(program, &STACK.replace("TARGET", &format!("uprobe:{program}:0x{target}")), variables)
}

#[test]
fn lines_and_names_come_from_a_separate_debug_file() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("lines-separate");
    let link_only = "-Wl,--build-id=none";
    fs::create_dir(directory.path(".debug")).expect("a directory");
    for (place, options) in [("next.debug", &[][..]), (".debug/in.debug", &["--compress-debug-sections=zlib"])] {
        let Some(program) = compiled(&directory, &[link_only]) else { return };
        let debug = directory.path(place);
        let stripped = stripped(&directory, &program, &debug, options);
        assert_eq!(frames(&traced_stripped(&stripped, &program, &[])), with_lines(), "{place}");

        // Another build has another checksum.
        let whole = fs::read(&debug).expect("a debug file");
        fs::write(&debug, [&whole[..], b"x"].concat()).expect("a debug file");
        let without = traced_stripped(&stripped, &program, &[]);
        assert!(without.contains("0x") && !without.contains("outer") && !without.contains("lines.c"), "{without}");
        fs::remove_file(debug).expect("a debug file");
    }
}

#[test]
fn debug_files_are_found_by_build_id_in_the_cache_of_debuginfod() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("lines-cache");
    let id = "00112233445566778899aabbccddeeff00112233";
    let Some(program) = compiled(&directory, &[&format!("-Wl,--build-id=0x{id}")]) else { return };
    let cache = directory.path("cache");
    fs::create_dir_all(format!("{cache}/{id}")).expect("a directory");
    let debug = format!("{cache}/{id}/debuginfo");
    let linked = stripped(&directory, &program, &debug, &[]);
    let at_cache = [("DEBUGINFOD_CACHE_PATH", cache.as_str())];
    assert_eq!(frames(&traced_stripped(&linked, &program, &at_cache)), with_lines());

    let other = directory.path("other");
    let options = ["-O2", "-g", "-Wl,--build-id=0x0123456789", "-o", &other, SOURCE];
    assert!(succeeds("cc", &options));
    copy(&other, &debug);
    let without = traced_stripped(&linked, &program, &at_cache);
    assert!(!without.contains("lines.c"), "another program's: {without}");
}

#[test]
fn a_program_without_debug_information_has_names_as_before() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("lines-none");
    let Some(program) = compiled(&directory, &[]) else { return };
    let named = directory.path("named");
    objcopy(&["--strip-debug", &program, &named]);
    let [on, off] = ["true", "false"].map(|value| {
        let output = traced(&named, &STACK.replace("ustack", "ustack(4)"), &[(SETTING, value)]);
        assert_eq!(frames(&output), WITHOUT_LINES);
        output
    });
    assert_eq!(on, off);
}
