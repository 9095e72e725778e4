//! Tests of the emit stage: objects read back by independent readers, loaded by the kernel,
//! executed by the interpreter.

mod build;
mod evaluate;
mod kernel;
mod listing;
mod object;
mod programs;
mod random;
