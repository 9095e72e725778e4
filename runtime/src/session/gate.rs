//! Starts and stops the counting of events.
//!
//! In: the gate word of a loaded object, the links. Out: an open gate, then a closed one.
//! Guarantee: events of all programs count from one moment on, and up to one moment. When
//! [`Gate::close`] returns, no program runs that started before the gate was closed: only what
//! the session itself runs changes maps and rings after that.
//!
//! Attached programs test the gate word first, because detaching them takes 40 to 110 ms each.

use std::sync::Arc;

use profiler_model::object::{CLOSED, CLOSED_BY_EXIT, Loss, Object};

use super::outcome::system;
use super::samples::{self, Samples, Shortfall};
use super::{RunError, Session};
use crate::attach::{DueRuns, Links};
use crate::ledger;
use crate::load::Loaded;
use crate::sys::bpf::Grace;
use crate::timers::Missed;
use crate::visits::Account;

/// The gate of an object.
pub(super) struct Gate<'a> {
    object: &'a Object,
    loaded: &'a Loaded,
    /// Waits for programs to end; set before anything is attached.
    grace: Option<Grace>,
    /// Ticks of timers that did not run.
    pub(super) ticks: Arc<Missed>,
    /// Rounds of visits to threads.
    pub(super) visits: Arc<Account>,
    /// Runs missing when the gate was closed for good.
    skipped: Option<Vec<(Loss, u64)>>,
    /// The gate is closed for good and all earlier records have been read; later records come from
    /// `END`.
    pub(super) is_over: bool,
}

impl<'a> Gate<'a> {
    pub(super) fn new(object: &'a Object, loaded: &'a Loaded) -> Gate<'a> {
        Gate {
            object,
            loaded,
            grace: None,
            ticks: Arc::default(),
            visits: Arc::default(),
            skipped: None,
            is_over: false,
        }
    }

    fn samples(&self) -> Samples<'a> {
        Samples { object: self.object, loaded: self.loaded }
    }

    /// The code of the `exit` that closed the gate.
    pub(super) fn exit_code(&self) -> Option<u8> {
        let word = self.loaded.globals().bss_u64(self.object.gate_offset)?;
        (word & CLOSED_BY_EXIT != 0).then_some(word as u8)
    }

    /// Closes the gate before anything is attached.
    pub(super) fn prepare(&mut self) -> Result<(), RunError> {
        if self.object.programs.iter().any(|program| program.attach.is_gated()) {
            self.grace = Some(Grace::new().map_err(system("preparing the end of the run"))?);
        }
        self.loaded.globals().set_bss_u64(self.object.gate_offset, CLOSED);
        self.samples().prepare();
        Ok(())
    }

    /// Starts counting events, unless `BEGIN` has ended the run.
    pub(super) fn open(&self, links: &Links) -> Result<(), RunError> {
        links.start_sampling().map_err(system("starting the perf events of probes"))?;
        self.loaded.globals().replace_bss_u64(self.object.gate_offset, CLOSED, 0);
        Ok(())
    }

    /// Stops counting for good. Returns when the programs that were running have ended.
    pub(super) fn close(&mut self, links: &Links) -> Result<(), RunError> {
        if self.skipped.is_some() {
            return Ok(());
        }
        let one = |_: &DueRuns| 1;
        let before = self.samples().shortfalls(links, one);
        self.loaded.globals().replace_bss_u64(self.object.gate_offset, 0, CLOSED);
        // Runs that the kernel skips from now on are not losses.
        let skipped = self.skipped(links);
        if !links.is_empty() {
            self.wait_for_programs()?;
        }
        let shortfalls = samples::least(before, &self.samples().shortfalls(links, one));
        self.skipped = Some(self.with_samples(skipped, &shortfalls));
        Ok(())
    }

    /// Waits until the programs that are running have ended.
    fn wait_for_programs(&self) -> Result<(), RunError> {
        self.grace.as_ref().map_or(Ok(()), Grace::wait).map_err(system("waiting for the probes to end"))
    }

    /// What programs and the kernel lost so far.
    fn losses(&self, links: &Links) -> Vec<(Loss, u64)> {
        let so_far = || self.with_samples(self.skipped(links), &self.samples().shortfalls(links, DueRuns::under_way));
        ledger::read(self.object, self.loaded, self.skipped.clone().unwrap_or_else(so_far))
    }

    /// Runs that were due so far, but that the kernel or the timers did not make.
    fn skipped(&self, links: &Links) -> Vec<(Loss, u64)> {
        let mut skipped = ledger::skipped(self.object, self.loaded, &links.missed_runs());
        skipped.extend(self.ticks.counts().map(|(program, count)| (Loss::Ticks { program }, count)));
        let left_out = self.visits.rounds().filter(|rounds| rounds.missed > 0);
        skipped.extend(left_out.map(|rounds| (Loss::Ticks { program: rounds.program }, rounds.missed)));
        skipped
    }

    fn with_samples(&self, mut skipped: Vec<(Loss, u64)>, shortfalls: &[Shortfall]) -> Vec<(Loss, u64)> {
        skipped.extend(samples::losses(self.object, shortfalls, self.samples().tells_merged()));
        skipped
    }
}

impl Session<'_> {
    /// Ends the run after an `exit` whose record did not fit the ring. An `exit` closes the gate
    /// itself, and the gate word contains its code.
    pub(super) fn follow_gate(&mut self) -> Result<(), RunError> {
        if self.actions.exit.is_some() {
            return Ok(());
        }
        let Some(code) = self.gate.exit_code() else { return Ok(()) };
        self.gate.wait_for_programs()?;
        self.drain_finished();
        self.actions.exit.get_or_insert(code);
        Ok(())
    }

    /// What was lost so far.
    pub(super) fn losses(&self, links: &Links) -> Vec<(Loss, u64)> {
        let mut losses = self.gate.losses(links);
        if self.actions.commands_left_out > 0 {
            losses.push((Loss::Commands, self.actions.commands_left_out));
        }
        losses
    }
}
