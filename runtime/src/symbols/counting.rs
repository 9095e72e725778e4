//! Symbols that count what they cannot name.
//!
//! In: other symbols. Out: the same answers, and how many were none.
//! Guarantee: nothing is asked twice.

use std::cell::Cell;
use std::fmt;

use profiler_compiler::strftime::Zone;
use profiler_compiler::value::{SymbolName, Symbols};

/// Symbols that count what they cannot name.
pub struct Counting<'a> {
    symbols: &'a dyn Symbols,
    unnamed: &'a Cell<u64>,
}

impl<'a> Counting<'a> {
    /// Asks `symbols`, and adds to `unnamed`.
    pub fn new(symbols: &'a dyn Symbols, unnamed: &'a Cell<u64>) -> Counting<'a> {
        Counting { symbols, unnamed }
    }

    fn counted(&self, found: Option<SymbolName>) -> Option<SymbolName> {
        if found.is_none() {
            self.unnamed.set(self.unnamed.get() + 1);
        }
        found
    }
}

impl fmt::Debug for Counting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counting").field("unnamed", &self.unnamed).finish_non_exhaustive()
    }
}

impl Symbols for Counting<'_> {
    fn kernel(&self, address: u64) -> Option<SymbolName> {
        self.counted(self.symbols.kernel(address))
    }

    fn user(&self, pid: u32, address: u64) -> Option<SymbolName> {
        self.counted(self.symbols.user(pid, address))
    }

    fn username(&self, uid: u32) -> Option<String> {
        self.symbols.username(uid)
    }

    fn boot_time_ns(&self) -> u64 {
        self.symbols.boot_time_ns()
    }

    fn zone(&self, unix_ns: u64) -> Zone {
        self.symbols.zone(unix_ns)
    }

    fn record_processes(&self, process: Option<u32>) {
        self.symbols.record_processes(process);
    }

    fn prepare_user(&self, pid: u32, addresses: &[u64]) {
        self.symbols.prepare_user(pid, addresses);
    }
}
