//! Runs that try the script itself: its tests, or its benchmarks.
//!
//! In: a loaded object. Out: results through the renderer, and whether all went well.
//! Guarantee: nothing is attached; what a test prints is shown only when it fails, what a benchmark prints never.

use std::cell::RefCell;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use profiler_compiler::object::{Attach, Program};
use profiler_compiler::value::{Symbols, Value};
use profiler_compiler::words::HelperFailure;

use crate::actions::Actions;
use crate::ledger::Section;
use crate::render::text::Text;
use crate::render::{MapPrint, MapSnapshot, Place, Render, Shown, Trial};
use crate::sys::bpf::test_run;
use crate::sys::stats::{Empty, Measuring, run_time_ns};

use super::{Mode, Outcome, RunError, RunOptions, Session, act, system};

/// Exit status of a run with a failed test or benchmark.
const FAILED: u8 = 1;

/// The runs of a benchmark take so long together, unless there are too many of them.
const LONG_ENOUGH_NS: u64 = 1_000_000;
const MOST_RUNS: u64 = 1 << 22;
/// The rings are emptied after so many runs, so that a benchmark that prints does not measure a full ring.
const RUNS_A_DRAIN: u64 = 256;

impl Session<'_> {
    /// From `begin` over the tests or benchmarks to `end`.
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
        let passed = match options.mode {
            Mode::Bench => self.benchmarks(&programs, &names)?,
            _ => self.tests(&programs, &names)?,
        };
        let exit_code = if passed { 0 } else { FAILED };
        self.actions.exit = None;
        self.run_programs(&Attach::End)?;
        self.drain_finished();
        self.flush();
        Ok(self.outcome(exit_code, Vec::new(), Vec::new()))
    }

    fn tests(&mut self, programs: &[&Program], names: &[String]) -> Result<bool, RunError> {
        let mut passed = Vec::with_capacity(programs.len());
        for program in programs {
            let (verdict, output) = self.attempt(program, 1)?;
            passed.push(verdict.returned == 0 && !verdict.failed);
            let duration = verdict.took;
            self.actions.render.trial(&Trial::Test { names, passed: &passed, duration, output: &output });
            self.flush();
        }
        Ok(passed.iter().all(|passed| *passed))
    }

    fn benchmarks(&mut self, programs: &[&Program], names: &[String]) -> Result<bool, RunError> {
        let _measuring = Measuring::start().map_err(system("measuring run times"))?;
        let empty = Empty::load().map_err(system("measuring run times"))?;
        let floor_ns = average(empty.fd(), |fd| test_run(fd).map(drop)).map_err(system("measuring run times"))?;
        let mut all_passed = true;
        for (index, program) in programs.iter().enumerate() {
            let mut runs = 1;
            loop {
                let before = run_time_ns(self.program(program)?);
                let (verdict, _) = self.attempt(program, runs)?;
                let total_ns = run_time_ns(self.program(program)?).saturating_sub(before);
                if verdict.failed {
                    all_passed = false;
                    let text = format!("benchmark `{}` failed", names[index]);
                    let place = self.actions.locate.map(|locate| locate(program.span)).unwrap_or_default();
                    self.actions.render.note("error", text.as_bytes(), &place);
                    break;
                }
                // As in bpftrace, one that returns something asks to be left out.
                if verdict.returned != 0 || self.interrupted() {
                    break;
                }
                if total_ns < LONG_ENOUGH_NS && runs < MOST_RUNS {
                    let missing = LONG_ENOUGH_NS / total_ns.max(1);
                    runs = (runs * missing.clamp(2, 1000)).min(MOST_RUNS);
                    continue;
                }
                let average_ns = (total_ns / runs).saturating_sub(floor_ns);
                self.actions.render.trial(&Trial::Benchmark { names, index, average_ns, runs });
                break;
            }
            self.flush();
        }
        Ok(all_passed)
    }

    fn program(&self, program: &Program) -> Result<BorrowedFd<'_>, RunError> {
        let missing = || RunError::System { what: "finding a program", error: io::ErrorKind::NotFound.into() };
        self.actions.loaded.program(&program.name).ok_or_else(missing)
    }

    /// Runs a program so often; what came of it, and what was printed.
    fn attempt(&mut self, program: &Program, runs: u64) -> Result<(Verdict, Vec<u8>), RunError> {
        let fd = self.program(program)?.try_clone_to_owned().map_err(system("running a trial"))?;
        let globals = self.actions.loaded.globals();
        if let Some(offset) = self.actions.object.result_offset {
            globals.set_bss_u64(offset, 0);
        }
        let paper = Paper::default();
        let mut kept = Kept { text: Text::new(Box::new(paper.clone()), Box::new(paper.clone()), true), errors: 0 };
        let mut code = None;
        let mut took = Duration::ZERO;
        for run in 1..=runs {
            let started = Instant::now();
            test_run(fd.as_fd()).map_err(system("running a trial"))?;
            took += started.elapsed();
            if run % RUNS_A_DRAIN == 0 || run == runs {
                code = code.or(self.drain_into(&mut kept));
            }
        }
        let returned = self.actions.object.result_offset.and_then(|offset| globals.bss_u64(offset)).unwrap_or(0);
        let _ = kept.text.flush();
        let failed = kept.errors > 0 || code.is_some_and(|code| code != 0);
        Ok((Verdict { returned, failed, took }, paper.0.take()))
    }

    /// Acts on the records that are there, but writes what they print elsewhere; the code of an `exit` among them.
    fn drain_into(&mut self, render: &mut dyn Render) -> Option<u8> {
        let Session { rings, actions, received, .. } = self;
        let (object, tables) = (actions.object, actions.tables);
        let mut actions = Actions {
            object,
            loaded: actions.loaded,
            tables,
            symbols: actions.symbols,
            render,
            allow_unsafe: actions.allow_unsafe,
            locate: actions.locate,
            no_warnings: actions.no_warnings,
            exit: None,
            unwatched: Vec::new(),
            failure: None,
        };
        rings.drain(&mut |_, bytes| act(object, tables, bytes, received, &mut actions));
        actions.exit
    }
}

/// What came of a trial's runs.
struct Verdict {
    /// What the last one returned.
    returned: u64,
    /// Whether one ended with an error.
    failed: bool,
    /// How long the runs took, with the way to the kernel and back.
    took: Duration,
}

/// How long one run takes on average.
fn average(fd: BorrowedFd<'_>, mut run: impl FnMut(BorrowedFd<'_>) -> io::Result<()>) -> io::Result<u64> {
    const RUNS: u64 = 4096;
    let before = run_time_ns(fd);
    for _ in 0..RUNS {
        run(fd)?;
    }
    Ok(run_time_ns(fd).saturating_sub(before) / RUNS)
}

/// A sheet that several writers share.
#[derive(Debug, Clone, Default)]
struct Paper(Rc<RefCell<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Text that is kept, with the number of errors in it.
struct Kept {
    text: Text,
    errors: usize,
}

impl Render for Kept {
    fn attached(&mut self, probes: u32) {
        self.text.attached(probes);
    }

    fn text(&mut self, kind: &'static str, bytes: &[u8]) {
        self.text.text(kind, bytes);
    }

    fn note(&mut self, kind: &'static str, text: &[u8], place: &Place) {
        self.errors += usize::from(kind.starts_with("error"));
        self.text.note(kind, text, place);
    }

    fn helper_failed(&mut self, failure: &HelperFailure<'_>, place: &Place) {
        self.text.helper_failed(failure, place);
    }

    fn value(&mut self, value: &Value, symbols: &dyn Symbols) {
        self.text.value(value, symbols);
    }

    fn map(&mut self, map: &MapSnapshot<'_>, print: MapPrint, symbols: &dyn Symbols) {
        self.text.map(map, print, symbols);
    }

    fn end_of_run(&mut self) {
        self.text.end_of_run();
    }

    fn trial(&mut self, trial: &Trial<'_>) {
        self.text.trial(trial);
    }

    fn lost(&mut self, events: u64) {
        self.text.lost(events);
    }

    fn spans(&mut self, spans: &[crate::spans::SpanLedger]) {
        self.text.spans(spans);
    }

    fn view(&mut self, shown: &Shown<'_>, symbols: &dyn Symbols) {
        self.text.view(shown, symbols);
    }

    fn quality(&mut self, sections: &[Section]) {
        self.text.quality(sections);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.text.flush()
    }
}
