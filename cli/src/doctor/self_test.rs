//! Probe self-test: attach, trigger, wait for the event.
//!
//! In: a script that ends at its first event, and a function that triggers the event. Out: the
//! latency of the event, or why it did not arrive.
//! Guarantee: returns within [`PATIENCE`] after attaching and leaves nothing attached.

use std::cell::Cell;
use std::time::{Duration, Instant};

use profiler_compiler::CATALOGUE;
use profiler_compiler::check::Options;
use profiler_compiler::compile::compile;
use profiler_compiler::source::Source;

use super::recording::RecordingRenderer;
use profiler_runtime::host::Host;
use profiler_runtime::session::{self, RunError, RunOptions};
use profiler_runtime::symbols::HostSymbols;

/// Time limit for an event to arrive.
const PATIENCE: Duration = Duration::from_millis(500);

/// Why no event arrived.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The compiler rejected the probe for this kernel: its message.
    Refused(String),
    /// Loading or attaching failed.
    Kernel(RunError),
    /// Everything succeeded, but no event arrived.
    Silence,
}

/// Runs `script` until its first event, which `trigger` causes once the probes are attached.
/// `is_for_process`: only for this process.
pub(super) fn run(host: &Host, script: &str, is_for_process: bool, trigger: &dyn Fn()) -> Result<Duration, Stopped> {
    let pid = is_for_process.then(std::process::id);
    let options = Options { pids: pid.into_iter().collect(), ..Options::default() };
    let compiled = compile(&Source::new("doctor", script), &CATALOGUE, host, &options);
    let object = compiled.map_err(|diagnostics| {
        let first = diagnostics.iter().find(|diagnostic| diagnostic.is_error());
        Stopped::Refused(first.map_or_else(String::new, |diagnostic| diagnostic.message.clone()))
    })?;
    let attached = Cell::new(None);
    let when_attached = || {
        attached.set(Some(Instant::now()));
        trigger();
    };
    let mut renderer = RecordingRenderer::default();
    let options = RunOptions {
        quiet: true,
        duration: Some(PATIENCE),
        when_attached: Some(&when_attached),
        ..RunOptions::default()
    };
    session::run(&object.object, &CATALOGUE, options, &mut renderer, &HostSymbols::new()).map_err(Stopped::Kernel)?;
    let heard = renderer.heard.ok_or(Stopped::Silence)?;
    // Output of `BEGIN` arrives before the probes are attached.
    Ok(attached.get().map_or(Duration::ZERO, |attached| heard.saturating_duration_since(attached)))
}
