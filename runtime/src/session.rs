//! One run of a script: load, begin, attach, collect, end.
//!
//! In: an object, a renderer, names for addresses. Out: results through the renderer, and the exit status.
//! Guarantee: nothing stays attached, whatever ends the run; what was not shown was counted.

mod trials;
mod views;

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use profiler_compiler::decode::Lookup;
use profiler_compiler::object::{Attach, Loss, Object, Program};
use profiler_compiler::value::Symbols;
use profiler_compiler::words::{Record, Sink};

use crate::actions::{Actions, Locate};
use crate::attach::{AttachError, Links, attach};
use crate::child::{Child, ChildError};
use crate::ledger;
use crate::load::{LoadError, LoadOptions, Loaded, load_with};
use crate::maps::carry::{self, Estate};
use crate::orders::{Orders, Task};
use crate::params::Values;
use crate::render::{MapPrint, Render};
use crate::repl::status::Status;
use crate::ring::{Drained, Rings};
use crate::spans::{self, Pending, SpanLedger};
use crate::symbols::counting::Counting;
use crate::sys::bpf::test_run;
use crate::sys::poll;
use crate::sys::ring::MappedRing;
use crate::sys::signal::{Signals, UserSignal};
use crate::sys::stats::Measuring;
use crate::tables::Tables;
use crate::timers::{Timer, Timers};
use crate::windows::Windows;

/// Which probes of a script run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Those that trace: all but tests and benchmarks.
    #[default]
    Trace,
    /// Its tests.
    Test,
    /// Its benchmarks.
    Bench,
}

/// Prepares what is loaded for its run.
pub type Prepare<'a> = &'a dyn Fn(&Loaded) -> io::Result<()>;

/// How to run.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct RunOptions<'a> {
    /// End when this process ends.
    pub pid: Option<u32>,
    /// A command to resume once everything is attached, and to end with.
    pub child: Option<Child>,
    /// Say nothing of attached probes.
    pub quiet: bool,
    /// Attach, and end at once.
    pub dry_run: bool,
    /// End after this long.
    pub duration: Option<Duration>,
    /// Any loss makes the exit status 4.
    pub strict: bool,
    /// Measure what the probes cost, and say it.
    pub stats: bool,
    /// `system` may run commands.
    pub allow_unsafe: bool,
    /// Which probes run.
    pub mode: Mode,
    /// Called once everything is loaded and before anything is attached; an error ends the run.
    pub when_loaded: Option<Prepare<'a>>,
    /// Called once all probes are attached, before the command of `-c` runs.
    pub when_attached: Option<&'a dyn Fn()>,
    /// The script's warnings are dropped.
    pub no_warnings: bool,
    /// Where in the script a span is.
    pub locate: Option<Locate<'a>>,
    /// Who tells it what to do while it runs. Signals are then for the one who does.
    pub orders: Option<Orders>,
    /// Other values for the object's parameters than it was made with.
    pub values: Option<Values>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Exit status of the process.
    pub exit_code: u8,
    /// Records received, by program.
    pub received: Vec<u64>,
    /// What was lost.
    pub losses: Vec<(Loss, u64)>,
    /// What became of the starts and ends of spans.
    pub spans: Vec<SpanLedger>,
}

/// Why a run failed.
#[derive(Debug)]
pub enum RunError {
    /// The kernel refused the object.
    Load(LoadError),
    /// A probe could not be attached.
    Attach(AttachError),
    /// The command of `-c` did not start.
    Child(ChildError),
    /// There is nothing to run in this mode.
    NoTrials(Mode),
    /// There is no process with the id of `-p`.
    NoProcess(u32),
    /// A map could not be read or changed.
    Map {
        /// Its name.
        name: String,
        /// The kernel's answer.
        error: io::Error,
    },
    /// Results could not be written.
    Output(io::Error),
    /// A call that nothing should make fail.
    System {
        /// What was done.
        what: &'static str,
        /// The kernel's answer.
        error: io::Error,
    },
}

/// Exit status of a strict run that lost something.
const LOSS_STATUS: u8 = 4;

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

/// Runs an object to its end.
pub fn run(
    object: &Object,
    mut options: RunOptions,
    render: &mut dyn Render,
    symbols: &dyn Symbols,
) -> Result<Outcome, RunError> {
    let has_trials = object.programs.iter().any(|program| program.attach.is_trial());
    if options.mode == Mode::Trace && has_trials && traced(object).next().is_none() {
        return Err(RunError::NoTrials(options.mode));
    }
    let target = options.pid.map(|pid| poll::pidfd(pid).map_err(|_| RunError::NoProcess(pid))).transpose()?;
    let signals = match options.orders {
        Some(_) => None,
        None => Some(Signals::listen().map_err(system("listening for signals"))?),
    };
    let values = options.values.take().unwrap_or_else(|| Values::of(object));
    let loaded = load_with(object, &values, LoadOptions::default()).map_err(RunError::Load)?;
    if let Some(prepare) = options.when_loaded {
        prepare(&loaded).map_err(system("carrying over what maps held"))?;
    }
    let tables = Tables { object, loaded: &loaded };
    let (allow_unsafe, locate) = (options.allow_unsafe, options.locate);
    let measuring = options.stats.then(Measuring::start).transpose().map_err(system("measuring the programs"))?;
    let unnamed = Cell::new(0);
    let symbols = &Counting::new(symbols, &unnamed);
    let actions = Actions {
        object,
        loaded: &loaded,
        tables: &tables,
        symbols,
        render,
        allow_unsafe,
        locate,
        no_warnings: options.no_warnings,
        exit: None,
        unwatched: Vec::new(),
        failure: None,
    };
    let on_signal = object.programs.iter().any(|program| program.attach == Attach::Signal);
    let mut session = Session {
        rings: open_rings(object, &loaded).map_err(system("mapping the ring buffers"))?,
        received: vec![0; object.programs.len()],
        output_failure: None,
        reported: 0,
        report_due: Instant::now(),
        child: options.child.take(),
        signals,
        windows: Windows::new(object).map_err(system("preparing windows"))?,
        measuring,
        unnamed: &unnamed,
        orders: options.orders.take(),
        is_stopped: false,
        heir: None,
        user_signal: on_signal.then(UserSignal::listen).transpose().map_err(system("listening for SIGUSR1"))?,
        target,
        actions,
    };
    if options.mode != Mode::Trace {
        return session.try_out(&options);
    }
    if options.dry_run {
        return session.dry_run(&options);
    }
    let links = session.start(&options)?;
    session.finish(links, &options)
}

fn open_rings(object: &Object, loaded: &Loaded) -> io::Result<Rings<MappedRing>> {
    let longest = object.events.iter().map(|event| event.max_size_bytes).max().unwrap_or(0);
    let open = |name: &Option<String>| name.as_deref().map(|name| loaded.ring(name, longest)).transpose();
    Ok(Rings::new(open(&object.data_ring)?, open(&object.control_ring)?))
}

/// The programs that are neither tests nor benchmarks.
fn traced(object: &Object) -> impl Iterator<Item = &Program> {
    object.programs.iter().filter(|program| !program.attach.is_trial())
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |error| RunError::System { what, error }
}

/// A loaded object at work.
struct Session<'a> {
    rings: Rings<MappedRing>,
    actions: Actions<'a>,
    received: Vec<u64>,
    /// Why results can no longer be written: nobody reads them any more, or there is no room.
    output_failure: Option<io::Error>,
    /// Lost records that the renderer was told of.
    reported: u64,
    report_due: Instant,
    child: Option<Child>,
    signals: Option<Signals>,
    orders: Option<Orders>,
    /// By order: nothing more is to be printed.
    is_stopped: bool,
    /// By order: who gets what the maps hold once nothing is attached.
    heir: Option<Sender<Vec<Estate>>>,
    /// SIGUSR1, when the script has a probe for it.
    user_signal: Option<UserSignal>,
    target: Option<OwnedFd>,
    /// When views are shown.
    windows: Windows,
    /// While it is open, the kernel measures what programs cost.
    measuring: Option<Measuring>,
    /// Addresses that were shown without a name.
    unnamed: &'a Cell<u64>,
}

impl Session<'_> {
    fn dry_run(mut self, options: &RunOptions) -> Result<Outcome, RunError> {
        let links = self.attach(options)?;
        drop(links);
        Ok(Outcome { exit_code: 0, received: self.received, losses: Vec::new(), spans: Vec::new() })
    }

    /// From `BEGIN` to what ends the run. A `BEGIN` that exits attaches nothing.
    fn start(&mut self, options: &RunOptions) -> Result<Links, RunError> {
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
        self.collect(options.duration.map(|duration| Instant::now() + duration), &mut links)?;
        timers.stop().map_err(system("running a timer"))?;
        links.drop_quick();
        Ok(links)
    }

    fn begin(&mut self) -> Result<(), RunError> {
        if let Some(offset) = self.actions.object.start_time_offset {
            self.actions.loaded.globals().set_bss_u64(offset, poll::boot_clock_ns());
        }
        if let Some(offset) = self.actions.object.wall_clock_offset {
            self.actions.loaded.globals().set_bss_u64(offset, self.actions.symbols.boot_time_ns());
        }
        self.run_programs(&Attach::Begin)
    }

    fn begin_may_exit(&self) -> bool {
        let object = self.actions.object;
        let is_begin = |program: usize| object.programs.get(program).is_some_and(|it| it.attach == Attach::Begin);
        object.events.iter().any(|event| event.word.ends_the_run() && is_begin(event.program))
    }

    fn attach(&mut self, options: &RunOptions) -> Result<Links, RunError> {
        let object = self.actions.object;
        let links = attach(object, self.actions.loaded).map_err(RunError::Attach)?;
        if !options.quiet {
            self.actions.render.attached(traced(object).map(|program| program.points).sum());
        }
        self.flush();
        if let Some(tell) = options.when_attached {
            tell();
        }
        Ok(links)
    }

    fn run_programs(&self, kind: &Attach) -> Result<(), RunError> {
        for program in self.actions.object.programs.iter().filter(|program| program.attach == *kind) {
            let run = |fd: Option<BorrowedFd<'_>>| test_run(fd.ok_or(io::ErrorKind::NotFound)?);
            run(self.actions.loaded.program(&program.name)).map_err(system("running a probe of profiler itself"))?;
        }
        Ok(())
    }

    /// Reads an iterator to its end, which runs its program for each object. The program itself asks to be read again once there
    /// is something to drain.
    fn iterate(&mut self, mut iterator: File) -> Result<(), RunError> {
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

    fn start_timers(&self) -> io::Result<Timers> {
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

    /// Whether nothing more can happen: only `BEGIN`, `END` and iterators are in the script, and no command is waited for.
    fn is_over(&self) -> bool {
        let once = |attach: &Attach| matches!(attach, Attach::Begin | Attach::End | Attach::Iterator { .. });
        self.child.is_none() && traced(self.actions.object).all(|program| once(&program.attach))
    }

    /// Reads records until something ends the run.
    fn collect(&mut self, deadline: Option<Instant>, links: &mut Links) -> Result<(), RunError> {
        if self.is_over() {
            self.drain();
            return Ok(());
        }
        let mut last_record = Instant::now();
        let mut process_ended = false;
        while !process_ended {
            let signals = self.user_signal.as_ref().map_or(0, UserSignal::take);
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
            self.report_losses(now);
            let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
            if self.ended() || left.is_some_and(|left| left.is_zero()) {
                break;
            }
            // Much came: look again at once, before the ring is full.
            if drained.data_bytes > self.rings.data_size_bytes() / 8 {
                continue;
            }
            let due = self.windows.next_due().map(|due| due.saturating_duration_since(Instant::now()));
            let left = [left, due].into_iter().flatten().min();
            let active = !drained.complete || now - last_record < ACTIVE;
            let waited = if active { self.wait(left.map_or(POLL, |left| left.min(POLL))) } else { self.sleep(left) };
            process_ended = waited.map_err(system("waiting"))?;
        }
        Ok(())
    }

    /// Does what it was told meanwhile.
    fn obey(&mut self, links: &Links) {
        while let Some(order) = self.orders.as_ref().and_then(Orders::take) {
            let named = |name: &str| self.actions.object.maps.iter().position(|map| map.name == name);
            match &order.task {
                Task::Stop => {
                    self.is_stopped = true;
                    return;
                }
                Task::HandOver(heir) => {
                    self.is_stopped = true;
                    self.heir = Some(heir.clone());
                    return;
                }
                Task::Print { map, view: Some(view) } => {
                    if let Some(map) = named(map) {
                        self.show_asked(map, view);
                    }
                }
                Task::Print { map, view: None } => {
                    let map = named(map);
                    let snapshot = map.and_then(|map| self.actions.snapshot(map));
                    self.actions.show(snapshot, MapPrint::default());
                }
                Task::Status(answer) => {
                    // Whoever asked may be gone.
                    let _ = answer.send(self.status(links));
                }
                Task::Clear(name) => {
                    if let Some(map) = named(name) {
                        self.actions.clear_map(map);
                    }
                }
            }
            self.flush();
        }
    }

    /// What it did so far.
    fn status(&self, links: &Links) -> Status {
        let (object, loaded, elapsed) = (self.actions.object, self.actions.loaded, self.windows.whole().length());
        let costs = ledger::costs(object, loaded, elapsed);
        let runs: u64 = costs.iter().map(|cost| cost.runs).sum();
        let time = Duration::from_nanos(costs.iter().map(|cost| cost.time_ns).sum());
        let losses: u64 = ledger::read(object, loaded, &links.missed_runs()).iter().map(|(_, lost)| lost).sum();
        let spans: u64 = spans::read(object, loaded).iter().map(SpanLedger::lost).sum();
        // The kernel does not measure test runs, of which timers are made.
        let test_run =
            |attach: &Attach| matches!(attach, Attach::Begin | Attach::End | Attach::Timer { .. } | Attach::Signal);
        let is_measured = !traced(object).all(|program| test_run(&program.attach));
        Status {
            probes: traced(object).map(|program| program.points).sum(),
            cost: is_measured.then_some((runs, time)),
            elapsed,
            records: self.received.iter().sum(),
            lost: losses + spans,
        }
    }

    /// Waits for a while, or for a signal or the end of a process; whether the latter came.
    fn wait(&self, limit: Duration) -> io::Result<bool> {
        self.poll(&[], Some(limit))
    }

    /// Sleeps until a record comes, so that an idle session costs nothing.
    fn sleep(&self, left: Option<Duration>) -> io::Result<bool> {
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

    fn ring_fds(&self) -> Vec<BorrowedFd<'_>> {
        let object = self.actions.object;
        let names = [&object.data_ring, &object.control_ring].into_iter().flatten();
        names.filter_map(|name| self.actions.loaded.map(name)).map(|map| map.fd()).collect()
    }

    /// Waits for signals, processes and `rings`; whether a process ended.
    fn poll(&self, rings: &[BorrowedFd<'_>], limit: Option<Duration>) -> io::Result<bool> {
        let mut fds: Vec<BorrowedFd<'_>> = Vec::with_capacity(6);
        fds.extend(self.child.as_ref().map(AsFd::as_fd));
        fds.extend(self.target.as_ref().map(AsFd::as_fd));
        let processes = fds.len();
        fds.extend(self.signals.as_ref().map(AsFd::as_fd));
        fds.extend(self.orders.as_ref().map(AsFd::as_fd));
        fds.extend(self.user_signal.as_ref().map(AsFd::as_fd));
        fds.extend(self.windows.wake_fd());
        fds.extend(rings);
        let ready = poll::wait(&fds, limit)?;
        Ok(ready & ((1 << processes) - 1) != 0)
    }

    fn process_ended(&self) -> io::Result<bool> {
        self.poll(&[], Some(Duration::ZERO))
    }

    /// Whether something other than time or a process has ended the run.
    fn ended(&self) -> bool {
        self.actions.exit.is_some()
            || self.actions.failure.is_some()
            || self.output_failure.is_some()
            || self.interrupted()
    }

    /// Whether a signal or an order has ended the run.
    fn interrupted(&self) -> bool {
        self.is_stopped || self.signals.as_ref().is_some_and(Signals::came)
    }

    /// Acts on the records that are there, and writes out what they print.
    fn drain(&mut self) -> Drained {
        let Session { rings, actions, received, .. } = self;
        let (object, tables) = (actions.object, actions.tables);
        let drained = rings.drain(&mut |_, bytes| act(object, tables, bytes, received, actions));
        if drained.records > 0 {
            self.flush();
        }
        drained
    }

    fn flush(&mut self) {
        if let Err(error) = self.actions.render.flush() {
            self.output_failure.get_or_insert(error);
        }
    }

    /// Tells the renderer of records lost since it was last told.
    fn report_losses(&mut self, now: Instant) {
        if now < self.report_due {
            return;
        }
        self.report_due = now + REPORT;
        // What links missed is no record.
        let losses = ledger::read(self.actions.object, self.actions.loaded, &[]);
        self.report(&losses);
    }

    fn report(&mut self, losses: &[(Loss, u64)]) {
        let lost = ledger::records(losses);
        if lost > self.reported {
            self.actions.render.lost(lost - self.reported);
            self.reported = lost;
        }
    }

    /// `END`, the last records, the maps, the ledger; then the links go.
    ///
    /// Probes whose detaching takes 40 to 110 ms are still attached until results are out. What they do after the last
    /// drain is not read: records stay in the ring, and each map is read once. So nobody waits for the kernel, and no
    /// record is shown after those of `END`.
    fn finish(mut self, links: Links, options: &RunOptions) -> Result<Outcome, RunError> {
        self.drain_finished();
        if let Some(heir) = self.heir.take() {
            return self.hand_over(links, &heir);
        }
        self.run_programs(&Attach::End)?;
        self.drain_finished();
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
        if let Some(error) = self.output_failure.filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
            return Err(RunError::Output(error));
        }
        let exit_code = match self.actions.exit {
            _ if options.strict && (!losses.is_empty() || spans.iter().any(|span| span.lost() > 0)) => LOSS_STATUS,
            code => code.unwrap_or(0),
        };
        Ok(Outcome { exit_code, received: self.received, losses, spans })
    }

    /// Detaches, and gives what the maps hold to another.
    fn hand_over(mut self, links: Links, heir: &Sender<Vec<Estate>>) -> Result<Outcome, RunError> {
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
        Ok(Outcome { exit_code: 0, received: self.received, losses, spans })
    }

    /// Drains, and waits a little for records that are being written.
    fn drain_finished(&mut self) {
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

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Load(error) => error.fmt(f),
            RunError::Attach(error) => error.fmt(f),
            RunError::Child(error) => error.fmt(f),
            RunError::NoTrials(Mode::Trace) => f.write_str(
                "no probes attached: this script has only tests and benchmarks, which run with --test and --bench",
            ),
            RunError::NoTrials(Mode::Test) => f.write_str("this script has no `test:NAME` probes"),
            RunError::NoTrials(Mode::Bench) => f.write_str("this script has no `bench:NAME` probes"),
            RunError::NoProcess(pid) => write!(f, "there is no process {pid}"),
            RunError::Map { name, error } => write!(f, "cannot access map {name}: {error}"),
            RunError::Output(error) => write!(f, "cannot write results: {error}"),
            RunError::System { what, error } => write!(f, "{what} failed: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
