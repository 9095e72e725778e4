//! Symbols of processes.
//!
//! In: addresses of a process. Out: names, from its files' symbol tables and its perf map.
//! Guarantee: a process's mappings are read once a batch, not once an address; names found while it lived stay when it has
//! gone, and are forgotten when another process takes its number. However many processes come and go, memory is bounded.

use std::collections::HashMap;
use std::fs;

use blazesym::Pid;
use blazesym::symbolize::source::{Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use profiler_compiler::value::SymbolName;

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
        UserSymbols { symbolizer: symbolizer(), processes: HashMap::new(), remembered: 0, looked_into: 0 }
    }
}

fn symbolizer() -> Symbolizer {
    Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false).build()
}

impl UserSymbols {
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
        // Of a process that is gone, nothing can be learned, and so nothing is kept.
        let Some(started) = start_time(pid) else { return };
        if self.looked_into > MAX_PROCESSES {
            self.symbolizer = symbolizer();
            self.looked_into = 0;
        }
        let known = self.processes.entry(pid).or_default();
        if known.started != Some(started) {
            *known = Known { started: Some(started), names: HashMap::new() };
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
        match self.symbolizer.symbolize(&source, Input::AbsAddr(&unknown)) {
            Ok(results) => known.names.extend(unknown.into_iter().zip(results.iter().map(name))),
            // The process is gone.
            Err(_) => known.names.extend(unknown.into_iter().map(|address| (address, None))),
        }
    }
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
