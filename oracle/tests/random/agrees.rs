//! The executors agree: the IR as lowered, the optimized IR, the bytecode in the interpreter, and
//! the kernel produce the same maps, records and losses.
//!
//! In: random scripts of one to four programs, which read only state that all executors are given.
//! Out: a verdict.
//! Guarantee: a disagreement is reported with the smallest script that still shows it, or, if it
//! does not come again, with the whole script.

use std::sync::Mutex;
use std::thread;

use profiler_compiler::ast::Script;
use profiler_compiler::emit::bpf::{self, Insn};

use crate::executors::{Verdict, compare, forms};
use crate::generate::fixed_script;
use crate::print::print;
use crate::shrink::shrink;
use crate::{can_load, keep, range};

/// The result of a comparison. A panic of the compiler or of an executor is a disagreement.
fn verdict(text: &str, seed: u64, tamper: fn(&mut Insn)) -> Option<Verdict> {
    let judged = std::panic::catch_unwind(|| forms(text, false).ok().map(|forms| compare(&forms, seed, tamper)));
    judged.unwrap_or_else(|_| Some(Verdict::Disagree("the compiler", "it panicked".into())))
}

/// The smallest script on which the same executor still disagrees.
fn smallest(script: &Script, seed: u64, culprit: &str, tamper: fn(&mut Insn)) -> Script {
    shrink(
        script,
        |smaller| matches!(verdict(&print(smaller), seed, tamper), Some(Verdict::Disagree(who, _)) if who == culprit),
    )
}

/// The results of many comparisons.
#[derive(Debug, Default)]
struct Tally {
    agreed: u64,
    declined: u64,
    lost: u64,
    too_large: u64,
    wrong: Vec<String>,
}

impl Tally {
    fn add(&mut self, seed: u64, script: &Script, result: Option<Verdict>) {
        match result {
            None => self.declined += 1,
            Some(Verdict::Agree) => self.agreed += 1,
            Some(Verdict::TooLarge) => {
                self.too_large += 1;
                println!("seed {seed}: too large for the verifier");
            }
            Some(Verdict::Lost) => {
                self.lost += 1;
                println!("seed {seed}: the kernel refused updates of maps that have room; not compared");
            }
            Some(Verdict::Disagree(who, words)) => {
                let shown = if matches!(verdict(&print(script), seed, |_| {}), Some(Verdict::Disagree(..))) {
                    format!("smallest script:\n{}", print(&smallest(script, seed, who, |_| {})))
                } else {
                    format!("it does not differ again; the script:\n{}", print(script))
                };
                self.wrong.push(format!("seed {seed}: {who} differs: {words}\n{shown}"));
            }
        }
    }
}

/// Threads that compare: most of the time, each waits for the kernel to free maps.
const THREADS: usize = 4;

#[test]
fn executors_agree_on_random_scripts() {
    if !can_load() {
        return;
    }
    let (tally, seeds) = (Mutex::new(Tally::default()), Mutex::new(range(500)));
    let tally_of = || tally.lock().expect("no thread panics with it");
    // A function, so that the lock is released before the seed is used.
    let next = || seeds.lock().expect("no thread panics with it").next();
    let work = || {
        while let Some(seed) = next() {
            let script = fixed_script(seed);
            let text = print(&script);
            keep(&format!("fixed-{seed}.prof"), &text);
            let verdict = verdict(&text, seed, |_| {});
            tally_of().add(seed, &script, verdict);
            if tally_of().wrong.len() > 5 {
                break;
            }
        }
    };
    thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
    let Tally { agreed, declined, lost, too_large, wrong } = tally.into_inner().expect("no thread panicked with it");
    println!(
        "{agreed} scripts agree, {declined} declined, {lost} lost updates, {too_large} too large, {} disagree",
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(lost * 20 <= agreed, "{lost} scripts lost updates: that is more than now and then");
    assert!(too_large * 1000 <= agreed, "{too_large} scripts are too large for the verifier");
    assert!(agreed >= declined * 4, "only {agreed} scripts compile: the generator is off");
}

/// Makes the interpreter add where it should subtract.
fn cannot_subtract(insn: &mut Insn) {
    let is_alu = matches!(insn.class(), bpf::ALU64 | bpf::ALU32);
    if is_alu && insn.bin_op() == Some(profiler_compiler::ir::BinOp::Sub) {
        let (add, sub) = (0x00, 0x10);
        insn.code = insn.code & !sub | add;
    }
}

#[test]
fn a_broken_executor_is_found_and_the_script_is_made_small() {
    if !can_load() {
        return;
    }
    for seed in 1..40 {
        let script = fixed_script(seed);
        let Some(Verdict::Disagree(who, _)) = verdict(&print(&script), seed, cannot_subtract) else { continue };
        assert_eq!(who, "the interpreter", "seed {seed}");
        let small = smallest(&script, seed, who, cannot_subtract);
        let text = print(&small);
        println!("seed {seed}: {} characters become {}:\n{text}", print(&script).len(), text.len());
        assert_eq!(small.blocks.len(), 1, "{text}");
        assert!(text.len() <= 100, "{text}");
        // The shrunk script contains little more than a subtraction: its own, or that of a signed
        // division.
        assert!(text.contains(['-', '%', '/']), "{text}");
        return;
    }
    panic!("no random script subtracts");
}
