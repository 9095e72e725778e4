//! The runtime of profiler: loads, attaches, collects and renders what the compiler emits.
//!
//! In: an `Object` of the compiler. Out: results on the screen.
//! Guarantee: `unsafe` lives in `sys` only; nothing stays attached after a run.
#![deny(unsafe_code)]

pub mod actions;
pub mod attach;
mod cgroups;
pub mod child;
pub mod complete;
pub mod doctor;
pub mod elf;
pub mod host;
pub mod ledger;
pub mod list;
pub mod load;
pub mod maps;
pub mod orders;
pub mod params;
pub mod render;
pub mod repl;
pub mod ring;
pub mod session;
pub mod spans;
pub mod symbols;
pub mod sys;
pub mod tables;
pub mod threads;
pub mod timers;
pub mod view;
pub mod windows;
