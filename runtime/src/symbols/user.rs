//! Symbols of user processes.
//!
//! In: addresses of a process. Out: their locations, from the symbol tables of its files and its
//! perf map.
//! Guarantee: names found while a program ran remain after its process has ended, and are forgotten
//! when the process runs another program or another process gets its number. Mappings of processes
//! that have ended are known if they were recorded. Memory is bounded, however many processes come
//! and go. A lookup takes a bounded time, whatever files and processes do: without an answer,
//! addresses have no names, and this is counted.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;

use profiler_model::value::{Location, Shortfalls, SymbolName, Value};

use super::expected::Expected;
use super::generated::users_of_ended;
use super::naming::{Answer, Ended, Namer, Question, RecordedFile};
use super::recorder::Recorder;
use crate::host::stat::{MEMORY_BYTES, START_STACK, STARTED_TICKS, Stat};
use crate::memory::share_bytes;
use crate::reader::{Asking, Reader};

/// Most addresses that are asked for together. They usually fit into the buffer of a socket, and
/// the answer, with lines and inlined functions, into a message.
const MAX_ASKED: usize = 4096;
/// Limit of cached addresses; when it is reached, the cache is emptied.
const MAX_REMEMBERED: usize = 1 << 18;
/// Limit in bytes of cached names; when it is reached, the cache is emptied.
const MAX_REMEMBERED_BYTES: usize = 64 << 20;

fn most_remembered_bytes() -> usize {
    let share = share_bytes().and_then(|bytes| usize::try_from(bytes).ok());
    share.map_or(MAX_REMEMBERED_BYTES, |share| share.min(MAX_REMEMBERED_BYTES))
}

/// Fields of `/proc/PID/stat` that identify a program, besides the start time of the process: start
/// and end of its code, start of its stack, start of its data and of its arguments.
const MEMORY_FIELDS: [usize; 5] = [26, 27, START_STACK, 45, 48];

/// The symbols of all processes looked up so far.
#[derive(Debug)]
pub(super) struct UserSymbols {
    namer: Asking<Namer>,
    processes: HashMap<u32, Known>,
    remembered: usize,
    remembered_bytes: usize,
    recorder: Option<Recorder>,
    shortfalls: Shortfalls,
    /// The processes whose addresses were announced by the last call of `expect`.
    checked: HashSet<u32>,
    /// Whether stacks get source lines and inlined functions.
    pub with_origins: bool,
}

/// What is asked together.
#[derive(Debug, Default)]
struct Questions {
    all: Vec<Question>,
    /// Number of addresses.
    addresses: usize,
}

/// Cached lookups of a process.
#[derive(Debug, Default)]
struct Known {
    program: Option<Program>,
    locations: HashMap<u64, Cached>,
    /// A lookup in this process got no answer in time.
    is_stuck: bool,
}

/// A location, and whether its origin was looked up.
#[derive(Debug)]
struct Cached {
    location: Location,
    has_origin: bool,
}

/// Distinguishes a running program from all others that run, or ran, in a process with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Program {
    /// Start time of the process, in clock ticks since boot.
    started: u64,
    /// Addresses of its code, its first stack and its arguments: `exec` creates new memory at
    /// random addresses.
    memory: [u64; 5],
    /// Path of its file: without random addresses, two programs can have the same ones. It is not
    /// opened, because it can be on any file system.
    file: Option<PathBuf>,
}

impl UserSymbols {
    /// Nothing is known yet.
    pub(super) fn read_by(reader: &Reader) -> UserSymbols {
        UserSymbols {
            namer: Asking::new(reader, || Namer::new(None)),
            processes: HashMap::new(),
            remembered: 0,
            remembered_bytes: 0,
            recorder: None,
            shortfalls: Shortfalls::default(),
            checked: HashSet::new(),
            with_origins: false,
        }
    }

    /// Starts recording the mappings of processes, and scans those that already run: all, or only
    /// `processes`.
    pub(super) fn record(&mut self, processes: &[u32]) {
        self.recorder.get_or_insert_with(|| Recorder::start(processes));
    }

    /// The name of one address.
    pub(super) fn find(&mut self, pid: u32, address: u64) -> Option<SymbolName> {
        match self.locate(pid, &[address], false).pop()? {
            Location::Symbol(symbol, _) => Some(symbol),
            Location::Module(..) | Location::NoCode | Location::Unknown => None,
        }
    }

    /// Resolves the addresses of values that are about to be printed. Until the next call, their
    /// processes are not looked at again: that takes longer than to find a cached name.
    pub(super) fn expect(&mut self, values: &mut dyn Iterator<Item = &Value>) {
        let Expected { frames, symbols } = Expected::of(values, MAX_REMEMBERED / 2);
        let with_origins = self.with_origins;
        self.checked.clear();
        let processes = frames.keys().chain(symbols.keys()).copied().collect();
        let mut questions = Questions::default();
        for (addresses, with_origins) in [(frames, with_origins), (symbols, false)] {
            for (pid, addresses) in addresses {
                // The idle task has no memory of its own.
                if pid != 0 {
                    self.look_up(pid, &addresses.into_iter().collect::<Vec<_>>(), with_origins, &mut questions);
                }
            }
        }
        self.ask(questions);
        self.checked = processes;
    }

    /// What could not be resolved so far, and why.
    pub(super) fn shortfalls(&self) -> Shortfalls {
        let lost_records = self.recorder.as_ref().map_or(0, Recorder::lost);
        Shortfalls { lost_records, ..self.shortfalls }
    }

    /// The locations of addresses of a process, with their origins if they are shown.
    pub(super) fn locate_code(&mut self, pid: u32, addresses: &[u64]) -> Vec<Location> {
        self.locate(pid, addresses, self.with_origins)
    }

    /// The locations of addresses of a process; addresses that are not cached are looked up in one
    /// batch.
    fn locate(&mut self, pid: u32, addresses: &[u64], with_origins: bool) -> Vec<Location> {
        // The idle task has no memory of its own.
        if pid == 0 {
            return vec![Location::Unknown; addresses.len()];
        }
        let mut questions = Questions::default();
        self.look_up(pid, addresses, with_origins, &mut questions);
        self.ask(questions);
        let known = self.processes.get(&pid);
        let cached = |address| known.and_then(|known| known.locations.get(address));
        addresses.iter().map(|address| cached(address).map_or(Location::Unknown, |it| it.location.clone())).collect()
    }

    /// Adds what is not cached to the questions, and asks them whenever they are many.
    fn look_up(&mut self, pid: u32, addresses: &[u64], with_origins: bool, questions: &mut Questions) {
        if self.remembered > MAX_REMEMBERED || self.remembered_bytes > most_remembered_bytes() {
            self.processes.clear();
            (self.remembered, self.remembered_bytes) = (0, 0);
        }
        let program = match self.processes.get(&pid) {
            Some(known) if self.checked.contains(&pid) => known.program.clone(),
            _ => Program::of(pid),
        };
        // Nothing can be learned about a process that has ended and was not recorded, so nothing is
        // cached.
        if program.is_none() && self.recorder.is_none() {
            return;
        }
        let known = self.processes.entry(pid).or_default();
        let is_alive = program.is_some();
        if is_alive && known.program != program {
            *known = Known { program, ..Known::default() };
        }
        let is_enough = |cached: &Cached| cached.has_origin || !with_origins;
        let is_new = |address: &u64| !known.locations.get(address).is_some_and(is_enough);
        let mut unknown: Vec<u64> = addresses.iter().copied().filter(is_new).collect();
        if unknown.is_empty() || known.is_stuck {
            return;
        }
        unknown.sort_unstable();
        unknown.dedup();
        for addresses in unknown.chunks(MAX_ASKED) {
            if questions.addresses + addresses.len() > MAX_ASKED {
                self.ask(std::mem::take(questions));
            }
            questions.addresses += addresses.len();
            questions.all.push(self.question((pid, is_alive), addresses, with_origins));
        }
    }

    fn question(&self, (pid, is_alive): (u32, bool), addresses: &[u64], with_origins: bool) -> Question {
        let recording = self.recorder.as_ref().map(Recorder::recording);
        let places = recording.as_ref().map(|recording| recording.find(pid, addresses)).unwrap_or_default();
        let recorded = RecordedFile::all(addresses, places);
        let ended = recording.filter(|_| !is_alive).map(|recording| {
            let dump = recording.dump(pid).map(|place| (place.path, place.file));
            Ended { dump, began: recording.began(), users: users_of_ended() }
        });
        Question { pid, is_alive, addresses: addresses.to_vec(), with_origins, recorded, ended }
    }

    /// Asks all at once; without an answer one after the other, so that only a process of which a
    /// file is stuck gets none.
    fn ask(&mut self, Questions { all, .. }: Questions) {
        if all.is_empty() {
            return;
        }
        if let Some(Answer { locations, shortfalls }) = self.namer.ask(all.clone()) {
            self.shortfalls.add(&shortfalls);
            for (question, locations) in all.iter().zip(locations) {
                self.remember(question, locations);
            }
            return;
        }
        let is_alone = all.len() == 1;
        for question in all {
            let known = self.processes.entry(question.pid).or_default();
            known.is_stuck |= is_alone;
            if known.is_stuck {
                self.shortfalls.unanswered += question.addresses.len() as u64;
            } else {
                self.ask(Questions { addresses: question.addresses.len(), all: vec![question] });
            }
        }
    }

    fn remember(&mut self, question: &Question, locations: Vec<(u64, Location)>) {
        let known = self.processes.entry(question.pid).or_default();
        self.remembered += locations.len();
        self.remembered_bytes += locations.iter().map(|(_, location)| location.size_bytes()).sum::<usize>();
        for (address, location) in locations {
            let kept =
                known.locations.entry(address).or_insert(Cached { location: Location::Unknown, has_origin: false });
            kept.has_origin = question.with_origins;
            // What was a symbol when the process was alive still is.
            if !matches!((&kept.location, &location), (Location::Symbol(..), Location::NoCode | Location::Unknown)) {
                kept.location = location;
            }
        }
    }
}

impl Program {
    /// `None` if the process has ended, even if its parent does not know yet.
    fn of(pid: u32) -> Option<Program> {
        let stat = Stat::of(pid)?;
        stat.number(MEMORY_BYTES).filter(|bytes| *bytes > 0)?;
        let memory = MEMORY_FIELDS.map(|field| stat.number(field).unwrap_or(0));
        let file = fs::read_link(format!("/proc/{pid}/exe")).ok();
        Some(Program { started: stat.number(STARTED_TICKS)?, memory, file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn main() -> SymbolName {
        SymbolName { name: "main".into(), offset: 4, module: None }
    }

    fn known(program: Option<Program>) -> Known {
        let cached = Cached { location: Location::named(main()), has_origin: false };
        Known { program, locations: HashMap::from([(0x10, cached)]), ..Known::default() }
    }

    #[test]
    fn names_outlive_their_process_but_not_its_number_nor_its_program() {
        let mut symbols = UserSymbols::read_by(&Reader::here());
        let gone = 1 << 30;
        let other = Program { started: 1, memory: [0; 5], file: None };
        symbols.processes.insert(gone, known(Some(other)));
        assert_eq!(symbols.find(gone, 0x10), Some(main()));
        symbols.locate_code(gone, &[0x20]);
        assert_eq!(symbols.find(gone, 0x10), Some(main()));

        let own = std::process::id();
        let now = Program::of(own).expect("we live");
        symbols.processes.insert(own, known(Some(now.clone())));
        assert_eq!(symbols.find(own, 0x10), Some(main()));
        symbols.processes.insert(own, known(Some(Program { started: 1, ..now.clone() })));
        assert_eq!(symbols.find(own, 0x10), None, "this process started at another time");
        symbols.processes.insert(own, known(Some(Program { memory: [1; 5], ..now.clone() })));
        assert_eq!(symbols.find(own, 0x10), None, "this process ran another program");
        symbols.processes.insert(own, known(Some(Program { file: None, ..now })));
        assert_eq!(symbols.find(own, 0x10), None, "the program has another file");
    }

    #[test]
    fn memory_is_bounded() {
        let mut symbols = UserSymbols { remembered: MAX_REMEMBERED + 1, ..UserSymbols::read_by(&Reader::here()) };
        symbols.processes.insert(1 << 30, Known::default());
        symbols.locate_code(std::process::id(), &[1]);
        assert_eq!((symbols.processes.len(), symbols.remembered), (1, 1));
        symbols.remembered_bytes = MAX_REMEMBERED_BYTES + 1;
        symbols.locate_code(std::process::id(), &[2]);
        assert_eq!((symbols.processes.len(), symbols.remembered), (1, 1));
    }

    #[test]
    fn processes_that_are_gone_take_no_memory() {
        let mut symbols = UserSymbols::read_by(&Reader::here());
        for pid in 1 << 29..(1 << 29) + 100 {
            symbols.locate_code(pid, &[1, 2, 3]);
            assert_eq!(symbols.find(pid, 1), None);
        }
        assert_eq!((symbols.processes.len(), symbols.remembered), (0, 0));
    }

    #[test]
    fn more_addresses_than_a_question_has_are_all_looked_up() {
        let mut symbols = UserSymbols::read_by(&Reader::here());
        let code = Program::of as fn(u32) -> Option<Program> as usize as u64;
        let addresses: Vec<u64> = (code..).take(2 * MAX_ASKED + 1).collect();
        let found = symbols.locate_code(std::process::id(), &addresses);
        let is_code = |location: &&Location| matches!(location, Location::Symbol(..) | Location::Module(..));
        assert_eq!((found.len(), found.iter().filter(is_code).count()), (addresses.len(), addresses.len()));
    }

    #[test]
    fn addresses_are_code_or_not() {
        let mut symbols = UserSymbols::read_by(&Reader::here());
        let own = std::process::id();
        let code = Program::of as fn(u32) -> Option<Program> as usize as u64;
        let data = &raw const symbols as u64;
        let found = symbols.locate_code(own, &[code, data, 0x2f67_6374_2f6c_6563]);
        assert!(matches!(&found[0], Location::Symbol(symbol, _) if symbol.name.contains("Program")), "{found:?}");
        assert_eq!(found[1..], [Location::NoCode, Location::NoCode]);
    }
}
