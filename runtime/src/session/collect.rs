//! The long part of a session: records are read until something ends the run.
//!
//! In: rings, clocks, signals, processes, orders. Out: records to the words that made them, losses to the renderer.
//! Guarantee: an idle session sleeps and costs the traced side nothing; a record that is committed is read.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use profiler_compiler::decode::Lookup;
use profiler_compiler::object::{Attach, Loss, Object};
use profiler_compiler::words::{Record, Sink};

use super::outcome::system;
use super::{RunError, Session, traced};
use crate::attach::Links;
use crate::ledger;
use crate::ring::Drained;
use crate::sys::poll;
use crate::sys::signal::{Counter, Signals};

/// While records come, the rings are looked at this often; the traced side need not wake anybody.
const POLL: Duration = Duration::from_millis(1);
/// After so long without a record, the reader sleeps until it is woken.
const ACTIVE: Duration = Duration::from_millis(50);
/// Losses are reported no more often than this.
const REPORT: Duration = Duration::from_secs(1);
/// How long the end of a run waits for records that a program has not finished writing.
const UNFINISHED: Duration = Duration::from_millis(100);
/// Most sleep where a lost wake-up cannot be ruled out.
const CAUTIOUS_SLEEP: Duration = Duration::from_secs(1);

impl Session<'_> {
    /// Whether nothing more can happen: only `BEGIN`, `END` and iterators are in the script, and no command is waited for.
    pub(super) fn is_over(&self) -> bool {
        let once = |attach: &Attach| matches!(attach, Attach::Begin | Attach::End | Attach::Iterator { .. });
        self.child.is_none() && traced(self.actions.object).all(|program| once(&program.attach))
    }

    /// Draws what is on the terminal anew when that has another size.
    fn follow_size(&mut self) {
        if self.resizes.as_ref().is_some_and(|resizes| resizes.take() > 0) {
            self.actions.render.resized(self.actions.symbols);
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
            let signals = self.user_signal.as_ref().map_or(0, Counter::take);
            for _ in 0..signals {
                self.run_programs(&Attach::Signal)?;
            }
            let drained = self.drain();
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
            // Much came: look again at once, before the ring is full.
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

    /// Waits for a while, or for a signal or the end of a process; whether the latter came.
    pub(super) fn wait(&self, limit: Duration) -> io::Result<bool> {
        self.poll(&[], Some(limit))
    }

    /// Sleeps until a record comes, so that an idle session costs nothing.
    pub(super) fn sleep(&self, left: Option<Duration>) -> io::Result<bool> {
        let loaded = self.actions.loaded;
        let flag = self.actions.object.wake_flag_offset.filter(|_| self.actions.object.data_ring.is_some());
        let mut limit = left;
        if let Some(offset) = flag {
            loaded.globals().set_bss_u64(offset, 1);
            // A program may have read the flag before we set it and commit its record after we look at the ring, waking
            // nobody. Once the programs that ran meanwhile have ended, what they committed is in the ring.
            if !poll::programs_have_finished() {
                limit = Some(left.map_or(CAUTIOUS_SLEEP, |left| left.min(CAUTIOUS_SLEEP)));
            }
        }
        let ended = if self.rings.pending() { self.wait(Duration::ZERO) } else { self.poll(&self.ring_fds(), limit) };
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

    /// Waits for signals, processes and `rings`; whether a process ended.
    pub(super) fn poll(&self, rings: &[BorrowedFd<'_>], limit: Option<Duration>) -> io::Result<bool> {
        let mut fds: Vec<BorrowedFd<'_>> = Vec::with_capacity(6);
        fds.extend(self.child.as_ref().map(AsFd::as_fd));
        fds.extend(self.target.as_ref().map(AsFd::as_fd));
        let processes = fds.len();
        fds.extend(self.signals.as_ref().map(AsFd::as_fd));
        fds.extend(self.orders.as_ref().map(AsFd::as_fd));
        fds.extend(self.user_signal.as_ref().map(AsFd::as_fd));
        fds.extend(self.resizes.as_ref().map(AsFd::as_fd));
        fds.extend(self.windows.wake_fd());
        fds.extend(rings);
        let ready = poll::wait(&fds, limit)?;
        Ok(ready & ((1 << processes) - 1) != 0)
    }

    pub(super) fn process_ended(&self) -> io::Result<bool> {
        self.poll(&[], Some(Duration::ZERO))
    }

    /// Whether something other than time or a process has ended the run.
    pub(super) fn ended(&self) -> bool {
        self.actions.exit.is_some()
            || self.actions.failure.is_some()
            || self.output_failure.is_some()
            || self.interrupted()
    }

    /// Whether a signal or an order has ended the run.
    pub(super) fn interrupted(&self) -> bool {
        self.is_stopped || self.signals.as_ref().is_some_and(Signals::came)
    }

    /// Acts on the records that are there, and writes out what they print.
    pub(super) fn drain(&mut self) -> Drained {
        let Session { rings, actions, received, .. } = self;
        let (object, tables) = (actions.object, actions.tables);
        let drained = rings.drain(&mut |_, bytes| act(object, tables, bytes, received, actions));
        if drained.records > 0 {
            self.flush();
        }
        drained
    }

    pub(super) fn flush(&mut self) {
        if let Err(error) = self.actions.render.flush() {
            self.output_failure.get_or_insert(error);
        }
    }

    /// Tells the renderer of records lost since it was last told.
    pub(super) fn report_losses(&mut self, now: Instant) {
        if now < self.report_due {
            return;
        }
        self.report_due = now + REPORT;
        // What links missed is no record.
        let losses = ledger::read(self.actions.object, self.actions.loaded, &[]);
        self.report(&losses);
    }

    pub(super) fn report(&mut self, losses: &[(Loss, u64)]) {
        let lost = ledger::records(losses);
        if lost > self.reported {
            self.actions.render.lost(lost - self.reported);
            self.reported = lost;
        }
    }

    /// Drains, and waits a little for records that are being written.
    pub(super) fn drain_finished(&mut self) {
        let deadline = Instant::now() + UNFINISHED;
        while !self.drain().complete && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
    }
}

/// Hands a record to the word that made it.
pub fn act(object: &Object, lookup: &dyn Lookup, bytes: &[u8], received: &mut [u64], sink: &mut dyn Sink) {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (Some(index), Some(size)) = (word(0), word(4)) else { return };
    let Some(event) = object.events.get(index as usize) else { return };
    if let Some(count) = received.get_mut(event.program) {
        *count += 1;
    }
    // What was reserved may be longer than what was written.
    let bytes = bytes.get(..size as usize).unwrap_or(bytes);
    event.word.perform(event, &Record { event, bytes, lookup }, sink);
}
