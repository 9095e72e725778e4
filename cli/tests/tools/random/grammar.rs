//! The grammar of random scripts: what all versions of bpftrace share, and what only one has.
//!
//! In: a version. Out: its rules.
//! Guarantee: what the rules make ends by itself, attaches nothing, and prints the same in each
//! run. Nothing is made that the version and ours define differently (spec/bpftrace-tools.md).
//!
//! A rule is a line with its name, and below it its rows, of which one is taken: `3 * row` three
//! times as often. Three blanks separate rows; in `NAME = a b`, one does. In a row, a name in
//! capitals is a rule, `$NAME` a variable of that kind, `$NEW_NAME` a new one, `#` a number that
//! no other row has, and a row `1..9` is a number from 1 to 8. A number after a name is how deep
//! its rows may nest; where the depth ends, only rows above `--` are taken. These names are no
//! rules: STATEMENTS, a sequence of STATEMENT; PRINTF, a `printf` of one to four PART, each a
//! format and its value; SAME, the text of the KEYED before it.

use std::collections::BTreeMap;

use super::{expression, statement};

/// The version whose language a script is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    V17,
    Current,
}

/// The rows of a name.
#[derive(Debug, Default)]
pub struct Rule {
    /// How deep its rows may nest. `None`: as deep as the row that names it.
    pub depth: Option<u32>,
    /// The rows that remain where the depth ends.
    pub leaves: Vec<&'static str>,
    /// All rows, each as often as its weight.
    pub rows: Vec<&'static str>,
}

/// The rules by their names.
pub type Grammar = BTreeMap<&'static str, Rule>;

/// The rules of a version.
pub fn of(since: Since) -> Grammar {
    let mut grammar = Grammar::new();
    let own =
        if since == Since::V17 { [expression::V17, statement::V17] } else { [expression::CURRENT, statement::CURRENT] };
    for text in [expression::BOTH, statement::BOTH].into_iter().chain(own) {
        read(text, &mut grammar);
    }
    grammar
}

fn read(text: &'static str, grammar: &mut Grammar) {
    let (mut name, mut are_leaves) = ("", true);
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (line.strip_prefix("    "), line.split_once(" = ")) {
            (Some("--"), _) => are_leaves = false,
            (Some(rows), _) => {
                for row in rows.split("   ") {
                    let weighted = row.split_once(" * ").and_then(|(weight, row)| Some((weight.parse().ok()?, row)));
                    let (weight, row) = weighted.unwrap_or((1, row));
                    add(grammar.entry(name).or_default(), &vec![row; weight], are_leaves);
                }
            }
            (None, Some((name, rows))) => {
                add(grammar.entry(name).or_default(), &rows.split(' ').collect::<Vec<_>>(), true);
            }
            (None, None) => {
                let (of, depth) = line.split_once(' ').map_or((line, None), |(name, depth)| (name, depth.parse().ok()));
                (name, are_leaves) = (of, true);
                let rule = grammar.entry(name).or_default();
                rule.depth = rule.depth.or(depth);
            }
        }
    }
}

fn add(rule: &mut Rule, rows: &[&'static str], are_leaves: bool) {
    rule.rows.extend(rows);
    if are_leaves {
        rule.leaves.extend(rows);
    }
}
