//! Tests of the compiler's IR passes: programs keep their results in the evaluator.

mod joins;
mod optimise;
