//! Names of types, modules and files say what the thing is.
//!
//! In: definitions in Rust code, and file names. Out: those that end in a word that fits anything.
//! Guarantee: exceptions are terms of the kernel or of bpftrace, listed one by one.

use std::path::Path;

use crate::expect_none;
use crate::lexer::split;
use crate::tree::{File, files};

/// Endings that say nothing.
const BANNED: [&str; 9] = ["Manager", "Util", "Utils", "Helper", "Helpers", "Common", "Misc", "Info", "Stuff"];

/// The exceptions, as `FILE NAME`, or `FILE` for the file's own name.
const TERMS: [&str; 7] = [
    // BPF helpers, the kernel's term.
    "compiler/src/ir/helper.rs",
    "compiler/src/ir/helper.rs Helper",
    "compiler/src/ir/mod.rs helper",
    "oracle/src/evaluator/helpers.rs",
    "oracle/src/evaluator/mod.rs helpers",
    // `bpftrace --info`.
    "cli/src/commands/dropin/info.rs",
    "cli/src/commands/dropin/mod.rs info",
];

/// Whether a name ends in a banned word: a type's as it is, a module's or file's in lower case.
fn is_banned(name: &str) -> bool {
    let last = name.rsplit(['_', '-']).next().unwrap_or(name);
    BANNED.iter().any(|banned| name.ends_with(banned) || last == banned.to_lowercase())
}

/// The names of the types and modules that a line defines.
fn defined(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
    let is_definition = ["struct", "enum", "trait", "type", "union", "mod"].contains(&words.next()?);
    let end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    if is_definition { words.next()?.split(end).next() } else { None }
}

fn violations(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    let stem = Path::new(&file.path).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    if is_banned(&stem) && !TERMS.contains(&file.path.as_str()) {
        found.push(format!("{}: the file's name", file.path));
    }
    if file.has_extension("rs") {
        for (index, line) in split(&file.text).code.lines().enumerate() {
            let name = defined(line).filter(|name| is_banned(name));
            if let Some(name) = name.filter(|name| !TERMS.contains(&format!("{} {name}", file.path).as_str())) {
                found.push(format!("{}:{}: {name}", file.path, index + 1));
            }
        }
    }
    found
}

#[test]
fn names_say_what_things_are() {
    let found: Vec<String> = files("").iter().flat_map(violations).collect();
    expect_none(&found, "names that fit anything (STYLE.md, Names)");
}

#[test]
fn a_name_that_fits_anything_is_reported() {
    let text = "pub(crate) struct MapInfo<'a> {\nmod utils;\nenum Informed {}\n// struct OldHelper\n".to_owned();
    let file = File { path: "compiler/src/span_util.rs".to_owned(), text };
    let expected = ["span_util.rs: the file's name", "span_util.rs:1: MapInfo", "span_util.rs:2: utils"];
    assert_eq!(violations(&file), expected.map(|line| format!("compiler/src/{line}")));
}
