//! `profiler doctor`: what this kernel and this user's rights allow.
//!
//! In: whether JSON is wanted. Out: a table, or a JSON document, on standard output.
//! Guarantee: exit code 0 when all that most scripts need works, 3 when not.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _, stdout};

use profiler_runtime::doctor::{Row, Section, State, examine};
use profiler_runtime::render::json;

use super::exit::{Failure, OK, REFUSED};

/// Examines the machine.
pub fn doctor(as_json: bool) -> Result<u8, Failure> {
    let sections = examine();
    let text = if as_json { document(&sections) } else { table(&sections, colours()) };
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::output("standard output", &error))?;
    let broken = sections.iter().flat_map(|section| &section.rows).any(|row| row.state == State::Broken);
    Ok(if broken { REFUSED } else { OK })
}

/// Green, yellow and red where a terminal shows them.
fn colours() -> bool {
    stdout().is_terminal() && super::colours_allowed()
}

fn table(sections: &[Section], coloured: bool) -> String {
    let rows = || sections.iter().flat_map(|section| &section.rows);
    let width = rows().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for section in sections {
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "{}: {}", section.title, section.about);
        let mut advised = None;
        for row in &section.rows {
            text.push_str(&line(row, width, coloured));
            // Said once for rows that follow each other.
            let advice = row.advice.as_deref();
            if let Some(advice) = advice.filter(|advice| advised != Some(*advice)) {
                let _ = writeln!(text, "{:indent$}{advice}", "", indent = width + 10);
            }
            advised = advice;
        }
    }
    let count = |state| rows().filter(|row| row.state == state).count();
    let (works, missing, broken) = (count(State::Works), count(State::Missing), count(State::Broken));
    let _ = writeln!(text, "\n{works} work, {missing} are missing here, {broken} are broken");
    text
}

fn line(row: &Row, width: usize, coloured: bool) -> String {
    let (word, colour) = mark(row.state);
    let word = if coloured { format!("\x1b[{colour}m{word:<4}\x1b[0m") } else { format!("{word:<4}") };
    format!("  {word}  {:<width$}  {}\n", row.name, row.finding)
}

/// The word of a state, and its colour.
fn mark(state: State) -> (&'static str, u8) {
    match state {
        State::Works => ("ok", 32),
        State::Missing => ("--", 33),
        State::Broken => ("FAIL", 31),
    }
}

fn document(sections: &[Section]) -> String {
    let row = |row: &Row| {
        let state = match row.state {
            State::Works => "works",
            State::Missing => "missing",
            State::Broken => "broken",
        };
        let (name, finding) = (json::quoted(row.name), json::quoted(&row.finding));
        let advice = row.advice.as_deref().map_or("null".to_owned(), json::quoted);
        format!("{{\"name\": {name}, \"state\": \"{state}\", \"finding\": {finding}, \"advice\": {advice}}}")
    };
    let section = |section: &Section| {
        let rows: Vec<String> = section.rows.iter().map(row).collect();
        format!("{}: [{}]", json::quoted(section.title), rows.join(", "))
    };
    let sections: Vec<String> = sections.iter().map(section).collect();
    format!("{{\"type\": \"doctor\", \"data\": {{{}}}}}\n", sections.join(", "))
}
