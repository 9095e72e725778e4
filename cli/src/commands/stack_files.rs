//! The stacks of a run as files (`--flame`, `--folded`, `--pprof`, `--speedscope`, `--firefox`),
//! as a picture of text (`--icicle`), and as files for each thread (`--per-thread`).
//!
//! In: names of files, an object, and the output of a run. Out: the files, which only their owner
//! can read; the picture on standard output, after the results.
//! Guarantee: a file that cannot be written, or a script without stacks, is reported before
//! anything runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal as _, Write};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use profiler_compiler::object::{Attach, Object};
use profiler_model::output::Output;
use profiler_model::strftime::{Dialect, Zone, strftime};
use profiler_model::types::Type;
use profiler_model::units::Unit;
use profiler_output::stacks::{Look, Recorded, Stacks, WithStacks};
use profiler_runtime::params::Values;
use profiler_runtime::result_file::ResultFile;
use profiler_runtime::sys::terminal;

use super::args::StackFiles;
use super::exit::{Failure, MISTAKE};
use super::thread_files::ThreadFiles;
use super::{colours, streams};

/// Width of a picture of text that goes to a file or a pipe.
const FILE_COLUMNS: usize = 120;

/// The opened files, and what the script says about its stacks.
pub(super) struct Opened {
    files: Vec<(Kind, String, ResultFile)>,
    icicle: bool,
    is_busy: bool,
    of_threads: Option<ThreadFiles>,
    units: BTreeMap<String, Unit>,
    /// The part of the key that is the thread, for each map that has one.
    threads: BTreeMap<String, usize>,
    period_ns: Option<u64>,
}

/// A format of files.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Folded,
    Flame,
    Pprof,
    Speedscope,
    Firefox,
}

/// Opens the files for the stacks of a script.
pub(super) fn open(files: &StackFiles, object: &Object, values: &Values) -> Result<Opened, Failure> {
    let (icicle, is_busy) = (files.icicle, files.busy);
    let has_stacks = object.maps.iter().any(|map| !map.is_state() && map.key.as_ref().is_some_and(Type::has_stacks));
    if *files != StackFiles::default() && !has_stacks {
        return Err(Failure::new(MISTAKE, "no map of this script has stacks in its keys".to_owned())
            .help("count them, as in `profile:hz:99 { @[ustack] = count(); }`"));
    }
    let of_threads = files.per_thread.as_deref().map(|path| ThreadFiles::open(path, object, values)).transpose()?;
    let wanted = [
        (Kind::Folded, &files.folded),
        (Kind::Flame, &files.flame),
        (Kind::Pprof, &files.pprof),
        (Kind::Speedscope, &files.speedscope),
        (Kind::Firefox, &files.firefox),
    ];
    let opened = wanted.into_iter().filter_map(|(kind, path)| Some((kind, path.as_ref()?)));
    let files = opened.map(|(kind, path)| Ok((kind, path.clone(), streams::result_file(path)?)));
    Ok(Opened {
        files: files.collect::<Result<_, Failure>>()?,
        icicle,
        is_busy,
        of_threads,
        units: object.maps.iter().map(|map| (map.name.clone(), map.unit)).collect(),
        threads: object.maps.iter().filter_map(|map| Some((map.name.clone(), map.thread?))).collect(),
        period_ns: period_ns(object),
    })
}

/// The period of the clock that all probes with events share.
fn period_ns(object: &Object) -> Option<u64> {
    let attached = object.programs.iter().map(|program| &program.attach).filter(|attach| attach.has_events());
    let periods: BTreeSet<Option<u64>> = attached.map(Attach::clock_period_ns).collect();
    (periods.len() == 1).then(|| periods.into_iter().next().flatten()).flatten()
}

impl Opened {
    /// Runs with an output that keeps the stacks, and writes the files.
    pub(super) fn around<T>(
        self,
        mut output: Box<dyn Output>,
        script: &str,
        run: impl FnOnce(&mut dyn Output) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if self.files.is_empty() && !self.icicle && self.of_threads.is_none() {
            return run(output.as_mut());
        }
        let (started, start) = (Instant::now(), SystemTime::now());
        let mut output = WithStacks::new(output, self.units.clone()).with_threads(self.threads.clone());
        let result = run(&mut output)?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let length = started.elapsed();
        let start = start.duration_since(UNIX_EPOCH).unwrap_or_default();
        let start_unix_ns = u64::try_from(start.as_nanos()).unwrap_or_default();
        let date = strftime("%Y-%m-%d %H:%M:%S UTC", start_unix_ns, &Zone::default(), Dialect::Strftime);
        let recorded = Recorded {
            title: format!("{script} on {}, {date}, {:.1} s", host.trim(), length.as_secs_f64()),
            start_unix_ns,
            length,
            period_ns: self.period_ns,
        };
        let mut stacks = output.into_stacks();
        if self.is_busy && !stacks.is_empty() && !stacks.leave_out_idle() {
            // A closed standard error has no reader.
            let _ =
                writeln!(io::stderr(), "note: the stacks have no states of threads, so `--busy` leaves nothing out");
        }
        self.write(&stacks, &recorded)?;
        Ok(result)
    }

    fn write(self, stacks: &Stacks, recorded: &Recorded) -> Result<(), Failure> {
        let folded = stacks.folded();
        let why = if self.is_busy { "no stacks of busy threads were counted" } else { "no stacks were counted" };
        if self.icicle && stacks.is_empty() {
            let _ = writeln!(io::stderr(), "note: {why}");
        } else if self.icicle {
            let mut out = io::stdout().lock();
            let drawn = folded.write_icicle(&recorded.title, look(), &mut out).and_then(|()| out.flush());
            drawn.map_err(|error| Failure::output("standard output", &error))?;
        }
        if let Some(files) = self.of_threads {
            files.write(stacks, &recorded.title)?;
        }
        for (kind, path, file) in self.files {
            if stacks.is_empty() {
                let _ = writeln!(io::stderr(), "note: {why}, so `{path}` is empty");
                streams::write_file(&path, file, |_| Ok(()))?;
                continue;
            }
            streams::write_file(&path, file, |out| match kind {
                Kind::Folded => folded.write_lines(out),
                Kind::Flame => folded.write_flame_graph(&recorded.title, out),
                Kind::Pprof => stacks.write_pprof(recorded, out),
                Kind::Speedscope => stacks.write_speedscope(recorded, out),
                Kind::Firefox => stacks.write_firefox(recorded, out),
            })?;
        }
        Ok(())
    }
}

/// How to draw text: as wide as the terminal.
pub(super) fn look() -> Look {
    let columns =
        io::stdout().is_terminal().then(terminal::size).flatten().map_or(FILE_COLUMNS, |(columns, _)| columns);
    Look { columns, has_colour: colours::results_are_coloured(false) }
}
