//! Makes the IR smaller and faster.
//!
//! In: a verified program. Out: the same program in place, verified still, with the same observable results: maps, rings,
//! `.bss`, traces, what it returns. Guarantees: the result depends on nothing but the input; no load moves across a
//! write; no call that writes is dropped, doubled or moved.
//!
//! Verifier: a register that a comparison or a mask bounds stays the register that is used behind it. All rewrites
//! therefore replace a register at every use or at none, and only registers that are assigned once are compared.

mod addresses;
mod blocks;
mod common;
mod compare;
mod copies;
mod dead;
mod definitions;
mod fold;
mod number;
mod slots;
#[cfg(test)]
mod tests;

use super::{Function, Program};
use definitions::Definitions;

/// Each round makes work for the next; programs settle in three or four.
const MOST_ROUNDS: usize = 16;

/// A pass: whether it changed the function.
#[derive(Clone, Copy)]
enum Pass {
    /// Of the graph.
    Graph(fn(&mut Function) -> bool),
    /// Of values; it is given where they are defined.
    Values(fn(&mut Function, &Definitions) -> bool),
}

/// In this order, an operand is known before it is folded, and what is left over is dropped last.
const PASSES: [Pass; 10] = [
    Pass::Graph(blocks::simplify),
    Pass::Values(copies::propagate_values),
    Pass::Values(copies::propagate_places),
    Pass::Values(fold::fold),
    Pass::Values(compare::simplify),
    Pass::Values(addresses::resolve),
    Pass::Values(common::share),
    Pass::Values(slots::forward),
    Pass::Values(copies::coalesce),
    Pass::Graph(dead::remove),
];

/// Optimises every function.
pub fn optimise(program: &mut Program) {
    for function in program.functions.iter_mut().chain(&mut program.subprograms) {
        optimise_function(function);
    }
}

fn optimise_function(function: &mut Function) {
    // Settled when every pass has seen the function as it is and left it so.
    let mut without_change = 0;
    let mut definitions: Option<Definitions> = None;
    for pass in PASSES.iter().cycle().take(MOST_ROUNDS * PASSES.len()) {
        let changed = match pass {
            Pass::Graph(pass) => pass(function),
            Pass::Values(pass) => pass(function, definitions.get_or_insert_with(|| Definitions::of(function))),
        };
        if changed {
            (definitions, without_change) = (None, 0);
        } else {
            without_change += 1;
        }
        if without_change == PASSES.len() {
            break;
        }
    }
    number::compact(function);
}
