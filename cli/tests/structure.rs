//! The size of types and of parameter lists in the source of the product.
//!
//! In: the source files of all crates of the workspace except examples and tests. Out: an error for
//! each type with more than [`MOST_METHODS`] methods and each function with more than
//! [`MOST_PARAMETERS`] parameters.
//! Guarantee: all `impl` blocks of a type count, also those of traits. What exceeds a limit is
//! listed with its number, which may only shrink; an entry that is not needed any more is an error.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Most methods of a type.
const MOST_METHODS: usize = 40;

/// Most parameters of a function, without `self`.
const MOST_PARAMETERS: usize = 5;

/// Types that have more methods, by the directory or file below `src/` that they are in.
const LARGE_TYPES: &[(&str, usize)] = &[];

/// Functions that have more parameters: a branch has one for each field of the instruction.
const LONG_PARAMETER_LISTS: &[(&str, usize)] = &[("ir::branch", 7)];

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The source directories of the product's crates.
fn crates() -> Vec<PathBuf> {
    let manifest = fs::read_to_string(Path::new(ROOT).join("Cargo.toml")).expect("the manifest");
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = [")).expect("the members");
    let names = members.trim_end_matches(']').split(',').map(|name| name.trim().trim_matches('"'));
    names
        .filter(|name| !name.starts_with("examples") && !name.starts_with("tests"))
        .map(|name| Path::new(ROOT).join(name).join("src"))
        .collect()
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a source directory").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
}

/// For each source file: the directory or file below `src/` that it belongs to, and its text
/// without comments.
fn modules() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for root in crates() {
        let mut files = Vec::new();
        sources(&root, &mut files);
        for file in files {
            let below = file.strip_prefix(&root).expect("a file below src");
            let module = below.components().next().expect("a name").as_os_str().to_string_lossy().replace(".rs", "");
            let text = fs::read_to_string(&file).expect("a source file");
            let code = |line: &str| line.split_once("//").map_or(line, |(code, _)| code).to_string();
            all.push((module, text.lines().map(code).collect::<Vec<_>>().join("\n")));
        }
    }
    all
}

/// Splits at a character outside of all brackets.
fn split_outside(text: &str, at: char) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut previous) = (Vec::new(), 0, 0, ' ');
    for (index, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if previous == '-' || previous == '=' => {}
            ')' | ']' | '}' | '>' => depth -= 1,
            _ => {}
        }
        if c == at && depth == 0 {
            parts.push(&text[start..index]);
            start = index + c.len_utf8();
        }
        previous = c;
    }
    parts.push(&text[start..]);
    parts
}

/// The text up to the bracket that closes the one before it.
fn within(text: &str, open: char, close: char) -> &str {
    let (mut depth, mut previous) = (1, ' ');
    for (index, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close && !(close == '>' && previous == '-') {
            depth -= 1;
        }
        if depth == 0 {
            return &text[..index];
        }
        previous = c;
    }
    text
}

/// The name of the type that an `impl` block is for, from its first line on.
fn implemented(head: &str) -> Option<&str> {
    let head = head.strip_prefix("impl")?;
    let head = match head.strip_prefix('<') {
        Some(generic) => &generic[within(generic, '<', '>').len() + 1..],
        None => head,
    };
    let head = head.split('{').next()?;
    let ty = head.split(" for ").last()?.trim().trim_start_matches('&');
    let name = ty.split(['<', ' ']).next()?;
    name.rsplit("::").next().filter(|name| name.starts_with(char::is_uppercase))
}

/// Whether a line begins a function that is indented by `indent`.
fn begins_function(line: &str, indent: &str) -> bool {
    let Some(line) = line.strip_prefix(indent).filter(|line| !line.starts_with(' ')) else { return false };
    let line = line.strip_prefix("pub").unwrap_or(line);
    let line = line.strip_prefix('(').and_then(|scope| scope.split_once(')')).map_or(line, |(_, line)| line);
    line.split('(').next().is_some_and(|head| head.split(' ').any(|word| word == "fn"))
}

/// The number of methods of each type.
fn methods() -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (module, text) in modules() {
        let mut ty = None;
        for line in text.lines() {
            if line.starts_with("impl") {
                ty = implemented(line);
            } else if line.starts_with('}') {
                ty = None;
            } else if let (Some(ty), true) = (ty, begins_function(line, "    ")) {
                *counts.entry(format!("{module}::{ty}")).or_default() += 1;
            }
        }
    }
    counts
}

/// The largest number of parameters of the functions with each name.
fn parameters() -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (module, text) in modules() {
        for (index, _) in
            text.match_indices("fn ").filter(|(index, _)| !text[..*index].ends_with(char::is_alphanumeric))
        {
            let rest = &text[index + 3..];
            let name_end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (name, rest) = rest.split_at(name_end);
            let rest = match rest.strip_prefix('<') {
                Some(generic) => &generic[within(generic, '<', '>').len() + 1..],
                None => rest,
            };
            let Some(list) = rest.strip_prefix('(').filter(|_| !name.is_empty()) else { continue };
            let given = split_outside(within(list, '(', ')'), ',');
            let is_self = |given: &str| given.trim().trim_start_matches('&').rsplit(' ').next() == Some("self");
            let count = given.iter().filter(|given| !given.trim().is_empty() && !is_self(given)).count();
            let most: &mut usize = counts.entry(format!("{module}::{name}")).or_default();
            *most = count.max(*most);
        }
    }
    counts
}

/// What exceeds a limit without being listed, and what is listed without need.
fn findings(counts: &BTreeMap<String, usize>, most: usize, listed: &[(&str, usize)]) -> Vec<String> {
    let allowed = |name: &str| listed.iter().find(|(known, _)| *known == name).map_or(most, |(_, count)| *count);
    let excess = counts.iter().filter(|(name, count)| **count > allowed(name));
    let mut found: Vec<String> = excess.map(|(name, count)| format!("{name} has {count}")).collect();
    let small = |name: &str| counts.get(name).is_none_or(|count| *count <= most);
    found.extend(
        listed.iter().filter(|(name, _)| small(name)).map(|(name, _)| format!("{name} is listed without need")),
    );
    found
}

#[test]
fn no_type_has_too_many_methods() {
    let counts = methods();
    assert!(counts.contains_key("lower::Body"), "no methods of lower::Body found");
    let found = findings(&counts, MOST_METHODS, LARGE_TYPES);
    assert!(found.is_empty(), "types may have at most {MOST_METHODS} methods:\n{}", found.join("\n"));
}

#[test]
fn no_function_has_too_many_parameters() {
    let counts = parameters();
    assert_eq!(counts.get("lower::read_string_of"), Some(&4), "the parameters are not counted right");
    let found = findings(&counts, MOST_PARAMETERS, LONG_PARAMETER_LISTS);
    assert!(found.is_empty(), "functions may have at most {MOST_PARAMETERS} parameters:\n{}", found.join("\n"));
}

#[test]
fn methods_of_traits_and_generic_types_are_found() {
    assert_eq!(implemented("impl<'a, T: Into<u8>> Body<'a, T> {"), Some("Body"));
    assert_eq!(implemented("impl Iterator for super::Walk<'_> {"), Some("Walk"));
    assert!(begins_function("    pub(super) const fn of(self) -> u8 {", "    "));
    assert!(!begins_function("        let f = fn_of(1);", "    "));
    assert_eq!(split_outside("a: &[u8], f: impl Fn(u8, u8) -> u8, b: Map<u8, u8>", ',').len(), 3);
}
