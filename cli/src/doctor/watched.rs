//! Runs a script for a while and observes it.
//!
//! In: an object with counters in its blocks. Out: what the kernel, the blocks and the session
//! report about the run.
//! Guarantee: ends after the given time, by a signal, or when the script ends itself; one probe
//! that cannot be attached does not prevent the others from running.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use profiler_compiler::CATALOGUE;
use profiler_compiler::object::Object;
use profiler_compiler::source::Source;

use super::counted::{self, Block};
use super::recording::RecordingRenderer;
use profiler_model::output::SourceLocation;
use profiler_runtime::attach::AttachError;
use profiler_runtime::attach::trap::Traps;
use profiler_runtime::child::Child;
use profiler_runtime::ledger::{self, Cost};
use profiler_runtime::load::Loaded;
use profiler_runtime::reader::Reader;
use profiler_runtime::session::{self, Outcome, RunError, RunOptions};
use profiler_runtime::symbols::HostSymbols;
use profiler_runtime::sys::stats::Measuring;

/// Observations of a run.
pub(super) struct Watched {
    /// Time from when everything was attached to the end.
    pub(super) elapsed: Duration,
    /// Cost of each program; `None` if the kernel does not measure for this user.
    pub(super) costs: Option<Vec<Cost>>,
    /// The script's blocks.
    pub(super) blocks: Vec<Block>,
    /// Programs that could not be attached, by index.
    pub(super) refused: BTreeMap<usize, AttachError>,
    /// What the script printed.
    pub(super) renderer: RecordingRenderer,
    /// How it ended, if it ran.
    pub(super) outcome: Option<Outcome>,
    /// Why it could not run.
    pub(super) error: Option<RunError>,
    /// Whether the kernel accepted its programs and maps.
    pub(super) is_loaded: bool,
    /// Whether it ended itself.
    pub(super) ended_early: bool,
}

impl Watched {
    /// Runs an object for a while.
    pub(super) fn new(
        object: &Object,
        source: &Source,
        blocks: Vec<Block>,
        (pids, child): (&[u32], Option<Child>),
        duration: Duration,
    ) -> Watched {
        let traps = Traps::measure(object);
        // Measuring needs more privileges than running.
        let measuring = Measuring::start().ok();
        let (is_loaded, started) = (Cell::new(false), Cell::new(None));
        let (blocks, refused) = (RefCell::new(blocks), RefCell::new(BTreeMap::new()));
        let ended: RefCell<Option<(Duration, Vec<Cost>)>> = RefCell::new(None);
        let when_loaded = |_: &Loaded| {
            is_loaded.set(true);
            Ok(())
        };
        let when_collected = |loaded: &Loaded| {
            let elapsed = started.get().map_or(Duration::ZERO, |started: Instant| started.elapsed());
            counted::read(&mut blocks.borrow_mut(), object, loaded);
            let costs = ledger::with_traps(ledger::costs(object, loaded, elapsed), object, &traps);
            *ended.borrow_mut() = Some((elapsed, costs));
        };
        let options = RunOptions {
            pids: pids.to_vec(),
            child,
            quiet: true,
            duration: Some(duration),
            when_loaded: Some(&when_loaded),
            when_attached: Some(&|| started.set(Some(Instant::now()))),
            when_refused: Some(&|program, error| drop(refused.borrow_mut().insert(program, error))),
            when_collected: Some(&when_collected),
            locate: Some(&|span| SourceLocation::of(source, span)),
            reader: Reader::apart(),
            ..RunOptions::default()
        };
        let mut renderer = RecordingRenderer::default();
        let symbols = HostSymbols::read_by(&options.reader);
        let (outcome, error) = match session::run(object, &CATALOGUE, options, &mut renderer, &symbols) {
            Ok(outcome) => (Some(outcome), None),
            Err(error) => (None, Some(error)),
        };
        let (elapsed, costs) = ended.take().unwrap_or_default();
        let (blocks, refused) = (blocks.take(), refused.take());
        let costs = (measuring.is_some() || always_measures()).then_some(costs);
        let ended_early = outcome.as_ref().is_some_and(|outcome| outcome.has_exited);
        let is_loaded = is_loaded.get();
        Watched { elapsed, costs, blocks, refused, renderer, outcome, error, is_loaded, ended_early }
    }
}

/// Whether the kernel always measures run times.
fn always_measures() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled").is_ok_and(|text| text.trim() == "1")
}
