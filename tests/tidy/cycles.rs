//! Import cycles between the files of a crate stay small: a reader who opens one file of a cycle
//! needs all of them.
//!
//! In: the sources of a crate. Out: its largest set of files that all depend on each other.
//! Guarantee: a path counts as a dependency on the file that defines what it names: re-exports are
//! followed, and `use crate::lower;` alone is only a name. Unit tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use crate::expect_none;
use crate::lexer::split;
use crate::tree::rust_files;

/// Most files in one cycle.
const MOST: usize = 12;

/// A path of modules, from the root of the crate.
type Module = Vec<String>;

/// What a file refers to.
#[derive(Debug, Default)]
struct Uses {
    paths: Vec<Module>,
    /// Names that it re-exports, with their origins.
    reexports: BTreeMap<String, Module>,
}

/// The module that a file below `src` defines.
fn module_of(path: &str) -> Module {
    let mut parts: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        parts.pop();
    }
    parts
}

fn names(path: &str) -> Module {
    path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// `a::{b, c::{d, e as f}}` as `a::b`, `a::c::d`, `a::c::e`.
fn paths_of(tree: &str) -> Vec<Module> {
    let tree = tree.trim();
    let mut depth = 0;
    let mut start = 0;
    let mut parts = Vec::new();
    for (at, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&tree[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !parts.is_empty() {
        parts.push(&tree[start..]);
        return parts.into_iter().filter(|part| !part.trim().is_empty()).flat_map(paths_of).collect();
    }
    let Some((head, group)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![names(path)];
    };
    let group = group.rsplit_once('}').map_or(group, |(inside, _)| inside);
    paths_of(group).into_iter().map(|rest| names(head).into_iter().chain(rest).collect()).collect()
}

/// The path from the root of the crate; `None` for a path that does not begin in this crate.
fn absolute(path: &[String], module: &[String], modules: &BTreeSet<Module>) -> Option<Module> {
    let child = || modules.contains(&[module, &path[..1]].concat());
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            Some([&module[..module.len().checked_sub(ups)?], &path[ups..]].concat())
        }
        _ if child() => Some([module, path].concat()),
        _ => None,
    }
}

/// The statement of a `use` line: whether it is public, and its tree.
fn use_statement(line: &str) -> Option<(bool, &str)> {
    let line = line.trim_start();
    let rest = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
        Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest),
        None => rest,
    });
    Some((line.starts_with("pub"), rest.trim_start().strip_prefix("use ")?))
}

/// Paths of several names in code: `check::Body`.
fn paths_in(code: &str) -> Vec<Module> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = code.split(|c: char| !is_part(c)).filter(|word| word.contains("::"));
    words.map(names).filter(|path| path.len() > 1).collect()
}

fn uses_of(module: &[String], text: &str, modules: &BTreeSet<Module>) -> Uses {
    let code = split(text.split("#[cfg(test)]\nmod ").next().unwrap_or_default()).code;
    let (mut uses, mut body) = (Uses::default(), String::new());
    let mut rest = code.as_str();
    while let Some(line) = rest.split_inclusive('\n').next() {
        let Some((is_public, _)) = use_statement(line) else {
            body.push_str(line);
            rest = &rest[line.len()..];
            continue;
        };
        let statement = rest.split_inclusive(';').next().unwrap_or(rest);
        let tree = use_statement(statement).map_or("", |(_, tree)| tree).trim_end_matches(';');
        for path in paths_of(tree).iter().filter_map(|path| absolute(path, module, modules)) {
            match path.last() {
                Some(name) if is_public => drop(uses.reexports.insert(name.clone(), path)),
                _ => uses.paths.push(path),
            }
        }
        rest = &rest[statement.len()..];
    }
    let imported = uses.paths.iter().chain(uses.reexports.values()).filter(|path| modules.contains(*path));
    let mut known: BTreeMap<String, Module> =
        imported.filter_map(|path| Some((path.last()?.clone(), path.clone()))).collect();
    for child in modules.iter().filter(|other| other.len() == module.len() + 1 && other.starts_with(module)) {
        known.entry(child[module.len()].clone()).or_insert_with(|| child.clone());
    }
    for path in paths_in(&body) {
        match known.get(&path[0]) {
            Some(first) => uses.paths.push([first, &path[1..]].concat()),
            None => uses.paths.extend(absolute(&path, module, modules)),
        }
    }
    uses
}

/// The module whose file defines what a path names.
fn defined_in(path: &[String], crate_uses: &BTreeMap<Module, Uses>, depth: usize) -> Option<Module> {
    let module = (1..=path.len()).rev().map(|len| path[..len].to_vec()).find(|it| crate_uses.contains_key(it))?;
    let rest = &path[module.len()..];
    let origin = rest.first().and_then(|name| crate_uses[&module].reexports.get(name));
    match origin {
        Some(origin) if depth > 0 => defined_in(&[origin, &rest[1..]].concat(), crate_uses, depth - 1),
        _ => Some(module),
    }
}

/// The largest set of files that all depend on each other; empty if there is no cycle.
fn largest_cycle(files: &[(String, String)]) -> Vec<String> {
    let modules: BTreeSet<Module> = files.iter().map(|(path, _)| module_of(path)).collect();
    let uses = files.iter().map(|(path, text)| (module_of(path), uses_of(&module_of(path), text, &modules)));
    let uses: BTreeMap<Module, Uses> = uses.collect();
    let dependencies = |module: &Module, of: &Uses| -> BTreeSet<Module> {
        let paths = of.paths.iter().filter(|path| !modules.contains(*path));
        paths.filter_map(|path| defined_in(path, &uses, 8)).filter(|other| other != module).collect()
    };
    let edges: BTreeMap<&Module, BTreeSet<Module>> = uses.iter().map(|(it, of)| (it, dependencies(it, of))).collect();
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        edges.keys().map(|it| (*it, reached_from(it, &edges))).collect();
    let cycle_of = |module: &Module| {
        let others = reached[module].iter().filter(|other| reached[**other].contains(module));
        others.map(|other| other.join("/")).collect::<Vec<_>>()
    };
    edges.keys().map(|module| cycle_of(module)).max_by_key(Vec::len).unwrap_or_default()
}

fn reached_from<'a>(from: &Module, edges: &'a BTreeMap<&Module, BTreeSet<Module>>) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&Module> = edges[from].iter().collect();
    while let Some(module) = waiting.pop() {
        if found.insert(module) {
            waiting.extend(edges.get(module).into_iter().flatten());
        }
    }
    found
}

#[test]
fn import_cycles_are_small() {
    let mut report = Vec::new();
    for room in ["model", "compiler", "runtime", "output", "cli", "oracle"] {
        let root = format!("{room}/src/");
        let is_test = |path: &str| path.ends_with("tests.rs") || path.ends_with("test.rs");
        let files = rust_files(&root).into_iter().filter(|file| !is_test(&file.path));
        let files: Vec<(String, String)> =
            files.map(|file| (file.path.trim_start_matches(&root).to_owned(), file.text)).collect();
        let cycle = largest_cycle(&files);
        if cycle.len() > MOST {
            report.push(format!("{room}: {} files, at most {MOST}: {}", cycle.len(), cycle.join(" ")));
        }
    }
    expect_none(&report, "files that all depend on each other");
}

#[test]
fn a_cycle_through_a_re_export_and_a_path_in_code_is_found() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let files = [
        file("lib.rs", "mod a;\nmod b;\n"),
        file("a/mod.rs", "mod deep;\npub use deep::Deep;\npub fn other() {}\n"),
        file("a/deep.rs", "use crate::b;\npub struct Deep;\nfn f() { b::g(); }\n"),
        file("b.rs", "use crate::a::{Deep};\nuse crate::c;\npub fn g() {}\n"),
        file("c.rs", "// crate::b::g\nuse crate::a;\n#[cfg(test)]\nmod tests {\n    use crate::b::g;\n}\n"),
    ];
    assert_eq!(largest_cycle(&files), ["a/deep", "b"]);
    assert!(largest_cycle(&files[3..]).is_empty());
}
