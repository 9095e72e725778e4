//! What this kernel and this user's rights allow, row by row, each found by really doing it.
//!
//! In: the machine. Out: [`Section`]s of [`Row`]s, for people or for JSON.
//! Guarantee: a probe's row is `Works` only when its program was loaded and attached, was made to fire, and its event came through
//! the ring buffer; nothing stays loaded or attached.

mod canary;
mod counted;
mod ear;
mod filters;
mod findings;
mod machine;
mod needs;
mod probes;
mod process;
mod remarks;
mod report;
mod store;
mod visit;
mod watched;

use crate::host::Host;

pub use findings::{Finding, Kind, shown};
pub use report::{Probe, Report, Verdict};
pub use visit::{Subject, visit};

/// What a row says that failed for want of a privilege.
const NOT_PERMITTED: &str = "not permitted";

/// How a row came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It was seen to work.
    Works,
    /// It does not; most scripts do without.
    Missing,
    /// It does not, and nothing or little works without it.
    Broken,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What was tried.
    pub name: &'static str,
    /// How it came out.
    pub state: State,
    /// What was seen, in words.
    pub finding: String,
    /// What to do, or to use instead, when it does not work.
    pub advice: Option<String>,
}

impl Row {
    fn works(name: &'static str, finding: impl Into<String>) -> Row {
        Row { name, state: State::Works, finding: finding.into(), advice: None }
    }

    fn fails(name: &'static str, state: State, finding: impl Into<String>, advice: &str) -> Row {
        let advice = (!advice.is_empty()).then(|| advice.to_owned());
        Row { name, state, finding: finding.into(), advice }
    }
}

/// Rows that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// What they are about, in a word or two.
    pub title: &'static str,
    /// How it was found.
    pub about: &'static str,
    /// The findings.
    pub rows: Vec<Row>,
}

/// Examines everything: some twenty small programs are loaded and attached one after the other.
pub fn examine() -> Vec<Section> {
    let host = Host::new();
    vec![
        Section {
            title: "machine",
            about: "what the kernel says of itself and of this process",
            rows: machine::rows(&host),
        },
        Section {
            title: "probes",
            about: "each loaded, attached, made to fire, and its event received",
            rows: probes::rows(&host),
        },
        Section {
            title: "maps and helpers",
            about: "each made, or verified in a program, and removed",
            rows: store::rows(),
        },
    ]
}

/// What the machine or this user's rights lack, of all that scripts may need.
pub fn lacking() -> Vec<Row> {
    machine::rows(&Host::new()).into_iter().filter(|row| row.state != State::Works).collect()
}

/// The names of the capabilities without which nothing is loaded or attached, as far as this process lacks them.
pub fn lacking_to_load() -> Vec<&'static str> {
    machine::lacking_to_load()
}

/// What is wrong with the process of `-p`, if anything.
pub fn wrong_process(pid: u32) -> Option<Finding> {
    process::examine(&filters::Wanted::Process(pid, format!("-p {pid}")))
}
