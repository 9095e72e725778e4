//! Signals: those that interrupt a chain at any instruction, and the one by which a tracer says
//! that it is ready.
//!
//! In: a period. Out: calls of `workload_leaf` from a signal handler, and the functions that were
//! active.
//! Guarantee: the innermost function may be missing from the record, if the interrupt is in its
//! prologue or epilogue. All others are there, and no further ones.

use std::ffi::c_void;
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::SeqCst};

use super::{ACTIVE, DEPTH, MAX_FRAMES, generated, names, workload_leaf};
use crate::sys::{checked, sleep_ns};

/// Interrupted chains that are remembered.
pub const MAX_INTERRUPTS: usize = 4096;
/// Whether a tracer has sent SIGUSR1.
static SIGNALLED: AtomicBool = AtomicBool::new(false);
/// Frames of the stack in [`warm_up`], as libgcc's unwinder finds them.
static FRAMES: AtomicU64 = AtomicU64::new(0);

/// The active functions at an interrupt, outermost first, and how many they are.
type Snapshot = ([AtomicU8; MAX_FRAMES as usize + 8], AtomicUsize);
static INTERRUPTED: [Snapshot; MAX_INTERRUPTS] =
    [const { ([const { AtomicU8::new(0) }; MAX_FRAMES as usize + 8], AtomicUsize::new(0)) }; MAX_INTERRUPTS];
static INTERRUPTS: AtomicUsize = AtomicUsize::new(0);

/// Installs a signal handler, with `SA_NODEFER` or no flags.
pub(super) fn on_signal(signal: i32, handler: extern "C" fn(i32), flags: i32) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const c_void as usize;
    action.sa_flags = flags | libc::SA_RESTART;
    // SAFETY: the action outlives the call; the handlers of this file use only atomics and system
    // calls, or are raised where they interrupt nothing.
    checked(i64::from(unsafe { libc::sigaction(signal, &raw const action, null_mut()) }))
}

extern "C" fn on_warm(_: i32) {
    SIGNALLED.store(true, SeqCst);
}

/// A function to probe: its caller's stack has this many frames, or more.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn workload_warm(frames: u64) -> u64 {
    std::hint::black_box(frames)
}

extern "C" fn from_code() -> u64 {
    workload_warm(FRAMES.load(SeqCst)).wrapping_add(1)
}

/// Calls `workload_warm` each millisecond, through the generated code if there is some, until a
/// tracer sends SIGUSR1, for at most `limit_ms`; returns whether the signal came.
pub fn warm_up(limit_ms: u64) -> io::Result<bool> {
    on_signal(libc::SIGUSR1, on_warm, 0)?;
    SIGNALLED.store(false, SeqCst);
    let mut frames = [null_mut(); MAX_FRAMES as usize];
    // SAFETY: the array has this many elements.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), frames.len() as i32) };
    FRAMES.store(count as u64, SeqCst);
    for _ in 0..limit_ms {
        std::hint::black_box(match generated() {
            Some(call) => call(from_code),
            None => workload_warm(count as u64),
        });
        if SIGNALLED.load(SeqCst) {
            return Ok(true);
        }
        sleep_ns(1_000_000);
    }
    Ok(false)
}

/// Records the active functions, and calls `workload_leaf` with the number of this interrupt, from
/// 1 on.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn workload_interrupt(_: i32) {
    let number = INTERRUPTS.load(SeqCst);
    let Some((functions, count)) = INTERRUPTED.get(number) else { return };
    let depth = DEPTH.load(SeqCst);
    for (to, from) in functions.iter().zip(&ACTIVE).take(depth) {
        to.store(from.load(SeqCst), SeqCst);
    }
    count.store(depth, SeqCst);
    INTERRUPTS.store(number + 1, SeqCst);
    std::hint::black_box(workload_leaf(number as u64 + 1));
}

/// Interrupts this process with the given period, below a second; 0 ends it.
pub fn interrupt_every(us: i64) -> io::Result<()> {
    on_signal(libc::SIGALRM, workload_interrupt, 0)?;
    let period = libc::timeval { tv_sec: 0, tv_usec: us };
    let timer = libc::itimerval { it_interval: period, it_value: period };
    // SAFETY: the timer outlives the call.
    checked(i64::from(unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, null_mut()) }))
}

/// Interrupts so far.
pub fn interrupts() -> usize {
    INTERRUPTS.load(SeqCst)
}

/// The names of the functions that were on the record at an interrupt, innermost first.
pub fn interrupted(number: usize) -> Vec<&'static str> {
    let Some((functions, count)) = INTERRUPTED.get(number) else { return Vec::new() };
    let functions: Vec<u8> = functions.iter().take(count.load(SeqCst)).map(|number| number.load(SeqCst)).collect();
    names(functions.into_iter())
}
