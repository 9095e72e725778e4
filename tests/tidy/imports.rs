//! Which modules of its crate a Rust file refers to.
//!
//! In: a path below `src` and the text. Out: the first module of each path that leaves the file's
//! own top-level module, with its line: `crate::x::…`, `super::…::x::…`, groups included.
//! Guarantee: paths in code count as well as `use` lines; comments and strings do not.

use std::collections::BTreeSet;

use crate::lexer::split;

/// A reference to another top-level module.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The module that refers.
    pub from: String,
    /// The path from the crate's root, as far as it is names: `words::functions`.
    pub to: Vec<String>,
    /// The number of the line.
    pub line: usize,
}

/// The module path of a file below `src`.
fn module_path(path: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(last)) {
        parts.pop();
    }
    parts
}

/// The references of one file to other top-level modules of its crate.
pub fn imports(path: &str, text: &str) -> BTreeSet<Import> {
    let module = module_path(path);
    let from = module.first().copied().unwrap_or("lib");
    let code = split(text).code;
    let mut found = BTreeSet::new();
    // Indentation of the inline modules around the current line.
    let mut inline: Vec<usize> = Vec::new();
    let mut start = 0;
    for (index, line) in code.split_inclusive('\n').enumerate() {
        let trimmed = line.trim();
        let indentation = line.len() - line.trim_start().len();
        if trimmed == "}" && inline.last() == Some(&indentation) {
            inline.pop();
        }
        let depth = module.len() + inline.len();
        for (at, base) in roots(line, depth) {
            for to in paths(&code[start + at..]) {
                let to: Vec<String> = module[..base].iter().map(|part| (*part).to_owned()).chain(to).collect();
                if to.first().is_some_and(|first| *first != from) {
                    found.insert(Import { from: from.to_owned(), to, line: index + 1 });
                }
            }
        }
        if trimmed.ends_with('{') && trimmed.trim_start_matches("pub ").starts_with("mod ") {
            inline.push(indentation);
        }
        start += line.len();
    }
    found
}

/// The positions in a line after `crate::` and after chains of `super::`, each with the number of
/// modules of the own path that the rest is relative to.
fn roots(line: &str, depth: usize) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (at, word) in line.match_indices("crate::").chain(line.match_indices("super::")) {
        let is_start = !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || "_$:".contains(c));
        if !is_start {
            continue;
        }
        let mut end = at + word.len();
        let mut base = 0;
        if word == "super::" {
            let mut ups = 1;
            while line[end..].starts_with(word) {
                end += word.len();
                ups += 1;
            }
            match depth.checked_sub(ups) {
                Some(left) => base = left,
                None => continue,
            }
        }
        found.push((end, base));
    }
    // Only the crate's root and what lies outside the own top-level module matter.
    found.retain(|(_, base)| *base == 0);
    found
}

/// The names of the paths that begin here: one, or those of a group `{a::b, c}`.
fn paths(code: &str) -> Vec<Vec<String>> {
    let Some(group) = code.strip_prefix('{') else { return vec![names(code)] };
    let mut depth = 0;
    let mut starts = vec![0];
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => starts.push(at + 1),
            _ => {}
        }
    }
    starts.into_iter().map(|at| names(group[at..].trim_start())).filter(|names| !names.is_empty()).collect()
}

/// The lower-case names at the beginning of a path.
fn names(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    loop {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
            return found;
        }
        found.push(name.to_owned());
        match after.strip_prefix("::") {
            Some(next) => rest = next,
            None => return found,
        }
    }
}

#[test]
fn paths_to_other_modules_are_found() {
    let text = "use crate::lower::{Body, spell::spell};\nuse super::super::emit;\nuse super::own;\n\
        // crate::comment\nfn f() { crate::words::print::g(\"crate::text\"); }\n\
        use crate::{\n    ir::{self, Inst}, check::x,\n};\nmod tests {\n    use super::super::super::parse;\n}\n";
    let found = imports("fmt/printer/mod.rs", text);
    let shown: Vec<String> = found.iter().map(|import| format!("{} {}", import.line, import.to.join("::"))).collect();
    let mut expected = ["1 lower", "2 emit", "5 words::print::g", "6 ir", "6 check::x", "10 parse"];
    expected.sort_unstable();
    let mut shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    shown.sort_unstable();
    assert_eq!(shown, expected);
}
