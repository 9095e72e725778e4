//! The compiler of the profiler probe language.
#![forbid(unsafe_code)]
pub mod ast;
pub mod diagnostic;
pub mod source;
pub mod ir;
pub mod emit;
