//! `profiler fmt` through the built binary: which files it changes and which it leaves alone.
//!
//! In: files in a temporary directory. Out: their bytes, permissions and links afterwards, and exit
//! codes.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const UGLY: &str = "BEGIN{@a=1;exit()} // x\n";
const PRETTY: &str = "BEGIN\n{\n\t@a = 1;\n\texit()\n} // x\n";

struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("profiler-fmt-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Directory(path)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("a file");
        path.display().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn fmt(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_profiler"))
        .arg("fmt")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // The command may end without reading its input.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).expect("a file")
}

#[test]
fn files_get_their_form_and_keep_permissions_and_links() {
    let directory = Directory::new();
    let file = directory.file("a.prof", UGLY);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o751)).expect("permissions");
    let link = directory.0.join("link.prof");
    symlink("a.prof", &link).expect("a link");
    let output = fmt(&[link.to_str().expect("text")], "");
    assert_eq!(
        (output.status.code(), text(&output.stdout), text(&output.stderr)),
        (Some(0), String::new(), String::new())
    );
    assert_eq!(read(&file), PRETTY);
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o751);
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_dir(&directory.0).expect("a directory").count(), 2, "something was left behind");
}

#[test]
fn check_names_files_and_changes_none() {
    let directory = Directory::new();
    let (ugly, pretty) = (directory.file("ugly.prof", UGLY), directory.file("pretty.prof", PRETTY));
    let output = fmt(&["--check", &ugly, &pretty], "");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), format!("{ugly}\n")));
    assert_eq!(read(&ugly), UGLY);
    assert_eq!(fmt(&["--check", &pretty], "").status.code(), Some(0));
    assert_eq!(fmt(&["--check", "-"], UGLY).status.code(), Some(1));
}

#[test]
fn standard_input_goes_to_standard_output() {
    let output = fmt(&["-"], UGLY);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), PRETTY.to_owned()));
}

#[test]
fn a_file_with_a_mistake_stays_and_the_others_get_their_form() {
    let directory = Directory::new();
    let (wrong, ugly) = (directory.file("wrong.prof", "BEGIN { @x = ; }"), directory.file("ugly.prof", UGLY));
    let binary = directory.file("binary", b"\x7fELF\0\xff");
    let place = directory.0.display().to_string();
    let output = fmt(&[&wrong, "/no/such", &binary, &place, &ugly], "");
    assert_eq!(output.status.code(), Some(1));
    for code in ["error[E0136]", "error[E0001]: cannot read `/no/such`", "error[E0003]", "it is a directory"] {
        assert!(text(&output.stderr).contains(code), "{code}: {}", text(&output.stderr));
    }
    assert_eq!(read(&wrong), "BEGIN { @x = ; }");
    assert_eq!(read(&ugly), PRETTY);
}

#[test]
fn imports_need_not_be_there_and_a_file_without_probes_has_a_form() {
    let directory = Directory::new();
    let file = directory.file("m.prof", "import   \"missing.prof\";\nmacro m($x){$x+1}\n");
    assert_eq!(fmt(&[&file], "").status.code(), Some(0));
    assert_eq!(read(&file), "import \"missing.prof\";\nmacro m($x) { $x + 1 }\n");
}

#[test]
fn line_ends_and_byte_order_marks_of_other_systems_go() {
    let directory = Directory::new();
    let file = directory.file("dos.prof", "\u{feff}// a\r\nBEGIN { }\r\n");
    let marked = directory.file("marked.prof", "\u{feff}BEGIN { }\n");
    assert_eq!(fmt(&["--check", &marked], "").status.code(), Some(1));
    assert_eq!(fmt(&[&file, &marked], "").status.code(), Some(0));
    assert_eq!((read(&file).as_str(), read(&marked).as_str()), ("// a\nBEGIN { }\n", "BEGIN { }\n"));
}

#[test]
fn by_the_name_bpftrace_it_prints_the_form_with_blanks() {
    let directory = Directory::new();
    let link = directory.0.join("bpftrace");
    symlink(env!("CARGO_BIN_EXE_profiler"), &link).expect("a link");
    let file = directory.file("a.bt", UGLY);
    for arguments in [vec!["--fmt", file.as_str()], vec!["--fmt", "-e", UGLY]] {
        let output = Command::new(&link).args(arguments).output().expect("it runs");
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), PRETTY.replace('\t', "  ")));
    }
    assert_eq!(read(&file), UGLY);
}
