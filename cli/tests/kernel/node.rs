//! Stacks of JavaScript code that node has compiled.
//!
//! In: node, tests/unwind/hot.js. Out: the function's name in a complete stack. Without node, a
//! test prints `SKIPPED: reason`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::machine::{Directory, Running, profiler, run, skip, wait_for};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/unwind/hot.js");

/// A running node; removes its perf map.
struct Node(Child);

impl Node {
    /// Starts the program in a directory and waits until it runs; `None` without node.
    fn start(directory: &Directory, option: &str) -> Option<Node> {
        let mut command = Command::new("node");
        command.args([option, PROGRAM]).current_dir(directory.path("")).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut process) = command.spawn() else {
            println!("SKIPPED: node is not here");
            return None;
        };
        let mut line = String::new();
        let output = process.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let node = Node(process);
        assert_eq!(line, "ready\n");
        Some(node)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", self.0.id()));
    }
}

/// The frame of the JavaScript function in a complete stack, if there is one.
fn frame_in_complete_stack(output: &str) -> Option<String> {
    output.split("]: ").find_map(|stack| {
        let frame = stack.lines().find(|line| line.contains("hot_inner"))?;
        let is_complete = stack.contains(" _start+") && !stack.contains("[stack ends here");
        is_complete.then(|| frame.trim().to_owned())
    })
}

fn skip_here() -> bool {
    let is_other = cfg!(not(target_arch = "x86_64"));
    if is_other {
        println!("SKIPPED: user stacks are walked by unwind tables on x86-64 only");
    }
    is_other || skip()
}

/// node writes the last names when it ends.
#[test]
fn compiled_functions_have_the_names_of_the_jitdump() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("node");
    let Some(node) = Node::start(&directory, "--perf-prof") else { return };
    drop(node);
    let script = "profile:hz:499 / pid == cpid / { @[ustack(perf)] = count(); }";
    let mut rounds = 5_000;
    let frame = wait_for("a complete stack", || {
        let command = format!("node --perf-prof {PROGRAM} {rounds}");
        // Tables may be there late on a busy machine: then the program takes longer the next time.
        rounds *= 2;
        let mut tracer = profiler(&["-q", "-e", script, "-c", &command]);
        let ended = Running::start(tracer.current_dir(directory.path(""))).end();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        frame_in_complete_stack(&ended.stdout)
    });
    assert!(frame.contains("hot_inner /") && frame.contains("/jit-") && frame.ends_with(".dump)"), "{frame}");
}

#[test]
fn compiled_functions_have_the_names_of_the_perf_map() {
    if skip_here() {
        return;
    }
    let directory = Directory::new("node-map");
    let Some(node) = Node::start(&directory, "--perf-basic-prof") else { return };
    let pid = node.0.id();
    let mut samples = 500;
    let frame = wait_for("a complete stack", || {
        let script = format!(
            "profile:hz:499 / pid == {pid} / {{ @[ustack(perf)] = count(); @n++; if (@n >= {samples}) {{ exit(); }} }}"
        );
        samples *= 2;
        let ended = run(&["-q", "-e", &script, "-p", &pid.to_string()]);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        frame_in_complete_stack(&ended.stdout)
    });
    assert!(frame.contains("hot_inner /") && frame.contains("(/tmp/perf-") && frame.ends_with(".map)"), "{frame}");
}
