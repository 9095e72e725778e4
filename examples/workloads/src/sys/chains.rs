//! Functions that call each other in random order, and a record of those that are active.
//!
//! In: the numbers from which the order follows. Out: calls of [`workload_leaf`] below chains of
//! functions; the names on a chain.
//! Guarantee: functions named `workload_f_…` are on the record from their prologue to their
//! epilogue, in order. No other function is named so.

mod interrupts;

use std::ffi::c_void;
use std::io;
use std::panic::AssertUnwindSafe;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::SeqCst};

pub use interrupts::{MAX_INTERRUPTS, interrupt_every, interrupted, interrupts, warm_up};

/// Frames of a chain, apart from those in which its thread begins.
pub const MAX_FRAMES: u64 = 90;
/// `workload_leaf(id)` closes this descriptor plus `id`, which is not open.
const CLOSED: u64 = 1_000_000;

/// A function of a chain: its name, how many frames it takes at most until it calls the next one,
/// and its address.
type Kind = (&'static str, u64, extern "C" fn() -> u64);

/// The functions, by their numbers on the record.
const KINDS: [Kind; 15] = [
    ("workload_f_small", 1, workload_f_small),
    ("workload_f_array", 1, workload_f_array),
    ("workload_f_pages", 1, workload_f_pages),
    ("workload_f_values", 1, workload_f_values),
    ("workload_f_floats", 1, workload_f_floats),
    ("workload_f_aligned", 1, workload_f_aligned),
    ("workload_f_arguments", 2, workload_f_arguments),
    ("workload_f_generic", 3, generic_short),
    ("workload_f_generic", 3, generic_long),
    ("workload_f_closure", 3, workload_f_closure),
    ("workload_f_catch", 7, workload_f_catch),
    ("workload_f_search", 4, workload_f_search),
    // Only if asked for, from here on.
    ("workload_f_made", 3, workload_f_made),
    ("workload_f_raise", 7, workload_f_raise),
    // Called by the kernel.
    ("workload_f_handler", 0, workload_f_small),
];
/// The number of functions that every chain may have.
const ORDINARY: usize = 12;
const MADE: usize = 12;
const RAISE: usize = 13;
const HANDLER: usize = 14;

/// Functions that a chain may have besides the ordinary ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    Nothing,
    /// Code that is not in a file and has a frame pointer.
    Made,
    /// A signal handler that the chain continues from.
    Signals,
}

/// What the last function of a chain does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It returns.
    Return,
    /// It calls `workload_leaf` with this id.
    Leaf(u64),
    /// It calls `workload_f_spin`, which uses a CPU for this many milliseconds.
    Spin(u64),
}

/// The numbers of the active functions, outermost first. Only one thread runs a chain.
static ACTIVE: [AtomicU8; MAX_FRAMES as usize + 8] = [const { AtomicU8::new(0) }; MAX_FRAMES as usize + 8];
static DEPTH: AtomicUsize = AtomicUsize::new(0);
/// What the next functions follow from.
static RANDOM: AtomicU64 = AtomicU64::new(0);
/// Frames that the chain may still have.
static LEFT: AtomicU64 = AtomicU64::new(0);
static LEAF: AtomicU64 = AtomicU64::new(0);
static SPIN_MS: AtomicU64 = AtomicU64::new(0);
/// The address of the generated code; 0 if the chain has none.
static CODE: AtomicUsize = AtomicUsize::new(0);
static SIGNALS: AtomicBool = AtomicBool::new(false);
/// Allows functions besides the ordinary ones.
pub fn allow(extra: Extra) -> io::Result<()> {
    match extra {
        Extra::Nothing => {}
        Extra::Made => CODE.store(frame_pointer_code()?, SeqCst),
        Extra::Signals => {
            interrupts::on_signal(libc::SIGUSR2, workload_f_handler, libc::SA_NODEFER)?;
            SIGNALS.store(true, SeqCst);
        }
    }
    Ok(())
}

/// Runs a chain of up to `frames` frames, in an order that follows from `seed`; returns the names
/// of its functions, innermost first.
pub fn chain(seed: u64, frames: u64, end: End) -> Vec<&'static str> {
    RANDOM.store(seed, SeqCst);
    LEFT.store(frames.min(MAX_FRAMES), SeqCst);
    LEAF.store(if let End::Leaf(id) = end { id } else { 0 }, SeqCst);
    SPIN_MS.store(if let End::Spin(ms) = end { ms } else { 0 }, SeqCst);
    LONGEST.with(|longest| longest.borrow_mut().clear());
    onward();
    LONGEST.with(|longest| names(longest.borrow().iter().copied()))
}

thread_local! {
    /// The functions that were active at the end of the chain, outermost first.
    static LONGEST: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// The names of functions with these numbers, the last one first.
fn names(numbers: impl DoubleEndedIterator<Item = u8>) -> Vec<&'static str> {
    numbers.rev().filter_map(|number| KINDS.get(usize::from(number))).map(|kind| kind.0).collect()
}

/// A function of the chain: it is on the record while it does `work`.
#[expect(clippy::inline_always, reason = "it must not be a frame of its own")]
#[inline(always)]
fn within(number: usize, work: impl FnOnce() -> u64) -> u64 {
    let depth = DEPTH.load(SeqCst);
    if let Some(active) = ACTIVE.get(depth) {
        active.store(number as u8, SeqCst);
    }
    DEPTH.store(depth + 1, SeqCst);
    let result = work();
    DEPTH.store(depth, SeqCst);
    result.wrapping_add(1)
}

/// Calls the next function of the chain, or ends it.
#[expect(clippy::inline_always, reason = "it must not be a frame of its own")]
#[inline(always)]
fn onward() -> u64 {
    let left = LEFT.load(SeqCst);
    match next(left) {
        Some((_, frames, function)) => {
            LEFT.store(left.saturating_sub(*frames), SeqCst);
            std::hint::black_box(*function)()
        }
        None => workload_end(),
    }
}

/// The next function of a chain that may have `left` more frames.
#[inline(never)]
fn next(left: u64) -> Option<&'static Kind> {
    if left == 0 {
        return None;
    }
    let random = RANDOM.load(SeqCst).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    RANDOM.store(random, SeqCst);
    let extra = [MADE, RAISE].into_iter().zip([CODE.load(SeqCst) != 0, SIGNALS.load(SeqCst)]);
    let extra = extra.filter(|(_, is_allowed)| *is_allowed).map(|(number, _)| number);
    let count = ORDINARY + extra.clone().count();
    let number = (random >> 33) as usize % count;
    KINDS.get((0..ORDINARY).chain(extra).nth(number).unwrap_or(0))
}

/// The end of a chain.
#[inline(never)]
fn workload_end() -> u64 {
    let (id, ms) = (LEAF.load(SeqCst), SPIN_MS.load(SeqCst));
    if id == 0 && ms == 0 {
        return 0;
    }
    let active = ACTIVE.iter().take(DEPTH.load(SeqCst)).map(|number| number.load(SeqCst));
    LONGEST.with(|longest| longest.borrow_mut().extend(active));
    if ms > 0 { workload_spin(ms) } else { workload_leaf(id).wrapping_add(1) }
}

/// A function to probe: the end of a chain. It also closes a descriptor that is not open.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_leaf(id: u64) -> u64 {
    // SAFETY: no descriptor has that number, and the call touches no memory.
    let result = unsafe { libc::syscall(libc::SYS_close, CLOSED + id) };
    std::hint::black_box(id).wrapping_add(result as u64)
}

/// Uses up a CPU.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn workload_spin(ms: u64) -> u64 {
    let start = std::time::Instant::now();
    let mut sum = 0u64;
    while start.elapsed().as_millis() < u128::from(ms) {
        sum = (0..1000).fold(sum, |sum, number| std::hint::black_box(sum.wrapping_add(number)));
    }
    sum
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn workload_f_small() -> u64 {
    within(0, onward)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn workload_f_array() -> u64 {
    let array = std::hint::black_box([7u8; 200]);
    within(1, onward).wrapping_add(u64::from(std::hint::black_box(array)[3]))
}

/// A frame of several pages, whose prologue touches each of them.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn workload_f_pages() -> u64 {
    let mut pages = [1u8; 4 * 4096];
    std::hint::black_box(&mut pages);
    within(2, onward).wrapping_add(u64::from(std::hint::black_box(&pages)[4096]))
}

/// More values than there are registers that a call preserves.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn workload_f_values() -> u64 {
    let value = std::hint::black_box(3u64);
    let [one, two, three, four] = [value ^ 1, value ^ 2, value ^ 3, value ^ 4].map(std::hint::black_box);
    let [five, six, seven, eight] = [value ^ 5, value ^ 6, value ^ 7, value ^ 8].map(std::hint::black_box);
    let result = within(3, onward);
    let left = one.rotate_left(1) ^ two.rotate_left(2) ^ three.rotate_left(3) ^ four.rotate_left(4);
    let right = five.rotate_left(5) ^ six.rotate_left(6) ^ seven.rotate_left(7) ^ eight.rotate_left(8);
    result.wrapping_add(left).wrapping_mul(right).wrapping_add(value)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn workload_f_floats() -> u64 {
    let value = std::hint::black_box(1.5f64);
    let scaled = [value * 2.0, value * 3.0, value * 4.0].map(std::hint::black_box);
    within(4, onward).wrapping_add((scaled[0] + scaled[1] * scaled[2]) as u64)
}

/// Its frame is aligned, so the distance to the caller's frame is not constant.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn workload_f_aligned() -> u64 {
    #[repr(align(128))]
    struct Aligned([u8; 128]);
    let mut aligned = Aligned([5; 128]);
    std::hint::black_box(&mut aligned);
    within(5, onward).wrapping_add(u64::from(std::hint::black_box(&aligned).0[9]))
}

/// Its last argument is on the stack of its caller.
#[inline(never)]
extern "C" fn with_arguments(one: u64, two: u64, three: u64, four: u64, five: u64, six: u64, last: u64) -> u64 {
    let sum = [one, two, three, four, five, six].into_iter().map(std::hint::black_box).sum::<u64>();
    onward().wrapping_add(sum).wrapping_add(last)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn workload_f_arguments() -> u64 {
    let one = std::hint::black_box(1);
    within(6, || std::hint::black_box(with_arguments(one, 2, 3, one, 5, 6, one)))
}

#[inline(never)]
fn workload_f_generic<T: Copy + Default>(number: usize, work: impl FnOnce() -> u64) -> u64 {
    let values = std::hint::black_box([T::default(); 9]);
    let result = within(number, work);
    std::hint::black_box(&values);
    result
}

extern "C" fn generic_short() -> u64 {
    std::hint::black_box(workload_f_generic::<u16>(7, onward))
}

extern "C" fn generic_long() -> u64 {
    std::hint::black_box(workload_f_generic::<[u64; 5]>(8, onward))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn workload_f_closure() -> u64 {
    let number = std::hint::black_box(4u64);
    let call: &dyn Fn() -> u64 = &|| onward().wrapping_mul(number);
    within(9, std::hint::black_box(call))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn workload_f_catch() -> u64 {
    within(10, || std::panic::catch_unwind(AssertUnwindSafe(onward)).unwrap_or(0))
}

/// libc calls the rest of the chain.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn workload_f_search() -> u64 {
    unsafe extern "C" fn compare(key: *const c_void, _: *const c_void) -> i32 {
        // SAFETY: the key is that of the call of `bsearch` below.
        unsafe { *key.cast_mut().cast::<u64>() = onward() };
        0
    }
    let mut key = 0u64;
    // SAFETY: the key and the array with one element outlive the call.
    let search = || unsafe {
        let place = (&raw mut key).cast::<c_void>();
        libc::bsearch(place, place, 1, 8, Some(compare)) as u64
    };
    within(11, search)
}

extern "C" fn from_made_code() -> u64 {
    onward().wrapping_add(1)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn workload_f_made() -> u64 {
    within(MADE, || generated().map_or(0, |call| call(from_made_code)))
}

/// The generated code, if there is some: it takes a function and calls it.
fn generated() -> Option<extern "C" fn(extern "C" fn() -> u64) -> u64> {
    let code = CODE.load(SeqCst) as *mut c_void;
    // SAFETY: if not null, this is the address of `frame_pointer_code`; an absent function is null.
    unsafe { std::mem::transmute::<*mut c_void, Option<extern "C" fn(extern "C" fn() -> u64) -> u64>>(code) }
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn workload_f_raise() -> u64 {
    // SAFETY: the signal's handler is a function of the chain.
    within(RAISE, || unsafe { libc::raise(libc::SIGUSR2) } as u64)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn workload_f_handler(_: i32) {
    std::hint::black_box(within(HANDLER, onward));
}

/// Calls itself to this depth, and then `workload_leaf`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_f_recursion(depth: u64, id: u64) -> u64 {
    let value = std::hint::black_box(depth);
    let result = if depth <= 1 { workload_leaf(id) } else { workload_f_recursion(depth - 1, id) };
    result.wrapping_add(value)
}

/// `push rbp; mov rbp, rsp; call rdi; pop rbp; ret`, in a mapping without a file.
fn frame_pointer_code() -> io::Result<usize> {
    const CODE: [u8; 8] = [0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3];
    if cfg!(not(target_arch = "x86_64")) {
        return Err(io::Error::other("there is no code for this processor"));
    }
    let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the kernel chooses a free address range.
    let page = unsafe { libc::mmap(null_mut(), 4096, access, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the code fits into the page, which is writable and used by nothing else.
    unsafe { page.cast::<u8>().copy_from_nonoverlapping(CODE.as_ptr(), CODE.len()) };
    Ok(page as usize)
}
