//! Holds a command until its libraries are mapped and their unwind tables are ready.
//!
//! In: a child that is about to execute its program. Out: the same child, running.
//! Guarantee: the first stacks of a command are complete, but for those of constructors that make
//! no system call. The command is followed until its first system call outside of the dynamic
//! loader. If it waits for something for [`LIMIT`] before that, it goes on alone; what cannot be
//! followed runs at once. It must be called by a thread of
//! its own: a child that this does not release is released when the thread ends.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::starved;
use crate::symbols::naming::read_maps;
use crate::symbols::regions::Regions;
use crate::sys::ptrace::{Followed, Stop};

/// How long a program may wait for something while it is loaded; it is followed no longer.
const LIMIT: Duration = Duration::from_secs(2);

/// `AT_BASE` of the auxiliary vector: where the loader is. From `linux/auxvec.h`.
const AT_BASE: u64 = 7;

/// Calls `prepare` when the child has executed its program, and when its libraries are mapped. The
/// wait status of a child that ends meanwhile.
pub(super) fn hold(child: Followed, pid: u32, prepare: &dyn Fn()) -> io::Result<Option<i32>> {
    let start = Instant::now();
    let place = Path::new("/proc").join(pid.to_string());
    let mut loader = 0..0;
    loop {
        match child.wait(Instant::now() + LIMIT)? {
            Some(Stop::Exec) => {
                loader = loader_of(pid).unwrap_or_default();
                prepare();
                // A program that is linked statically has no loader.
                if loader.is_empty() {
                    return child.release(0).map(|()| None);
                }
                child.to_next_syscall()?;
            }
            Some(Stop::Syscall(address)) if loader.contains(&address) => child.to_next_syscall()?,
            Some(Stop::Syscall(_)) => {
                prepare();
                return child.release(0).map(|()| None);
            }
            Some(Stop::Signal(signal)) => return child.release(signal).map(|()| None),
            Some(Stop::Other) => return child.release(0).map(|()| None),
            Some(Stop::Ended(status)) => return Ok(Some(status)),
            // On a busy machine it can lack a CPU for that long.
            None if start.elapsed() < starved::LONGEST && starved::is_ready(&place) => {}
            // It runs, or waits in a system call, and does so when it is released.
            None => return Ok(None),
        }
    }
}

/// The addresses of the code of the dynamic loader.
fn loader_of(pid: u32) -> Option<Range<u64>> {
    let vector = fs::read(format!("/proc/{pid}/auxv")).ok()?;
    let (entries, _) = vector.as_chunks::<16>();
    let base = entries.iter().find_map(|entry| {
        let (words, _) = entry.as_chunks::<8>();
        (u64::from_ne_bytes(words[0]) == AT_BASE).then(|| u64::from_ne_bytes(words[1]))
    })?;
    let maps = read_maps(pid)?;
    let regions = Regions::parse(&maps);
    let region = regions.iter().find(|region| base != 0 && region.is_code && region.start >= base)?;
    Some(region.start..region.end)
}
