//! The kernel's verdict: every program loads.
//!
//! In: object files. Out: the result of `bpftool prog loadall` and of the verifier.
//! Guarantee: without root or bpftool the tests print that they checked nothing.

use std::path::Path;
use std::process::Command;

use profiler_compiler::emit::emit;

use crate::build::{program, source};
use crate::programs;

fn can_load() -> bool {
    let is_root = std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("Uid:\t0\t"));
    let has_tool = Command::new("bpftool").arg("version").output().is_ok_and(|output| output.status.success());
    if !is_root || !has_tool {
        println!("SKIPPED: kernel load needs root and bpftool (root: {is_root}, bpftool: {has_tool})");
    }
    is_root && has_tool
}

fn mount_bpf_file_system() {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    if !mounts.lines().any(|line| line.contains(" /sys/fs/bpf ")) {
        let _ = Command::new("mount").args(["-t", "bpf", "bpf", "/sys/fs/bpf"]).status();
    }
}

/// Loads an object and unloads it again; the tool's message if it fails.
fn load(elf: &[u8], name: &str) -> Result<(), String> {
    let unique = format!("emit_{}_{name}", std::process::id());
    let file = std::env::temp_dir().join(format!("{unique}.o"));
    let pins = Path::new("/sys/fs/bpf").join(&unique);
    std::fs::write(&file, elf).map_err(|error| error.to_string())?;
    let output = Command::new("bpftool").args(["prog", "loadall"]).arg(&file).arg(&pins).output();
    let _ = std::fs::remove_dir_all(&pins);
    let _ = std::fs::remove_file(&file);
    let output = output.map_err(|error| error.to_string())?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = words.lines().collect();
    let last = lines[lines.len().saturating_sub(40)..].join("\n");
    if output.status.success() { Ok(()) } else { Err(last) }
}

#[test]
fn the_kernel_loads_every_program() {
    if !can_load() {
        return;
    }
    mount_bpf_file_system();
    let mut loaded = 0;
    let mut failures = Vec::new();
    for function in programs::all() {
        let name = function.name.clone();
        let program = program(vec![function]);
        let emitted = emit(&program, &source()).expect("emits");
        match load(&emitted.elf, &name) {
            Ok(()) => loaded += 1,
            Err(words) => failures.push(format!("{name}: {words}")),
        }
    }
    println!("kernel loads: {loaded} accepted, {} rejected", failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_kernel_loads_all_programs_from_one_object() {
    if !can_load() {
        return;
    }
    mount_bpf_file_system();
    let emitted = emit(&program(programs::all()), &source()).expect("emits");
    load(&emitted.elf, "all").unwrap_or_else(|words| panic!("{words}"));
}
