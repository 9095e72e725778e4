//! One run of a script: load, begin, attach, collect, end.
//!
//! In: an object, a renderer, names for addresses. Out: results through the renderer, and the exit status.
//! Guarantee: nothing stays attached, whatever ends the run; what was not shown was counted.

mod collect;
mod finish;
mod obey;
mod options;
mod outcome;
mod progress;
mod start;
mod trials;
mod views;

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::time::Instant;

use profiler_compiler::object::{Attach, Object, Program};
use profiler_compiler::value::Symbols;

use crate::actions::Actions;
use crate::child::Child;
use crate::load::{LoadOptions, Loaded, load_with};
use crate::maps::carry::Estate;
use crate::orders::Orders;
use crate::params::Values;
use crate::render::Render;
use crate::ring::Rings;
use crate::symbols::counting::Counting;
use crate::sys::poll;
use crate::sys::ring::MappedRing;
use crate::sys::signal::{Counter, Signals};
use crate::sys::stats::Measuring;
use crate::tables::Tables;
use crate::windows::Windows;

pub use collect::act;
pub use options::{Mode, Prepare, RunOptions};
pub use outcome::{Outcome, RunError};

use outcome::system;

/// Runs an object to its end.
pub fn run(
    object: &Object,
    mut options: RunOptions,
    render: &mut dyn Render,
    symbols: &dyn Symbols,
) -> Result<Outcome, RunError> {
    let has_trials = object.programs.iter().any(|program| program.attach.is_trial());
    if options.mode == Mode::Trace && has_trials && traced(object).next().is_none() {
        return Err(RunError::NoTrials(options.mode));
    }
    let target = options.pid.map(|pid| poll::pidfd(pid).map_err(|_| RunError::NoProcess(pid))).transpose()?;
    let signals = match options.orders {
        Some(_) => None,
        None => Some(Signals::listen().map_err(system("listening for signals"))?),
    };
    let values = options.values.take().unwrap_or_else(|| Values::of(object));
    let loaded = load_with(object, &values, LoadOptions::default()).map_err(RunError::Load)?;
    if let Some(prepare) = options.when_loaded {
        prepare(&loaded).map_err(system("carrying over what maps held"))?;
    }
    let tables = Tables { object, loaded: &loaded, cut_strings: Cell::default() };
    let (allow_unsafe, locate) = (options.allow_unsafe, options.locate);
    let measuring = options.stats.then(Measuring::start).transpose().map_err(system("measuring the programs"))?;
    let unnamed = Cell::new(0);
    let symbols = &Counting::new(symbols, &unnamed);
    if !options.dry_run && object.has_user_addresses() {
        symbols.record_processes(options.pid);
    }
    let actions = Actions {
        object,
        loaded: &loaded,
        tables: &tables,
        symbols,
        render,
        allow_unsafe,
        locate,
        no_warnings: options.no_warnings,
        exit: None,
        unwatched: Vec::new(),
        failure: None,
    };
    let follows_size = options.orders.is_none()
        && object.views.iter().any(|view| view.every.is_some())
        && actions.render.follows_size();
    let on_signal = object.programs.iter().any(|program| program.attach == Attach::Signal);
    let mut session = Session {
        rings: open_rings(object, &loaded).map_err(system("mapping the ring buffers"))?,
        received: vec![0; object.programs.len()],
        output_failure: None,
        reported: 0,
        report_due: Instant::now(),
        progress_due: None,
        map_bytes: 0,
        child: options.child.take(),
        signals,
        windows: Windows::new(object).map_err(system("preparing windows"))?,
        measuring,
        unnamed: &unnamed,
        orders: options.orders.take(),
        is_stopped: false,
        heir: None,
        user_signal: on_signal.then(Counter::of_user_signals).transpose().map_err(system("listening for SIGUSR1"))?,
        resizes: follows_size.then(Counter::of_resizes).transpose().map_err(system("listening for SIGWINCH"))?,
        target,
        actions,
    };
    if options.mode != Mode::Trace {
        return session.try_out(&options);
    }
    if options.dry_run {
        return session.dry_run(&options);
    }
    let links = session.start(&options)?;
    session.finish(links, &options)
}

fn open_rings(object: &Object, loaded: &Loaded) -> io::Result<Rings<MappedRing>> {
    let longest = object.events.iter().map(|event| event.max_size_bytes).max().unwrap_or(0);
    let open = |name: &Option<String>| name.as_deref().map(|name| loaded.ring(name, longest)).transpose();
    Ok(Rings::new(open(&object.data_ring)?, open(&object.control_ring)?))
}

/// The programs that are neither tests nor benchmarks.
fn traced(object: &Object) -> impl Iterator<Item = &Program> {
    object.programs.iter().filter(|program| !program.attach.is_trial())
}

/// A loaded object at work.
struct Session<'a> {
    rings: Rings<MappedRing>,
    actions: Actions<'a>,
    received: Vec<u64>,
    /// Why results can no longer be written: nobody reads them any more, or there is no room.
    output_failure: Option<io::Error>,
    /// Lost records that the renderer was told of.
    reported: u64,
    report_due: Instant,
    child: Option<Child>,
    signals: Option<Signals>,
    orders: Option<Orders>,
    /// By order: nothing more is to be printed.
    is_stopped: bool,
    /// By order: who gets what the maps hold once nothing is attached.
    heir: Option<Sender<Vec<Estate>>>,
    /// SIGUSR1, when the script has a probe for it.
    user_signal: Option<Counter>,
    /// Changes of the terminal's size, when something is drawn that follows it.
    resizes: Option<Counter>,
    target: Option<OwnedFd>,
    /// When views are shown.
    windows: Windows,
    /// While it is open, the kernel measures what programs cost.
    measuring: Option<Measuring>,
    /// When the renderer is told next how far it is.
    progress_due: Option<Instant>,
    /// What the maps took when it began.
    map_bytes: u64,
    /// Addresses that were shown without a name.
    unnamed: &'a Cell<u64>,
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
