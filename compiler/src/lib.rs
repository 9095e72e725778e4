//! The compiler of the profiler probe language.
#![forbid(unsafe_code)]
pub mod ast;
pub mod ast_print;
pub mod diagnostic;
pub mod parse;
pub mod source;
