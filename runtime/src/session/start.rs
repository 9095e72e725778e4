//! The start of a session: `begin`, attaching, iterators, timers.
//!
//! In: a loaded object. Out: attached links, returned after the run has been collected.
//! Guarantee: nothing runs for the script before `begin` has ended. A `begin` that exits attaches
//! nothing, but is reported as if it did. Events count for all probes from the same moment on, when
//! the last one is attached.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use profiler_model::object::{Attach, Object, RefusedProbes};
use profiler_model::results::Sink as _;

use super::outcome::system;
use super::progress::PERIOD;
use super::skipped::LeftOut;
use super::{Outcome, RunError, RunOptions, Session, traced};
use crate::attach::{AttachError, Links, Refused, Skipped, attach};
use crate::ended::Closer;
use crate::spans::Pending;
use crate::sys::bpf::test_run;
use crate::sys::{link, poll};
use crate::timers::{End, Timer, Timers};
use crate::visits::{Visit, Visits};

impl Session<'_> {
    pub(super) fn dry_run(mut self, options: &RunOptions) -> Result<Outcome, RunError> {
        let links = self.attach(options)?;
        drop(links);
        Ok(self.outcome(0, Vec::new(), Vec::new()))
    }

    /// Runs from `BEGIN` until the run ends. A `BEGIN` that exits attaches nothing.
    pub(super) fn start(&mut self, options: &RunOptions) -> Result<Links, RunError> {
        self.gate.prepare()?;
        self.begin()?;
        // The output of `BEGIN` follows the line about attached probes, as in bpftrace.
        if begin_may_exit(self.actions.object) {
            if self.gate.exit_code().is_some() {
                self.report_attached(&BTreeMap::new(), &[], options);
            }
            self.drain();
            if self.ended() {
                return Ok(Links::default());
            }
        }
        let mut links = match self.attach(options) {
            // A process that ends before its probes are attached ends the run early.
            Err(RunError::Attach(_)) if self.sources.process_ended().map_err(system("waiting"))? => {
                return Ok(Links::default());
            }
            links => links?,
        };
        self.drain();
        for iterator in links.take_iterators() {
            self.iterate(File::from(iterator))?;
        }
        for (link, path) in links.take_pinned() {
            pin(self, &link, path)?;
        }
        let timers = self.start_timers().map_err(system("starting the timers"))?;
        self.gate.ticks = timers.missed();
        let visits = self.start_visits(&mut links).map_err(system("starting to visit threads"))?;
        self.gate.visits = visits.account();
        let closer = Closer::start(self.actions.object, self.actions.loaded);
        let closer = closer.map_err(system("starting to close the keys of ended threads"))?;
        if let Some(child) = &mut self.sources.child {
            let child_pid = child.pid();
            match &self.unwinder {
                Some(unwinder) => child.resume_prepared(&|| unwinder.prepare(child_pid)),
                None => child.resume(),
            }
            .map_err(RunError::Child)?;
        }
        let ticks = timers.ticks();
        self.windows.begin(ticks.start);
        self.ticks = Some(ticks);
        if options.progress {
            self.map_bytes = self.map_bytes();
            self.progress_due = Some(Instant::now() + PERIOD);
        }
        self.collect(options.duration.map(|duration| Instant::now() + duration), &mut links)?;
        closer.stop().map_err(system("closing the keys of ended threads"))?;
        // Ticks that are due belong to the run, unless `exit` has ended it.
        let end = if self.actions.exit.is_some() { End::AtOnce } else { End::AfterDueTicks };
        timers.stop(end).map_err(system("running a timer"))?;
        let drain = || {
            self.drain();
        };
        visits.stop(drain).map_err(system("visiting threads"))?;
        self.gate.close(&links)?;
        links.drop_quick();
        Ok(links)
    }

    pub(super) fn begin(&mut self) -> Result<(), RunError> {
        if let Some(offset) = self.actions.object.start_time_offset {
            self.actions.loaded.globals().set_bss_u64(offset, poll::boot_clock_ns());
        }
        if let Some(offset) = self.actions.object.wall_clock_offset {
            self.actions.loaded.globals().set_bss_u64(offset, self.actions.symbols.boot_time_ns());
        }
        self.run_programs(&Attach::Begin)
    }

    pub(super) fn attach(&mut self, options: &RunOptions) -> Result<Links, RunError> {
        let object = self.actions.object;
        let left_out = LeftOut::default();
        let leave_out = |index, error| left_out.add(index, error);
        let refused = match (options.when_refused, object.config.refused_probes) {
            (None, RefusedProbes::Warn | RefusedProbes::Ignore) => Some(&leave_out as Refused<'_>),
            (refused, _) => refused,
        };
        let links = attach(object, self.actions.loaded, &self.values, refused);
        let mut links = links.map_err(RunError::Attach)?;
        let left_out = left_out.unless_nothing_is_left(object)?;
        self.gate.open(&links)?;
        self.warn_of_left_out(&left_out);
        let skipped = links.take_skipped();
        self.warn_of_skipped(&skipped);
        self.report_attached(&left_out, &skipped, options);
        Ok(links)
    }

    /// Says how many attach points there are without those that the kernel has refused.
    fn report_attached(
        &mut self,
        left_out: &BTreeMap<usize, AttachError>,
        skipped: &[(usize, Skipped)],
        options: &RunOptions,
    ) {
        let object = self.actions.object;
        if !options.quiet {
            let points: u32 = traced(object).map(|program| program.points).sum();
            let lost = left_out.keys().filter_map(|index| object.programs.get(*index));
            let points = points.saturating_sub(lost.map(|program| program.points).sum());
            let refused_by = |(index, of): &(usize, Skipped)| of.sites.len() * object.blocks_with(*index).count();
            let refused: usize = skipped.iter().map(refused_by).sum();
            self.actions.output.attached(points.saturating_sub(refused as u32));
        }
        self.flush();
        if let Some(tell) = options.when_attached {
            tell();
        }
    }

    pub(super) fn run_programs(&self, kind: &Attach) -> Result<(), RunError> {
        for (_, program) in self.actions.object.kernel_programs().filter(|(_, program)| program.attach == *kind) {
            let run = |fd: Option<BorrowedFd<'_>>| test_run(fd.ok_or(io::ErrorKind::NotFound)?);
            run(self.actions.loaded.program(&program.runs_in)).map_err(system("running a probe of profiler itself"))?;
        }
        Ok(())
    }

    /// Reads an iterator to its end, which runs its program for each object. The program itself
    /// requests another read once there is something to drain.
    pub(super) fn iterate(&mut self, mut iterator: File) -> Result<(), RunError> {
        // The programs write no text themselves.
        let mut text = [0; 64];
        while !self.ended() {
            match iterator.read(&mut text) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(RunError::System { what: "iterating", error }),
            }
            self.drain();
        }
        self.drain();
        Ok(())
    }

    fn start_visits(&self, links: &mut Links) -> io::Result<Visits> {
        let object = self.actions.object;
        let period = |program: usize| match object.programs.get(program).map(|program| &program.attach) {
            Some(Attach::Visits { period_ns }) => Some(Duration::from_nanos(*period_ns)),
            _ => None,
        };
        let visits = links.take_visits().into_iter();
        let visits = visits.filter_map(|(index, link)| Some(Visit { index, link, period: period(index)? })).collect();
        Visits::start(visits, object.gate_offset, self.actions.loaded)
    }

    pub(super) fn start_timers(&self) -> io::Result<Timers> {
        let mut timers = Vec::new();
        for (index, program) in self.actions.object.kernel_programs() {
            let (period_ns, span) = match program.attach {
                Attach::Timer { period_ns } => (period_ns, None),
                Attach::Sweep { span, period_ns } => (period_ns, self.actions.object.spans.get(span)),
                _ => continue,
            };
            let fd = self.actions.loaded.program(&program.runs_in).ok_or(io::ErrorKind::NotFound)?;
            let pending = span.map(|span| Pending::new(span, self.actions.loaded)).transpose()?;
            let (program, period) = (fd.try_clone_to_owned()?, Duration::from_nanos(period_ns));
            timers.push(Timer { index, program, period, pending });
        }
        Timers::start(timers)
    }
}

/// Pins an iterator to a file, and says so as bpftrace does.
fn pin(session: &mut Session<'_>, link: &OwnedFd, path: String) -> Result<(), RunError> {
    let name = CString::new(path.as_str()).map_err(|_| io::ErrorKind::InvalidInput.into());
    if let Err(error) = name.and_then(|name| link::pin(link.as_fd(), &name)) {
        return Err(RunError::Pin { path, error });
    }
    session.actions.text("printf", format!("Program pinned to {path}\n").as_bytes());
    session.flush();
    Ok(())
}

/// Whether a `begin` probe can end the run.
fn begin_may_exit(object: &Object) -> bool {
    let is_begin = |program: usize| object.programs.get(program).is_some_and(|it| it.attach == Attach::Begin);
    object.events.iter().any(|event| event.ends_the_run && is_begin(event.program))
}
