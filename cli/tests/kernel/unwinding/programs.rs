//! Programs in C, C++ and Rust, compiled in several ways.
//!
//! In: the sources in tests/unwind, compilers. Out: their stacks are those that they record, or
//! say where they end. Without the compiler, a test prints `SKIPPED: reason`.

mod mapped;
mod replaced;

use std::collections::BTreeMap;
use std::process::Command;

use super::{Directory, Stack, Traced, skip_walks, stacks, traced, until_warm, warm_ms};
use crate::machine::{run, wait_for, with_enough_calls};

const NO_INFORMATION: &str = "no unwind information";
const CHAINS: u64 = 600;

/// Runs a command that may not be installed; returns whether it succeeds.
fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// Compiles a source in tests/unwind; `None`, with a printed reason, if there is no such compiler
/// here or it cannot do this.
fn compiled(directory: &Directory, compiler: &str, arguments: &[&str], source: &str, name: &str) -> Option<String> {
    let source = format!("{}/../tests/unwind/{source}", env!("CARGO_MANIFEST_DIR"));
    let path = directory.path(name);
    let all = [&[if compiler == "rustc" { "-O" } else { "-O2" }, "-o", &path, &source], arguments].concat();
    if succeeds(compiler, &all) {
        return Some(path);
    }
    assert!(
        !succeeds(compiler, &["--version"])
            || arguments.iter().any(|word| word.starts_with("-m") || word.contains("static")),
        "{compiler} {all:?}"
    );
    println!("SKIPPED: {compiler} is not here, or cannot do {arguments:?}");
    None
}

/// Traces a program of tests/unwind at its system call.
fn calls(command: &str) -> Traced {
    let probe = "tracepoint:syscalls:sys_enter_close";
    let script = until_warm(probe, "pid == cpid && args.fd - 1000000")
        + "tracepoint:syscalls:sys_enter_close / args.fd > 1000000 && pid == cpid / {
            @call[args.fd - 1000000, dw_ustack] = count(); }";
    traced(&script, &format!("{command} {}", warm_ms()))
}

/// The names of the recorded functions in a stack.
fn recorded<'s>(stack: &'s Stack, prefix: &str) -> Vec<&'s str> {
    stack.names().filter(|name| name.starts_with(prefix)).collect()
}

/// Fails unless each chain has a stack with exactly its functions. Except for the limit of frames
/// it must reach `_start`, which in a program without unwind information nothing does.
fn assert_chains(traced: &Traced, is_complete: bool) {
    let found = traced.of("@call");
    assert_eq!(traced.truth.len() as u64, CHAINS);
    for (id, truth) in &traced.truth {
        let stack = found.get(id).unwrap_or_else(|| panic!("no stack of {id}: {}", traced.stderr));
        assert_eq!(recorded(stack, "chain_"), *truth, "{id}: {stack:#?}");
        assert!(!is_complete || stack.reaches("_start"), "{id}: {stack:#?}");
    }
}

/// The command of `-c` is held while its loader works, but not for ever, and it ends as it would.
#[test]
fn a_command_whose_loader_is_slow_is_released() {
    if skip_walks() {
        return;
    }
    let directory = Directory::new("unwinding-loader");
    let alone = ["-nostdlib", "-static-pie", "-fPIE"];
    let Some(loader) = compiled(&directory, "cc", &alone, "slow_loader.c", "loader") else { return };
    let named = format!("-Wl,--dynamic-linker={loader}");
    let Some(program) = compiled(&directory, "cc", &[&named], "empty.c", "program") else { return };
    let script = "uprobe:libc:malloc { @[ustack] = count(); } tracepoint:sched:sched_process_exit /pid == cpid/
        { printf(\"code %d, followed %d\\n\", curtask->exit_code >> 8, curtask->ptrace); }";
    let ended = run(&["-e", script, "-c", &program]);
    assert!(ended.stdout.contains("code 3, followed 0\n"), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn a_chain_in_c_is_complete_with_and_without_frame_pointers() {
    if skip_walks() {
        return;
    }
    let directory = Directory::new("unwinding-c");
    // Without space between functions, the address after a last call is that of the next function.
    let dense = ["-falign-functions=1", "-fomit-frame-pointer", "-DWITH_STORED"];
    let ways: [&[&str]; 5] =
        [&dense, &["-fno-omit-frame-pointer"], &["-static-pie"], &["-static", "-no-pie"], &["-O0"]];
    for (number, way) in ways.iter().enumerate() {
        let name = format!("chains{number}");
        let Some(program) = compiled(&directory, "cc", way, "chains.c", &name) else { continue };
        assert_chains(&calls(&format!("{program} {number} {CHAINS}")), true);
    }
}

#[test]
fn a_stripped_program_has_as_many_frames() {
    if skip_walks() {
        return;
    }
    let directory = Directory::new("unwinding-stripped");
    let Some(program) = compiled(&directory, "cc", &[], "chains.c", "chains") else { return };
    let stripped = directory.path("stripped");
    assert!(succeeds("strip", &["-s", "-o", &stripped, &program]));
    let [named, unnamed] = [&program, &stripped].map(|program| calls(&format!("{program} 11 {CHAINS}")));
    let sizes = |traced: &Traced| -> BTreeMap<u64, (usize, Option<String>)> {
        traced.of("@call").into_iter().map(|(id, stack)| (id, (stack.frames.len(), stack.end.clone()))).collect()
    };
    assert_chains(&named, true);
    assert_eq!(sizes(&named), sizes(&unnamed));
    assert!(unnamed.stacks.iter().all(|stack| recorded(stack, "chain_").is_empty()));
}

/// `.debug_frame` has the same rules, for debuggers.
#[test]
fn a_program_without_unwind_information_says_so_or_is_walked_by_frame_pointers() {
    if skip_walks() {
        return;
    }
    let directory = Directory::new("unwinding-none");
    let removed = |name: &str, options: &[&str]| {
        let program = compiled(&directory, "cc", options, "chains.c", name)?;
        let without = directory.path(&format!("{name}-without"));
        let sections = ["--remove-section", ".eh_frame", "--remove-section", ".eh_frame_hdr", &program, &without];
        assert!(succeeds("objcopy", &sections));
        Some(calls(&format!("{without} 12 {CHAINS}")))
    };
    let Some(traced) = removed("neither", &["-fomit-frame-pointer"]) else { return };
    assert_eq!(traced.of("@call").len() as u64, CHAINS);
    for stack in &traced.stacks {
        assert!(stack.names().take(2).eq(["syscall", "leaf"]), "{stack:#?}");
        assert!(stack.end.is_some(), "{stack:#?}");
    }
    let says_so = traced.stacks.iter().filter(|stack| stack.end.as_deref() == Some(NO_INFORMATION)).count() as u64;
    assert!(says_so * 2 > CHAINS && traced.stderr.contains(NO_INFORMATION), "{}", traced.stderr);
    if let Some(traced) = removed("pointers", &["-fno-omit-frame-pointer"]) {
        assert_chains(&traced, false);
    }
    if let Some(traced) = removed("debug", &["-g", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables"]) {
        assert_chains(&traced, false);
    }
}

#[test]
fn a_32_bit_process_is_said_to_be_unsupported() {
    if skip_walks() {
        return;
    }
    let directory = Directory::new("unwinding-narrow");
    let options = ["-m32", "-nostdlib", "-ffreestanding", "-static", "-fno-pic", "-no-pie"];
    let Some(program) = compiled(&directory, "cc", &options, "narrow.c", "narrow") else { return };
    if Command::new(&program).status().is_err() {
        return println!("SKIPPED: this kernel runs no 32-bit programs");
    }
    let script = format!("uprobe:{program}:leaf {{ printf(\"leaf[1,\\n%s\\n\", dw_ustack); }}");
    // The program runs for a second. Its tables may come later on a busy machine.
    wait_for("the reason", || {
        let ended = run(&["-q", "-e", &script, "-c", &program]);
        let stacks = stacks(&ended.stdout);
        assert_eq!(stacks.len(), 200, "{}", ended.stderr);
        for stack in &stacks {
            assert!(stack.names().eq(["leaf"]) && stack.end.is_some(), "{stack:?}");
        }
        let reason = stacks.last()?.end.as_deref();
        assert!(reason == Some("unsupported unwind rule") || reason == Some("no unwind table yet"), "{reason:?}");
        (reason == Some("unsupported unwind rule")).then_some(())
    });
}

/// The name without template arguments' types: `level<3>` of `int level<3, int>(int)`.
fn template(name: &str) -> Option<String> {
    let at = name.find("level<").or_else(|| name.find("Guard<"))?;
    let end = at + name[at..].find([',', '>'])?;
    Some(format!("{}>", &name[at..end]))
}

#[test]
fn chains_of_templates_are_complete_while_an_exception_passes() {
    if skip_walks() {
        return;
    }
    let directory = Directory::new("unwinding-exceptions");
    let Some(program) = compiled(&directory, "g++", &["-std=c++17"], "exceptions.cpp", "exceptions") else { return };
    let traced = calls(&format!("{program} x 50"));
    let found = traced.of("@call");
    assert_eq!(traced.truth.len(), 50 * 13);
    for (id, truth) in &traced.truth {
        let stack = found.get(id).unwrap_or_else(|| panic!("no stack of {id}: {}", traced.stderr));
        let names: Vec<String> = stack.names().filter_map(template).collect();
        assert!(names == *truth && stack.reaches("_start"), "{id}: {truth:?}\n{stack:#?}");
    }
}

/// The address after the call belongs to the next function; rules and names must be those of the
/// caller.
#[test]
fn a_stack_continues_through_callers_to_which_nothing_returns() {
    if skip_walks() {
        return;
    }
    let directory = Directory::new("unwinding-jumps");
    let options = ["-falign-functions=1", "-fomit-frame-pointer", "-DWITH_JUMPS"];
    let Some(program) = compiled(&directory, "cc", &options, "chains.c", "jumps") else { return };
    let traced = calls(&format!("{program} 13 {CHAINS}"));
    assert!(traced.truth.values().flatten().any(|name| name == "chain_last"));
    assert_chains(&traced, true);
    let names = traced.stacks.iter().flat_map(Stack::names);
    assert_eq!(names.filter(|name| *name == "after_the_last").count(), 0, "it calls nothing");
}

/// The dynamic linker's frame is found by a register that the function which it calls has saved.
#[test]
fn a_stack_continues_through_the_dynamic_linker() {
    if skip_walks() {
        return;
    }
    let directory = Directory::new("unwinding-lazy");
    let library = compiled(&directory, "cc", &["-shared", "-fPIC", "-DLIBRARY"], "lazy.c", "liblazy.so");
    let Some(library) = library else { return };
    let options = ["-Wl,-z,lazy", "-Wl,--no-as-needed", &library];
    let Some(program) = compiled(&directory, "cc", &options, "lazy.c", "lazy") else { return };
    let traced = calls(&program);
    let found = traced.of("@call");
    let names: Vec<&str> = found[&1].names().collect();
    let linker = names.iter().take_while(|name| !name.starts_with("call_chosen")).count();
    assert!(names[0] == "choose" && (3..=5).contains(&linker), "{found:#?}");
    assert!(names[linker + 1] == "main" && found[&1].reaches("_start"), "{found:#?}");
}

/// A library is called some time after it was loaded, when its mapping has been noticed. The sizes
/// make one library's rules find other return addresses in the other one's stacks. Either name is
/// right: an address has the name that it has when it is printed.
#[test]
fn a_library_at_the_address_of_another_is_not_walked_by_its_rules() {
    if skip_walks() {
        return;
    }
    let directory = Directory::new("unwinding-reload");
    let library = |name: &str, size: u32| {
        let (name, size) = (format!("-DNAME={name}"), format!("-DSIZE={size}"));
        compiled(&directory, "cc", &["-shared", "-fPIC", &name, &size], "library.c", &size[2..])
    };
    let Some(program) = compiled(&directory, "cc", &[], "reload.c", "reload") else { return };
    for size in [112, 144, 3000] {
        let (Some(odd), Some(even)) = (library("odd_one", 64), library("even_one", size)) else { return };
        // The tracer's thread may get no CPU in the first time: then the calls come later.
        let mut seen = Vec::new();
        let is_true = [200, 800, 3200].iter().any(|settle_ms| {
            let traced = calls(&format!("{program} {odd} {even} 12 {settle_ms}"));
            let fault = reloaded_fault(&traced);
            let is_true = fault.is_none();
            seen.extend(fault);
            is_true
        });
        assert!(is_true, "{size}: {seen:?}");
    }
}

/// The first stack that does not have the functions of `reload.c`.
fn reloaded_fault(traced: &Traced) -> Option<String> {
    let found = traced.of("@call");
    assert_eq!(traced.truth.len(), 12);
    traced.truth.iter().find_map(|(id, truth)| {
        let stack = found.get(id).unwrap_or_else(|| panic!("no stack of {id}: {}", traced.stderr));
        let names = stack.names().map(|name| if name.ends_with("_one") { "one" } else { name });
        let is_true = names.zip(["syscall", "leaf", "one", "call", "main"]).all(|(name, known)| name == known);
        let is_right = is_true && (stack.end.is_some() || stack.reaches("_start"));
        (!is_right).then(|| format!("{id}: {truth:?}\n{stack:#?}"))
    })
}

/// The function of a chain that a frame of the Rust program belongs to; its closures do not count.
fn rust_function(name: &str) -> Option<&str> {
    let function = name.strip_prefix("rusty::").filter(|function| function.starts_with("chain_"))?;
    let end = function.find("::").unwrap_or(function.len());
    let (function, after) = function.split_at(end);
    (after.is_empty() || after.starts_with("::<") && after.ends_with('>')).then_some(function)
}

/// Without frame pointers, as Rust's release programs are: chains pass through generic functions,
/// closures, the standard library's sort, and destructors that a panic calls.
#[test]
fn a_chain_in_rust_is_complete_in_the_main_thread_and_in_another() {
    if skip_walks() {
        return;
    }
    let directory = Directory::new("unwinding-rust");
    let options = ["--edition=2021", "--crate-name=rusty", "-Cstrip=none", "-Cforce-frame-pointers=no"];
    let Some(program) = compiled(&directory, "rustc", &options, "chains.rs", "rusty") else { return };
    for (place, outermost) in [("main", "_start"), ("thread", "start_thread")] {
        let traced = calls(&format!("{program} {place} {CHAINS}"));
        let found = traced.of("@call");
        assert_eq!(traced.truth.len() as u64, CHAINS);
        for name in ["chain_generic", "chain_closure", "chain_sort", "chain_passed"] {
            assert!(traced.truth.values().flatten().any(|known| known == name), "{name}");
        }
        for (id, truth) in &traced.truth {
            let stack = found.get(id).unwrap_or_else(|| panic!("no stack of {id}: {}", traced.stderr));
            let names: Vec<&str> = stack.names().filter_map(rust_function).collect();
            assert!(names == *truth && stack.reaches(outermost), "{place}, {id}: {truth:?}\n{stack:#?}");
            assert!(stack.names().any(|name| name.starts_with("rusty::leaf")), "{stack:#?}");
        }
    }
}

/// The samples in a function of the vDSO are complete, and have its name.
#[test]
fn samples_in_the_vdso_have_names_and_are_complete() {
    if skip_walks() {
        return;
    }
    let directory = Directory::new("unwinding-vdso");
    let Some(program) = compiled(&directory, "cc", &["-pthread"], "vdso.c", "vdso") else { return };
    let script = until_warm("tracepoint:syscalls:sys_enter_close", "pid == cpid && args.fd - 1000000")
        + "profile:hz:997 / @warm == 1 && pid == cpid / { @sample[1, dw_ustack] = count(); }";
    with_enough_calls(500, |ms| {
        let traced = traced(&script, &format!("{program} {ms} {}", warm_ms()));
        [("read_in_main", "_start"), ("read_in_thread", "start_thread")].iter().all(|(caller, outermost)| {
            // libc's function calls the vDSO's, which has one of these names.
            let is_vdso = |name: &str| name == "__vdso_clock_gettime" || name == "clock_gettime";
            let of_caller = || traced.stacks.iter().filter(|stack| stack.names().any(|name| name == *caller));
            let sum = |is_counted: &dyn Fn(&Stack) -> bool| {
                of_caller().filter(|stack| is_counted(stack)).map(|stack| stack.count).sum::<u64>()
            };
            let wrong =
                of_caller().find(|stack| !stack.reaches(outermost) || stack.names().any(|name| name.starts_with("0x")));
            assert!(wrong.is_none(), "{wrong:#?}\n{}", traced.stderr);
            sum(&|stack| stack.names().take_while(|name| name != caller).filter(|name| is_vdso(name)).count() == 2) > 50
        })
    });
}
