//! The command's rendering of diagnostics, which is where the way of a wrong script ends.
//!
//! In: the command's own files, which no library has. Out: the same functions.

#[expect(dead_code, reason = "the command uses all of it")]
#[path = "../../runtime/src/cli/diagnostics.rs"]
pub mod diagnostics;
#[path = "../../runtime/src/cli/excerpt.rs"]
mod excerpt;
