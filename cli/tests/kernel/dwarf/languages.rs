//! Names and layouts of C++ and Rust.
//!
//! In: the sources in tests/dwarf, compilers. Out: scripts print the values that the sources state.

use std::path::Path;
use std::process::Command;

use super::succeeds;
use crate::machine::{Directory, run, skip};

/// Compiles a source; `None`, with a printed reason, if there is no compiler.
fn compiled(directory: &Directory, compiler: &str, options: &[&str], source: &str) -> Option<String> {
    let path = directory.path("program");
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/dwarf")).join(source);
    if !succeeds(compiler, &["--version"]) {
        println!("SKIPPED: {compiler} is not here");
        return None;
    }
    let output = Command::new(compiler).args(options).args(["-o", &path]).arg(source).output().expect("it runs");
    assert!(output.status.success(), "{compiler} {options:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(path)
}

/// Traces a program; the script prints these lines.
fn assert_prints(script: &str, program: &str, expected: &str) {
    let ended = run(&["-q", "-e", &script.replace("BIN", program), "-c", program]);
    assert_eq!((ended.code(), ended.stdout.trim()), (0, expected), "{program}: {}", ended.stderr);
}

#[test]
fn methods_bases_and_references_of_c_plus_plus_are_read() {
    if skip() {
        return;
    }
    let script = r#"
    uprobe:BIN:cpp:"net::Conn::handle" {
        printf("handle %d %d %d ", args.this->kind, args.this->id, args.this->address.port);
        printf("%d %d\n", args.len, args.from->port);
    }
    uretprobe:BIN:cpp:"net::Conn::handle" { print(("returned", retval)); }
    uprobe:BIN:cpp:"net::Conn::Conn" { @new[args.kind, args.id] = count(); }
    uprobe:BIN:cpp:"net::Conn::make" { print(("make", args.conn.id, args.secure)); }
    uprobe:BIN:cpp:"net::move" {
        print((args.mode, args.conn->mode, *uaddr("_ZN3net4Conn4madeE")));
        print(((struct Conn *)arg1)->kind);
    }
    uprobe:BIN:cpp:"text" { print((args.text->_M_string_length, args.after)); }
    END { print(@new); clear(@new); }"#;
    let expected = "handle 4 77 80 -5 8080
(returned, -5)
(make, 77, true)
(Slow, Fast, -12)
4
(5, -9)
@new[4, 77]: 1";
    let directory = Directory::new("debug-info-c++");
    for options in [["-g", "-O2"], ["-g", "-O0"], ["-gdwarf-4", "-O1"]] {
        let Some(program) = compiled(&directory, "c++", &options, "shapes.cc") else { return };
        assert_prints(script, &program, expected);
    }
}

#[test]
fn structs_references_slices_and_text_of_rust_are_read() {
    if skip() {
        return;
    }
    let script = r#"
    uprobe:BIN:rust:"shapes::Conn::handle" {
        $c = args.self;
        printf("handle %d %d %d %d ", $c->id, $c->fd, $c->secure, $c->address.port);
        printf("%d %d %s ", $c->address.bytes[3], $c->numbers.len, str($c->name.data_ptr, $c->name.length + 1));
        printf("%d %s %s\n", args.len, str(args.text.data_ptr, args.text.length + 1), $c->mode);
    }
    uprobe:BIN:rust:"shapes::sum" {
        print((args.numbers.length, *args.numbers.data_ptr, args.numbers.data_ptr[2], args.start));
    }
    uprobe:BIN:rust:"shapes::Conn::change" { print((args.self->id, args.by)); }
    uprobe:BIN:rust:"shapes::boxed" { print((args.conn->id, args.step, args.mode)); }"#;
    let expected = "handle 7 -4 1 80 4 3 name -5 a text Fast
(7, 3)
(3, 10, 30, 5)
(10, -2, Slow)";
    let directory = Directory::new("debug-info-rust");
    for options in [["-g", "-O"], ["-g", "-Copt-level=0"]] {
        let options = [&options[..], &["--crate-name", "shapes"]].concat();
        let Some(program) = compiled(&directory, "rustc", &options, "shapes.rs") else { return };
        assert_prints(script, &program, expected);
    }
}

#[test]
fn what_an_optimising_compiler_may_have_left_out_is_not_read() {
    if skip() {
        return;
    }
    // All calls pass the same values and ignore the result: LLVM passes and returns nothing.
    let source = r#"
    use std::hint::black_box;
    #[inline(never)]
    fn same(a: i32, b: u64) -> i64 { println!("{a} {b}"); black_box(-1) }
    fn main() { same(1, 2); same(1, black_box(3)); }"#;
    let directory = Directory::new("debug-info-left-out");
    let path = directory.path("left_out.rs");
    std::fs::write(&path, source).expect("a file of ours");
    let Some(program) = compiled(&directory, "rustc", &["-g", "-O", "--crate-name", "left_out"], &path) else { return };
    let args = r#"uprobe:BIN:rust:"left_out::same" { print(args.a); }"#;
    let ended = super::checked(args, &program);
    assert!(ended.stderr.contains("E0378") && ended.stderr.contains("optimised away"), "{}", ended.stderr);
    let result = r#"uretprobe:BIN:rust:"left_out::same" { print(retval->x); }"#;
    let ended = super::checked(result, &program);
    assert!(ended.stderr.contains("returns is not certain"), "{}", ended.stderr);
}
