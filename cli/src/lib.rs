//! The `profiler` command: its subcommands, the prompt, completion, listings and `doctor`.
//!
//! In: a command line. Out: an exit code (see [`commands::exit`]).
//! Guarantee: this crate has no `unsafe` code; all kernel interfaces are in `profiler-runtime`. It
//! is a library for its own tests and for the fuzzers.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(unreachable_pub))]

pub mod commands;
pub mod complete;
pub mod doctor;
pub mod list;
pub mod repl;
