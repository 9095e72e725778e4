//! Comments, documentation and messages are plain English, at most 100 columns wide.
//!
//! In: comments and messages (strings with a blank) of Rust sources, whole lines of other files.
//! Out: lines with a phrase that `PHRASES` replaces, and lines that are too wide.
//! Guarantee: code blocks, tables and links of Markdown may be wider.

use crate::expect_none;
use crate::lexer::{Kind, split};
use crate::tree::{File, files};

/// What we do not write, and what we write instead. A phrase matches whole words in any case.
const PHRASES: [(&str, &str); 39] = [
    ("folder", "directory"),
    ("folders", "directories"),
    ("nobody", "no caller, no process, not … anyone"),
    ("somebody", "another thread, a concurrent writer"),
    ("so many", "`n`"),
    ("so long", "for that long"),
    ("goes on in its place", "replaces, takes over"),
    ("go on in its place", "replace, take over"),
    ("in its stead", "instead"),
    ("deed", "action, trigger"),
    ("deeds", "actions, triggers"),
    ("canary", "self-test"),
    ("heir", "successor"),
    ("heirs", "successors"),
    ("estate", "saved maps"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("mended", "fixed"),
    ("hang on", "are attached to"),
    ("hangs on", "is attached to"),
    ("hung on", "was attached to"),
    ("what becomes of", "the result of"),
    ("taking hold", "claiming"),
    ("take hold", "claim"),
    ("takes hold", "claims"),
    ("is told", "is reported, prints"),
    ("are told", "are reported"),
    ("is told of", "is reported"),
    ("is said of", "is reported"),
    ("be said of", "be reported"),
    ("stands in", "is in"),
    ("what stands", "what is"),
    ("may stand", "may be"),
    ("stand flat", "are flat"),
    ("in front of", "before"),
    ("room for", "capacity for, space for"),
    ("made room", "was evicted for"),
    ("makes room", "evicts"),
    ("behind", "after (in order); a pointer's target may be behind it"),
];

/// Where these words have their usual meaning.
const USUAL: [&str; 23] = [
    // The user of that name.
    "`nobody`",
    "name nobody",
    "user nobody",
    "as nobody",
    "@nobody",
    "\"nobody\"",
    "SKIPPED: nobody",
    // A substitute.
    "stands in for",
    // The target of a pointer, and leftovers.
    "behind a pointer",
    "behind a kernel pointer",
    "behind the pointer",
    "behind each pointer",
    "behind a void *",
    "behind it is loaded",
    "behind an argument",
    "left behind",
    "stays behind",
    // A line of the tests' data format.
    "behind: ",
    "/ behind",
    "behind-",
    "look-behind",
    // Formulas of views.
    "belong behind",
    "may stand in",
];

/// Files that quote these words: this one, and the drop-in's table of bpftrace's wording.
const QUOTING: [&str; 1] = ["tests/tidy/prose.rs"];

/// The maximum width of comments and Markdown.
const COLUMNS: usize = 100;

/// The phrases in a text, with what replaces them.
fn phrases(text: &str) -> Vec<(&'static str, &'static str)> {
    let mut text = text.to_owned();
    for usual in USUAL {
        text = text.replace(usual, " ");
    }
    let text = text.to_lowercase();
    let is_inside = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    let occurs = |phrase: &str| {
        text.match_indices(phrase).any(|(at, _)| {
            !is_inside(text[..at].chars().next_back()) && !is_inside(text[at + phrase.len()..].chars().next())
        })
    };
    PHRASES.iter().filter(|(phrase, _)| occurs(phrase)).copied().collect()
}

/// The lines of a file that people read, with their numbers.
fn prose(file: &File) -> Vec<(usize, String)> {
    if !file.has_extension("rs") {
        return file.text.lines().enumerate().map(|(index, line)| (index + 1, line.to_owned())).collect();
    }
    let pieces = split(&file.text).pieces.into_iter();
    let read = pieces.filter(|piece| piece.kind == Kind::Comment || piece.text.trim().contains(' '));
    read.flat_map(|piece| {
        let lines: Vec<String> = piece.text.lines().map(str::to_owned).collect();
        lines.into_iter().enumerate().map(move |(index, line)| (piece.line + index, line))
    })
    .collect()
}

fn wording(file: &File) -> Vec<String> {
    if QUOTING.contains(&file.path.as_str()) {
        return Vec::new();
    }
    let lines = prose(file).into_iter().flat_map(|(line, text)| phrases(&text).into_iter().map(move |p| (line, p)));
    lines.map(|(line, (not, but))| format!("{}:{line}: not \"{not}\", but {but}", file.path)).collect()
}

#[test]
fn the_words_are_plain() {
    let found: Vec<String> = files("").iter().flat_map(wording).collect();
    expect_none(&found, "wording");
}

/// Whether a line is a comment and no row of a table.
fn is_comment(line: &str) -> bool {
    line.trim_start().strip_prefix("//").is_some_and(|text| !text.trim_start_matches(['/', '!', ' ']).starts_with('|'))
}

/// Lines that are too wide: comments of Rust sources, text of Markdown.
fn too_wide(file: &File) -> Vec<String> {
    let is_wide = |line: &str| line.chars().count() > COLUMNS;
    let mut found = Vec::new();
    let mut is_code = false;
    for (index, line) in file.text.lines().enumerate() {
        let wide = if file.has_extension("md") {
            is_code ^= line.starts_with("```");
            let is_link = line.split_whitespace().any(|word| word.contains("://"));
            !is_code && !line.starts_with(['|', '`', '#']) && !is_link && is_wide(line)
        } else {
            file.has_extension("rs") && is_comment(line) && is_wide(line)
        };
        if wide {
            found.push(format!("{}:{}: {} columns", file.path, index + 1, line.chars().count()));
        }
    }
    found
}

#[test]
fn comments_and_pages_are_at_most_100_columns_wide() {
    let found: Vec<String> = files("").iter().flat_map(too_wide).collect();
    expect_none(&found, "width");
}

#[test]
fn banned_words_and_wide_lines_are_reported() {
    let text = format!("// Nobody mended it.\nlet folder = \"a folder\"; // {}\n// `nobody`\n", "x".repeat(100));
    let rust = File { path: "a.rs".to_owned(), text: format!("{text}// {}\n", "x".repeat(98)) };
    let found = wording(&rust);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("a.rs:1: not \"nobody\""), "{found:?}");
    assert!(found[2].starts_with("a.rs:2: not \"folder\""), "{found:?}");
    assert_eq!(too_wide(&rust), ["a.rs:4: 101 columns"]);
    let wide = "word ".repeat(21);
    let page = File { path: "a.md".to_owned(), text: format!("{wide}\n```\n{wide}\n```\n| {wide} |\n") };
    assert_eq!(too_wide(&page), ["a.md:1: 105 columns"]);
}
