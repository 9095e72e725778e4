//! Threads that are each in one state until the process is killed.
//!
//! In: how many threads are blocked in each way. Out: nothing.
//! Guarantee: a thread's name is that of its state. It never leaves it once it is there; one more
//! thread, `running`, computes, and so is running or waits for a CPU.

use std::io::{Error, Read as _, Result, pipe};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex};
use std::thread::{Builder, park, sleep};
use std::time::Duration;

use crate::sys;

/// Longer than any test.
const FOR_EVER: Duration = Duration::from_secs(86_400);

/// Blocks for ever.
type Way = fn() -> Result<()>;

const WAYS: [(&str, Way); 6] =
    [("lock", lock), ("sleep", nap), ("pipe", read_pipe), ("network", receive), ("poll", poll), ("child", child)];

/// Starts all threads, and waits.
pub fn held(each: u64) -> Result<()> {
    for (name, wait) in WAYS {
        for _ in 0..each {
            // The kernel needs little stack for a thread that waits.
            Builder::new().name(name.to_owned()).stack_size(64 << 10).spawn(wait)?;
        }
    }
    Builder::new().name("running".to_owned()).spawn(|| {
        loop {
            std::hint::spin_loop();
        }
    })?;
    loop {
        park();
    }
}

fn lock() -> Result<()> {
    let (never, mutex) = (Condvar::new(), Mutex::new(()));
    let guard = mutex.lock().map_err(|_| Error::other("poisoned"))?;
    never.wait_while(guard, |()| true).map(drop).map_err(|_| Error::other("poisoned"))
}

fn nap() -> Result<()> {
    loop {
        sleep(FOR_EVER);
    }
}

fn read_pipe() -> Result<()> {
    let (mut reader, _writer) = pipe()?;
    reader.read_exact(&mut [0])
}

fn receive() -> Result<()> {
    let (mut here, _there) = UnixStream::pair()?;
    here.read_exact(&mut [0])
}

fn poll() -> Result<()> {
    let (here, _there) = UnixStream::pair()?;
    sys::poll(here.as_raw_fd(), FOR_EVER).map(drop)
}

/// The child ends with this process, which has the other end of its input.
fn child() -> Result<()> {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let _input = child.stdin.take();
    child.wait().map(drop)
}
