//! Loads what the compiler emits into the kernel, attaches it, and collects the results.
//!
//! In: an [`Object`] of `profiler-compiler`. Out: calls of an [`Output`], which are the results.
//! Guarantee: only [`sys`] contains `unsafe` code; nothing stays attached after a run.
//!
//! # Reading values from Rust
//!
//! [`run`] loads an object, attaches its probes, waits until the run ends, and detaches. Results go
//! to an [`Output`]. [`Collected`] is the one that keeps them as data; those of the crate
//! `profiler-output` print text, tables, JSON or CSV. This is `examples/read_values.rs`, which a
//! test runs:
//!
//! ```no_run
#![doc = include_str!("../examples/read_values.rs")]
//! ```
//!
//! Running needs root, or the capabilities `CAP_BPF` and `CAP_PERFMON`.
//!
//! # The parts of a run
//!
//! | module | what |
//! |---|---|
//! | [`host`] | the running machine, as the compiler queries it: types, tracepoints, symbols |
//! | [`load`] | an object in the kernel; the reason if the kernel refuses it |
//! | [`attach`] | probes to links; a link detaches when it is dropped |
//! | [`session`] | a run: [`RunOptions`], start, collection, end, [`Outcome`] |
//! | [`control`] | commands for a running session: print, clear, stop |
//! | [`child`] | a command that waits until all probes are attached |
//! | [`maps`], [`ring`], [`spans`] | contents of maps, records of programs, the account of each span |
//! | [`ledger`] | what was lost, and what the run cost |
//! | [`symbols`] | addresses to names |
//! | [`reader`] | the process that reads the files of traced processes |
//! | [`params`] | values of parameters, patched into an object before it is loaded |
//! | [`view`] | contents of maps to the rows of a table |
//!
//! # How a run ends
//!
//! A run ends when the script calls `exit`, after [`RunOptions::duration`], when the processes of
//! [`RunOptions::pids`] or the command of [`RunOptions::child`] end, or on a signal. If
//! [`RunOptions::requests`] is given, the caller handles signals and sends commands instead.
//! [`Outcome::losses`] says what is missing from the results: nothing is lost silently.
//!
//! [`Object`]: profiler_compiler::object::Object
//! [`Output`]: profiler_model::output::Output
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(unreachable_pub))]

mod actions;
pub mod attach;
mod background;
mod cgroups;
pub mod child;
mod collected;
mod commands;
pub mod control;
pub mod elf;
mod ended;
pub mod host;
pub mod ledger;
pub mod load;
pub mod maps;
mod memory;
mod packets;
pub mod params;
pub mod reader;
pub mod result_file;
pub mod ring;
pub mod session;
pub mod spans;
mod starved;
pub mod symbols;
pub mod sys;
mod tables;
pub mod threads;
mod timers;
mod turns;
mod unwind;
pub mod view;
mod visits;
mod windows;

pub use collected::Collected;
pub use host::Host;
pub use session::{Outcome, RunError, RunOptions, run};
pub use symbols::HostSymbols;
