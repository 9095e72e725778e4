//! Reference implementations that the compiler and the runtime are tested against.
//!
//! In: IR and bytecode from the compiler. Out: the results of running them, for comparison with
//! each other and with the kernel's.
//! Guarantee: no part of the product depends on this crate. The interpreter shares no arithmetic
//! with the compiler, so an error in the compiler's constant folding is not repeated here.

pub mod evaluator;
pub mod interpreter;
#[cfg(test)]
mod passes;
pub mod random;
