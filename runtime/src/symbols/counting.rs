//! Symbol source that counts unresolved addresses and limits the total size of long names.
//!
//! In: another symbol source. Out: the same answers, and the number of unresolved addresses.
//! Guarantee: nothing is looked up twice. Long names, which compilers rarely emit, are returned
//! whole up to [`MAX_LONG_BYTES`] in total; after that they are truncated to [`SHORT_BYTES`], so no
//! process can inflate the output with its symbol names.

use std::cell::Cell;
use std::fmt;

use profiler_model::strftime::Zone;
use profiler_model::value::{Location, Origin, Shortfalls, SymbolName, Symbols, Value};

/// Total bytes of names beyond [`SHORT_BYTES`] that are returned in one run.
pub const MAX_LONG_BYTES: u64 = 16 << 20;
/// Length in bytes that every name may have, regardless of the total.
pub const SHORT_BYTES: usize = 256;

/// Counts over all symbol lookups of a run.
#[derive(Debug, Default)]
pub struct Counts {
    /// What was printed.
    pub resolved: Cell<Resolved>,
    /// Bytes of long names returned so far.
    long_bytes: Cell<u64>,
    cut_names: Cell<u64>,
    broken_stacks: Cell<u64>,
}

/// How many printed addresses have names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resolved {
    /// All addresses.
    pub addresses: u64,
    /// Those with a name.
    pub named: u64,
    /// Those with a source line.
    pub with_lines: u64,
}

impl Resolved {
    /// Those that came after an earlier count.
    #[must_use]
    pub fn since(&self, before: &Resolved) -> Resolved {
        Resolved {
            addresses: self.addresses - before.addresses,
            named: self.named - before.named,
            with_lines: self.with_lines - before.with_lines,
        }
    }

    /// Those without a name.
    pub fn unnamed(&self) -> u64 {
        self.addresses - self.named
    }
}

impl Counts {
    fn add(&self, is_named: bool, has_line: bool) {
        let Resolved { addresses, named, with_lines } = self.resolved.get();
        self.resolved.set(Resolved {
            addresses: addresses + 1,
            named: named + u64::from(is_named),
            with_lines: with_lines + u64::from(has_line),
        });
    }
}

/// A symbol source that counts unresolved addresses.
pub struct Counting<'a> {
    symbols: &'a dyn Symbols,
    counts: &'a Counts,
}

fn increase(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

impl<'a> Counting<'a> {
    /// Forwards lookups to `symbols` and updates `counts`.
    pub fn new(symbols: &'a dyn Symbols, counts: &'a Counts) -> Counting<'a> {
        Counting { symbols, counts }
    }

    fn counted(&self, found: Option<SymbolName>) -> Option<SymbolName> {
        self.counts.add(found.is_some(), false);
        found.map(|symbol| self.bounded(symbol))
    }

    fn bounded(&self, mut symbol: SymbolName) -> SymbolName {
        self.bound(&mut symbol.name);
        symbol
    }

    fn bounded_origin(&self, mut origin: Origin) -> Origin {
        origin.inlined.iter_mut().for_each(|inlined| self.bound(&mut inlined.name));
        let sources = origin.inlined.iter_mut().map(|inlined| &mut inlined.source);
        sources.chain([&mut origin.source]).flatten().for_each(|source| self.bound(&mut source.file));
        origin
    }

    fn bound(&self, name: &mut String) {
        let Some(beyond) = name.len().checked_sub(SHORT_BYTES + 1) else { return };
        let long_bytes = self.counts.long_bytes.get() + beyond as u64;
        if long_bytes <= MAX_LONG_BYTES {
            self.counts.long_bytes.set(long_bytes);
        } else {
            let end = (0..=SHORT_BYTES - 3).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
            name.truncate(end);
            name.push('…');
            increase(&self.counts.cut_names);
        }
    }
}

impl fmt::Debug for Counting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counting").field("counts", &self.counts).finish_non_exhaustive()
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

    fn record_processes(&self, processes: &[u32]) {
        self.symbols.record_processes(processes);
    }

    fn expect(&self, values: &mut dyn Iterator<Item = &Value>) {
        self.symbols.expect(values);
    }

    fn show_origins(&self, is_shown: bool) {
        self.symbols.show_origins(is_shown);
    }

    fn shows_ends(&self) -> bool {
        self.symbols.shows_ends()
    }

    fn locate_user(&self, pid: u32, addresses: &[u64]) -> Vec<Location> {
        let mut locations = self.symbols.locate_user(pid, addresses);
        let end = locations.iter().position(|location| *location == Location::NoCode);
        if end.is_some() {
            increase(&self.counts.broken_stacks);
        }
        // Entries after the end of a stack are not printed.
        for location in locations.iter_mut().take(end.unwrap_or(usize::MAX)) {
            match std::mem::replace(location, Location::Unknown) {
                Location::Symbol(symbol, origin) => {
                    self.counts.add(true, origin.source.is_some());
                    *location = Location::Symbol(self.bounded(symbol), self.bounded_origin(origin));
                }
                other => {
                    self.counts.add(false, false);
                    *location = other;
                }
            }
        }
        locations
    }

    fn shortfalls(&self) -> Shortfalls {
        let mut shortfalls = self.symbols.shortfalls();
        shortfalls.cut_names += self.counts.cut_names.get();
        shortfalls.broken_stacks += self.counts.broken_stacks.get();
        shortfalls
    }
}

#[cfg(test)]
mod tests {
    use profiler_model::value::{Inlined, Source};

    use super::*;

    struct Long;

    impl Symbols for Long {
        fn kernel(&self, _address: u64) -> Option<SymbolName> {
            None
        }

        fn user(&self, _pid: u32, _address: u64) -> Option<SymbolName> {
            Some(SymbolName { name: "é".repeat(2000), offset: 0, module: None })
        }

        fn username(&self, _uid: u32) -> Option<String> {
            None
        }

        fn boot_time_ns(&self) -> u64 {
            0
        }
    }

    #[test]
    fn long_names_are_bounded_in_all() {
        let counts = Counts::default();
        let symbols = Counting::new(&Long, &counts);
        let frames = [0; 127];
        let mut bytes = 0;
        for _ in 0..1000 {
            for location in symbols.locate_user(1, &frames) {
                let Location::Symbol(symbol, _) = location else { panic!("{location:?}") };
                bytes += symbol.name.len();
            }
        }
        assert!(bytes < (MAX_LONG_BYTES as usize) + 127_000 * (SHORT_BYTES + 1), "{bytes}");
        let whole = MAX_LONG_BYTES / (4000 - SHORT_BYTES as u64 - 1);
        assert_eq!(symbols.shortfalls().cut_names, 127_000 - whole);
        assert!(symbols.user(1, 1).is_some_and(|symbol| symbol.name.ends_with('…')));
    }

    #[test]
    fn origins_count_as_names() {
        let counts = Counts::default();
        counts.long_bytes.set(MAX_LONG_BYTES);
        let symbols = Counting::new(&Long, &counts);
        let long = || "x".repeat(2000);
        let source = || Some(Source { file: long(), line: 1 });
        let inlined = vec![Inlined { name: long(), source: source() }];
        let origin = symbols.bounded_origin(Origin { source: source(), inlined, ..Origin::default() });
        let files = [&origin.source, &origin.inlined[0].source].map(|source| source.as_ref().map(|it| it.file.len()));
        assert_eq!((files, origin.inlined[0].name.len()), ([Some(SHORT_BYTES); 2], SHORT_BYTES));
        assert_eq!(symbols.shortfalls().cut_names, 3);
    }
}
