//! Names for the addresses and ids of this machine.
//!
//! In: kernel and process addresses, user ids. Out: names, through [`Symbols`].
//! Guarantee: nothing is read before it is needed, and results are cached; what cannot be resolved
//! is `None`.
//! User names come from `/etc/passwd` only: users of directory services (LDAP, SSSD) have no name
//! here.

pub mod counting;
mod expected;
mod files;
mod generated;
pub mod image;
pub mod jitdump;
pub(crate) mod kept;
pub mod kernel;
mod line_cache;
pub mod lines;
mod linkage;
mod metered;
pub(crate) mod naming;
mod packed;
pub mod perf_map;
pub(crate) mod processes;
mod recorder;
pub(crate) mod regions;
mod units;
mod user;
mod words;

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::fs;

use profiler_model::strftime::Zone;
use profiler_model::value::{Location, Shortfalls, SymbolName, Symbols, Value};

use crate::reader::Reader;
use crate::sys::time;
use kernel::KernelSymbols;
use user::UserSymbols;

/// Symbols of the running kernel, its processes and its users. Single-threaded.
#[derive(Debug)]
pub struct HostSymbols {
    kernel: OnceCell<KernelSymbols>,
    user: RefCell<UserSymbols>,
    usernames: OnceCell<HashMap<u32, String>>,
    boot_time_ns: u64,
    notes: RefCell<Vec<String>>,
    /// Whether the text of a stack says why callers are missing; without, the loss ledger alone
    /// does.
    pub shows_ends: bool,
}

impl HostSymbols {
    /// Nothing is read yet except the clocks. Files of processes will be read in this process.
    pub fn new() -> HostSymbols {
        HostSymbols::read_by(&Reader::here())
    }

    /// The same, with another reader of files.
    pub fn read_by(reader: &Reader) -> HostSymbols {
        HostSymbols {
            kernel: OnceCell::new(),
            user: RefCell::new(UserSymbols::read_by(reader)),
            usernames: OnceCell::new(),
            boot_time_ns: time::realtime_ns().saturating_sub(time::boottime_ns()),
            notes: RefCell::default(),
            shows_ends: true,
        }
    }

    /// Notes for the user about missing names; each note is returned once.
    pub fn take_notes(&self) -> Vec<String> {
        self.notes.take()
    }

    fn load_kernel(&self) -> KernelSymbols {
        let symbols = fs::read("/proc/kallsyms").map(|text| KernelSymbols::parse(&text)).unwrap_or_default();
        if symbols.is_empty() {
            let note = "kernel addresses have no names: /proc/kallsyms hides them (see kernel.kptr_restrict)";
            self.notes.borrow_mut().push(note.into());
        }
        symbols
    }
}

impl Default for HostSymbols {
    fn default() -> HostSymbols {
        HostSymbols::new()
    }
}

impl Symbols for HostSymbols {
    fn kernel(&self, address: u64) -> Option<SymbolName> {
        self.kernel.get_or_init(|| self.load_kernel()).find(address)
    }

    fn user(&self, pid: u32, address: u64) -> Option<SymbolName> {
        self.user.borrow_mut().find(pid, address)
    }

    fn username(&self, uid: u32) -> Option<String> {
        let read = || parse_passwd(&fs::read("/etc/passwd").unwrap_or_default());
        self.usernames.get_or_init(read).get(&uid).cloned()
    }

    fn boot_time_ns(&self) -> u64 {
        self.boot_time_ns
    }

    fn zone(&self, unix_ns: u64) -> Zone {
        time::zone(unix_ns)
    }

    fn locate_user(&self, pid: u32, addresses: &[u64]) -> Vec<Location> {
        self.user.borrow_mut().locate_code(pid, addresses)
    }

    fn expect(&self, values: &mut dyn Iterator<Item = &Value>) {
        self.user.borrow_mut().expect(values);
    }

    fn show_origins(&self, is_shown: bool) {
        self.user.borrow_mut().with_origins = is_shown;
    }

    fn shows_ends(&self) -> bool {
        self.shows_ends
    }

    fn shortfalls(&self) -> Shortfalls {
        self.user.borrow().shortfalls()
    }

    fn record_processes(&self, processes: &[u32]) {
        self.user.borrow_mut().record(processes);
    }
}

/// User names by id; the first line of an id wins.
pub fn parse_passwd(text: &[u8]) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for line in String::from_utf8_lossy(text).lines() {
        let mut fields = line.split(':');
        let (Some(name), Some(_), Some(uid)) = (fields.next(), fields.next(), fields.next()) else { continue };
        if let Ok(uid) = uid.parse() {
            names.entry(uid).or_insert_with(|| name.to_string());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_an_id_counts() {
        let names =
            parse_passwd(b"root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/:\n#\nbad:x:y:\n\nnobody:x:65534:65534\n");
        assert_eq!(names.get(&0).map(String::as_str), Some("root"));
        assert_eq!(names.get(&65534).map(String::as_str), Some("nobody"));
        assert_eq!(names.len(), 2);
    }

    #[test]
    fn this_process_has_names() {
        let symbols = HostSymbols::new();
        let address = parse_passwd as fn(&[u8]) -> HashMap<u32, String> as usize as u64;
        let found = symbols.user(std::process::id(), address + 1).expect("the test binary has symbols");
        assert!(found.name.contains("parse_passwd"), "{found:?}");
        assert_eq!(found.offset, 1);
        assert!(found.module.is_some_and(|module| module.contains("profiler")));
        assert_eq!(symbols.user(std::process::id(), 1), None);
    }

    #[test]
    fn nobody_else_has_names() {
        let symbols = HostSymbols::new();
        let beyond_any_pid = 1 << 30;
        assert_eq!(symbols.user(beyond_any_pid, 0x1000), None);
        assert_eq!(symbols.user(0, 0x1000), None, "pid 0 is the idle task, not this process");
        assert_eq!(symbols.username(u32::MAX - 7), None);
    }

    #[test]
    fn the_kernel_has_names_unless_it_hides_them() {
        let symbols = HostSymbols::new();
        assert_eq!(symbols.kernel(0x1000), None);
        let hidden = symbols.take_notes();
        let text = fs::read_to_string("/proc/kallsyms").unwrap();
        let line = text.lines().find(|line| line.ends_with(" _stext")).expect("every kernel has _stext");
        let address = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
        assert_eq!(address == 0, !hidden.is_empty());
        if address != 0 {
            assert!(symbols.kernel(address).is_some_and(|symbol| symbol.offset == 0));
        }
        assert_eq!(symbols.take_notes(), Vec::<String>::new());
    }
}
