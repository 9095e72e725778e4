//! A script at work for a while, watched.
//!
//! In: an object whose blocks count. Out: what the kernel, the blocks and the session say of its run.
//! Guarantee: ends when the time is over, by a signal, or when the script ends itself; one probe that cannot be attached does not keep
//! the others from it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use profiler_compiler::object::Object;
use profiler_compiler::source::Source;

use super::counted::{self, Block};
use super::ear::Ear;
use crate::attach::AttachError;
use crate::child::Child;
use crate::ledger::{self, Cost};
use crate::load::Loaded;
use crate::render::Place;
use crate::session::{self, Outcome, RunError, RunOptions};
use crate::symbols::HostSymbols;
use crate::sys::stats::Measuring;

/// What a run left behind.
pub(super) struct Watched {
    /// From when all was attached to the end.
    pub(super) elapsed: Duration,
    /// What each program cost; `None` when the kernel does not measure for this user.
    pub(super) costs: Option<Vec<Cost>>,
    /// The script's blocks.
    pub(super) blocks: Vec<Block>,
    /// Programs that could not be attached, by their numbers.
    pub(super) refused: BTreeMap<usize, AttachError>,
    /// What it printed.
    pub(super) ear: Ear,
    /// How it ended, when it did.
    pub(super) outcome: Option<Outcome>,
    /// Why it could not run.
    pub(super) error: Option<RunError>,
    /// Whether the kernel took its programs and maps.
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
        pid: Option<u32>,
        child: Option<Child>,
        duration: Duration,
    ) -> Watched {
        // Measuring needs more rights than running does.
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
            *ended.borrow_mut() = Some((elapsed, ledger::costs(object, loaded, elapsed)));
        };
        let options = RunOptions {
            pid,
            child,
            quiet: true,
            duration: Some(duration),
            when_loaded: Some(&when_loaded),
            when_attached: Some(&|| started.set(Some(Instant::now()))),
            when_refused: Some(&|program, error| drop(refused.borrow_mut().insert(program, error))),
            when_collected: Some(&when_collected),
            locate: Some(&|span| Place::of(source, span)),
            ..RunOptions::default()
        };
        let mut ear = Ear::default();
        let (outcome, error) = match session::run(object, options, &mut ear, &HostSymbols::new()) {
            Ok(outcome) => (Some(outcome), None),
            Err(error) => (None, Some(error)),
        };
        let (elapsed, costs) = ended.take().unwrap_or_default();
        let (blocks, refused) = (blocks.take(), refused.take());
        let costs = (measuring.is_some() || always_measures()).then_some(costs);
        let ended_early = outcome.as_ref().is_some_and(|outcome| outcome.has_exited);
        let is_loaded = is_loaded.get();
        Watched { elapsed, costs, blocks, refused, ear, outcome, error, is_loaded, ended_early }
    }
}

/// Whether the kernel measures for everybody.
fn always_measures() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled").is_ok_and(|text| text.trim() == "1")
}
