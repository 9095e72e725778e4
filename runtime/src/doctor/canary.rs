//! A script that waits for one event, and the deed that causes it.
//!
//! In: a script whose first event ends it, and a deed of this process. Out: how long the event took to come, or what stopped it.
//! Guarantee: ends within [`PATIENCE`] and leaves nothing attached.

use std::cell::Cell;
use std::time::{Duration, Instant};

use profiler_compiler::CATALOGUE;
use profiler_compiler::check::Options;
use profiler_compiler::compile::compile;
use profiler_compiler::source::Source;

use super::ear::Ear;
use crate::host::Host;
use crate::session::{self, RunError, RunOptions};
use crate::symbols::HostSymbols;

/// How long an event may take to come.
const PATIENCE: Duration = Duration::from_millis(500);

/// What stopped an event.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The compiler knows that it cannot be here: its words.
    Refused(String),
    /// Loading or attaching failed.
    Kernel(RunError),
    /// Everything went well, and nothing came.
    Silence,
}

/// Runs `script` until its first event, which `deed` causes once the probes are attached.
pub(super) fn sing(host: &Host, script: &str, deed: &dyn Fn()) -> Result<Duration, Stopped> {
    // A watchpoint in user space wants a process; other probes are then for this one alone.
    let pid = script.starts_with("watchpoint").then(std::process::id);
    let options = Options { pid, ..Options::default() };
    let compiled = compile(&Source::new("doctor", script), &CATALOGUE, host, &options);
    let object = compiled.map_err(|diagnostics| {
        let first = diagnostics.iter().find(|diagnostic| diagnostic.is_error());
        Stopped::Refused(first.map_or_else(String::new, |diagnostic| diagnostic.message.clone()))
    })?;
    let attached = Cell::new(None);
    let when_attached = || {
        attached.set(Some(Instant::now()));
        deed();
    };
    let mut ear = Ear::default();
    let options = RunOptions {
        quiet: true,
        duration: Some(PATIENCE),
        when_attached: Some(&when_attached),
        ..RunOptions::default()
    };
    session::run(&object.object, options, &mut ear, &HostSymbols::new()).map_err(Stopped::Kernel)?;
    let heard = ear.heard.ok_or(Stopped::Silence)?;
    // What `BEGIN` says comes before the probes are attached.
    Ok(attached.get().map_or(Duration::ZERO, |attached| heard.saturating_duration_since(attached)))
}
