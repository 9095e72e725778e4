//! The shelves of the standard library: what each recipe says about a load that knows the truth.
//!
//! In: a table for each shelf: a recipe, a load of `workload`, and the cells of the recipe's tables
//! or the lines that it prints. Out: the same from `profiler`.
//! Guarantee: all of it holds at any load of the machine: counts are exact, and times are between
//! two that the load knows. A run in which nothing happens says so for each table.

mod bystanders;
mod cpu;
mod db;
mod dns;
mod every;
mod host;
mod io;
mod lock;
mod mem;
mod net;
mod pool;
mod proc;
mod programs;
mod rare;
mod runtime;
mod sched;
mod syscall;
mod windows;

use serde_json::Value;

use super::machine::run;
use super::recipes::{Outcome, is_between};

/// What a cell must be.
#[derive(Clone, Copy)]
pub enum Is {
    Text(&'static str),
    Number(f64),
    /// The number of this name that the load printed.
    Truth(&'static str),
    /// A time: the load knows one that is part of it, and one that contains it.
    Between(&'static str, &'static str),
    AtLeast(&'static str),
    AtMost(&'static str),
    /// At least this number.
    Above(f64),
    /// At most this number.
    Below(f64),
    /// No value.
    Nothing,
}

/// A row of a view, and its cells.
pub struct Row<'a> {
    pub view: &'a str,
    /// Columns that together identify the row. A value `=NAME` is a number that the load printed.
    pub keys: &'a [(&'a str, &'a str)],
    pub cells: &'a [(&'a str, Is)],
}

/// What a recipe must say about a load.
pub struct Case<'a> {
    pub load: &'a str,
    /// The recipe and its arguments; `PID` stands for the load's process.
    pub recipe: &'a [&'a str],
    pub rows: &'a [Row<'a>],
    /// How many printed lines contain all of these texts.
    pub lines: &'a [(&'a [&'a str], usize)],
}

impl Case<'_> {
    /// Runs the recipe on the load.
    pub fn check(&self) -> Outcome {
        let outcome = Outcome::run(self.load, self.recipe);
        for (texts, count) in self.lines {
            let lines = printed(&outcome, texts).len();
            assert_eq!(lines, *count, "{:?}: lines with {texts:?}\n{}", self.recipe, outcome.text);
        }
        for row in self.rows {
            let found = find(&outcome, row.view, row.keys);
            for (column, is) in row.cells {
                let fault = cell(&outcome, &found[*column], *is);
                assert!(fault.is_none(), "{:?}: {}: {column}: {fault:?}\n{}", self.recipe, row.view, outcome.text);
            }
        }
        outcome
    }
}

/// The lines that a recipe printed and that contain all of these texts.
pub fn printed<'a>(outcome: &'a Outcome, texts: &[&str]) -> Vec<&'a str> {
    let lines = outcome.text.lines().filter(|line| line.starts_with("{\"type\": \"printf\""));
    lines.filter(|line| texts.iter().all(|text| line.contains(text))).collect()
}

/// The first row of a view with these keys.
pub fn find<'a>(outcome: &'a Outcome, view: &str, keys: &[(&str, &str)]) -> &'a Value {
    let is_key = |found: &Value, (column, key): &(&str, &str)| {
        let value = &found[*column];
        let number = key.strip_prefix('=').map(|name| outcome.truth(name)).or_else(|| key.parse().ok());
        value == key || number.is_some() && value.as_f64() == number
    };
    let found = outcome.rows(view).iter().find(|found| keys.iter().all(|key| is_key(found, key)));
    found.unwrap_or_else(|| panic!("{view}: no row {keys:?}\n{}", outcome.text))
}

/// Why a cell is wrong.
fn cell(outcome: &Outcome, value: &Value, is: Is) -> Option<String> {
    let number = value.as_f64().unwrap_or(f64::NAN);
    let (is_right, wanted) = match is {
        Is::Text(text) => (value == text, text.to_owned()),
        Is::Number(wanted) => (value.as_f64() == Some(wanted), wanted.to_string()),
        Is::Truth(name) => (value.as_f64() == Some(outcome.truth(name)), outcome.truth(name).to_string()),
        Is::Between(least, most) => {
            let (least, most) = (outcome.truth(least), outcome.truth(most));
            (is_between(number, least, most), format!("{least} to {most}"))
        }
        Is::AtLeast(name) => (number >= outcome.truth(name), format!("{} or more", outcome.truth(name))),
        Is::AtMost(name) => (number <= outcome.truth(name), format!("{} or less", outcome.truth(name))),
        Is::Above(wanted) => (number >= wanted, format!("{wanted} or more")),
        Is::Below(wanted) => (number <= wanted, format!("{wanted} or less")),
        Is::Nothing => (value.is_null(), "nothing".to_owned()),
    };
    (!is_right).then(|| format!("{value} for {wanted}"))
}

/// A name that no thread has.
pub const NOBODY: &[&str] = &["--comm", "^nobody-has-this-name$"];

/// Runs a recipe that sees nothing, and says so in one sentence instead of tables without rows.
pub fn says_in_words(recipe: &str, arguments: &[&str], sentence: &str) {
    let ended = run(&[&["-q", recipe, "--duration", "20ms"], arguments].concat());
    assert_eq!(ended.code(), 0, "{recipe}: {}", ended.stderr);
    assert_eq!(ended.stdout, format!("{sentence}\n"), "{recipe}: {}", ended.stderr);
}

/// Runs a recipe that sees nothing, and says so in sentences: each of the texts is a line of its
/// output, or the title of a view whose sentence is.
pub fn says_nothing(recipe: &str, arguments: &[&str], texts: &[&str]) {
    let ended = run(&[&["-q", recipe, "--duration", "20ms"], arguments].concat());
    assert_eq!(ended.code(), 0, "{recipe}: {}", ended.stderr);
    assert!(!ended.stdout.contains("(no rows)"), "{recipe}: {}", ended.stdout);
    let machine = run(&[&["-q", "-f", "json", recipe, "--duration", "20ms"], arguments].concat());
    let outcome = Outcome::read(machine.stdout);
    for text in texts.iter().filter(|text| ended.lines(text) == 0) {
        let document = outcome.document("view", "view", text);
        let sentence = document["empty"].as_str().unwrap_or_else(|| panic!("{recipe}: {text}\n{}", ended.stdout));
        let is_said = sentence.is_empty() || ended.lines(sentence) == 1;
        assert!(is_said && document["rows"] == Value::Array(Vec::new()), "{recipe}: {text}\n{}", ended.stdout);
    }
}
