//! The end of a session: the last records, the maps, the ledger.
//!
//! In: links that are still attached. Out: an outcome, with nothing attached any more.
//! Guarantee: results are those of the same moment for all maps, and what they lack is said with them.

use std::io;
use std::sync::mpsc::Sender;

use profiler_compiler::object::{Attach, Loss};

use super::{Outcome, RunError, RunOptions, Session};
use crate::attach::Links;
use crate::ledger;
use crate::maps::carry::{self, Estate};
use crate::spans::{self, SpanLedger};
use crate::sys::poll;

/// Exit status of a strict run that lost something.
const LOSS_STATUS: u8 = 4;

impl Session<'_> {
    /// `END`, the last records, the maps, the ledger; then the links go.
    ///
    /// Probes whose detaching takes 40 to 110 ms are still attached until results are out. What they do after the last
    /// drain is not read: records stay in the ring, and each map is read once. So nobody waits for the kernel, and no
    /// record is shown after those of `END`.
    pub(super) fn finish(mut self, links: Links, options: &RunOptions) -> Result<Outcome, RunError> {
        self.drain_finished();
        if let Some(heir) = self.heir.take() {
            return self.hand_over(links, &heir);
        }
        self.run_programs(&Attach::End)?;
        self.drain_finished();
        if let Some(tell) = options.when_collected {
            tell(self.actions.loaded);
        }
        let losses = ledger::read(self.actions.object, self.actions.loaded, &links.missed_runs());
        self.report(&losses);
        let spans = spans::read(self.actions.object, self.actions.loaded);
        if self.output_failure.is_none() && !self.is_stopped {
            let quality = self.quality(&links);
            self.print_results(&quality)?;
        }
        self.actions.render.spans(&spans);
        let quality = self.quality(&links);
        self.actions.render.quality(&quality);
        self.flush();
        drop(links);
        if let Some((name, error)) = self.actions.failure.take() {
            return Err(RunError::Map { name, error });
        }
        // A reader that went away has seen enough.
        if let Some(error) = self.output_failure.take().filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
            return Err(RunError::Output(error));
        }
        let exit_code = match self.actions.exit {
            _ if options.strict && (!losses.is_empty() || spans.iter().any(|span| span.lost() > 0)) => LOSS_STATUS,
            code => code.unwrap_or(0),
        };
        Ok(self.outcome(exit_code, losses, spans))
    }

    /// Detaches, and gives what the maps hold to another.
    pub(super) fn hand_over(mut self, links: Links, heir: &Sender<Vec<Estate>>) -> Result<Outcome, RunError> {
        let losses = ledger::read(self.actions.object, self.actions.loaded, &links.missed_runs());
        drop(links);
        // Where the kernel refuses to say so, a run of a moment ago may be missing from what is carried.
        poll::programs_have_finished();
        self.drain_finished();
        let estates = carry::take(self.actions.object, self.actions.loaded)
            .map_err(|error| RunError::System { what: "reading the maps for the program that follows", error })?;
        // Who wanted it may be gone.
        let _ = heir.send(estates);
        let spans = spans::read(self.actions.object, self.actions.loaded);
        Ok(self.outcome(0, losses, spans))
    }

    pub(super) fn outcome(self, exit_code: u8, losses: Vec<(Loss, u64)>, spans: Vec<SpanLedger>) -> Outcome {
        let cut_strings = self.actions.tables.cut_strings.get();
        let has_exited = self.actions.exit.is_some();
        Outcome { exit_code, has_exited, received: self.received, losses, cut_strings, spans }
    }
}
