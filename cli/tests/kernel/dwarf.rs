//! Parameters and results of functions in C, from the debug information of programs.
//!
//! In: the source in tests/dwarf, a C compiler. Out: scripts print what the program prints,
//! and say why a parameter cannot be read. Without the compiler, a test prints `SKIPPED: reason`.

mod languages;
mod lines;
mod results;
mod types;

use std::path::Path;
use std::process::Command;

use super::machine::{Directory, Ended, PROFILER, run, skip};

/// Ways to compile the source.
const WAYS: [&[&str]; 5] = [
    &["-g", "-O0"],
    &["-g", "-O2"],
    &["-gdwarf-4", "-O1", "-fno-pie", "-no-pie"],
    &["-g", "-O2", "-flto"],
    &["-gdwarf-3", "-gz=zlib", "-O2", "-static"],
];

/// Prints the lines that the program prints.
const SCRIPT: &str = r#"
uprobe:BIN:integers { printf("integers %d %d %d %d %d %u\n", args.a, args.b, args.c, args.d, args.e, args.f); }
uprobe:BIN:wide { printf("wide %ld %lu %d %d %d\n", args.a, args.b, args.c, (int64)args.d, args.e); }
uprobe:BIN:many {
    printf("many %d %d %d %d %d %d ", args.a, args.b, args.c, args.d, args.e, args.f);
    printf("%d %d %s\n", args.g, args.h, str(args.i));
}
uprobe:BIN:handle_request {
    $c = args.conn;
    printf("request %d %lu %s %s %d %d ", args.len, $c->id, str($c->name), $c->label, $c->peer.port, $c->peer.bytes[2]);
    printf("%d %d %d %d ", $c->counts[0], args.conn->counts[2], $c->low, $c->high);
    printf("%lu %d %d ", args.conn.next.id, (int64)$c->state, $c->secure);
    printf("%d %d %s\n", $c->half[1], $c->corners[1].y, str(args.text));
}
uretprobe:BIN:handle_request { printf("returned %lu %s\n", retval->id, str(retval->name)); }
fn:BIN:mixed { printf("mixed %d %d %d\n", args.a, args.c, args.e); }
uprobe:BIN:*_alike { printf("alike %d %d\n", args.conn->peer.port, args.n); }
uprobe:BIN:make { printf("make %d %d\n", args.a, args.b); }
uprobe:BIN:overwritten { printf("overwritten %d\n", args.b); }
uprobe:BIN:nothing { printf("nothing\n"); }
"#;

/// Runs a command that may not be installed; returns whether it succeeds.
fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// Compiles the source; `None`, with a printed reason, if there is no compiler here.
fn compiled(directory: &Directory, options: &[&str], name: &str) -> Option<String> {
    compiled_from(directory, options, &["server.c"], name)
}

/// Compiles sources of tests/dwarf.
fn compiled_from(directory: &Directory, options: &[&str], sources: &[&str], name: &str) -> Option<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/dwarf");
    let sources: Vec<_> = sources.iter().map(|source| Path::new(folder).join(source).display().to_string()).collect();
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let path = directory.path(name);
    if succeeds("cc", &[options, &["-o", &path], &sources].concat()) {
        return Some(path);
    }
    assert!(!succeeds("cc", &["--version"]), "cc {options:?}");
    println!("SKIPPED: there is no C compiler");
    None
}

/// Traces a program. What it prints and what the script prints must be the same lines.
fn assert_agrees(script: &str, program: &str) {
    let directory = Directory::new("debug-info-output");
    let output = directory.path("output");
    let ended = run(&["-q", "-e", &script.replace("BIN", program), "-o", &output, "-c", program]);
    assert_eq!(ended.code(), 0, "{program}: {}", ended.stderr);
    let printed = std::fs::read_to_string(&output).expect("results");
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        // The program prints at the end of a function, or after it.
        lines.sort_unstable();
        lines
    };
    assert_eq!(lines(&printed), lines(&ended.stdout), "{program}");
}

/// Compiles a script without running it.
fn checked(script: &str, program: &str) -> Ended {
    run(&["--dry-run", "-e", &script.replace("BIN", program)])
}

#[test]
fn parameters_and_results_are_those_that_the_program_prints() {
    if skip() {
        return;
    }
    let directory = Directory::new("debug-info");
    for (number, way) in WAYS.iter().enumerate() {
        let Some(program) = compiled(&directory, way, &format!("server{number}")) else { return };
        assert_agrees(SCRIPT, &program);
    }
}

#[test]
fn a_separate_debug_file_is_found_by_its_link() {
    if skip() {
        return;
    }
    let directory = Directory::new("debug-info-separate");
    let Some(program) = compiled(&directory, &["-g", "-O2"], "server") else { return };
    let separate = directory.path("server.debug");
    assert!(succeeds("objcopy", &["--only-keep-debug", &program, &separate]));
    assert!(succeeds("strip", &["-g", &program]));
    let link = format!("--add-gnu-debuglink={separate}");
    assert!(succeeds("objcopy", &[&link, &program]));
    assert_agrees(SCRIPT, &program);
    // Without the file, or with the one of another build, there is no debug information.
    let Some(other) = compiled(&directory, &["-g", "-O1"], "other") else { return };
    assert!(succeeds("objcopy", &["--only-keep-debug", &other, &separate]));
    for _ in 0..2 {
        let refused = checked("uprobe:BIN:integers { print(args.a); }", &program);
        assert!(refused.stderr.contains("E0323") && refused.stderr.contains("has no debug information"), "{refused:?}");
        let _ = std::fs::remove_file(&separate);
    }
}

#[test]
fn what_cannot_be_read_is_said() {
    if skip() {
        return;
    }
    let directory = Directory::new("debug-info-refused");
    let Some(program) = compiled(&directory, &["-g", "-O2"], "server") else { return };
    let cases = [
        ("uprobe:BIN:handle_request { print(args.lenn); }", "E0324", "did you mean `len`? It has: conn, len, text"),
        ("uprobe:BIN:mixed { print(args.b); }", "E0378", "it is a floating-point number"),
        ("uprobe:BIN:mixed { print(args.d); }", "E0378", "it is a struct that is passed by value"),
        ("uprobe:BIN:mixed { print(args.f); }", "E0378", "it is a struct that is passed by value"),
        ("uprobe:BIN:handle_request { print(args.conn->ratio); }", "", ""),
        ("uprobe:BIN:handle_request { print(args.conn->ratio + 1); }", "E0303", "`+` takes numbers, this is a double"),
        ("uprobe:BIN:nothing { print(args.x); }", "E0323", "the function `nothing` has no parameters"),
        ("uprobe:BIN:integers+4 { print(args.a); }", "E0323", "leave the offset out"),
        ("uprobe:BIN:m*k* { print(args.b); }", "", ""),
        ("uprobe:BIN:m* { print(args.b); }", "E0323", "have different parameters"),
        ("uprobe:BIN:handle_request { print(args.conn->nam); }", "E0322", "name"),
        ("uretprobe:BIN:handle_request { print(args.conn); }", "E0323", "save them at the entry"),
        ("uretprobe:BIN:integers { print(retval->x); }", "E0321", "`integers` returns `int32`, which has no members"),
        ("uretprobe:BIN:integers { print((int32)retval); }", "", ""),
    ];
    for (script, code, words) in cases {
        let ended = checked(script, &program);
        assert_eq!(ended.code() == 0, code.is_empty(), "{script}: {}", ended.stderr);
        assert!(ended.stderr.contains(code) && ended.stderr.contains(words), "{script}: {}", ended.stderr);
    }
    assert!(succeeds("strip", &["-g", &program]));
    let ended = checked("uprobe:BIN:integers { print(args.a); }", &program);
    assert!(ended.stderr.contains("E0323") && ended.stderr.contains("-dbgsym"), "{}", ended.stderr);
    assert_eq!(checked("uprobe:BIN:integers { print(arg0); }", &program).code(), 0);
}

#[test]
fn a_clone_is_read_where_the_compiler_put_its_parameters() {
    if skip() {
        return;
    }
    let directory = Directory::new("debug-info-clone");
    let Some(program) = compiled(&directory, &["-g", "-O2", "-DWITH_CLONE"], "server") else { return };
    let symbols = Command::new("nm").arg(&program).output().expect("nm comes with the compiler");
    if !String::from_utf8_lossy(&symbols.stdout).contains("cloned.constprop.0") {
        return println!("SKIPPED: this compiler makes no clone");
    }
    // Both callers pass 7 as `a`, which is therefore not passed.
    let script =
        SCRIPT.to_owned() + "uprobe:BIN:cloned.constprop.0 / args.a == 7 / { printf(\"cloned %d\\n\", args.b); }";
    assert_agrees(&script, &program);
}

#[test]
fn list_shows_parameters_with_their_types() {
    let directory = Directory::new("debug-info-list");
    let Some(program) = compiled(&directory, &["-g", "-O2"], "server") else { return };
    let list = |pattern: &str| {
        let output = Command::new(PROFILER).args(["list", "-v", pattern]).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let listed = list(&format!("uprobe:{program}:handle*"));
    assert_eq!(
        listed,
        format!("uprobe:{program}:handle_request\n    struct conn * conn\n    int len\n    char * text\n")
    );
    let listed = list(&format!("uretprobe:{program}:handle*"));
    assert_eq!(listed, format!("uretprobe:{program}:handle_request\n    struct conn * retval\n"));
    // Wildcards describe all functions at once.
    let listed = list(&format!("uprobe:{program}:*"));
    for lines in [":handle_request\n    struct conn * conn\n    int len\n", ":nothing\nuprobe:", ":make\n    int a\n"] {
        assert!(listed.contains(lines), "{lines}: {listed}");
    }
    let listed = list(&format!("uretprobe:{program}:*"));
    assert!(listed.contains(":wide\n    long int retval\n"), "{listed}");
    let listed = list(&format!("uprobe:{program}:mixed"));
    assert!(listed.contains("    double b (not readable: it is a floating-point number"), "{listed}");
}

#[test]
fn all_parameters_are_one_record_and_types_are_shared_between_blocks() {
    if skip() {
        return;
    }
    let directory = Directory::new("debug-info-record");
    let Some(program) = compiled(&directory, &["-g", "-O2"], "server") else { return };
    let script = "uprobe:BIN:integers { print(args); }
        uprobe:BIN:handle_request { @conn = args.conn->next; @state = args.conn->state; }
        uretprobe:BIN:handle_request { @conn = retval->next; }
        END { print(@state); }";
    let ended = run(&["-q", "-e", &script.replace("BIN", &program), "-c", &program]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let record = "{ .a = -8, .b = 200, .c = -3000, .d = 60000, .e = -70000, .f = 4000000000 }";
    assert!(ended.stdout.contains(record), "{}", ended.stdout);
    assert!(ended.stdout.contains("@state: CLOSING"), "{}", ended.stdout);
}

#[test]
fn an_object_is_for_the_types_that_it_was_built_with() {
    if skip() {
        return;
    }
    let directory = Directory::new("debug-info-built");
    let Some(program) = compiled(&directory, &["-g", "-O2"], "server") else { return };
    let (script, object) = (directory.path("script.prof"), directory.path("script.o"));
    let text = "uprobe:BIN:integers { printf(\"e is %d\\n\", args.e); }".replace("BIN", &program);
    std::fs::write(&script, text).expect("a file of ours");
    assert!(succeeds(PROFILER, &["build", &script, "-o", &object]));
    let ended = run(&["-q", &object, "-c", &program]);
    assert_eq!((ended.code(), ended.lines("e is -70000")), (0, 1), "{}", ended.stderr);
    assert!(succeeds("strip", &["-g", &program]));
    let ended = run(&["-q", &object, "-c", &program]);
    assert!(ended.code() != 0 && ended.stderr.contains("changed"), "{}", ended.stderr);
}
