//! Tests that read the source tree: which room imports which, wording, names and widths.
//!
//! In: the files of the repository. Out: one line per violation, with its file and line.
//! Guarantee: each rule is also tested on made-up text that breaks it.

mod cycles;
mod docs;
mod imports;
mod lexer;
mod names;
mod prose;
mod recipes;
mod rooms;
mod tree;

/// Fails with all violations, one per line.
fn expect_none(violations: &[String], rule: &str) {
    assert!(violations.is_empty(), "{rule}:\n{}", violations.join("\n"));
}
