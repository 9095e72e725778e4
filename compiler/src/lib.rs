//! The compiler of the profiler probe language: text in, one ELF object out.
//!
//! In: a [`source::Source`], the words of the language, a [`target::Target`]. Out: an [`object::Object`] or diagnostics.
//! Guarantee: pure. No I/O, no clock, no unsafe code; the same input gives the same bytes.
#![forbid(unsafe_code)]

pub mod ast;
pub mod ast_print;
pub mod btf;
pub mod check;
pub mod compile;
pub mod decode;
pub mod diagnostic;
pub mod distribution;
pub mod emit;
pub mod expand;
pub mod fmt;
pub mod format;
pub mod glob;
pub mod histogram;
pub mod ir;
pub mod layout;
pub mod lower;
pub mod memory;
pub mod numbers;
pub mod object;
pub mod params;
pub mod parse;
pub mod series;
pub mod similar;
pub mod source;
pub mod statistics;
pub mod strftime;
pub mod syscalls;
pub mod target;
pub mod text;
pub mod tracepoint_format;
pub mod typed;
pub mod typed_print;
pub mod types;
pub mod units;
pub mod usdt;
pub mod value;
pub mod view;
pub mod words;

pub use compile::{Compiled, compile};
pub use words::CATALOGUE;
