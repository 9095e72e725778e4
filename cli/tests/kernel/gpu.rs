//! `gpu/…` and `wall/gpu`, on libraries that have the names of CUDA's functions and no GPU.
//!
//! In: tests/gpu, compiled here: a program that launches work and waits for it, and knows how often
//! and how long. Out: the same from the recipes. Without a C compiler, a test prints `SKIPPED`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::machine::{Directory, attached, run, skip};
use super::recipes::Outcome;
use super::wall::expect_exact_sums;

/// How often the program launches and waits.
const ROUNDS: u32 = 20;

/// What each round waits for the stream, the device and a copy, and what it computes in between, by
/// the sources: at least.
const STREAM_NS: u32 = 10_000_000;
const DEVICE_NS: u32 = 10_000_000;
const COPY_NS: u32 = 5_000_000;
const COMPUTED_NS: u32 = 2_000_000;

/// Runs a command that may not be installed; returns whether it succeeds.
fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// Compiles the libraries and the program; `None`, with a printed reason, if there is no compiler.
pub fn compiled(directory: &Directory) -> Option<String> {
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
fn outcome(program: &str, rounds: u32, recipe: &[&str]) -> Outcome {
    let mut load = Command::new(program);
    load.arg(rounds.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut load = load.spawn().expect("the program");
    let mut said = BufReader::new(load.stdout.take().expect("a pipe"));
    let mut text = String::new();
    said.read_line(&mut text).expect("it says that it is ready");
    let pid = load.id().to_string();
    let running = attached(&[&["-q", "-f", "json"], recipe, &["--pid", &pid]].concat());
    let start = Instant::now();
    load.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
    said.read_to_string(&mut text).expect("it says what it did");
    assert!(load.wait().expect("it ends").success(), "{text}");
    let run = start.elapsed();
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    Outcome::read(format!("{text}run_ns {}\n{}", run.as_nanos(), ended.stdout))
}

/// Fails unless a time is at least what the library takes for it, and at most what the program
/// measured around it. The clock is the same; a thousandth is for times that are rounded.
fn expect_time(outcome: &Outcome, value: &Value, least: f64, name: &str) {
    let (measured, most) = (value.as_f64().unwrap_or_default(), outcome.truth(name));
    let is_right = measured >= least * 0.999 && measured <= most * 1.001;
    assert!(is_right, "{name}: {measured} is not between {least} and {most}\n{}", outcome.text);
}

#[test]
fn launches_copies_and_waits_are_those_of_the_program() {
    if skip() {
        return;
    }
    let directory = Directory::new("gpu-launches");
    let Some(program) = compiled(&directory) else { return };
    // On a busy machine, a process that has just begun may have no unwind tables yet: then it takes
    // longer the next time.
    let are_callers_known = (0..3).any(|tries| {
        let rounds = ROUNDS << (2 * tries);
        let outcome = outcome(&program, rounds, &["gpu/launches"]);
        expect_launches(&outcome, rounds);
        let stacks = outcome.rows("where work is launched");
        stacks.iter().any(|row| row["stack"].to_string().contains("launch_one"))
    });
    assert!(are_callers_known, "no caller of a launch is known");
}

fn expect_launches(outcome: &Outcome, rounds: u32) {
    let times = u64::from(rounds);
    let calls = |name: &str| outcome.row("GPU calls", "call", &name.into());
    let counts = [
        ("cudaLaunchKernel", 4 * times, None),
        ("cudaStreamSynchronize", times, None),
        ("cudaDeviceSynchronize", times, None),
        ("cudaMemcpy", times, Some(4096 * times)),
        ("cudaMemcpyAsync", times, Some(1000 * times)),
    ];
    for (name, count, bytes) in counts {
        let row = calls(name);
        assert_eq!((row["calls"].as_u64(), row["bytes"].as_u64()), (Some(count), bytes), "{}", outcome.text);
    }
    // Calls within calls are not counted again.
    let all = outcome.rows("GPU calls");
    assert_eq!(all.len(), counts.len(), "{}", outcome.text);
    let work = outcome.row("launch to synchronise", "process", &"load".into());
    assert_eq!(work["times"].as_u64(), Some(2 * times), "{}", outcome.text);
    assert_eq!(work["launches"].as_u64(), Some(4 * times), "{}", outcome.text);
    let stacks = outcome.rows("where work is launched");
    let launched: u64 = stacks.iter().filter_map(|row| row["launches"].as_u64()).sum();
    assert_eq!(launched, 4 * times, "{}", outcome.text);
    for (value, each_ns, name) in [
        (&calls("cudaStreamSynchronize")["time"], STREAM_NS, "stream_ns"),
        (&calls("cudaDeviceSynchronize")["time"], DEVICE_NS, "device_ns"),
        (&calls("cudaMemcpy")["time"], COPY_NS, "copy_ns"),
        (&work["time"], COMPUTED_NS + STREAM_NS + DEVICE_NS, "work_ns"),
        (&work["waiting"], STREAM_NS + DEVICE_NS + COPY_NS, "waiting_ns"),
    ] {
        expect_time(outcome, value, f64::from(each_ns) * f64::from(rounds), name);
    }
}

#[test]
fn waiting_for_the_gpu_is_a_state_also_for_a_thread_that_computes_meanwhile() {
    if skip() {
        return;
    }
    let directory = Directory::new("gpu-wall");
    let Some(program) = compiled(&directory) else { return };
    let outcome = outcome(&program, ROUNDS, &["wall/gpu"]);
    expect_exact_sums(&outcome);
    for name in ["cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMemcpy"] {
        let row = outcome.row("waits for the GPU", "call", &name.into());
        assert_eq!(row["waits"].as_u64(), Some(ROUNDS.into()), "{}", outcome.text);
    }
    let row = outcome.row("time by thread", "thread", &"trainer".into());
    expect_time(&outcome, &row["gpu"], ((STREAM_NS + DEVICE_NS + COPY_NS) * ROUNDS).into(), "waiting_ns");
    let [elapsed, ready, running] =
        ["elapsed", "runnable", "running"].map(|column| row[column].as_f64().unwrap_or_default());
    // The device's waits compute, and are a tenth of a second. What the thread computes between its
    // clock and a call is far less.
    let [life, device] = ["life_ns", "device_ns"].map(|name| outcome.truth(name));
    assert!(running < life - outcome.truth("waiting_ns") + device * 0.1, "{row}\n{}", outcome.text);
    // When it begins and ends, it may wait for a CPU.
    assert!(elapsed >= life && elapsed - ready <= outcome.truth("run_ns"), "{row}\n{}", outcome.text);
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
