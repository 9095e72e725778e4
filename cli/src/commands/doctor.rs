//! `profiler doctor`: what this kernel and this user's privileges allow; `profiler doctor SCRIPT`:
//! why a script shows nothing.
//!
//! In: its arguments. Out: a table, or a JSON document, on standard output.
//! Guarantee: both forms have the same exit codes: 0 if all is well, 3 if something required is
//! missing or refused, 4 if something was lost, 5 if no probe fired or no filter let anything
//! through.

mod page;
mod script;

use profiler_output::json;
use std::io::{Write as _, stdout};

use crate::doctor::{Row, Section, State, examine};

use super::args::DoctorArguments;
use super::exit::{Failure, OK, REFUSED};
use page::Page;

/// Examines the machine, or a script.
pub(super) fn doctor(arguments: &DoctorArguments) -> Result<u8, Failure> {
    match &arguments.script {
        Some(script) => script::doctor(script, arguments),
        None => machine(arguments.json),
    }
}

fn machine(as_json: bool) -> Result<u8, Failure> {
    let sections = examine();
    show(&if as_json { document(&sections) } else { table(&sections, Page::of_standard_output()) })?;
    let broken = sections.iter().flat_map(|section| &section.rows).any(|row| row.state == State::Broken);
    Ok(if broken { REFUSED } else { OK })
}

fn show(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Failure::output("standard output", &error))
}

fn table(sections: &[Section], mut page: Page) -> String {
    let rows = || sections.iter().flat_map(|section| &section.rows);
    let width = rows().map(|row| row.name.chars().count()).max().unwrap_or(0);
    for section in sections {
        page.title(&format!("{}: {}", section.title, section.about));
        page.rows(&section.rows, width);
    }
    let count = |state| rows().filter(|row| row.state == state).count();
    let (works, missing, broken) = (count(State::Works), count(State::Missing), count(State::Broken));
    page.title(&format!("{works} ok, {missing} missing, {broken} failed"));
    page.text()
}

fn document(sections: &[Section]) -> String {
    let section = |section: &Section| {
        let rows: Vec<String> = section.rows.iter().map(row).collect();
        format!("{}: [{}]", json::quoted(section.title), rows.join(", "))
    };
    let sections: Vec<String> = sections.iter().map(section).collect();
    format!("{{\"type\": \"doctor\", \"data\": {{{}}}}}\n", sections.join(", "))
}

fn row(row: &Row) -> String {
    let (name, finding) = (json::quoted(row.name), json::quoted(&row.finding));
    let (state, advice) = (state(row.state), row.advice.as_deref().map_or("null".to_owned(), json::quoted));
    format!("{{\"name\": {name}, \"state\": \"{state}\", \"finding\": {finding}, \"advice\": {advice}}}")
}

fn state(state: State) -> &'static str {
    match state {
        State::Works => "works",
        State::Missing => "missing",
        State::Broken => "broken",
    }
}
