//! The main part of a session: reads records until something ends the run.
//!
//! In: rings, clocks, signals, processes, requests. Out: records passed to the functions that
//! emitted them, losses reported to the output.
//! Guarantee: an idle session sleeps and costs the traced side nothing; every committed record is
//! read.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use profiler_model::object::{Attach, Loss};

use super::outcome::system;
use super::{RunError, Session, traced};
use crate::attach::Links;
use crate::ledger;
use crate::packets::PacketReader;
use crate::ring::Drained;
use crate::sys::poll;
use crate::sys::signal::Counter;

/// Polling interval of the rings while records arrive, so that the traced side need not wake the
/// reader.
const POLL: Duration = Duration::from_millis(1);
/// After this long without a record, the reader sleeps until it is woken.
const ACTIVE: Duration = Duration::from_millis(50);
/// The shortest time between two reports of losses.
const REPORT: Duration = Duration::from_secs(1);
/// How long the end of a run waits for records that a program has not finished writing.
const UNFINISHED: Duration = Duration::from_millis(100);
/// Longest sleep where a lost wake-up cannot be ruled out.
const CAUTIOUS_SLEEP: Duration = Duration::from_secs(1);

impl Session<'_> {
    /// Whether nothing more can happen: the script has only `BEGIN`, `END` and iterators, and there
    /// is no command to wait for.
    pub(super) fn is_over(&self) -> bool {
        let once = |attach: &Attach| matches!(attach, Attach::Begin | Attach::End | Attach::Iterator { .. });
        self.sources.child.is_none() && traced(self.actions.object).all(|program| once(&program.attach))
    }

    /// Redraws the terminal if its size has changed.
    fn follow_size(&mut self) {
        if self.sources.resizes.as_ref().is_some_and(|resizes| resizes.take() > 0) {
            self.actions.output.resized(self.actions.symbols);
            self.flush();
        }
    }

    /// Reads records until something ends the run.
    pub(super) fn collect(&mut self, deadline: Option<Instant>, links: &mut Links) -> Result<(), RunError> {
        if self.is_over() {
            self.drain();
            return Ok(());
        }
        let mut last_record = Instant::now();
        let mut process_ended = false;
        while !process_ended {
            let signals = self.sources.user_signal.as_ref().map_or(0, Counter::take);
            for _ in 0..signals {
                self.run_programs(&Attach::Signal)?;
            }
            let drained = self.drain();
            self.follow_gate()?;
            self.actions.unwatched.drain(..).for_each(|address| links.unwatch(address));
            self.obey(links);
            let now = Instant::now();
            if drained.records > 0 {
                last_record = now;
            }
            self.turn(links)?;
            self.follow_size();
            self.report_losses(now);
            self.report_progress(now);
            let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
            if self.ended() || left.is_some_and(|left| left.is_zero()) {
                break;
            }
            // Much data arrived: read again at once, before the ring is full.
            if drained.data_bytes > self.rings.data_size_bytes() / 8 {
                continue;
            }
            let until = |due: Instant| due.saturating_duration_since(Instant::now());
            let (due, told) = (self.windows.next_due().map(until), self.progress_due.map(until));
            let left = [left, due, told].into_iter().flatten().min();
            let active = !drained.complete || now - last_record < ACTIVE;
            let waited = if active { self.wait(left.map_or(POLL, |left| left.min(POLL))) } else { self.sleep(left) };
            process_ended = waited.map_err(system("waiting"))?;
        }
        Ok(())
    }

    /// Waits for a time, a signal or the end of a process. Returns whether a process ended.
    pub(super) fn wait(&self, limit: Duration) -> io::Result<bool> {
        let window: Vec<_> = self.windows.wake_fd().into_iter().collect();
        self.sources.poll(&window, Some(limit))
    }

    /// Sleeps until a record arrives, so that an idle session costs nothing.
    pub(super) fn sleep(&self, left: Option<Duration>) -> io::Result<bool> {
        let loaded = self.actions.loaded;
        let flag = self.actions.object.wake_flag_offset.filter(|_| self.actions.object.data_ring.is_some());
        let mut limit = left;
        if let Some(offset) = flag {
            loaded.globals().set_bss_u64(offset, 1);
            // A program may have read the flag before we set it and may commit its record after we
            // look at the ring, without waking the reader. Once the programs that were running have
            // ended, their records are in the ring.
            if !poll::programs_have_finished() {
                limit = Some(left.map_or(CAUTIOUS_SLEEP, |left| left.min(CAUTIOUS_SLEEP)));
            }
        }
        let packets = self.packets.as_ref().map(PacketReader::wake_fd);
        let more: Vec<_> = self.windows.wake_fd().into_iter().chain(packets).chain(self.ring_fds()).collect();
        let ended = if self.rings.pending() { self.wait(Duration::ZERO) } else { self.sources.poll(&more, limit) };
        if let Some(offset) = flag {
            loaded.globals().set_bss_u64(offset, 0);
        }
        ended
    }

    pub(super) fn ring_fds(&self) -> Vec<BorrowedFd<'_>> {
        let object = self.actions.object;
        let names = [&object.data_ring, &object.control_ring].into_iter().flatten();
        names.filter_map(|name| self.actions.loaded.map(name)).map(|map| map.fd()).collect()
    }

    /// Whether something other than time or a process has ended the run.
    pub(super) fn ended(&self) -> bool {
        self.actions.exit.is_some()
            || self.actions.failure.is_some()
            || self.actions.packets.have_failed()
            || self.output_failure.is_some()
            || self.sources.interrupted()
    }

    /// Acts on the pending records, and writes out what they print.
    pub(super) fn drain(&mut self) -> Drained {
        let Session { rings, packets, handlers, actions, received, gate, .. } = self;
        let tables = actions.tables;
        // Programs send none once `exit` has been called.
        let copied = packets
            .as_mut()
            .map_or(0, |packets| packets.drain(&mut |bytes| handlers.act(tables, bytes, received, actions)));
        if copied > 0 {
            actions.packets.flush();
        }
        let mut drained = rings.drain(&mut |_, bytes| {
            // Events after an `exit` are not part of the results.
            if actions.exit.is_none() || gate.is_over {
                handlers.act(tables, bytes, received, actions);
            }
        });
        if drained.records > 0 {
            self.flush();
        }
        drained.records += copied;
        drained
    }

    pub(super) fn flush(&mut self) {
        if let Err(error) = self.actions.output.flush() {
            self.output_failure.get_or_insert(error);
        }
    }

    /// Reports records lost since the last report to the output.
    pub(super) fn report_losses(&mut self, now: Instant) {
        if now < self.report_due {
            return;
        }
        self.report_due = now + REPORT;
        // Runs that links missed are not records.
        let losses = ledger::read(self.actions.object, self.actions.loaded, Vec::new());
        self.report(&losses);
    }

    pub(super) fn report(&mut self, losses: &[(Loss, u64)]) {
        let lost = ledger::records(losses);
        if lost > self.reported {
            self.actions.output.lost(lost - self.reported);
            self.reported = lost;
        }
    }

    /// Drains, and waits a short time for records that are being written.
    pub(super) fn drain_finished(&mut self) {
        let deadline = Instant::now() + UNFINISHED;
        while !self.drain().complete && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
    }
}
