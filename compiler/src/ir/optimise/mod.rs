//! The IR optimiser: makes programs smaller and faster.
//!
//! In: a verified program. Out: the same program, rewritten in place and still verified, with the
//! same observable results: maps, ring buffers, `.bss`, traces, return value. Guarantees: the
//! result depends only on the input. No load moves across a write. No call that writes is dropped,
//! duplicated or moved.
//!
//! Verifier: a register that a comparison or a mask bounds must be the register that is used
//! afterwards. All rewrites therefore replace a register at every use or at none, and only results
//! in registers that are assigned once are shared.

mod addresses;
mod blocks;

mod compare;
mod copies;
mod dead;
mod definitions;
mod fold;
mod number;
mod slots;
mod subexpressions;

use super::{Function, Program};
use definitions::Definitions;

/// Each round may enable rewrites in the next; programs converge in three or four.
const MOST_ROUNDS: usize = 16;

/// A pass; returns whether it changed the function.
#[derive(Clone, Copy)]
enum Pass {
    /// Rewrites the control-flow graph.
    Graph(fn(&mut Function) -> bool),
    /// Rewrites values; receives their definitions.
    Values(fn(&mut Function, &Definitions) -> bool),
}

/// This order resolves operands before they are folded and removes dead code last.
const PASSES: [Pass; 10] = [
    Pass::Graph(blocks::simplify),
    Pass::Values(copies::propagate_values),
    Pass::Values(copies::propagate_places),
    Pass::Values(fold::fold),
    Pass::Values(compare::simplify),
    Pass::Values(addresses::resolve),
    Pass::Values(subexpressions::share),
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
    // Done when every pass in turn left the function unchanged.
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
