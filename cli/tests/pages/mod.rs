//! The pages of the manual and their fenced blocks.
//!
//! In: `spec/`. Out: each page's text by its path, and the blocks of a page.

#![allow(dead_code, reason = "each suite uses a part")]

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A fenced block.
pub struct Block {
    /// The text after the opening fence.
    pub info: String,
    /// The byte range of its text in the page.
    pub text: Range<usize>,
    /// The line of the opening fence, from 1.
    pub line: usize,
}

/// The directory of the manual.
pub fn spec() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../spec")
}

/// Adds all pages below a directory to `found`.
pub fn pages(directory: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(directory).expect("the directory of pages").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            pages(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "md") {
            found.insert(entry.clone(), fs::read_to_string(&entry).expect("a page"));
        }
    }
}

/// The fenced blocks of a page, in order.
pub fn blocks(page: &str) -> Vec<Block> {
    let (mut found, mut at, mut open) = (Vec::new(), 0, None);
    for (number, line) in page.split_inclusive('\n').enumerate() {
        if let Some(info) = line.strip_prefix("```") {
            open = match open.take() {
                None => Some((info.trim().to_string(), at + line.len(), number + 1)),
                Some((info, start, line)) => {
                    found.push(Block { info, text: start..at, line });
                    None
                }
            };
        }
        at += line.len();
    }
    assert!(open.is_none(), "a block is not closed");
    found
}
