//! The table of tools as data.
//!
//! In: the text of tests/tools/table. Out: one entry for each tool.
//! Guarantee: a line that cannot be parsed fails the test.

use std::collections::BTreeMap;

/// The kernels in the table, in the order of the page.
pub const KERNELS: [&str; 3] = ["6.18", "6.1", "6.12"];

/// The versions whose scripts are tested, oldest first.
pub const VERSIONS: [&str; 3] = [FIRST, "0.23", "0.27"];

/// The version whose scripts the table describes, unless an entry names a later one.
pub const FIRST: &str = "0.17";

/// A tool: the event it must see, and its expected report.
#[derive(Debug, Default)]
pub struct Tool {
    pub name: String,
    /// The version from which on this entry holds, until the next entry of the same name.
    pub since: &'static str,
    /// The action of the workload.
    pub act: String,
    /// Patterns that the tool's output must contain.
    pub shows: Vec<String>,
    /// Whether the tool is ended only after it has printed these patterns.
    pub waits: bool,
    /// Whether the act is done for one version only.
    pub once: bool,
    /// How often the tool is started at most until it reports.
    pub tries: u32,
    /// Kernels on which it does not start: the expected diagnostic, and the reason.
    pub refused: BTreeMap<&'static str, (String, String)>,
}

/// All tools, in the table's order.
pub fn tools() -> Vec<Tool> {
    parse(include_str!("../../../tests/tools/table"))
}

/// The entry for a tool of a version; `None` if that version has no such tool.
pub fn of_version<'a>(tools: &'a [Tool], name: &str, version: &str) -> Option<&'a Tool> {
    let age = |of: &str| VERSIONS.iter().position(|known| *known == of);
    tools.iter().rev().find(|tool| tool.name == name && age(tool.since) <= age(version))
}

fn parse(text: &str) -> Vec<Tool> {
    let mut tools: Vec<Tool> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let (name, since) = name.split_once(' ').unwrap_or((name, FIRST));
            let since = VERSIONS.into_iter().find(|known| *known == since).unwrap_or_else(|| panic!("{line}"));
            tools.push(Tool { name: name.into(), since, tries: 1, ..Tool::default() });
            continue;
        }
        let tool = tools.last_mut().expect("a tool's name comes first");
        match line.split_once(": ") {
            Some(("act", act)) => tool.act = act.into(),
            Some(("tries", tries)) => tool.tries = tries.parse().expect("a number"),
            Some(("shows", pattern)) => tool.shows.push(pattern.into()),
            Some((kernel, refusal)) => {
                let kernel = KERNELS.into_iter().find(|known| *known == kernel).unwrap_or_else(|| panic!("{line}"));
                let (says, reason) = refusal.split_once(" | ").unwrap_or_else(|| panic!("no reason: {line}"));
                tool.refused.insert(kernel, (says.into(), reason.into()));
            }
            None if line == "waits" => tool.waits = true,
            None if line == "once" => tool.once = true,
            None => panic!("not understood: {line}"),
        }
    }
    tools
}

/// The table of the page, generated from the entries.
pub fn page(tools: &[Tool]) -> String {
    let lines = tools.iter().map(|tool| {
        let cell = |kernel| tool.refused.get(kernel).map_or("works", |(_, reason)| reason.as_str());
        let [native, old, new] = KERNELS.map(cell);
        let sees = if tool.shows.is_empty() { "–".into() } else { format!("`{}`", tool.act.replace('|', "\\|")) };
        let since = if tool.since == FIRST { String::new() } else { format!(" since {}", tool.since) };
        format!("| {}{since} | {sees} | {native} | {old} | {new} |\n", tool.name)
    });
    std::iter::once("| tool | sees | 6.18 | 6.1 | 6.12 |\n|---|---|---|---|---|\n".to_string()).chain(lines).collect()
}

/// Replaces each `{name}` by its value.
pub fn fill(pattern: &str, values: &BTreeMap<String, String>) -> String {
    values.iter().fold(pattern.to_string(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

/// Whether a line contains a pattern: `*` matches anything, one space matches any number of spaces,
/// and a word does not begin or end within another word.
pub fn contains(line: &str, pattern: &str) -> bool {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let pattern = pattern.trim_matches(|c| c == '*' || c == ' ');
    let starts = line.char_indices().map(|(at, _)| at);
    starts.into_iter().any(|at| {
        let before = line[..at].chars().next_back();
        let is_start = !(is_word(before) && is_word(pattern.chars().next()));
        is_start && begins(&line[at..], pattern, pattern.chars().next_back())
    })
}

fn is_word(character: Option<char>) -> bool {
    character.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// Whether a text starts with a pattern; `last` is the pattern's last character.
fn begins(text: &str, pattern: &str, last: Option<char>) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return text.strip_prefix(pattern).is_some_and(|after| !(is_word(after.chars().next()) && is_word(last)));
    };
    let Some(after) = text.strip_prefix(head) else { return false };
    after.char_indices().any(|(at, _)| begins(&after[at..], rest, last))
}

#[test]
fn patterns_stand_for_whole_words() {
    assert!(contains("12   workload  a/b 0", "workload * 0"));
    assert!(contains("12 workload", "12 work*ad"));
    assert!(!contains("112 workload", "12 workload"));
    assert!(!contains("12 workload", "12 work"));
    assert!(contains("@[workload]: 5", "@[workload]: *"));
    assert!(contains("[8K, 16K)    1 |@@@@@|", "[8K, 16K) * |@"));
}
