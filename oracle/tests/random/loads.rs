//! Whatever compiles, loads; and its bytecode does what its IR says.
//!
//! In: random scripts with all kinds of probes, the scripts of the repository, scripts that were
//! once refused. Out: the verifier's verdict. Guarantees: nothing is attached; a refusal is
//! reported with the smallest script that still shows it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use profiler_compiler::diagnostic::Diagnostic;
use profiler_compiler::target::Target as _;
use profiler_oracle::evaluator::{Environment, Fault};
use profiler_runtime::load::{LoadError, LoadOptions, load};

use crate::executors::{Forms, HOST, Setting, evaluated, forms, interpreted};
use crate::generate::script;
use crate::print::print;
use crate::shrink::shrink;
use crate::{can_load, keep, range};

/// The result of a script.
pub enum Verdict {
    Loads,
    /// The compiler refused it with these diagnostics.
    Declined(Vec<Diagnostic>),
    Refused(String),
    /// More paths than the verifier follows: a limit that the command explains, not a bug.
    TooLarge,
}

/// The verdict on a script, including that of the executors that need no kernel.
pub fn judge(text: &str) -> Verdict {
    std::panic::catch_unwind(|| judge_unguarded(text, false))
        .unwrap_or_else(|_| Verdict::Refused("the compiler panicked".into()))
}

fn judge_unguarded(text: &str, separate_programs: bool) -> Verdict {
    let forms = match forms(text, separate_programs) {
        Ok(forms) => forms,
        Err(diagnostics) => return Verdict::Declined(diagnostics),
    };
    match load(&forms.object.elf, LoadOptions::default()) {
        Ok(_) => wrong_in_a_small_world(&forms).map_or(Verdict::Loads, Verdict::Refused),
        // As the command does.
        Err(error) if !separate_programs && error.is_too_much_in_one_program(&forms.object) => {
            judge_unguarded(text, true)
        }
        Err(LoadError::Verifier(refusal)) if refusal.is_too_complex() => Verdict::TooLarge,
        Err(LoadError::Verifier(refusal)) => {
            let lines: Vec<&str> = refusal.log.lines().collect();
            let tail = lines[lines.len().saturating_sub(25)..].join("\n");
            Verdict::Refused(format!("{}: {}\n{tail}", refusal.program, refusal.reason))
        }
        Err(error) => Verdict::Refused(error.to_string()),
    }
}

/// The fault of a run without kernel memory, if any: bytes or registers that are read before they
/// are written (kernels before 6.4 refuse that for the stack, later ones do not), or bytecode that
/// differs from its IR. Programs that need more of the environment end early and are not compared.
fn wrong_in_a_small_world(forms: &Forms) -> Option<String> {
    let environment =
        Environment { cpus: HOST.possible_cpus(), kernel_stack: None, user_stack: None, ..Environment::default() };
    let setting = Setting { environment, contexts: vec![[0; 12]; forms.functions.len()], task_bytes: 0, rounds: 1 };
    let run = |program| match evaluated(program, &forms.object, &setting) {
        Ok(outcome) => Ok(Some(outcome)),
        Err((Fault::BadAddress(_) | Fault::StepLimit, _)) => Ok(None),
        Err((_, words)) => Err(words),
    };
    let as_lowered = run(&forms.lowered);
    if let Err(words) = as_lowered {
        return Some(format!("as lowered: {words}"));
    }
    let expected = match run(&forms.optimised) {
        Ok(expected) => expected?,
        Err(words) => return Some(format!("optimised: {words}")),
    };
    match interpreted(forms, &setting, |_| {}) {
        Ok(outcome) if outcome == expected => None,
        Ok(outcome) => Some(format!("the interpreter differs: {}", expected.difference(&outcome))),
        Err(words) => Some(format!("the interpreter: {words}")),
    }
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
        let script = script(seed);
        let text = print(&script);
        keep(&format!("{seed}.prof"), &text);
        match judge(&text) {
            Verdict::Loads => loaded += 1,
            Verdict::TooLarge => {
                too_large += 1;
                println!("seed {seed}: too large for the verifier");
            }
            Verdict::Declined(diagnostics) => {
                let first = diagnostics.iter().find(|d| d.is_error());
                let words = first.map_or(String::new(), |d| format!("{:?} {}", d.code, d.message));
                declined.entry(words).or_insert((0, seed)).0 += 1;
            }
            Verdict::Refused(words) => {
                let small = shrink(&script, |smaller| matches!(judge(&print(smaller)), Verdict::Refused(_)));
                refused.push(format!("seed {seed}: {words}\nsmallest script:\n{}", print(&small)));
            }
        }
        if refused.len() > 5 {
            break;
        }
    }
    for (words, (times, seed)) in &declined {
        println!("declined {times} times, first seed {seed}: {words}");
    }
    println!("{count} scripts: {loaded} load, {too_large} too large, {} refused", refused.len());
    assert!(refused.is_empty(), "{} refused:\n{}", refused.len(), refused.join("\n\n"));
    assert!(too_large * 1000 <= count, "{too_large} of {count} scripts are too large for the verifier");
    assert!(loaded * 10 >= count * 7, "only {loaded} of {count} scripts compile: the generator is off");
}

/// The scripts of a directory of the repository.
pub fn scripts_in(directory: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(directory);
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "prof"));
    paths.sort();
    paths
}
/// The verdicts on all scripts of a directory; a refusal fails the test.
fn judge_directory(directory: &str) -> (usize, Vec<String>) {
    let (mut loaded, mut declined) = (0, Vec::new());
    for path in scripts_in(directory) {
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
    let (loaded, declined) = judge_directory("tests/scripts/loads");
    assert!(declined.is_empty(), "{declined:#?}");
    println!("{loaded} load");
}

#[test]
fn the_examples_load() {
    if !can_load() {
        return;
    }
    let (loaded, declined) = judge_directory("examples");
    assert!(declined.is_empty(), "{declined:#?}");
    println!("{loaded} load");
}

#[test]
fn scripts_of_the_core_load_or_are_declined() {
    if !can_load() {
        return;
    }
    let (loaded, declined) = judge_directory("tests/scripts/core");
    println!("{loaded} load; declined:\n{}", declined.join("\n"));
    assert!(loaded > 0);
}
