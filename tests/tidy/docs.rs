//! Public items have a sentence of documentation, and no documentation only repeats a name.
//!
//! In: the sources of the crates. Out: public items without documentation, and fields whose
//! documentation has at most three words and none that is not in the field's name or type.
//! Guarantee: replaces rustc's `missing_docs`, which also wants a sentence for every field.

use std::collections::BTreeSet;

use crate::expect_none;
use crate::tree::{File, rust_files};

/// Keywords before the name of an item.
const ITEMS: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "union", "static", "const", "macro_rules!"];
/// Words that say nothing by themselves.
const EMPTY: [&str; 11] = ["the", "a", "an", "its", "their", "of", "is", "in", "to", "for", ""];

/// Whether a line defines a public item; fields and modules are none, as modules have heads.
fn is_public_item(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix("pub ") else { return false };
    let mut words = rest.split_whitespace().skip_while(|word| ["const", "unsafe", "async"].contains(word));
    let is_constant = rest.starts_with("const ") && rest.contains(':');
    is_constant || words.next().is_some_and(|word| ITEMS.contains(&word))
}

/// The words of a text or a name in lower case, without a plural's ending.
fn words(text: &str) -> BTreeSet<String> {
    let mut spaced = String::new();
    for c in text.chars() {
        if c.is_ascii_uppercase() && spaced.ends_with(|last: char| last.is_ascii_lowercase()) {
            spaced.push(' ');
        }
        spaced.push(c.to_ascii_lowercase());
    }
    let words = spaced.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| !EMPTY.contains(word)).map(|word| word.strip_suffix('s').unwrap_or(word).to_owned()).collect()
}

/// Whether a line of documentation only repeats the name or the type of the field after it.
fn repeats(documentation: &str, field: &str) -> bool {
    let is_short = documentation.split_whitespace().count() <= 3;
    is_short && field.contains(": ") && words(documentation).is_subset(&words(field))
}

fn violations(file: &File) -> Vec<String> {
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let before = &lines[..index];
        let place = format!("{}:{}", file.path, index + 1);
        if is_public_item(line) {
            let above = before.iter().rev().find(|line| !line.starts_with("#[") && !line.ends_with(")]"));
            if !above.is_some_and(|line| line.starts_with("///")) {
                found.push(format!("{place}: no documentation"));
            }
        }
        let Some(documentation) = before.last().and_then(|line| line.strip_prefix("/// ")) else { continue };
        let is_one_line = before.len() < 2 || !before[before.len() - 2].starts_with("///");
        let is_field = line.ends_with(',') && !line.contains(['(', '=', '{']);
        if is_one_line && is_field && repeats(documentation, line) {
            found.push(format!("{place}: `{documentation}` repeats the field"));
        }
    }
    found
}

#[test]
fn documentation_says_more_than_the_name() {
    let rooms = ["compiler/src", "runtime/src", "output/src", "cli/src", "oracle/src"].into_iter().flat_map(rust_files);
    let found: Vec<String> =
        rooms.filter(|file| !file.path.ends_with("tests.rs")).flat_map(|file| violations(&file)).collect();
    expect_none(&found, "documentation");
}

#[test]
fn missing_and_repeating_documentation_is_reported() {
    let lines = [
        "/// A row.",
        "#[derive(Debug)]",
        "pub struct Row {",
        "    /// Its name.",
        "    pub name: String,",
        "    /// As printed.",
        "    pub text: String,",
        "    pub width: usize,",
        "}",
        "pub const fn f() {}",
        "pub const MAX: u8 = 1;",
    ];
    let text = lines.join("\n");
    let file = File { path: "a.rs".to_owned(), text };
    let expected = ["5: `Its name.` repeats the field", "10: no documentation", "11: no documentation"];
    assert_eq!(violations(&file), expected.map(|line| format!("a.rs:{line}")));
}
