//! The start of a session: `begin`, attaching, iterators, timers.
//!
//! In: what is loaded. Out: links that are attached, once the run has been collected.
//! Guarantee: nothing runs for the script before `begin` has ended, and a `begin` that exits attaches nothing.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use profiler_compiler::object::Attach;

use super::outcome::system;
use super::progress::PERIOD;
use super::{Outcome, RunError, RunOptions, Session, traced};
use crate::attach::{Links, attach};
use crate::spans::Pending;
use crate::sys::bpf::test_run;
use crate::sys::poll;
use crate::timers::{Timer, Timers};

impl Session<'_> {
    pub(super) fn dry_run(mut self, options: &RunOptions) -> Result<Outcome, RunError> {
        let links = self.attach(options)?;
        drop(links);
        Ok(self.outcome(0, Vec::new(), Vec::new()))
    }

    /// From `BEGIN` to what ends the run. A `BEGIN` that exits attaches nothing.
    pub(super) fn start(&mut self, options: &RunOptions) -> Result<Links, RunError> {
        self.begin()?;
        // What `BEGIN` prints stands behind the line that says that all probes are attached, as in bpftrace.
        if self.begin_may_exit() {
            self.drain();
            if self.ended() {
                return Ok(Links::default());
            }
        }
        let mut links = match self.attach(options) {
            // A process that ends before its probes are attached is one that ends the run early.
            Err(RunError::Attach(_)) if self.process_ended().map_err(system("waiting"))? => return Ok(Links::default()),
            links => links?,
        };
        self.drain();
        for iterator in links.take_iterators() {
            self.iterate(File::from(iterator))?;
        }
        let timers = self.start_timers().map_err(system("starting the timers"))?;
        if let Some(child) = &mut self.child {
            child.resume().map_err(RunError::Child)?;
        }
        self.windows.begin();
        if options.progress {
            self.map_bytes = self.map_bytes();
            self.progress_due = Some(Instant::now() + PERIOD);
        }
        self.collect(options.duration.map(|duration| Instant::now() + duration), &mut links)?;
        timers.stop().map_err(system("running a timer"))?;
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

    pub(super) fn begin_may_exit(&self) -> bool {
        let object = self.actions.object;
        let is_begin = |program: usize| object.programs.get(program).is_some_and(|it| it.attach == Attach::Begin);
        object.events.iter().any(|event| event.word.ends_the_run() && is_begin(event.program))
    }

    pub(super) fn attach(&mut self, options: &RunOptions) -> Result<Links, RunError> {
        let object = self.actions.object;
        let links = attach(object, self.actions.loaded, options.when_refused).map_err(RunError::Attach)?;
        if !options.quiet {
            self.actions.render.attached(traced(object).map(|program| program.points).sum());
        }
        self.flush();
        if let Some(tell) = options.when_attached {
            tell();
        }
        Ok(links)
    }

    pub(super) fn run_programs(&self, kind: &Attach) -> Result<(), RunError> {
        for program in self.actions.object.programs.iter().filter(|program| program.attach == *kind) {
            let run = |fd: Option<BorrowedFd<'_>>| test_run(fd.ok_or(io::ErrorKind::NotFound)?);
            run(self.actions.loaded.program(&program.name)).map_err(system("running a probe of profiler itself"))?;
        }
        Ok(())
    }

    /// Reads an iterator to its end, which runs its program for each object. The program itself asks to be read again once there
    /// is something to drain.
    pub(super) fn iterate(&mut self, mut iterator: File) -> Result<(), RunError> {
        // The programs write no text of their own.
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

    pub(super) fn start_timers(&self) -> io::Result<Timers> {
        let mut timers = Vec::new();
        for program in &self.actions.object.programs {
            let (period_ns, span) = match program.attach {
                Attach::Timer { period_ns } => (period_ns, None),
                Attach::Sweep { span, period_ns } => (period_ns, self.actions.object.spans.get(span)),
                _ => continue,
            };
            let fd = self.actions.loaded.program(&program.name).ok_or(io::ErrorKind::NotFound)?;
            let pending = span.map(|span| Pending::new(span, self.actions.loaded)).transpose()?;
            let (program, period) = (fd.try_clone_to_owned()?, Duration::from_nanos(period_ns));
            timers.push(Timer { program, period, pending });
        }
        Timers::start(timers)
    }
}
