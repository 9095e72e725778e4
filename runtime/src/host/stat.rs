//! What the kernel says about a process in `/proc/PID/stat`.
//!
//! In: a process id. Out: the numbers of that file.
//! Guarantee: a number that is missing or hidden is `None` or 0, as the kernel writes it.

use std::fs;
use std::path::Path;

/// Fields, numbered as in proc(5).
pub(crate) const USER_TICKS: usize = 14;
pub(crate) const SYSTEM_TICKS: usize = 15;
pub(crate) const STARTED_TICKS: usize = 22;
pub(crate) const MEMORY_BYTES: usize = 23;
pub(crate) const START_STACK: usize = 28;
/// The state is the first field after the command; the others follow it.
const STATE: usize = 3;

/// The fields after the command, which may contain anything.
#[derive(Debug)]
pub(crate) struct Stat(String);

impl Stat {
    /// Reads the file; `None` if the process has ended.
    pub(crate) fn of(pid: u32) -> Option<Stat> {
        Stat::in_directory(Path::new(&format!("/proc/{pid}")))
    }

    /// Reads the file of a process or a thread in its directory; `None` if it has ended.
    pub(crate) fn in_directory(directory: &Path) -> Option<Stat> {
        Stat::parsed(&String::from_utf8_lossy(&fs::read(directory.join("stat")).ok()?))
    }

    /// The text of the file.
    pub(crate) fn parsed(text: &str) -> Option<Stat> {
        Some(Stat(text.rsplit_once(") ")?.1.to_owned()))
    }

    /// A number by its field.
    pub(crate) fn number(&self, field: usize) -> Option<u64> {
        self.0.split(' ').nth(field.checked_sub(STATE)?)?.trim_end().parse().ok()
    }

    /// Whether it has ended, and only its parent or its process does not know yet.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.starts_with(['Z', 'X'])
    }

    /// Whether it runs, or waits for a CPU.
    pub(crate) fn is_running(&self) -> bool {
        self.0.starts_with('R')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_numbered_as_in_the_manual() {
        let numbers: Vec<String> = (4..=52).map(|number: usize| number.to_string()).collect();
        let stat = Stat(format!("R {}\n", numbers.join(" ")));
        assert!(stat.is_running());
        assert_eq!([4, STARTED_TICKS, 52].map(|field| stat.number(field)), [Some(4), Some(22), Some(52)]);
        assert_eq!([0, STATE, 53].map(|field| stat.number(field)), [None; 3]);
    }

    #[test]
    fn this_process_has_numbers() {
        let stat = Stat::of(std::process::id()).expect("it exists");
        assert!(stat.number(STARTED_TICKS) > Some(0) && stat.number(MEMORY_BYTES) > Some(0));
        assert!(Stat::of(1 << 30).is_none());
    }
}
