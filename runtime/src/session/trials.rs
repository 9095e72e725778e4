//! Runs the script's own tests or benchmarks.
//!
//! In: a loaded object. Out: results through the output, and whether all passed.
//! Guarantee: nothing is attached. What a test prints is part of its result; what a benchmark
//! prints is dropped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use profiler_model::object::{Attach, Program};
use profiler_model::output::{
    EventSink, Flush, MapPrint, MapSnapshot, Output, Printed, Section, SnapshotSink, SourceLocation, SpanLedger, Trial,
    ViewSnapshot,
};
use profiler_model::results::HelperFailure;
use profiler_model::value::{Symbols, Value};

use crate::actions::Actions;
use crate::packets::PacketFiles;
use crate::sys::bpf::test_run;
use crate::sys::program::{EmptyKind, load_empty};
use crate::sys::stats::{Measuring, run_time_ns};

use super::{Mode, Outcome, RunError, RunOptions, Session, system};

/// Exit status of a run with a failed test or benchmark.
const FAILED: u8 = 1;

/// The runs of a benchmark together take at least this long, unless that needs more than
/// `MOST_RUNS`.
const LONG_ENOUGH_NS: u64 = 1_000_000;
const MOST_RUNS: u64 = 1 << 22;
/// The rings are drained after this many runs, so that a benchmark that prints does not measure a
/// full ring.
const RUNS_A_DRAIN: u64 = 256;

impl Session<'_> {
    /// Runs `begin`, the tests or benchmarks, and `end`.
    pub(super) fn try_out(mut self, options: &RunOptions) -> Result<Outcome, RunError> {
        self.begin()?;
        self.drain();
        if let Some(tell) = options.when_attached {
            tell();
        }
        let object = self.actions.object;
        let trial_name = |program: &Program| match (&program.attach, options.mode) {
            (Attach::Test { name }, Mode::Test) | (Attach::Bench { name }, Mode::Bench) => Some(name.clone()),
            _ => None,
        };
        let trials: Vec<_> = object.programs.iter().filter_map(|it| Some((it, trial_name(it)?))).collect();
        if trials.is_empty() {
            return Err(RunError::NoTrials(options.mode));
        }
        let (programs, names): (Vec<&Program>, Vec<String>) = trials.into_iter().unzip();
        let mut trials = Trials { session: &mut self, programs, names };
        let passed = match options.mode {
            Mode::Bench => trials.benchmarks()?,
            _ => trials.tests()?,
        };
        let exit_code = if passed { 0 } else { FAILED };
        self.actions.exit = None;
        self.run_programs(&Attach::End)?;
        self.drain_finished();
        self.flush();
        Ok(self.outcome(exit_code, Vec::new(), Vec::new()))
    }
}

/// The tests or the benchmarks of a session.
struct Trials<'s, 'a> {
    session: &'s mut Session<'a>,
    programs: Vec<&'a Program>,
    names: Vec<String>,
}

impl Trials<'_, '_> {
    fn tests(&mut self) -> Result<bool, RunError> {
        let mut passed = Vec::with_capacity(self.programs.len());
        for program in self.programs.clone() {
            let (verdict, printed) = self.attempt(program, 1)?;
            passed.push(verdict.returned == 0 && !verdict.failed);
            let duration = verdict.took;
            let trial = Trial::Test { names: &self.names, passed: &passed, duration, printed: &printed };
            self.session.actions.output.trial(&trial, self.session.actions.symbols);
            self.session.flush();
        }
        Ok(passed.iter().all(|passed| *passed))
    }

    fn benchmarks(&mut self) -> Result<bool, RunError> {
        let _measuring = Measuring::start().map_err(system("measuring run times"))?;
        let empty = load_empty(EmptyKind::RawTracepoint).map_err(system("measuring run times"))?;
        let floor_ns = average(empty.as_fd(), |fd| test_run(fd).map(drop)).map_err(system("measuring run times"))?;
        let mut all_passed = true;
        for (index, program) in self.programs.clone().into_iter().enumerate() {
            let mut runs = 1;
            loop {
                let before = run_time_ns(self.program(program)?);
                let (verdict, _) = self.attempt(program, runs)?;
                let total_ns = run_time_ns(self.program(program)?).saturating_sub(before);
                if verdict.failed {
                    all_passed = false;
                    let text = format!("benchmark `{}` failed", self.names[index]);
                    let place = self.session.actions.locate.map(|locate| locate(program.span)).unwrap_or_default();
                    self.session.actions.output.note("error", text.as_bytes(), &place);
                    break;
                }
                // As in bpftrace, a benchmark with a nonzero return value is left out.
                if verdict.returned != 0 || self.session.sources.interrupted() {
                    break;
                }
                if total_ns < LONG_ENOUGH_NS && runs < MOST_RUNS {
                    let missing = LONG_ENOUGH_NS / total_ns.max(1);
                    runs = (runs * missing.clamp(2, 1000)).min(MOST_RUNS);
                    continue;
                }
                let average_ns = (total_ns / runs).saturating_sub(floor_ns);
                let trial = Trial::Benchmark { names: &self.names, index, average_ns, runs };
                self.session.actions.output.trial(&trial, self.session.actions.symbols);
                break;
            }
            self.session.flush();
        }
        Ok(all_passed)
    }

    fn program(&self, program: &Program) -> Result<BorrowedFd<'_>, RunError> {
        let missing = || RunError::System { what: "finding a program", error: io::ErrorKind::NotFound.into() };
        self.session.actions.loaded.program(&program.runs_in).ok_or_else(missing)
    }

    /// Runs a program `runs` times. Returns the verdict, and what a test printed.
    fn attempt(&mut self, program: &Program, runs: u64) -> Result<(Verdict, Vec<Printed>), RunError> {
        let fd = self.program(program)?.try_clone_to_owned().map_err(system("running a trial"))?;
        let globals = self.session.actions.loaded.globals();
        if let Some(offset) = self.session.actions.object.result_offset {
            globals.set_bss_u64(offset, 0);
        }
        let keeps = matches!(program.attach, Attach::Test { .. });
        let mut recorder = Recorder { keeps, ..Recorder::default() };
        let mut code = None;
        let mut took = Duration::ZERO;
        for run in 1..=runs {
            let started = Instant::now();
            test_run(fd.as_fd()).map_err(system("running a trial"))?;
            took += started.elapsed();
            if run % RUNS_A_DRAIN == 0 || run == runs {
                code = code.or(self.drain_into(&mut recorder));
            }
        }
        let returned =
            self.session.actions.object.result_offset.and_then(|offset| globals.bss_u64(offset)).unwrap_or(0);
        let failed = recorder.errors > 0 || code.is_some_and(|code| code != 0);
        Ok((Verdict { returned, failed, took }, recorder.printed))
    }

    /// Acts on the pending records, but passes what they print to `output`. Returns the code of an
    /// `exit` among them.
    fn drain_into(&mut self, output: &mut dyn Output) -> Option<u8> {
        let Session { rings, handlers, actions, received, .. } = &mut *self.session;
        let (object, tables) = (actions.object, actions.tables);
        let mut actions = Actions {
            object,
            loaded: actions.loaded,
            tables,
            symbols: actions.symbols,
            alike: actions.alike,
            output,
            packets: PacketFiles::default(),
            allow_unsafe: actions.allow_unsafe,
            locate: actions.locate,
            no_warnings: actions.no_warnings,
            escapes: actions.escapes,
            has_spoken: false,
            exit: None,
            unwatched: Vec::new(),
            commands_left_out: 0,
            failure: None,
        };
        rings.drain(&mut |_, bytes| handlers.act(tables, bytes, received, &mut actions));
        actions.exit
    }
}

/// The result of a trial's runs.
struct Verdict {
    /// The return value of the last run.
    returned: u64,
    /// Whether a run reported an error or exited with a nonzero code.
    failed: bool,
    /// How long the runs took, including the system calls.
    took: Duration,
}

/// The average run time in nanoseconds.
fn average(fd: BorrowedFd<'_>, mut run: impl FnMut(BorrowedFd<'_>) -> io::Result<()>) -> io::Result<u64> {
    const RUNS: u64 = 4096;
    let before = run_time_ns(fd);
    for _ in 0..RUNS {
        run(fd)?;
    }
    Ok(run_time_ns(fd).saturating_sub(before) / RUNS)
}

/// Keeps what a trial prints, and counts the errors in it.
#[derive(Debug, Default)]
struct Recorder {
    /// Whether to keep what is printed; errors are counted either way.
    keeps: bool,
    printed: Vec<Printed>,
    errors: usize,
}

impl Recorder {
    fn keep(&mut self, printed: impl FnOnce() -> Printed) {
        if self.keeps {
            self.printed.push(printed());
        }
    }
}

impl EventSink for Recorder {
    fn text(&mut self, kind: &'static str, bytes: &[u8]) {
        self.keep(|| Printed::Text { kind, bytes: bytes.to_vec() });
    }

    fn note(&mut self, kind: &'static str, text: &[u8], place: &SourceLocation) {
        self.errors += usize::from(kind.starts_with("error"));
        self.keep(|| Printed::Note { kind, text: text.to_vec(), place: place.clone() });
    }

    fn helper_failed(&mut self, failure: &HelperFailure<'_>, place: &SourceLocation) {
        let HelperFailure { helper, code, words } = *failure;
        let (helper, words) = (helper.to_owned(), words.to_owned());
        self.keep(|| Printed::HelperFailed { helper, code, words, place: place.clone() });
    }

    fn value(&mut self, value: &Value, _symbols: &dyn Symbols) {
        self.keep(|| Printed::Value(value.clone()));
    }

    fn lost(&mut self, _events: u64) {}
}

impl SnapshotSink for Recorder {
    fn map(&mut self, map: &MapSnapshot, print: MapPrint, _symbols: &dyn Symbols) {
        self.keep(|| Printed::Map { map: map.clone(), print });
    }

    // A program that runs alone closes no window, and its run has no end.
    fn view(&mut self, _view: &ViewSnapshot<'_>, _symbols: &dyn Symbols) {}

    fn spans(&mut self, _spans: &[SpanLedger]) {}

    fn quality(&mut self, _sections: &[Section]) {}
}

impl Flush for Recorder {
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
