//! Runs the fuzz targets of `fuzz/` on the stable toolchain, without libFuzzer: the whole corpus,
//! the repository's scripts, and deterministic mutations of both.
//!
//! `PROFILER_FUZZ=N` makes N mutations for each fuzz target instead of the default, which takes
//! seconds, and `PROFILER_TIMES=N` N times the default; `PROFILER_FUZZ_SEED=S` sets the first seed.
//! An input that makes a target panic, overflow a 2 MiB stack or run for more than 10 s is kept in
//! `target/tmp/fuzz`. Once the bug is fixed, add the input to `fuzz/corpus/`.

#[path = "../../../fuzz/src/lib.rs"]
mod entries;
#[path = "../patience/mod.rs"]
mod patience;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::abort;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use entries::mutate::{LIMIT_BYTES, Numbers, Shape, changed};
use entries::{ENTRIES, Entry};

/// Stack size of the fuzzing threads: Rust's default, a quarter of what Linux gives the main
/// thread.
const STACK_BYTES: usize = 2 << 20;

/// An input that runs longer counts as a hang. The slowest input takes a hundredth of this.
const WATCHDOG: Duration = Duration::from_secs(10);

/// Default number of mutations for each fuzz target. Scripts get fewer because they run the whole
/// compiler.
const USUAL: u64 = 1500;
const USUAL_SCRIPTS: u64 = 700;

/// Additional seed scripts: the repository's own.
const SCRIPTS: [&str; 8] = [
    "tests/scripts/core",
    "tests/scripts/loads",
    "tests/diagnostics/syntax",
    "tests/diagnostics/names",
    "tests/diagnostics/types",
    "tests/diagnostics/probes",
    "tests/diagnostics/limits",
    "tests/diagnostics/gates",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The contents of the files in a directory, sorted by name.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let named = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path.display().to_string(), bytes)
    };
    paths.into_iter().map(named).collect()
}

/// A number from an environment variable.
fn asked(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Number of failures after which a fuzz target is abandoned.
const ENOUGH: usize = 5;

/// One running fuzz target: its current input and its result.
struct Run {
    entry: Entry,
    /// The file that holds the current input, so that it survives an abort.
    path: PathBuf,
    /// The same file, kept open: creating a file for each input takes milliseconds on some file
    /// systems.
    file: File,
    present: Mutex<Option<Instant>>,
    inputs: AtomicUsize,
    failures: Mutex<Vec<String>>,
    done: AtomicBool,
}

impl Run {
    fn new(entry: Entry, directory: &Path) -> Run {
        let path = directory.join(entry.name);
        Run {
            entry,
            file: File::create(&path).expect("a file of our own"),
            path,
            present: Mutex::new(None),
            inputs: AtomicUsize::new(0),
            failures: Mutex::default(),
            done: AtomicBool::new(false),
        }
    }

    /// Passes one input to the fuzz target.
    fn take(&self, input: &[u8], name: &dyn Fn() -> String) {
        let kept = self.file.write_all_at(input, 0).and_then(|()| self.file.set_len(input.len() as u64));
        kept.expect("a file of our own");
        self.inputs.fetch_add(1, Ordering::Relaxed);
        *self.present.lock().expect("no panic while it is held") = Some(Instant::now());
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.entry.run)(input)));
        *self.present.lock().expect("no panic while it is held") = None;
        if outcome.is_err() {
            let kept =
                self.path.with_file_name(format!("{}-failed-{}", self.entry.name, self.inputs.load(Ordering::Relaxed)));
            fs::write(&kept, input).expect("a file of our own");
            let words = format!("{}: {} panicked; the input is {}", self.entry.name, name(), kept.display());
            self.failures.lock().expect("no panic while it is held").push(words);
        }
    }

    /// Runs the corpus, then mutations of it.
    fn all(&self, first_seed: u64, asked: Option<u64>) {
        let mut seeds = files(&root().join("fuzz/corpus").join(self.entry.name));
        if self.entry.shape == Shape::Script {
            seeds.extend(SCRIPTS.iter().flat_map(|directory| files(&root().join(directory))));
        }
        for (name, bytes) in &seeds {
            self.take(bytes, &|| name.clone());
        }
        let seeds: Vec<Vec<u8>> = seeds.into_iter().map(|(_, bytes)| bytes).collect();
        let usual = if self.entry.shape == Shape::Script { USUAL_SCRIPTS } else { USUAL };
        for seed in first_seed..first_seed + asked.unwrap_or(usual * self::asked("PROFILER_TIMES").unwrap_or(1)) {
            if self.failures.lock().expect("no panic while it is held").len() >= ENOUGH {
                break;
            }
            self.take(&changed(self.entry.shape, &mut Numbers::new(seed), &seeds), &|| format!("mutation {seed}"));
        }
        let _ = fs::remove_file(&self.path);
    }

    /// Ends the test program when an input hangs: a thread cannot be stopped from outside.
    fn watch(&self) {
        let present = *self.present.lock().expect("no panic while it is held");
        if present.is_some_and(|since| is_over(since.elapsed())) {
            eprintln!("{}: works for more than {WATCHDOG:?}; the input is {}", self.entry.name, self.path.display());
            abort();
        }
    }
}

/// Whether the watchdog time is over, with allowance for the processor time that other programs
/// take.
fn is_over(elapsed: Duration) -> bool {
    elapsed > WATCHDOG && elapsed.div_f64(patience::slowness()) > WATCHDOG
}

#[test]
fn no_entry_point_fails_on_its_corpus_or_on_mutations_of_it() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    fs::create_dir_all(&directory).expect("a directory of our own");
    let (seed, asked) = (self::asked("PROFILER_FUZZ_SEED").unwrap_or(0), self::asked("PROFILER_FUZZ"));
    let runs: Vec<Run> = ENTRIES.iter().map(|entry| Run::new(*entry, &directory)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let start = Instant::now();
            run.all(seed, asked);
            run.done.store(true, Ordering::Relaxed);
            println!("{}: {} inputs in {:.1?}", run.entry.name, run.inputs.load(Ordering::Relaxed), start.elapsed());
        }
    };
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..workers {
            thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work).expect("a thread");
        }
        while !runs.iter().all(|run| run.done.load(Ordering::Relaxed)) {
            runs.iter().for_each(Run::watch);
            thread::sleep(Duration::from_millis(50));
        }
    });
    let failures: Vec<String> =
        runs.into_iter().flat_map(|run| run.failures.into_inner().unwrap_or_default()).collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_entry_point_has_its_target_and_its_corpus() {
    let fuzz = root().join("fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).expect("the manifest");
    let names: BTreeSet<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
    assert!(ENTRIES.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted, each once");
    for name in &names {
        assert!(
            manifest.contains(&format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\n")),
            "{name}: no target"
        );
        let target = fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs"))).expect(name);
        assert!(target.contains(&format!("::{name}(input)")), "{name}: its target calls something else");
        let seeds = files(&fuzz.join("corpus").join(name));
        assert!(!seeds.is_empty(), "{name}: no corpus");
        assert!(seeds.iter().all(|(_, bytes)| bytes.len() <= LIMIT_BYTES), "{name}: a seed is too large");
    }
    let directories =
        fs::read_dir(fuzz.join("corpus")).expect("the corpus").map(|entry| entry.expect("an entry").file_name());
    let directories: Vec<String> = directories.map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(
        directories.iter().all(|directory| names.contains(directory.as_str())),
        "{directories:?}: whose are these?"
    );
}
