//! One run of a script: load, `begin`, attach, collect, `end`.
//!
//! In: an object, an output, symbol names for addresses. Out: results through the output, and the
//! exit status.
//! Guarantee: nothing stays attached, however the run ends; what was not shown was counted.

mod collect;
mod control;
mod finish;
mod gate;
mod handlers;
mod options;
mod outcome;
mod progress;
mod samples;
mod skipped;
mod sources;
mod start;
mod targets;
mod trials;
mod unseen;
mod views;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::Sender;
use std::time::Instant;

use profiler_model::object::{Attach, Object, Program};
use profiler_model::output::Output;
use profiler_model::results::Vocabulary;
use profiler_model::value::Symbols;

use crate::actions::Actions;
use crate::attach::trap::Traps;
use crate::ledger::Account;
use crate::load::{LoadOptions, Loaded, load_with};
use crate::maps::handover::SavedMap;
use crate::memory;
use crate::packets::{PacketFiles, PacketReader};
use crate::params::Values;
use crate::ring::Rings;
use crate::symbols::counting::{Counting, Counts};
use crate::sys::ring::MappedRing;
use crate::sys::signal::{Counter, Signals};
use crate::sys::stats::Measuring;
use crate::tables::Tables;
use crate::timers::Ticks;
use crate::turns::Turns;
use crate::unwind::Unwinder;
use crate::windows::Windows;

use gate::Gate;

pub use handlers::Handlers;
pub use options::{Mode, Prepare, RunOptions};
pub use outcome::{Outcome, RunError};

use outcome::system;
use sources::EventSources;
use targets::Targets;

/// Loads an object, or one with separate programs, which it returns, if they are too much for one.
fn load_in_parts(
    object: &Object,
    values: &Values,
    options: &RunOptions,
    ends_at_signals: bool,
) -> Result<(Option<Object>, Loaded), RunError> {
    // libbpf restarts a program load that a signal interrupts, and verification may take a minute.
    // Nothing of the script has run yet, so a signal may end the process at once.
    let load = |object: &Object| {
        let load = || load_with(object, values, LoadOptions::default());
        if ends_at_signals { Signals::ending_at_once(load) } else { load() }
    };
    match load(object) {
        Err(error) if error.is_too_much_in_one_program(object) => {
            let separate = options.separately.and_then(|make| make()).ok_or(RunError::Load(error))?;
            let loaded = load(&separate).map_err(RunError::Load)?;
            Ok((Some(separate), loaded))
        }
        loaded => Ok((None, loaded.map_err(RunError::Load)?)),
    }
}

/// What a run takes at least, in bytes: of a small script, and with the unwind tables and names of
/// user stacks.
const LEAST_BYTES: u64 = 4 << 20;
const LEAST_WITH_STACKS_BYTES: u64 = 32 << 20;

/// Whether there is enough memory for a run, which would otherwise end without results: the kernel
/// kills a process that touches a page more than its control group may have.
fn check_memory(object: &Object, available_bytes: Option<u64>) -> Result<(), RunError> {
    let needed_bytes = if object.unwinding.is_some() { LEAST_WITH_STACKS_BYTES } else { LEAST_BYTES };
    match available_bytes.filter(|bytes| *bytes < needed_bytes) {
        Some(available_bytes) => Err(RunError::Memory { available_bytes, needed_bytes }),
        None => Ok(()),
    }
}

/// Runs an object until the run ends. `vocabulary` has the words that the object refers to.
pub fn run(
    object: &Object,
    vocabulary: &dyn Vocabulary,
    mut options: RunOptions,
    output: &mut dyn Output,
    symbols: &dyn Symbols,
) -> Result<Outcome, RunError> {
    let has_trials = object.programs.iter().any(|program| program.attach.is_trial());
    if options.mode == Mode::Trace && has_trials && traced(object).next().is_none() {
        return Err(RunError::NoTrials(options.mode));
    }
    let targets = check_memory(object, memory::available_bytes()).and_then(|()| Targets::open(&options.pids))?;
    let signals = match options.requests {
        Some(_) => None,
        None => Some(Signals::listen().map_err(system("listening for signals"))?),
    };
    let values = options.values.take().unwrap_or_else(|| Values::of(object));
    let (separate, loaded) = load_in_parts(object, &values, &options, signals.is_some())?;
    let object = separate.as_ref().unwrap_or(object);
    let handlers = Handlers::resolve(object, vocabulary).map_err(RunError::UnknownWord)?;
    if let Some(prepare) = options.when_loaded {
        prepare(&loaded).map_err(system("copying the contents of maps"))?;
    }
    let tables = Tables { object, vocabulary, loaded: &loaded, cut_strings: Cell::default(), turns: Turns::default() };
    let (allow_unsafe, locate) = (options.allow_unsafe, options.locate);
    // Measured before run-time statistics are enabled, because they add time to every program run.
    let traps = if options.stats { Traps::measure(object) } else { Traps::default() };
    let measuring = options.stats.then(Measuring::start).transpose().map_err(system("measuring the programs"))?;
    let counts = Counts::default();
    let alike = (!options.rows_apart).then_some(symbols);
    let symbols = &Counting::new(symbols, &counts);
    symbols.show_origins(object.config.show_debug_info);
    if !options.dry_run && object.has_user_addresses() {
        symbols.record_processes(&options.pids);
    }
    // The first events already need tables.
    let unwinder = start_unwinder((object, &values), &loaded, &options);
    let actions = Actions {
        object,
        loaded: &loaded,
        tables: &tables,
        symbols,
        alike,
        output,
        packets: if options.dry_run { PacketFiles::default() } else { create_packet_files(object)? },
        allow_unsafe,
        locate,
        no_warnings: options.no_warnings,
        escapes: options.escapes,
        has_spoken: false,
        exit: None,
        unwatched: Vec::new(),
        commands_left_out: 0,
        failure: None,
    };
    let follows_size = options.requests.is_none()
        && object.views.iter().any(|view| view.every.is_some())
        && actions.output.follows_size();
    let on_signal = object.programs.iter().any(|program| program.attach == Attach::Signal);
    let mut session = Session {
        packets: PacketReader::open(object, &loaded).map_err(system("making the buffers of packets"))?,
        rings: open_rings(object, &loaded).map_err(system("mapping the ring buffers"))?,
        handlers,
        received: vec![0; object.programs.len()],
        output_failure: None,
        reported: 0,
        report_due: Instant::now(),
        progress_due: None,
        map_bytes: 0,
        sources: EventSources {
            child: options.child.take(),
            targets,
            signals,
            requests: options.requests.take(),
            user_signal: on_signal
                .then(Counter::of_user_signals)
                .transpose()
                .map_err(system("listening for SIGUSR1"))?,
            resizes: follows_size.then(Counter::of_resizes).transpose().map_err(system("listening for SIGWINCH"))?,
            is_stopped: false,
        },
        windows: Windows::new(object).map_err(system("preparing windows"))?,
        accounted: BTreeMap::new(),
        ticks: None,
        measuring,
        traps,
        unwinder,
        counts: &counts,
        successor: None,
        values,
        gate: Gate::new(object, &loaded),
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

/// Starts to answer requests for unwind tables, unless nothing runs. Without answers, stacks say
/// so.
fn start_unwinder((object, values): (&Object, &Values), loaded: &Loaded, options: &RunOptions) -> Option<Unwinder> {
    let unwinding = object.unwinding.as_ref().filter(|_| !options.dry_run)?;
    let files = (options.unwind_cache.clone(), options.reader.clone());
    let expected = options.child.as_ref().map(|child| (child.pid(), crate::host::needed::files(child.program())));
    let named = [options.pids.as_slice(), &values.processes(object)].concat();
    Unwinder::start(unwinding, loaded, (&named, expected), files).ok()
}

fn open_rings(object: &Object, loaded: &Loaded) -> io::Result<Rings<MappedRing>> {
    let longest = object.events.iter().map(|event| event.max_size_bytes).max().unwrap_or(0);
    let open = |name: &Option<String>| name.as_deref().map(|name| loaded.ring(name, longest)).transpose();
    Ok(Rings::new(open(&object.data_ring)?, open(&object.control_ring)?))
}

fn create_packet_files(object: &Object) -> Result<PacketFiles, RunError> {
    PacketFiles::create(object).map_err(|(path, error)| RunError::Packets { path, error })
}

/// The programs that are neither tests nor benchmarks.
fn traced(object: &Object) -> impl Iterator<Item = &Program> {
    object.programs.iter().filter(|program| !program.attach.is_trial())
}

/// A loaded object while it runs.
struct Session<'a> {
    rings: Rings<MappedRing>,
    packets: Option<PacketReader>,
    /// The functions to which records belong.
    handlers: Handlers<'a>,
    actions: Actions<'a>,
    received: Vec<u64>,
    /// Why results can no longer be written: the reader closed the pipe, or the disk is full.
    output_failure: Option<io::Error>,
    /// Lost records already reported to the output.
    reported: u64,
    report_due: Instant,
    sources: EventSources,
    /// Set by a control command: receives the map contents once nothing is attached.
    successor: Option<Sender<Vec<SavedMap>>>,
    /// The values of the parameters.
    values: Values,
    /// Starts and stops counting of events.
    gate: Gate<'a>,
    /// The display times of the views, and their windows.
    windows: Windows,
    /// What was missing up to the end of the last window of each clock of views, by its first view.
    accounted: BTreeMap<usize, Account>,
    /// Up to when the ticks have run, once they have begun.
    ticks: Option<Ticks>,
    /// While it is open, the kernel measures the run time of programs.
    measuring: Option<Measuring>,
    /// The kernel's overhead around programs, while run times are measured.
    traps: Traps,
    /// Until the run has ended.
    unwinder: Option<Unwinder>,
    /// When the next progress report is due.
    progress_due: Option<Instant>,
    /// Memory of the maps in bytes at the start of the run.
    map_bytes: u64,
    /// Counts of addresses shown without a symbol name.
    counts: &'a Counts,
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
