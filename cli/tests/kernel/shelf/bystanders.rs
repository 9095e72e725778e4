//! Recipes for one process, beside another process of the same program.
//!
//! In: every recipe that probes functions of programs or libraries. Out: no breakpoint in the code
//! of the other process, so that not one of its calls costs anything.
//! Guarantee: a new recipe is tested without being named here, or the test fails and says so.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::super::machine::{Directory, attached, skip};
use super::db::{NOBODY_UID, postgres_programs};
use super::every::recipes;
use super::programs::{PROGRAMS, Process};

/// The places at which the code of a process differs from the files that it is from.
pub fn breakpoints(pid: &str) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("its mappings");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("its memory");
    let mut found = Vec::new();
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [range, access, offset, _, _, path] = fields.as_slice() else { continue };
        if !access.contains('x') || !path.starts_with('/') {
            continue;
        }
        let number = |text: &str| u64::from_str_radix(text, 16).expect("an address");
        let (start, end) = range.split_once('-').map(|(start, end)| (number(start), number(end))).expect("a range");
        let size_bytes = usize::try_from(end - start).expect("a size");
        let (mut here, mut there) = (vec![0; size_bytes], vec![0; size_bytes]);
        memory.read_exact_at(&mut here, start).expect("its code");
        let file = File::open(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        // The file may end within the last page.
        let mut read = 0;
        while let Ok(more @ 1..) = file.read_at(&mut there[read..], number(offset) + read as u64) {
            read += more;
        }
        let differ = (0..read).filter(|at| here[*at] != there[*at]);
        found.extend(differ.map(|at| format!("{path}+{:#x}", number(offset) + at as u64)));
    }
    found
}

/// Whether a recipe probes functions of programs or libraries.
fn probes_functions(recipe: &str) -> bool {
    let path = format!("{}/../stdlib/{recipe}.prof", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    ["uprobe:", "uretprobe:", "usdt:"].iter().any(|kind| text.contains(kind))
}

/// Two processes of a program.
struct Two {
    wanted: Process,
    other: Process,
}

impl Two {
    /// Starts two that say these words when they are ready; `None`, with a printed reason, if the
    /// program is not here.
    fn start(words: &str, mut command: impl FnMut() -> Command) -> Option<Two> {
        let mut first = command();
        if Command::new(first.get_program()).arg("--version").output().is_err() {
            println!("PARTLY SKIPPED: {} is not here", first.get_program().display());
            return None;
        }
        let (wanted, _) = Process::start_until(words, &mut first)?;
        let (other, _) = Process::start_until(words, &mut command())?;
        Some(Two { wanted, other })
    }

    /// Runs a recipe for one of them.
    fn check(&self, recipe: &str) {
        let running = attached(&["-q", recipe, "--pid", &self.wanted.pid()]);
        let (wanted, other) = (breakpoints(&self.wanted.pid()), breakpoints(&self.other.pid()));
        running.signal("INT");
        let ended = running.end();
        assert_eq!(ended.code(), 0, "{recipe}: {}", ended.stderr);
        assert!(!wanted.is_empty(), "{recipe}: nothing is probed: {}", ended.stderr);
        assert!(other.is_empty(), "{recipe}: breakpoints in another process: {other:?}");
    }
}

fn python() -> Option<Two> {
    let script = "import ssl, sqlite3, sys; print('ready', flush=True); sys.stdin.read()";
    Two::start("ready", || {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", script]);
        command
    })
}

fn node() -> Option<Two> {
    Two::start("ready", || {
        let mut command = Command::new("node");
        command.args(["-e", "console.log('ready'); process.stdin.resume()"]);
        command
    })
}

fn java(directory: &Directory) -> Option<Two> {
    let place = directory.path("");
    // Without a compiler there may be no machine either, which the other command finds out.
    let built = Command::new("javac").args(["-d", &place, &format!("{PROGRAMS}/Pauses.java")]).output();
    assert!(built.is_ok_and(|built| built.status.success()) || Command::new("java").output().is_err(), "javac");
    Two::start("ready", || {
        let mut command = Command::new("java");
        command.args(["-Xmx64m", "-XX:+UseSerialGC", "-cp", &place, "Pauses"]);
        command
    })
}

fn gpu(directory: &Directory) -> Option<Two> {
    let program = super::super::gpu::compiled(directory)?;
    Two::start("ready", || {
        let mut command = Command::new(&program);
        command.arg("1");
        command
    })
}

/// Servers of a user who may run one, each for one session on its standard input.
fn postgres(directory: &Directory) -> Option<Two> {
    let Some(programs) = postgres_programs() else {
        println!("PARTLY SKIPPED: PostgreSQL is not here");
        return None;
    };
    let home = directory.path("");
    chown(&home, Some(NOBODY_UID), None).expect("root may");
    let as_nobody = |program: &str| {
        let mut command = Command::new(programs.join(program));
        command.uid(NOBODY_UID).current_dir(&home);
        command
    };
    let mut places = ["first", "second"].map(|name| directory.path(name)).into_iter();
    Two::start("PostgreSQL stand-alone backend", || {
        let place = places.next().expect("two");
        let made = as_nobody("initdb").args(["-D", &place, "-A", "trust", "-N"]).output();
        assert!(made.is_ok_and(|output| output.status.success()), "initdb");
        let mut command = as_nobody("postgres");
        command.args(["--single", "-D", &place, "postgres"]);
        command
    })
}

#[test]
fn a_recipe_for_one_process_has_no_breakpoint_in_another() {
    if skip() {
        return;
    }
    let directory = Directory::new("bystanders");
    let others: [(&[&str], Option<Two>); 5] = [
        (&["runtime/node"], node()),
        (&["runtime/jvm"], java(&directory)),
        (&["gpu/launches", "wall/gpu"], gpu(&directory)),
        (&["db/postgres"], postgres(&directory)),
        // On a program that `shelf::runtime` compiles.
        (&["runtime/go"], None),
    ];
    // All others probe libraries that the process of Python has.
    let mut of_python: Vec<String> = recipes().into_iter().filter(|recipe| probes_functions(recipe)).collect();
    of_python.retain(|recipe| others.iter().all(|(recipes, _)| !recipes.contains(&recipe.as_str())));
    assert!(of_python.len() >= 9, "{of_python:?}");
    if let Some(two) = python() {
        for recipe in &of_python {
            two.check(recipe);
        }
    }
    for (recipes, two) in &others {
        for (recipe, two) in recipes.iter().zip(two.iter().cycle()) {
            two.check(recipe);
        }
    }
}
