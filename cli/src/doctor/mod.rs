//! Tests what this kernel and this user's privileges allow, by actually doing it.
//!
//! In: the machine. Out: [`Section`]s of [`Row`]s, for text or JSON output.
//! Guarantee: a probe's row is `Works` only if its program was loaded, attached and triggered, and
//! its event arrived through the ring buffer; nothing stays loaded or attached.

mod counted;
mod filters;
mod findings;
mod machine;
mod needs;
mod probes;
mod process;
mod recording;
mod remarks;
mod report;
mod self_test;
mod store;
mod visit;
mod watched;

use profiler_runtime::host::Host;

pub use findings::{Finding, Kind, shown};
pub use report::{Probe, Report, Verdict};
pub use visit::{Subject, visit};

/// Text of a row that failed for lack of privilege.
const NOT_PERMITTED: &str = "not permitted";

/// Result of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It was observed to work.
    Works,
    /// It does not work; most scripts do not need it.
    Missing,
    /// It does not work, and little or nothing works without it.
    Broken,
}

/// One test result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What was tested.
    pub name: &'static str,
    /// The result.
    pub state: State,
    /// What was observed, in words.
    pub finding: String,
    /// Advice or an alternative, if it does not work.
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

/// A group of related rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its subject, in a word or two.
    pub title: &'static str,
    /// How it was tested.
    pub about: &'static str,
    /// The test results.
    pub rows: Vec<Row>,
}

/// Tests everything: about twenty small programs are loaded and attached one after the other.
pub fn examine() -> Vec<Section> {
    let host = Host::new();
    vec![
        Section {
            title: "machine",
            about: "what the kernel reports about itself and this process",
            rows: machine::rows(&host),
        },
        Section {
            title: "probes",
            about: "each loaded, attached, triggered, and its event received",
            rows: probes::rows(&host),
        },
        Section {
            title: "maps and helpers",
            about: "each created, or verified in a program, and removed",
            rows: store::rows(),
        },
    ]
}

/// What scripts may need and the machine or this user's privileges lack.
pub fn lacking() -> Vec<Row> {
    machine::rows(&Host::new()).into_iter().filter(|row| row.state != State::Works).collect()
}

/// The names of the capabilities that loading and attaching need and that this process lacks.
pub fn lacking_to_load() -> Vec<&'static str> {
    machine::lacking_to_load()
}

/// What is wrong with the process of `-p`, if anything.
pub fn wrong_process(pid: u32) -> Option<Finding> {
    process::examine(&filters::ProcessFilter::Process(pid, format!("-p {pid}")))
}
