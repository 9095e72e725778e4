//! Symbols of processes.
//!
//! In: addresses of a process. Out: names, from its files' symbol tables and its perf map.
//! Guarantee: a process's mappings are read once a batch, not once an address; names found while it lived stay when it has
//! gone, and are forgotten when another process takes its number. What processes had mapped that have ended is known where it
//! was recorded. However many processes come and go, memory is bounded.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use blazesym::Pid;
use blazesym::symbolize::source::{Elf, Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use profiler_compiler::value::SymbolName;

use super::recorder::Recorder;

/// How many addresses are remembered before all are forgotten.
const MAX_REMEMBERED: usize = 1 << 18;
/// After how many processes the symbolizer starts over: it keeps some 300 bytes of each for ever.
const MAX_PROCESSES: usize = 1 << 13;

/// The symbols of all processes asked about so far.
#[derive(Debug)]
pub(super) struct UserSymbols {
    symbolizer: Symbolizer,
    processes: HashMap<u32, Known>,
    remembered: usize,
    /// Processes that this symbolizer has looked into.
    looked_into: usize,
    recorder: Option<Recorder>,
}

/// What is known of a process.
#[derive(Debug, Default)]
struct Known {
    /// When it started, in clock ticks since boot, which tells it from others with its number.
    started: Option<u64>,
    names: HashMap<u64, Option<SymbolName>>,
}

impl Default for UserSymbols {
    fn default() -> UserSymbols {
        UserSymbols {
            symbolizer: symbolizer(),
            processes: HashMap::new(),
            remembered: 0,
            looked_into: 0,
            recorder: None,
        }
    }
}

fn symbolizer() -> Symbolizer {
    Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false).build()
}

impl UserSymbols {
    /// From now on, remembers what processes have mapped; what is there already, of all of them or of one.
    pub(super) fn record(&mut self, process: Option<u32>) {
        self.recorder.get_or_insert_with(|| Recorder::start(process));
    }

    /// The name of one address.
    pub(super) fn find(&mut self, pid: u32, address: u64) -> Option<SymbolName> {
        if !self.processes.get(&pid).is_some_and(|known| known.names.contains_key(&address)) {
            self.prepare(pid, &[address]);
        }
        self.processes.get(&pid)?.names.get(&address)?.clone()
    }

    /// Resolves those of the addresses that are not known yet, all at once.
    pub(super) fn prepare(&mut self, pid: u32, addresses: &[u64]) {
        // blazesym takes number 0 for this very process.
        if pid == 0 {
            return;
        }
        if self.remembered > MAX_REMEMBERED {
            self.processes.clear();
            self.remembered = 0;
        }
        let started = start_time(pid);
        // Of a process that is gone and was not recorded, nothing can be learned, and so nothing is kept.
        if started.is_none() && self.recorder.is_none() {
            return;
        }
        if self.looked_into > MAX_PROCESSES {
            self.symbolizer = symbolizer();
            self.looked_into = 0;
        }
        let known = self.processes.entry(pid).or_default();
        if started.is_some() && known.started != started {
            *known = Known { started, names: HashMap::new() };
            self.looked_into += 1;
        }
        let mut unknown: Vec<u64> = addresses.iter().copied().filter(|at| !known.names.contains_key(at)).collect();
        if unknown.is_empty() {
            return;
        }
        unknown.sort_unstable();
        unknown.dedup();
        self.remembered += unknown.len();
        let source = Source::Process(Process { debug_syms: false, ..Process::new(Pid::from(pid)) });
        let named = started.and_then(|_| self.symbolizer.symbolize(&source, Input::AbsAddr(&unknown)).ok());
        match named {
            Some(results) => known.names.extend(unknown.iter().copied().zip(results.iter().map(name))),
            None => known.names.extend(unknown.iter().map(|address| (*address, None))),
        }
        unknown.retain(|address| known.names.get(address).is_some_and(Option::is_none));
        if let Some(recorder) = self.recorder.as_ref().filter(|_| !unknown.is_empty()) {
            known.names.extend(recorded(recorder, &self.symbolizer, pid, &unknown));
        }
    }
}

/// Addresses with their places in a file.
type Addresses = Vec<(u64, u64)>;

/// Names of addresses by the files that a process had mapped.
fn recorded(
    recorder: &Recorder,
    symbolizer: &Symbolizer,
    pid: u32,
    addresses: &[u64],
) -> Vec<(u64, Option<SymbolName>)> {
    let mut files: BTreeMap<(Arc<str>, u64), Addresses> = BTreeMap::new();
    for (address, place) in addresses.iter().zip(recorder.find(pid, addresses)) {
        if let Some(place) = place {
            files.entry((place.path, place.inode)).or_default().push((*address, place.offset));
        }
    }
    let mut names = Vec::new();
    for ((path, inode), places) in files {
        // Another file has taken its path, or it was in another mount namespace.
        if !fs::metadata(&*path).is_ok_and(|file| file.ino() == inode) {
            continue;
        }
        let offsets: Vec<u64> = places.iter().map(|(_, offset)| *offset).collect();
        let source = Source::Elf(Elf { debug_syms: false, ..Elf::new(&*path) });
        if let Ok(results) = symbolizer.symbolize(&source, Input::FileOffset(&offsets)) {
            names.extend(places.iter().map(|(address, _)| *address).zip(results.iter().map(name)));
        }
    }
    names
}

fn name(result: &Symbolized<'_>) -> Option<SymbolName> {
    let symbol = result.as_sym()?;
    Some(SymbolName {
        name: symbol.name.to_string(),
        offset: symbol.offset as u64,
        module: symbol.module.as_ref().map(|module| module.to_string_lossy().into_owned()),
    })
}

/// Field 22 of `/proc/PID/stat`, counted behind the parentheses around the command, which may hold anything.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outlive_their_process_but_not_its_number() {
        let mut symbols = UserSymbols::default();
        let gone = 1 << 30;
        let main = SymbolName { name: "main".into(), offset: 4, module: None };
        let names = || HashMap::from([(0x10, Some(main.clone()))]);
        symbols.processes.insert(gone, Known { started: Some(1), names: names() });
        assert_eq!(symbols.find(gone, 0x10), Some(main.clone()));
        symbols.prepare(gone, &[0x20]);
        assert_eq!(symbols.find(gone, 0x10), Some(main.clone()));

        let own = std::process::id();
        symbols.processes.insert(own, Known { started: Some(1), names: names() });
        symbols.prepare(own, &[0x20]);
        assert_eq!(symbols.find(own, 0x10), None, "this process started at another time");
    }

    #[test]
    fn memory_is_bounded() {
        let mut symbols = UserSymbols { remembered: MAX_REMEMBERED + 1, ..UserSymbols::default() };
        symbols.processes.insert(1 << 30, Known::default());
        symbols.prepare(std::process::id(), &[1]);
        assert_eq!((symbols.processes.len(), symbols.remembered), (1, 1));
    }

    #[test]
    fn processes_that_are_gone_take_no_memory() {
        let mut symbols = UserSymbols::default();
        for pid in 1 << 29..(1 << 29) + 100 {
            symbols.prepare(pid, &[1, 2, 3]);
            assert_eq!(symbols.find(pid, 1), None);
        }
        assert_eq!((symbols.processes.len(), symbols.remembered, symbols.looked_into), (0, 0, 0));
        symbols.looked_into = MAX_PROCESSES + 1;
        symbols.prepare(std::process::id(), &[1]);
        assert_eq!(symbols.looked_into, 1);
    }
}
