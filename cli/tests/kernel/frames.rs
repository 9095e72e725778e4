//! Names and callers in code that linkers, assemblers, signals and C libraries make unusual, and
//! functions that share a name.
//!
//! In: the programs of tests/frames, compiled; a C compiler and binutils. Out: the frames that the
//! sources state, and exact counts. Without the tools, a test prints `SKIPPED: reason`.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::machine::{Directory, Ended, PROFILER, Running, profiler, run, skip, wait_for};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/frames");

fn skip_here() -> bool {
    let is_other = cfg!(not(target_arch = "x86_64"));
    if is_other {
        println!("SKIPPED: user stacks are walked by unwind tables on x86-64 only");
    }
    is_other || skip()
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Compiles a source to a program of this name; `None`, with a printed reason, without a compiler.
fn compiled(directory: &Directory, name: &str, arguments: &[&str]) -> Option<String> {
    if ["cc", "readelf", "objcopy"].iter().any(|tool| output(tool, &["--version"]).is_none()) {
        println!("SKIPPED: cc, readelf or objcopy is not here");
        return None;
    }
    let (path, source) = (directory.path(name), format!("{SOURCES}/{name}.c"));
    let all = [&["-O1", "-g", "-o", &path, &source], arguments].concat();
    assert!(output("cc", &all).is_some(), "cc {all:?}");
    Some(path)
}

/// A run of a program. Tables that are not there in time, on a busy machine, are there the next
/// time.
fn traced(script: &str, program: &str) -> Ended {
    wait_for("stacks by tables", || {
        let ended = run(&["-q", "-e", script, "-c", program]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        (!ended.stdout.contains("no unwind table yet")).then_some(ended)
    })
}

/// The stacks that a run prints, each as its frames without files of sources.
fn stacks(ended: &Ended) -> Vec<Vec<&str>> {
    let stacks = ended.stdout.split("STACK\n").map(|text| {
        let frames = text.lines().map(|line| line.trim().split('@').next().unwrap_or_default());
        frames.filter(|frame| !frame.is_empty()).collect::<Vec<_>>()
    });
    stacks.filter(|stack| !stack.is_empty()).collect()
}

/// A block that prints the stack.
const PRINT: &str = "{ printf(\"STACK\\n%s\", ustack); }";

#[test]
fn interrupted_code_is_named_by_its_own_instruction() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("frames-signals");
    let Some(program) = compiled(&directory, "signals", &[]) else { return };
    let text = traced(&format!("uprobe:{program}:target {PRINT}"), &program);
    let stacks = stacks(&text);
    let interrupted: Vec<&str> = stacks.iter().map(|stack| stack[3]).collect();
    assert_eq!(interrupted[..3], ["first+0", "second+0", "third+1"], "{}", text.stdout);
    assert!(interrupted[3].starts_with("fault+") && interrupted.len() == 4, "{}", text.stdout);
    assert!(stacks.iter().all(|stack| stack[4].starts_with("main+")), "{}", text.stdout);
    let source = fs::read_to_string(format!("{SOURCES}/signals.c")).expect("the source");
    let line = 1 + source.lines().position(|line| line.ends_with("/* fault */")).expect("the line");
    let mut tracer = profiler(&["-q", "-e", &format!("uprobe:{program}:target {PRINT}"), "-c", &program]);
    let with_lines = Running::start(tracer.env_remove("BPFTRACE_SHOW_DEBUG_INFO")).end();
    assert!(with_lines.stdout.contains(&format!("signals.c:{line}\n")), "{}", with_lines.stdout);
    let perf = traced(&format!("uprobe:{program}:target {{ print(ustack(perf)); }}"), &program);
    assert!(["first+0", "second+0", "third+1"].iter().all(|name| perf.stdout.contains(name)), "{}", perf.stdout);
    let picture = directory.path("out.svg");
    let script = format!("uprobe:{program}:target {{ @[ustack] = count(); }}");
    let ended = run(&["-q", "--flame", &picture, "-e", &script, "-c", &program]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let picture = fs::read_to_string(picture).expect("it was written");
    let is_drawn = |name| picture.contains(&format!(">{name}<"));
    assert!(["first", "second", "third", "fault"].into_iter().all(is_drawn), "{picture}");
}

#[test]
fn debug_frame_counts_beside_eh_frame_and_compressed() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("frames-chain");
    let without = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let Some(program) = compiled(&directory, "chain", &without) else { return };
    let packed = directory.path("packed");
    assert!(output("objcopy", &["--compress-debug-sections=zlib", &program, &packed]).is_some());
    let sections = output("readelf", &["-SW", &packed]).expect("it is a program");
    let debug_frame = sections.lines().find(|line| line.contains(".debug_frame")).expect(&sections);
    assert!(debug_frame.contains(" C ") && sections.contains(" .eh_frame "), "{sections}");
    for program in [&program, &packed] {
        let ended = traced(&format!("uprobe:{program}:target {PRINT}"), program);
        let stacks = stacks(&ended);
        assert_eq!(stacks.len(), 2, "{}", ended.stdout);
        for stack in &stacks {
            let names: Vec<&str> = stack.iter().take(5).map(|frame| frame.split('+').next().unwrap_or(frame)).collect();
            assert_eq!(names, ["target", "inner", "middle", "outer", "main"], "{}", ended.stdout);
        }
        assert!(!ended.stdout.contains("stack ends here"), "{}", ended.stdout);
    }
}

/// Scripts read these stacks; why callers are missing is in the ledger.
#[test]
fn under_the_name_bpftrace_a_stack_has_frames_only() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("frames-bpftrace");
    let without = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-g0"];
    let Some(program) = compiled(&directory, "chain", &without) else { return };
    let link = directory.path("bpftrace");
    symlink(PROFILER, &link).expect("a link");
    let script = format!("uprobe:{program}:target {{ print(ustack); }}");
    let own = traced(&script, &program);
    assert!(own.stdout.contains("[stack ends here: no unwind information]"), "{}", own.stdout);
    let output = Command::new(&link).args(["-e", &script, "-c", &program]).output().expect("it runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(stdout.matches("target+0").count() == 2 && !stdout.contains('['), "{stdout}");
    assert!(stderr.contains("no unwind information: 2"), "{stderr}");
}

#[test]
fn callers_of_vfork_are_known() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("frames-fork");
    let Some(program) = compiled(&directory, "fork", &[]) else { return };
    let ended = traced(&format!("tracepoint:syscalls:sys_enter_vfork /pid == cpid/ {PRINT}"), &program);
    let stacks = stacks(&ended);
    assert_eq!(stacks.len(), 20, "{}", ended.stdout);
    for stack in &stacks {
        let names: Vec<&str> =
            stack.iter().skip(1).take(3).map(|frame| frame.split('+').next().unwrap_or(frame)).collect();
        assert_eq!(names, ["launch", "jobs", "main"], "{}", ended.stdout);
    }
    assert!(!ended.stdout.contains("stack ends here"), "{}", ended.stdout);
}

#[test]
fn a_coroutine_ends_with_its_first_function() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("frames-coroutine");
    let Some(program) = compiled(&directory, "coroutine", &[]) else { return };
    let ended = traced(&format!("uprobe:{program}:target {PRINT}"), &program);
    let stacks = stacks(&ended);
    assert_eq!(stacks.len(), 40, "{}", ended.stdout);
    let is_whole = |stack: &Vec<&str>| stack.len() == 2 && stack[0] == "target+0" && stack[1].starts_with("coroutine+");
    assert!(stacks.iter().all(is_whole), "{}", ended.stdout);
    assert!(!ended.stderr.contains("callers"), "{}", ended.stderr);
}

/// The address of a section.
fn address(program: &str, section: &str) -> u64 {
    let sections = output("readelf", &["-SW", program]).expect("it is a program");
    let line = sections.lines().find(|line| line.contains(&format!(" {section} "))).expect(&sections);
    let mut words = line.split(&format!(" {section} ")).nth(1).expect("the rest").split_whitespace();
    u64::from_str_radix(words.nth(1).expect("an address"), 16).expect("a number")
}

#[test]
fn entries_of_linkage_tables_have_the_names_of_their_functions() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("frames-linkage");
    let library = directory.path("liblinkage.so");
    let source = format!("{SOURCES}/linkage.c");
    let run_path = format!("-Wl,-rpath,{}", directory.path(""));
    for (index, table) in ["lazy", "ibtplt", "now"].into_iter().enumerate() {
        // The library first, for which the same name is used.
        if compiled(&directory, "linkage", &["-DLIBRARY", "-shared", "-fPIC"]).is_none() {
            return;
        }
        fs::rename(directory.path("linkage"), &library).expect("our own");
        let option = format!("-Wl,-z,{table}");
        let arguments = ["-O2", "-o", &directory.path("linkage"), &source, &library, &run_path, "-Wl,-z,lazy", &option];
        assert!(output("cc", &arguments).is_some(), "{arguments:?}");
        let program = directory.path("linkage");
        let sections = output("readelf", &["-SW", &program]).expect("it is a program");
        // The first entry of `.plt` finds functions, so it has no name of its own.
        let first = if sections.contains(" .plt.sec ") {
            address(&program, ".plt.sec")
        } else {
            address(&program, ".plt") + 16
        };
        let entries: Vec<String> = (0..3)
            .map(|entry| format!("uprobe:{program}:{:#x} {{ @[ustack(perf, 1)] = count(); }}", first + 16 * entry))
            .collect();
        let ended = traced(&entries.join("\n"), &program);
        for name in ["one@plt+0", "two@plt+0", "three@plt+0"] {
            assert!(ended.stdout.contains(name), "{index} {table}: {}", ended.stdout);
        }
        assert_eq!(ended.stdout.matches("]: 5\n").count(), 3, "{table}: {}", ended.stdout);
    }
}

#[test]
fn all_functions_of_a_name_are_probed_and_listed_once() {
    if skip() {
        return;
    }
    let directory = Directory::new("frames-namesakes");
    let other = directory.path("second.o");
    let Some(_) = compiled(&directory, "namesakes", &["-DSECOND", "-c", "-o", &other]) else { return };
    let Some(program) = compiled(&directory, "namesakes", &[&other]) else { return };
    for function in ["helper", "help*"] {
        let script = format!(
            "uprobe:{program}:{function} {{ @calls = count(); @sum = sum(args.number); }}
             uretprobe:{program}:{function} {{ @returns = sum(retval); }}"
        );
        let ended = traced(&script, &program);
        // helper(1) is 2; the other one is called with 10 and 11, and adds 2.
        for line in ["@calls: 3", "@sum: 22", "@returns: 27"] {
            assert!(ended.stdout.contains(line), "{function}: {} {}", ended.stdout, ended.stderr);
        }
    }
    let listed = output(PROFILER, &["list", &format!("uprobe:{program}:help*")]).expect("it lists");
    assert_eq!(listed.matches("helper").count(), 1, "{listed}");
}

/// A stripped program whose debug file is found by the name in it, or by its build id in the
/// directory of debug files of its user's cache.
#[test]
fn functions_in_a_separate_debug_file_are_probed_and_listed() {
    if skip() {
        return;
    }
    let directory = Directory::new("frames-separate");
    let Some(program) = compiled(&directory, "hidden", &["-Wl,--build-id"]) else { return };
    let (debug, stripped) = (directory.path("hidden.debug"), directory.path("stripped"));
    let objcopy = |arguments: &[&str]| assert!(output("objcopy", arguments).is_some(), "{arguments:?}");
    objcopy(&["--only-keep-debug", &program, &debug]);
    objcopy(&["--strip-all", &format!("--add-gnu-debuglink={debug}"), &program, &stripped]);
    let script = format!("uprobe:{stripped}:hidden_middle {{ @calls = count(); @sum = sum(args.number); }}");
    let ended = traced(&script, &stripped);
    assert!(ended.stdout.contains("@calls: 3\n@sum: 3\n"), "{} {}", ended.stdout, ended.stderr);
    let listed = output(PROFILER, &["list", &format!("uprobe:{stripped}:hidden*")]).expect("it lists");
    assert!(listed.contains(":hidden_middle") && listed.contains(":hidden_leaf"), "{listed}");
    // Another program's debug file is none of this one.
    objcopy(&["--only-keep-debug", "--strip-all", &stripped, &debug]);
    let refused = run(&["-q", "-e", &script, "-c", &stripped]);
    assert!(refused.code() != 0 && refused.stderr.contains("stripped"), "{}", refused.stderr);
}

/// As rpm makes it: the functions that the dynamic table lacks, compressed into the program.
#[test]
fn symbols_that_are_compressed_into_a_program_are_names() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("frames-packed");
    let Some(program) = compiled(&directory, "hidden", &[]) else { return };
    if output("xz", &["--version"]).is_none() {
        println!("SKIPPED: xz is not here");
        return;
    }
    let (symbols, stripped) = (directory.path("symbols"), directory.path("stripped"));
    let objcopy = |arguments: &[&str]| assert!(output("objcopy", arguments).is_some(), "{arguments:?}");
    objcopy(&["--only-keep-debug", &program, &symbols]);
    objcopy(&["-S", "--keep-symbol=hidden_leaf", "--keep-symbol=hidden_middle", &symbols]);
    assert!(output("xz", &["-k", &symbols]).is_some());
    objcopy(&["-S", &format!("--add-section=.gnu_debugdata={symbols}.xz"), &program, &stripped]);
    let ended = traced("tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { print(ustack(4)); }", &stripped);
    for name in ["hidden_leaf+", "hidden_middle+"] {
        assert_eq!(ended.stdout.matches(name).count(), 3, "{}", ended.stdout);
    }
    // What is too large is not decompressed, and damaged bytes give no names.
    let zeros = directory.file("zeros", &"\0".repeat(40 << 20));
    assert!(output("xz", &["-k", &zeros]).is_some());
    for packed in [format!("{zeros}.xz"), directory.file("damaged", "no symbols")] {
        objcopy(&["-S", &format!("--add-section=.gnu_debugdata={packed}"), &program, &stripped]);
        let ended = traced("tracepoint:syscalls:sys_enter_getppid /pid == cpid/ { print(ustack(4)); }", &stripped);
        assert!(!ended.stdout.contains("hidden") && ended.stdout.contains(&stripped), "{}", ended.stdout);
    }
}

#[test]
fn a_parameter_that_always_has_one_value_has_that_value() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("frames-constants");
    let Some(program) = compiled(&directory, "constants", &["-O2"]) else { return };
    let script = format!("uprobe:{program}:scaled* {{ printf(\"%d %d %d\\n\", args.value, args.factor, args.more); }}");
    let ended = traced(&script, &program);
    assert!(ended.stdout.starts_with("1 -4 200\n2 -4 200\n3 -4 200\n"), "{} {}", ended.stdout, ended.stderr);
}

#[test]
fn functions_are_listed_by_patterns_of_their_names_in_the_source() {
    let directory = Directory::new("frames-names");
    let (program, source) = (directory.path("names"), format!("{SOURCES}/names.cpp"));
    if output("g++", &["-O1", "-g", "-o", &program, &source]).is_none() {
        println!("SKIPPED: g++ is not here");
        return;
    }
    let listed = |pattern: &str| output(PROFILER, &["list", &format!("uprobe:{program}:{pattern}")]).expect("it lists");
    for pattern in ["cpp:*space::*", "*space::*", "cpp:\"*space::*\""] {
        let text = listed(pattern);
        let names = [":cpp:\"space::(anonymous namespace)::hidden(int)\"", ":cpp:\"space::shown(int)\""];
        assert!(text.lines().count() == 2 && names.iter().all(|name| text.contains(name)), "{pattern}: {text}");
    }
    assert_eq!(listed("cpp:space::shown").lines().count(), 1);
    // What is listed can be probed.
    let found = listed("cpp:*hidden*");
    if !skip() {
        let ended = traced(&format!("{} {{ @calls = count(); }}", found.trim()), &program);
        assert!(ended.stdout.contains("@calls: 1"), "{} {}", ended.stdout, ended.stderr);
    }
}

#[test]
fn a_debug_file_is_said_to_have_no_code() {
    let directory = Directory::new("frames-debug-file");
    let Some(program) = compiled(&directory, "hidden", &[]) else { return };
    let debug = directory.path("hidden.debug");
    assert!(output("objcopy", &["--only-keep-debug", &program, &debug]).is_some());
    let ended = run(&["--dry-run", "-e", &format!("uprobe:{debug}:main {{ @ = count(); }}")]);
    assert!(ended.code() != 0 && ended.stderr.contains("has no code: it is the debug file"), "{}", ended.stderr);
}

#[test]
fn types_that_have_a_unit_of_their_own_have_members() {
    if skip() {
        return;
    }
    let directory = Directory::new("frames-types");
    let (program, source) = (directory.path("types"), format!("{SOURCES}/types.cpp"));
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let arguments = ["-O1", "-g", version, "-fdebug-types-section", "-o", &program, &source];
        if output("g++", &arguments).is_none() {
            println!("SKIPPED: g++ is not here");
            return;
        }
        let sections = output("readelf", &["-SW", &program]).expect("it is a program");
        assert_eq!(sections.contains(".debug_types"), version == "-gdwarf-4", "{sections}");
        let script = format!(
            "uprobe:{program}:cpp:\"space::taken\" {{
                $point = args.point;
                printf(\"%d %d %d %d\\n\", $point.left, $point.next->left, $point.id, ((struct Point *)arg0)->left);
            }}"
        );
        let ended = traced(&script, &program);
        assert!(ended.stdout.starts_with("-5 -6 7 -5\n"), "{version}: {} {}", ended.stdout, ended.stderr);
    }
}
