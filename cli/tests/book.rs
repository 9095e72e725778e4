//! The manual as a book: its table of contents, its lists of pages, and its links.
//!
//! In: the pages of `spec/`. Out: each page is in `SUMMARY.md` once; the lists of words and of
//! diagnostics are complete; each link leads to a file, and its anchor to a heading of that page.
//! `PROFILER_BLESS=1` rewrites the lists.

#[path = "pages/mod.rs"]
mod pages;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use pages::{blocks, pages, spec};

/// The lists of pages: the page that shows it, and the directory that it lists.
const LISTS: [(&str, &str); 5] = [
    ("builtins", "words/builtins"),
    ("functions", "words/functions"),
    ("aggregations", "words/aggregations"),
    ("probes", "words/probes"),
    ("diagnostics", "errors"),
];

/// All pages with their text without code, by their path in `spec/`.
fn book() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    pages(&spec(), &mut found);
    let inside = |path: &Path| path.strip_prefix(spec()).expect("a page of the manual").display().to_string();
    found.into_iter().map(|(path, page)| (inside(&path), prose(&page))).collect()
}

/// A page in which each character of a block is a space.
fn prose(page: &str) -> String {
    let mut bytes = page.as_bytes().to_vec();
    for Range { start, end } in blocks(page).into_iter().map(|block| block.text) {
        bytes[start..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
    String::from_utf8(bytes).expect("blocks are whole lines")
}

/// The targets of the links of a page. Text between backticks has none.
fn links(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for paragraph in page.split("\n\n") {
        let text: String = paragraph.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        found.extend(targets.map(|(target, _)| target.to_owned()));
    }
    found
}

/// The anchors of a page's headings, as mdBook and GitHub make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for heading in page.lines().filter(|line| line.starts_with('#')) {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || [' ', '_', '-'].contains(c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let same = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(same).find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(parts.pop()),
            std::path::Component::CurDir => {}
            part => parts.push(part),
        }
    }
    parts
}

#[test]
fn every_page_is_in_the_summary_once() {
    let book = book();
    let listed = links(&book["SUMMARY.md"]);
    for page in book.keys().filter(|page| *page != "SUMMARY.md") {
        let times = listed.iter().filter(|link| *link == page).count();
        assert_eq!(times, 1, "SUMMARY.md lists {page} {times} times");
    }
    assert_eq!(listed.len(), book.len() - 1);
}

#[test]
fn every_link_leads_somewhere() {
    let (book, mut wrong, mut count) = (book(), Vec::new(), 0);
    for (name, page) in &book {
        for link in links(page).into_iter().filter(|link| !link.contains("://")) {
            count += 1;
            let (target, anchor) = link.split_once('#').map_or((&*link, None), |(file, anchor)| (file, Some(anchor)));
            let directory = Path::new(name).parent().unwrap_or(Path::new(""));
            let path = if target.is_empty() { PathBuf::from(name) } else { normal(&directory.join(target)) };
            let inside = path.display().to_string();
            let found = match (book.get(&inside), anchor) {
                (Some(page), Some(anchor)) => anchors(page).contains(anchor),
                (Some(_), None) => true,
                (None, _) => anchor.is_none() && spec().join(&path).is_file(),
            };
            if !found {
                wrong.push(format!("{name}: {link}"));
            }
        }
    }
    assert!(count > 400 && wrong.is_empty(), "{count} links\n{}", wrong.join("\n"));
}

/// The title and the first paragraph of each page in a directory, by its path in `spec/`.
fn entries(directory: &str) -> Vec<(String, String, String)> {
    let mut all = BTreeMap::new();
    pages(&spec().join(directory), &mut all);
    let entry = |(path, page): (PathBuf, String)| {
        let title = page.lines().next().unwrap_or_default().trim_start_matches("# ").to_owned();
        let first = page.split("\n\n").nth(1).unwrap_or_default().replace('\n', " ");
        (format!("{directory}/{}", path.file_name().expect("a page").display()), title, first)
    };
    all.into_iter().map(entry).collect()
}

/// Replaces the lines of `text` that begin with `mark` and follow the line `after`.
fn replaced(text: &str, after: &str, mark: &str, lines: &str) -> String {
    let at = text.find(after).expect("the line before the list") + after.len();
    let rest = &text[at..];
    let end: usize = rest.split_inclusive('\n').take_while(|line| line.starts_with(mark)).map(str::len).sum();
    format!("{}{lines}{}", &text[..at], &rest[end..])
}

/// Compares a file with what it should be, or writes it.
fn expect(name: &str, current: &str, wanted: &str) {
    if current != wanted && std::env::var_os("PROFILER_BLESS").is_some() {
        fs::write(spec().join(name), wanted).expect("the page is written");
    } else {
        assert!(current == wanted, "the list in spec/{name} is out of date; PROFILER_BLESS=1 writes it");
    }
}

#[test]
fn lists_of_words_and_diagnostics_are_complete() {
    let read = |name: &str| fs::read_to_string(spec().join(name)).expect("a page");
    let current = read("SUMMARY.md");
    let mut summary = current.clone();
    for (list, directory) in LISTS {
        let (mut chapters, mut rows) = (String::new(), String::new());
        for (path, title, first) in entries(directory) {
            let (link, text) = match title.split_once(": ") {
                Some((code, rest)) if directory == "errors" => (code.to_owned(), rest.to_owned()),
                _ => (format!("`{title}`"), first),
            };
            let chapter = if directory == "errors" { title.replace('[', "\\[").replace(']', "\\]") } else { title };
            let chapter = chapter.split(['(', ',']).next().filter(|_| directory != "errors").unwrap_or(&chapter);
            let _ = writeln!(chapters, "  - [{chapter}]({path})");
            let _ = writeln!(rows, "| [{link}]({path}) | {} |", text.replace('|', "\\|"));
        }
        let heading = summary.lines().find(|line| line.ends_with(&format!("]({list}.md)"))).expect("its chapter");
        let heading = format!("{heading}\n");
        summary = replaced(&summary, &heading, "  - ", &chapters);
        let (name, page) = (format!("{list}.md"), read(&format!("{list}.md")));
        expect(&name, &page, &replaced(&page, "| | |\n|---|---|\n", "|", &rows));
    }
    expect("SUMMARY.md", &current, &summary);
}
