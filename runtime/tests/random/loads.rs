//! Whatever compiles, loads.
//!
//! In: random scripts, the scripts of the repository, scripts that were once refused. Out: the verifier's verdict.
//! Guarantee: nothing is attached.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use profiler_compiler::diagnostic::Diagnostic;
use profiler_compiler::ir::eval::{Fault, Machine};
use profiler_compiler::target::Target as _;
use profiler_runtime::host::Host;
use profiler_runtime::load::{LoadError, LoadOptions, load};

use crate::agrees::{Forms, forms};
use crate::scripts::script;
use crate::{can_load, keep, range};

/// What became of a script.
enum Verdict {
    Loads,
    /// The compiler said why not.
    Declined(Vec<Diagnostic>),
    Refused(String),
    /// More paths than the verifier follows: a limit that the command explains, not a fault.
    TooLarge,
}

pub static HOST: LazyLock<Host> = LazyLock::new(Host::new);

fn judge(text: &str) -> Verdict {
    let forms = match forms(text) {
        Ok(forms) => forms,
        Err(diagnostics) => return Verdict::Declined(diagnostics),
    };
    match load(&forms.object.elf, LoadOptions::default()) {
        Ok(_) => reads_undefined(&forms).map_or(Verdict::Loads, Verdict::Refused),
        Err(LoadError::Verifier(refusal)) if refusal.reason.starts_with("BPF program is too large") => {
            Verdict::TooLarge
        }
        Err(LoadError::Verifier(refusal)) => {
            let lines: Vec<&str> = refusal.log.lines().collect();
            let tail = lines[lines.len().saturating_sub(25)..].join("\n");
            Verdict::Refused(format!("{}: {}\n{tail}", refusal.program, refusal.reason))
        }
        Err(error) => Verdict::Refused(error.to_string()),
    }
}

/// Bytes or registers that a program reads before anything wrote them: kernels before 6.4 refuse that of the stack, later ones
/// do not. The world that the evaluator knows is small, so that other faults say nothing of the program.
fn reads_undefined(forms: &Forms) -> Option<String> {
    let programs = [("as lowered", &forms.lowered), ("optimised", &forms.optimised)];
    programs.into_iter().find_map(|(form, program)| {
        let mut machine = Machine::new(program);
        machine.environment.cpus = HOST.possible_cpus();
        program.functions.iter().find_map(|function| {
            let error = machine.run(&function.name, &vec![0; function.context_size_bytes as usize]).err()?;
            let world = matches!(error.fault, Fault::BadAddress(_) | Fault::StepLimit);
            (!world).then(|| format!("{form}: {error}"))
        })
    })
}

#[test]
fn random_scripts_load() {
    if !can_load() {
        return;
    }
    let (mut loaded, mut too_large, mut refused) = (0u64, 0u64, Vec::new());
    let mut declined: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let seeds = range(100);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let text = script(seed);
        let verdict = std::panic::catch_unwind(|| judge(&text));
        match verdict {
            Ok(Verdict::Loads) => loaded += 1,
            Ok(Verdict::TooLarge) => too_large += 1,
            Ok(Verdict::Declined(diagnostics)) => {
                let first = diagnostics.iter().find(|d| d.is_error());
                let words = first.map_or(String::new(), |d| format!("{:?} {}", d.code, d.message));
                declined.entry(words).or_insert((0, seed)).0 += 1;
            }
            Ok(Verdict::Refused(words)) => refused.push(format!("seed {seed}: {words}")),
            Err(_) => refused.push(format!("seed {seed}: the compiler panicked")),
        }
        keep(&format!("{seed}.prof"), &text);
    }
    for (words, (times, seed)) in &declined {
        println!("declined {times} times, first seed {seed}: {words}");
    }
    println!("{count} scripts: {loaded} load, {too_large} too large, {} refused", refused.len());
    assert!(refused.is_empty(), "{} refused:\n{}", refused.len(), refused.join("\n\n"));
    assert!(too_large * 50 <= count, "{too_large} of {count} scripts are too large for the verifier");
    assert!(loaded * 10 >= count * 7, "only {loaded} of {count} scripts compile: the generator is off");
}

fn scripts_in(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "prof"));
    paths.sort();
    paths
}

/// The verdicts on all scripts of a folder; a refusal fails the test.
fn judge_folder(folder: &str) -> (usize, Vec<String>) {
    let (mut loaded, mut declined) = (0, Vec::new());
    for path in scripts_in(folder) {
        let text = String::from_utf8_lossy(&std::fs::read(&path).expect("reads")).into_owned();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match judge(&text) {
            Verdict::Loads => loaded += 1,
            Verdict::Declined(diagnostics) => {
                let words = diagnostics.iter().find(|d| d.is_error()).map_or(String::new(), |d| d.message.clone());
                declined.push(format!("{name}: {words}"));
            }
            Verdict::Refused(words) => panic!("{}: {words}", path.display()),
            Verdict::TooLarge => panic!("{}: too large for the verifier", path.display()),
        }
    }
    (loaded, declined)
}

#[test]
fn scripts_that_were_refused_once_load() {
    if !can_load() {
        return;
    }
    let (loaded, declined) = judge_folder("tests/scripts/loads");
    assert!(declined.is_empty(), "{declined:#?}");
    println!("{loaded} load");
}

#[test]
fn the_examples_load() {
    if !can_load() {
        return;
    }
    let (loaded, declined) = judge_folder("examples");
    assert!(declined.is_empty(), "{declined:#?}");
    println!("{loaded} load");
}

#[test]
fn scripts_of_the_core_load_or_are_declined() {
    if !can_load() {
        return;
    }
    let (loaded, declined) = judge_folder("tests/scripts/core");
    println!("{loaded} load; declined:\n{}", declined.join("\n"));
    assert!(loaded > 0);
}
