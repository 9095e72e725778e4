//! `profiler doctor`: what this kernel and this user's rights allow; `profiler doctor SCRIPT`: why a script shows nothing.
//!
//! In: its arguments. Out: a table, or a JSON document, on standard output.
//! Guarantee: the exit code says what it comes to, in both forms alike: 0 when all is well, 3 when something that is needed is missing or
//! refused, 4 when something was lost, 5 when no probe fired or no filter let anything through.

mod page;
mod script;

use std::io::{Write as _, stdout};

use profiler_runtime::doctor::{Row, Section, State, examine};
use profiler_runtime::render::json;

use super::args::DoctorArguments;
use super::exit::{Failure, OK, REFUSED};
use page::Page;

/// Examines the machine, or a script.
pub fn doctor(arguments: &DoctorArguments) -> Result<u8, Failure> {
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
    let verb = |count: usize| if count == 1 { "is" } else { "are" };
    page.title(&format!("{works} work, {missing} {} missing here, {broken} {} broken", verb(missing), verb(broken)));
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
