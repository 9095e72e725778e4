//! The runtime of profiler: loads, attaches, collects and renders what the compiler emits.
//!
//! In: an `Object` of the compiler. Out: results on the screen.
//! Guarantee: `unsafe` lives in `sys` only; nothing stays attached after a run.

pub mod host;
pub mod list;
pub mod render;
pub mod sys;
