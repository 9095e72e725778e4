//! A test that would disturb every other tracer runs while there is no other.
//!
//! In: tests that run tracers, and tests that flood all tracers with the kernel's records. Out:
//! they wait for each other.
//! Guarantee: a test that runs several tracers does not wait between them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// The tracers that run, and the test beside which there is none.
#[derive(Debug)]
struct Tracers {
    running: usize,
    alone: Option<ThreadId>,
}

static TRACERS: Mutex<Tracers> = Mutex::new(Tracers { running: 0, alone: None });
static CHANGED: Condvar = Condvar::new();

/// Returns the tracers as soon as a condition is true.
fn wait(is_time: impl Fn(&Tracers) -> bool) -> MutexGuard<'static, Tracers> {
    let tracers = TRACERS.lock().unwrap_or_else(PoisonError::into_inner);
    CHANGED.wait_while(tracers, |tracers| !is_time(tracers)).unwrap_or_else(PoisonError::into_inner)
}

fn change(change: impl FnOnce(&mut Tracers)) {
    change(&mut TRACERS.lock().unwrap_or_else(PoisonError::into_inner));
    CHANGED.notify_all();
}

/// A tracer runs.
#[derive(Debug)]
pub struct Beside(());

impl Beside {
    /// Waits while another test is alone. A tracer that runs already does not wait for a test that
    /// wants to be, so its test can start another one.
    pub fn start() -> Beside {
        let own = thread::current().id();
        wait(|tracers| tracers.alone.is_none_or(|alone| alone == own)).running += 1;
        Beside(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        change(|tracers| tracers.running -= 1);
    }
}

/// The tracers of this thread are the only ones.
#[derive(Debug)]
pub struct Alone(());

impl Alone {
    /// Waits until no tracer runs.
    pub fn start() -> Alone {
        wait(|tracers| tracers.running == 0 && tracers.alone.is_none()).alone = Some(thread::current().id());
        Alone(())
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        change(|tracers| tracers.alone = None);
    }
}
