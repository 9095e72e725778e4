//! The maps of the unwinder.
//!
//! In: what programs are to read. Out: entries of maps.
//! Guarantee: entries of processes that exist are not removed, except all at once.

use std::io;
use std::thread;
use std::time::Duration;

use profiler_model::unwind::Unwinding;

use crate::load::Loaded;
use crate::sys::map::OwnedMap;
use crate::sys::poll::programs_have_finished;

/// Longer than a program runs, for kernels that do not say when all have ended.
const LONGEST_PROGRAM: Duration = Duration::from_millis(10);

/// Where programs find tables.
pub(super) trait Store {
    /// Writes a segment.
    fn write_segment(&mut self, number: u32, words: &[u64]) -> io::Result<()>;
    /// Writes the value of a version of a file, unless there is one or there are too many.
    fn write_file(&mut self, key: &[u8], value: &[u8]) -> io::Result<()>;
    /// Writes the value of a process. Fails with `E2BIG` if there are too many processes.
    fn write_process(&mut self, pid: u32, value: &[u8]) -> io::Result<()>;
    /// Lets no request of a process, given with its identity, through before a time of the
    /// monotonic clock.
    fn pause(&mut self, process: (u32, u64), until_ns: u64) -> io::Result<()>;
    /// Removes the processes that no longer exist.
    fn prune(&mut self, exists: &dyn Fn(u32) -> bool) -> io::Result<()>;
    /// Removes all processes and files, and returns when no program uses their tables any more.
    fn clear(&mut self) -> io::Result<()>;
}

/// The maps in the kernel.
#[derive(Debug)]
pub(super) struct Maps {
    processes: OwnedMap,
    files: OwnedMap,
    rows: OwnedMap,
    pauses: OwnedMap,
}

impl Maps {
    /// Opens the maps of a loaded object. It is an error if one is missing.
    pub(super) fn open(unwinding: &Unwinding, loaded: &Loaded) -> io::Result<Maps> {
        Ok(Maps {
            processes: open(&unwinding.processes, loaded)?,
            files: open(&unwinding.files, loaded)?,
            rows: open(&unwinding.rows, loaded)?,
            pauses: open(&unwinding.pauses, loaded)?,
        })
    }
}

/// A map of a loaded object.
pub(super) fn open(name: &str, loaded: &Loaded) -> io::Result<OwnedMap> {
    loaded.map(name).ok_or(io::ErrorKind::NotFound)?.to_owned()
}

impl Store for Maps {
    fn write_segment(&mut self, number: u32, words: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.rows.borrow().insert(&number.to_ne_bytes(), &bytes)
    }

    fn write_file(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.files.borrow().insert_new(key, value).map(|_| ())
    }

    fn write_process(&mut self, pid: u32, value: &[u8]) -> io::Result<()> {
        self.processes.borrow().insert(&pid.to_ne_bytes(), value)
    }

    fn pause(&mut self, (pid, identity): (u32, u64), until_ns: u64) -> io::Result<()> {
        let value = [until_ns.to_ne_bytes(), identity.to_ne_bytes()].concat();
        self.pauses.borrow().insert(&pid.to_ne_bytes(), &value)
    }

    fn prune(&mut self, exists: &dyn Fn(u32) -> bool) -> io::Result<()> {
        let has_ended = |key: &[u8]| key.first_chunk().is_some_and(|pid| !exists(u32::from_ne_bytes(*pid)));
        remove(&self.pauses, &has_ended)?;
        remove(&self.processes, &has_ended)
    }

    fn clear(&mut self) -> io::Result<()> {
        remove(&self.processes, &|_| true)?;
        remove(&self.files, &|_| true)?;
        if !programs_have_finished() {
            thread::sleep(LONGEST_PROGRAM);
        }
        Ok(())
    }
}

/// Removes the entries whose keys are chosen.
fn remove(map: &OwnedMap, is_chosen: &dyn Fn(&[u8]) -> bool) -> io::Result<()> {
    let map = map.borrow();
    let (mut keys, mut key) = (Vec::new(), map.next_key(None)?);
    while let Some(found) = key {
        key = map.next_key(Some(&found))?;
        keys.push(found);
    }
    for key in keys.iter().filter(|key| is_chosen(key)) {
        map.remove(key)?;
    }
    Ok(())
}
