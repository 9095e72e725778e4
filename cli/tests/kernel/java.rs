//! Stacks of Java code that a JVM has compiled.
//!
//! In: a JDK, tests/unwind/Hot.java. Out: the methods' names in complete stacks with frame
//! pointers, and without them a stack that says where it ends. Without a JDK, a test prints
//! `SKIPPED: reason`.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use super::machine::{run, skip, wait_for};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/unwind/Hot.java");

/// A running JVM; removes its perf map.
struct Jvm(Child);

impl Jvm {
    /// Starts the program and waits until it runs; `None` without a JDK.
    fn start(option: &str) -> Option<Jvm> {
        let mut command = Command::new("java");
        command.args(["-Xmx64m", option, PROGRAM]).stdout(Stdio::piped()).stderr(Stdio::null());
        let Some(mut process) = command.spawn().ok().filter(|_| Command::new("jcmd").arg("-h").output().is_ok()) else {
            println!("SKIPPED: there is no JDK");
            return None;
        };
        let mut line = String::new();
        let output = process.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let jvm = Jvm(process);
        assert_eq!(line, "ready\n");
        Some(jvm)
    }

    /// What a second of samples shows, once the JVM has told the names of what it has compiled.
    fn stacks(&self) -> String {
        let pid = self.0.id().to_string();
        let told = Command::new("jcmd").args([&pid, "Compiler.perfmap"]).output().expect("jcmd runs");
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        let script = "profile:hz:499 / pid == $1 / { @[ustack] = count(); @n++; if (@n >= 500) { exit(); } }";
        let ended = run(&["-q", "-p", &pid, "-e", script, &pid]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        ended.stdout
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", self.0.id()));
    }
}

fn skip_here() -> bool {
    let is_other = cfg!(not(target_arch = "x86_64"));
    if is_other {
        println!("SKIPPED: user stacks are walked by unwind tables on x86-64 only");
    }
    is_other || skip()
}

/// Waits for a stack in compiled code that has all of these lines.
fn wait_for_stack(jvm: &Jvm, lines: &[&str]) {
    let has_all = |stack: &str| lines.iter().all(|line| stack.contains(line));
    wait_for("a stack of compiled code", || jvm.stacks().split("]: ").any(has_all).then_some(()));
}

#[test]
fn compiled_methods_have_the_names_of_the_perf_map_in_complete_stacks() {
    if skip_here() {
        return;
    }
    let Some(jvm) = Jvm::start("-XX:+PreserveFramePointer") else { return };
    wait_for_stack(&jvm, &["Hot.hotInner(long)+", "Hot.hotOuter(long)+", "Interpreter+", "JavaMain+", "__clone3+"]);
}

#[test]
fn a_stack_says_that_it_ends_in_code_without_frame_pointers() {
    if skip_here() {
        return;
    }
    let Some(jvm) = Jvm::start("-XX:-PreserveFramePointer") else { return };
    wait_for_stack(&jvm, &["Hot.hotInner(long)+", "[stack ends here: no unwind information]"]);
}
