//! The end of a session: the last records, the maps, the loss accounting.
//!
//! In: links that are still attached. Out: an outcome, with nothing attached any more.
//! Guarantee: all probes stop at the same moment, before `END` runs and anything is read. Losses
//! are reported with the results.

use std::io;
use std::sync::mpsc::Sender;

use profiler_model::object::{Attach, Loss};
use profiler_model::output::SpanLedger;

use super::{Outcome, RunError, RunOptions, Session};
use crate::attach::Links;
use crate::maps::handover::{self, SavedMap};
use crate::spans;

/// Exit status of a strict run that lost something.
const LOSS_STATUS: u8 = 4;

impl Session<'_> {
    /// Runs `END`, prints the last records, the maps and the loss accounting, then drops the links.
    ///
    /// Probes that take 40 to 110 ms to detach stay attached until the results are out, but do
    /// nothing because the gate is closed.
    pub(super) fn finish(mut self, links: Links, options: &RunOptions) -> Result<Outcome, RunError> {
        self.gate.close(&links)?;
        self.drain_finished();
        self.gate.is_over = true;
        if let Some(successor) = self.successor.take() {
            return self.hand_over(links, &successor);
        }
        self.actions.tables.turns.finish();
        self.actions.has_spoken = false;
        self.run_programs(&Attach::End)?;
        self.drain_finished();
        if let Some(tell) = options.when_collected {
            tell(self.actions.loaded);
        }
        let losses = self.losses(&links);
        self.report(&losses);
        let spans = spans::read(self.actions.object, self.actions.loaded);
        // They go to files of their own, so a reader of the results who has left does not matter.
        if !self.sources.is_stopped {
            self.pass_stacks();
        }
        if self.output_failure.is_none() {
            self.print_results(&links)?;
        }
        self.actions.output.spans(&spans);
        let quality = self.quality(&links);
        self.actions.output.quality(&quality);
        self.flush();
        drop(links);
        if let Some((name, error)) = self.actions.failure.take() {
            return Err(RunError::Map { name, error });
        }
        if let Some((path, error)) = self.actions.packets.take_failure() {
            return Err(RunError::Packets { path, error });
        }
        // A reader that closed the pipe has seen enough.
        if let Some(error) = self.output_failure.take().filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
            return Err(RunError::Output(error));
        }
        let is_lossy = losses.iter().any(|(loss, _)| loss.is_of_data()) || spans.iter().any(|span| span.lost() > 0);
        let exit_code = match self.actions.exit {
            _ if options.strict && is_lossy => LOSS_STATUS,
            code => code.unwrap_or(0),
        };
        Ok(self.outcome(exit_code, losses, spans))
    }

    /// Detaches, and sends the map contents to the replacement program.
    pub(super) fn hand_over(self, links: Links, successor: &Sender<Vec<SavedMap>>) -> Result<Outcome, RunError> {
        let losses = self.losses(&links);
        drop(links);
        let saved = handover::take(self.actions.object, self.actions.loaded)
            .map_err(|error| RunError::System { what: "reading the maps for the replacement program", error })?;
        // The receiver may be gone.
        let _ = successor.send(saved);
        let spans = spans::read(self.actions.object, self.actions.loaded);
        Ok(self.outcome(0, losses, spans))
    }

    pub(super) fn outcome(self, exit_code: u8, losses: Vec<(Loss, u64)>, spans: Vec<SpanLedger>) -> Outcome {
        let cut_strings = self.actions.tables.cut_strings.get();
        let has_exited = self.actions.exit.is_some();
        Outcome { exit_code, has_exited, received: self.received, losses, cut_strings, spans }
    }
}
