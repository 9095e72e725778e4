//! `gpu/…` and `wall/gpu`, on libraries that have the names of CUDA's functions and no GPU.
//!
//! In: tests/gpu, compiled here: a program that launches work and waits for it, and knows how often
//! and how long. Out: the same from the recipes. Without a C compiler, a test prints `SKIPPED`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::machine::{Directory, attached, run, skip};
use super::recipes::{Outcome, TRIES, tolerance};
use super::wall::expect_exact_sums;

/// How often the program launches and waits.
const ROUNDS: u64 = 20;

/// Runs a command that may not be installed; returns whether it succeeds.
fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// Compiles the libraries and the program; `None`, with a printed reason, if there is no compiler.
fn compiled(directory: &Directory) -> Option<String> {
    if !succeeds("cc", &["--version"]) {
        println!("SKIPPED: there is no C compiler");
        return None;
    }
    let source = |name: &str| format!("{}/../tests/gpu/{name}", env!("CARGO_MANIFEST_DIR"));
    let (stub, load) = (source("stub.c"), source("load.c"));
    let [driver, runtime, program] = ["libcuda.so.1", "libcudart.so.12", "load"].map(|name| directory.path(name));
    let library = ["-O2", "-shared", "-fPIC", &stub, "-o"];
    let beside = "-Wl,-rpath,$ORIGIN";
    assert!(succeeds("cc", &[&library[..], &[&driver, "-Wl,-soname,libcuda.so.1"]].concat()));
    let runtime_only = [&runtime, "-Wl,-soname,libcudart.so.12", "-DRUNTIME", &driver, beside];
    assert!(succeeds("cc", &[&library[..], &runtime_only].concat()));
    assert!(succeeds("cc", &["-O2", "-pthread", "-o", &program, &load, &runtime, beside]));
    Some(program)
}

/// Runs a recipe on the program, which has its libraries loaded before.
fn outcome(program: &str, recipe: &[&str]) -> Outcome {
    let mut load = Command::new(program);
    load.arg(ROUNDS.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut load = load.spawn().expect("the program");
    let mut said = BufReader::new(load.stdout.take().expect("a pipe"));
    let mut text = String::new();
    said.read_line(&mut text).expect("it says that it is ready");
    let pid = load.id().to_string();
    let running = attached(&[&["-q", "-f", "json"], recipe, &["--pid", &pid]].concat());
    load.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
    said.read_to_string(&mut text).expect("it says what it did");
    assert!(load.wait().expect("it ends").success(), "{text}");
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    Outcome::read(text + &ended.stdout)
}

/// Whether times are within the tolerance of what the program measured: it may be preempted between
/// its clock and a probe.
fn times_agree(outcome: &Outcome, times: &[(&Value, &str)]) -> bool {
    let is_near = |(value, name): &(&Value, &str)| {
        let (measured, truth) = (value.as_f64().unwrap_or_default(), outcome.truth(name));
        (measured - truth).abs() <= truth * tolerance() / 100.0
    };
    times.iter().all(is_near)
}

#[test]
fn launches_copies_and_waits_are_those_of_the_program() {
    if skip() {
        return;
    }
    let directory = Directory::new("gpu-launches");
    let Some(program) = compiled(&directory) else { return };
    for left in (0..TRIES).rev() {
        let outcome = outcome(&program, &["gpu/launches"]);
        let calls = |name: &str| outcome.row("GPU calls", "call", &name.into());
        let counts = [
            ("cudaLaunchKernel", 4 * ROUNDS, None),
            ("cudaStreamSynchronize", ROUNDS, None),
            ("cudaDeviceSynchronize", ROUNDS, None),
            ("cudaMemcpy", ROUNDS, Some(4096 * ROUNDS)),
            ("cudaMemcpyAsync", ROUNDS, Some(1000 * ROUNDS)),
        ];
        for (name, count, bytes) in counts {
            let row = calls(name);
            assert_eq!((row["calls"].as_u64(), row["bytes"].as_u64()), (Some(count), bytes), "{}", outcome.text);
        }
        // Calls within calls are not counted again.
        let all = outcome.rows("GPU calls");
        assert_eq!(all.len(), counts.len(), "{}", outcome.text);
        let work = outcome.row("launch to synchronise", "process", &"load".into());
        assert_eq!(work["times"].as_u64(), Some(2 * ROUNDS), "{}", outcome.text);
        assert_eq!(work["launches"].as_u64(), Some(4 * ROUNDS), "{}", outcome.text);
        let stacks = outcome.rows("where work is launched");
        let launched: u64 = stacks.iter().filter_map(|row| row["launches"].as_u64()).sum();
        assert_eq!(launched, 4 * ROUNDS, "{}", outcome.text);
        // On a busy machine, a process that has just begun may have no unwind tables yet.
        let are_callers_known = stacks.iter().any(|row| row["stack"].to_string().contains("launch_one"));
        let times = [
            (&calls("cudaStreamSynchronize")["time"], "stream_ns"),
            (&calls("cudaMemcpy")["time"], "copy_ns"),
            (&work["time"], "work_ns"),
            (&work["waiting"], "waiting_ns"),
        ];
        if are_callers_known && times_agree(&outcome, &times) {
            return;
        }
        assert!(left > 0, "{times:?}\n{}", outcome.text);
    }
}

#[test]
fn waiting_for_the_gpu_is_a_state_also_for_a_thread_that_computes_meanwhile() {
    if skip() {
        return;
    }
    let directory = Directory::new("gpu-wall");
    let Some(program) = compiled(&directory) else { return };
    for left in (0..TRIES).rev() {
        let outcome = outcome(&program, &["wall/gpu"]);
        expect_exact_sums(&outcome);
        for name in ["cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMemcpy"] {
            let row = outcome.row("waits for the GPU", "call", &name.into());
            assert_eq!(row["waits"].as_u64(), Some(ROUNDS), "{}", outcome.text);
        }
        let row = outcome.row("time by thread", "thread", &"trainer".into());
        // The device's waits compute.
        let others = outcome.truth("life_ns") - outcome.truth("waiting_ns");
        let is_apart = row["running"].as_f64() < Some(others + outcome.truth("device_ns") * 0.1);
        let times = [(&row["gpu"], "waiting_ns"), (&row["elapsed"], "life_ns")];
        if is_apart && times_agree(&outcome, &times) {
            return;
        }
        assert!(left > 0, "{row}\n{}", outcome.text);
    }
}

#[test]
fn without_cuda_one_sentence_says_so() {
    if skip() {
        return;
    }
    let ended = run(&["gpu/launches", "--lib", "libnothing-of-this-name*", "--duration", "1s"]);
    assert_eq!(ended.code(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("help: give the file with `--lib`: the CUDA library"), "{}", ended.stderr);
    let said = ended.stderr.lines().filter(|line| line.starts_with("error[")).collect::<Vec<_>>();
    assert_eq!(said, ["error[E0405]: `libnothing-of-this-name*` does not exist here"], "{}", ended.stderr);
}
