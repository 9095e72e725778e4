//! The overhead of a probe beyond its program: entering the kernel and calling the program.
//!
//! In: how programs are attached. Out: an estimate of the nanoseconds around each run.
//! Guarantee: empty programs are attached for a few milliseconds, those at functions to this
//! process only. If the kernel refuses them, there is no estimate.
//!
//! The kernel's statistics only include the program itself, which costs little compared with the
//! breakpoint of a uprobe.

use std::hint::black_box;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::parent_id;
use std::thread;
use std::time::Instant;

use profiler_model::object::{Attach, Object};

use super::{c_string, pmu, tie};
use crate::sys::link;
use crate::sys::perf;
use crate::sys::program::{EmptyKind, load_empty};

/// Events per batch, and batches. The fastest of several batches is one that was not interrupted.
const CALLS: u32 = 200;
const BATCHES: u32 = 10;

/// Estimates in nanoseconds, for each attach type that the programs use.
#[derive(Debug, Default)]
pub struct Traps {
    raw_tracepoint: Option<f64>,
    entry: Option<f64>,
    at_return: Option<f64>,
}

impl Traps {
    /// Measures the attach types that the object's programs use.
    pub fn measure(object: &Object) -> Traps {
        let has = |is_it: fn(&Attach) -> bool| object.programs.iter().any(|program| is_it(&program.attach));
        let raw = has(|attach| matches!(attach, Attach::RawTracepoint { .. }));
        let entry = has(|attach| matches!(attach, Attach::Uprobe { at_return: false, .. }));
        let at_return = has(|attach| matches!(attach, Attach::Uprobe { at_return: true, .. }));
        // Measurements that fail are left out.
        Traps {
            raw_tracepoint: raw.then(raw_tracepoint).and_then(Result::ok),
            entry: entry.then(|| function(false)).and_then(Result::ok),
            at_return: at_return.then(|| function(true)).and_then(Result::ok),
        }
    }

    /// The estimate for a program with this attach type.
    pub fn of(&self, attach: &Attach) -> Option<f64> {
        match attach {
            Attach::RawTracepoint { .. } => self.raw_tracepoint,
            Attach::Uprobe { at_return: false, .. } => self.entry,
            Attach::Uprobe { at_return: true, .. } => self.at_return,
            _ => None,
        }
    }
}

fn raw_tracepoint() -> io::Result<f64> {
    let empty = load_empty(EmptyKind::RawTracepoint)?;
    let call = || _ = black_box(parent_id());
    // A system call that does almost nothing.
    let before = fastest(call);
    let attached = link::raw_tracepoint(empty.as_fd(), c"sys_enter")?;
    let with = fastest(call);
    drop(attached);
    Ok((with - before).max(0.0))
}

fn function(at_return: bool) -> io::Result<f64> {
    let before = fastest(probed);
    let attached = attach_to_probed(at_return)?;
    let with = fastest(probed);
    // The kernel takes some 50 ms to detach it, so a separate thread does that.
    let _ = thread::Builder::new().spawn(move || drop(attached));
    Ok((with - before).max(0.0))
}

fn attach_to_probed(at_return: bool) -> io::Result<(OwnedFd, OwnedFd)> {
    let empty = load_empty(EmptyKind::Probe)?;
    let (kind, config) = pmu::event("uprobe", at_return)?;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let offset = file_offset(&maps, probed as fn() as usize as u64).ok_or(io::ErrorKind::NotFound)?;
    let event = perf::open_uprobe(kind, config, &c_string("/proc/self/exe")?, offset, Some(std::process::id()))?;
    Ok((tie(event, empty.as_fd(), 0)?, empty))
}

/// The function on which the breakpoint is placed.
#[inline(never)]
fn probed() {
    black_box(CALLS);
}

/// The file offset of an address in this process.
fn file_offset(maps: &str, address: u64) -> Option<u64> {
    maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        let (start, end, offset) = (number(start)?, number(end)?, number(words.nth(1)?)?);
        (start..end).contains(&address).then(|| address - start + offset)
    })
}

/// The nanoseconds per call in the fastest batch.
fn fastest(call: impl Fn()) -> f64 {
    let batch = |_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    (0..BATCHES).map(batch).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::file_offset;

    #[test]
    fn addresses_have_places_in_files() {
        let maps = "00400000-00452000 r-xp 00001000 08:02 173521 /usr/bin/x\n7f00-8000 r--p 00000000 08:02 1 /lib/y\n";
        assert_eq!(file_offset(maps, 0x40_0010), Some(0x1010));
        assert_eq!(file_offset(maps, 0x45_2000), None);
        assert_eq!(file_offset("nonsense\n", 0), None);
    }
}
