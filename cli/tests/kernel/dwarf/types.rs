//! Types and global variables of programs by name.
//!
//! In: the sources in tests/dwarf, a C compiler. Out: casts, `sizeof`, `offsetof` and `uaddr` use
//! the program's types.

use super::{PROFILER, checked, compiled_from, succeeds};
use crate::kernel_functions::is_since;
use crate::machine::{Directory, run, skip};

/// Ways to compile the sources.
const WAYS: [&[&str]; 4] =
    [&["-g", "-O0"], &["-g", "-O2"], &["-gdwarf-4", "-O1", "-fno-pie", "-no-pie"], &["-g", "-O2", "-flto"]];

fn compiled(directory: &Directory, options: &[&str], name: &str) -> Option<String> {
    compiled_from(directory, options, &["types.c", "second/types.c"], name)
}

/// Runs a script in all builds of the program, which print these lines.
fn assert_prints(script: &str, expected: &str) {
    if skip() {
        return;
    }
    let directory = Directory::new("debug-info-types");
    for (number, way) in WAYS.iter().enumerate() {
        let Some(program) = compiled(&directory, way, &format!("types{number}")) else { return };
        let ended = run(&["-q", "-e", &script.replace("BIN", &program), "-c", &program]);
        assert_eq!((ended.code(), ended.stdout.trim()), (0, expected), "{way:?}: {}", ended.stderr);
    }
}

#[test]
fn casts_and_sizes_use_the_program_s_types() {
    let script = r#"
    uprobe:BIN:use {
        $t = (thing *)arg0;
        $f = &$t->file;
        printf("%d %d %d %s ", (int64)$t->colour, $t->either.half[1], $f->number, str($f->name));
        printf("%d %s ", $f->next->number, str(((struct file *)$f->next)->name));
        printf("%d %d %d %d ", sizeof(struct file), sizeof(thing), sizeof(union either), sizeof(enum colour));
        printf("%d %d ", offsetof(struct file, next), offsetof(thing, file.name));
        printf("%s %d %d\n", (enum colour)arg1, ((struct twice *)arg2)->here, sizeof(struct apart));
    }
    uprobe:BIN:in_other { printf("%d %d\n", sizeof(struct twice), ((thing *)arg0)->file.number); }"#;
    assert_prints(script, "5 -9 -300 first -2 last 24 40 8 4 16 24 GREEN 6 2\n16 -300");
}

#[test]
fn variables_have_their_types() {
    let script = r#"
    uprobe:BIN:use {
        printf("%d %d %d ", *uaddr("counter"), *uaddr("small"), *uaddr("flag"));
        printf("%d %d ", uaddr("server")->clients->fd, uaddr("server")->count);
        printf("%d %s ", (*uaddr("chosen"))->clients->fd, *uaddr("label"));
        printf("%d %f %d\n", (*uaddr("table"))[2], *uaddr("ratio"), *(uint64 *)uaddr("ratio") == 0x3fe0000000000000);
    }
    uprobe:BIN:in_other { printf("%d\n", uaddr("apart")->value); }"#;
    assert_prints(script, "-7 -3 1 -4 3 -4 a label 65535 0.500000 1\n11");
}

/// Since Linux 6.6; on older kernels it is an error.
#[test]
fn variables_are_known_at_returns() {
    if !is_since((6, 6)) {
        return println!("SKIPPED: the kernel does not tell which function returns (since 6.6)");
    }
    let script = r#"uretprobe:BIN:use { printf("%d %d\n", *uaddr("counter"), uaddr("server")->clients->fd); }"#;
    assert_prints(script, "-7 -4");
}

#[test]
fn the_script_s_types_come_first_and_the_kernel_s_last() {
    let script = r#"
    struct client { int8_t fd; };
    uprobe:BIN:use {
        printf("%d %d ", sizeof(struct client), ((struct client *)uaddr("client"))->fd);
        printf("%d %d\n", sizeof(struct file) == 24, ((struct task_struct *)curtask)->tgid == pid);
    }"#;
    assert_prints(script, "1 -4 1 1");
}

#[test]
fn a_type_that_is_nowhere_or_not_certain_is_an_error() {
    if skip() {
        return;
    }
    let directory = Directory::new("debug-info-no-types");
    let Some(program) = compiled(&directory, &["-g", "-O2"], "types") else { return };
    let cases = [
        ("uprobe:BIN:use { print(((struct filee *)arg0)->name); }", "E0205", "`filee` in `"),
        ("uprobe:BIN:use { print(((struct file *)arg0)->nam); }", "E0322", "struct file has no field `nam`"),
        ("uprobe:BIN:use { print(sizeof(struct nowhere)); }", "E0205", "or in this kernel"),
    ];
    for (script, code, words) in cases {
        let ended = checked(script, &program);
        assert!(ended.code() != 0, "{script}");
        assert!(ended.stderr.contains(code) && ended.stderr.contains(words), "{script}: {}", ended.stderr);
    }
    // Neither is in the source file of the probe.
    let third = directory.path("third.c");
    std::fs::write(&third, "void third(void) {}").expect("a file of ours");
    let sources = ["types.c", "second/types.c", third.as_str()];
    let Some(program) = compiled_from(&directory, &["-g", "-O0"], &sources, "three") else { return };
    let ended = checked("uprobe:BIN:third { print(sizeof(struct twice)); }", &program);
    assert!(ended.stderr.contains("E0205") && ended.stderr.contains("several different types"), "{}", ended.stderr);
    assert_eq!(checked("uprobe:BIN:third { print(sizeof(struct apart)); }", &program).code(), 0);
    // Without debug information, the kernel's types remain.
    assert!(succeeds("strip", &["-g", &program]));
    let ended = checked("uprobe:BIN:use { print(sizeof(struct apart)); }", &program);
    assert!(ended.stderr.contains("E0205") && ended.stderr.contains("-dbgsym"), "{}", ended.stderr);
    assert_eq!(checked("uprobe:BIN:use { print(((struct file *)arg0)->f_path.dentry); }", &program).code(), 0);
    assert_eq!(checked("uprobe:BIN:use { print(*uaddr(\"counter\")); }", &program).code(), 0);
    let ended = checked("uprobe:BIN:use { print(uaddr(\"server\")->count); }", &program);
    assert!(ended.stderr.contains("variables have no types") && ended.stderr.contains("-dbgsym"), "{}", ended.stderr);
    let ended = checked("uprobe:libc:malloc { print(args.bytes); }", &program);
    assert!(!ended.stderr.contains("E0323") || ended.stderr.contains("libc6-dbg"), "{}", ended.stderr);
}

#[test]
fn an_object_knows_the_types_and_variables_that_it_names() {
    if skip() {
        return;
    }
    let directory = Directory::new("debug-info-built-types");
    let Some(program) = compiled(&directory, &["-g", "-O0"], "types") else { return };
    let (script, object) = (directory.path("script.prof"), directory.path("script.o"));
    let text = r#"uprobe:BIN:use { printf("%d %d\n", *uaddr("counter"), ((thing *)arg0)->file.number); }"#;
    std::fs::write(&script, text.replace("BIN", &program)).expect("a file of ours");
    assert!(succeeds(PROFILER, &["build", &script, "-o", &object]));
    let ended = run(&["-q", &object, "-c", &program]);
    assert_eq!((ended.code(), ended.lines("-7 -300")), (0, 1), "{}{}", ended.stdout, ended.stderr);
    assert!(succeeds("strip", &["-g", &program]));
    let ended = run(&["-q", &object, "-c", &program]);
    assert!(ended.code() != 0 && ended.stderr.contains("changed"), "{}", ended.stderr);
}
