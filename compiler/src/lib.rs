//! The compiler of the profiler probe language: text in, one ELF object out.
//!
//! In: a [`Source`], the [`CATALOGUE`] of the language, a [`Target`], [`Options`]. Out: an
//! [`Object`] or [`Diagnostic`]s.
//! Guarantee: pure. No I/O, no clock, no unsafe code; the same input yields the same bytes.
//!
//! # Compiling
//!
//! [`compile()`] is the whole pipeline. It queries the machine only through a [`Target`]: types,
//! tracepoints, symbols, sizes. `profiler_runtime::Host` is the running machine; tests use
//! fixtures. The object that comes out holds the ELF file and a description of it: what to attach
//! where, which maps there are, and how to decode the records. `profiler_runtime::run` loads and
//! runs it; the documentation of that crate has a complete example.
//!
//! # Diagnostics
//!
//! A script with mistakes gives all of its [`Diagnostic`]s at once. Each has a stable code, the
//! characters that it is about, and advice:
//!
//! ```
//! use profiler_compiler::Source;
//!
//! let source = Source::new("x.prof", "BEGIN { printf(\"%d\\n\" pid); }");
//! let problems = profiler_compiler::compile::syntax(&source).unwrap_err();
//! assert_eq!(problems[0].code.to_string(), "E0113");
//! assert_eq!(problems[0].message, "a `,` is missing after this value");
//! assert_eq!(source.line_column(problems[0].span.start), (1, 16));
//! ```
//!
//! # Formatting
//!
//! ```
//! use profiler_compiler::{Source, fmt};
//!
//! let formatted = fmt::format(&Source::new("x.prof", "BEGIN{@a=1}")).unwrap();
//! assert_eq!(formatted, "BEGIN { @a = 1 }\n");
//! ```
//!
//! # The stages
//!
//! | stage | from | to |
//! |---|---|---|
//! | [`parse`] | [`Source`] | [`ast::Script`] |
//! | [`expand`] | macros and modules in a script | the script without them |
//! | [`check`] | [`ast::Script`] | [`typed::Program`] |
//! | [`lower`] | [`typed::Program`] | [`ir::Program`] and an [`Object`] without code |
//! | [`ir`] | [`ir::Program`] | the same program, optimised |
//! | [`emit`] | [`ir::Program`] | BPF instructions in an ELF file |
//!
//! [`compile::stages`] returns the output of each stage. [`catalogue`] says what a word of the
//! language is, and [`words`] has them: each builtin, function, aggregation and probe kind is a
//! file there, and the stages call it without knowing its name. [`decode`] turns the bytes of
//! records and maps into [`Value`]s.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(unreachable_pub))]

pub mod ast;
pub mod ast_print;
pub mod btf;
pub mod catalogue;
pub mod check;
pub mod compile;
pub mod diagnostic;
pub mod emit;
pub mod expand;
pub mod fmt;
pub mod foreign;
pub mod ir;
pub mod keywords;
pub mod language;
pub mod layout;
pub mod lower;
pub mod memory;
pub mod parse;
pub mod similar;
pub mod syscalls;
pub mod target;
pub mod tracepoint_format;
pub mod typed;
pub mod typed_print;
pub mod usdt;
pub mod words;

pub use check::Options;
pub use compile::{Compiled, compile};
pub use diagnostic::Diagnostic;
pub use object::Object;
pub use profiler_model::{
    decode, distribution, format, glob, histogram, numbers, object, operator, params, results, scope, series, source,
    statistics, strftime, text, types, units, unwind, value, view,
};
pub use source::Source;
pub use target::Target;
pub use value::Value;
pub use words::CATALOGUE;
