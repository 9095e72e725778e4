//! Functions to probe.
//!
//! In: numbers. Out: calls of functions whose names, arguments and results tests know.
//! Guarantee: none is inlined, and no two share an address.

use std::ffi::c_void;
use std::io;

use crate::parcel::Parcel;

/// A function to probe, whose argument points to a struct.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_parcel(parcel: &Parcel) -> u64 {
    std::hint::black_box(parcel).number
}
/// A function to probe: its argument counts up from 0, and its result is the next odd number, so
/// the sum of the results is a square.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_step(a: u64) -> u64 {
    std::hint::black_box(a).wrapping_mul(2).wrapping_add(1)
}

/// A function to probe: begins an operation with the number `key`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_begin(key: u64) -> u64 {
    std::hint::black_box(key).wrapping_mul(3)
}

/// A function to probe: the operation passes a mark, 1 or 2.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_mark(key: u64, mark: u64) -> u64 {
    std::hint::black_box(key).wrapping_mul(5).wrapping_add(std::hint::black_box(mark))
}

/// A function to probe: the operation ends.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_finish(key: u64) -> u64 {
    std::hint::black_box(key).wrapping_mul(7)
}

/// Uses a CPU. An iterator would be several functions where nothing is optimised.
#[allow(clippy::inline_always, reason = "the work is in the function that is sampled, in every profile")]
#[inline(always)]
fn use_cpu(rounds: u64, factor: u64) -> u64 {
    let (mut value, mut round) = (1_u64, 0);
    while round < rounds {
        value = (value ^ round).wrapping_mul(factor);
        round += 1;
    }
    value
}

/// A function to sample.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_share_70(rounds: u64) -> u64 {
    use_cpu(rounds, 0x9e37_79b9_7f4a_7c15)
}

/// A function to sample, with another constant, so that it is not merged with the one above.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_share_20(rounds: u64) -> u64 {
    use_cpu(rounds, 0xbf58_476d_1ce4_e5b9)
}

/// A function to sample.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_share_10(rounds: u64) -> u64 {
    use_cpu(rounds, 0x94d0_49bb_1331_11eb)
}

/// A function to probe: recurses to this depth.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_nest(depth: u64) -> u64 {
    if depth <= 1 { std::hint::black_box(1) } else { std::hint::black_box(workload_nest(depth - 1)).wrapping_add(1) }
}

// `workload_path(path, depth)` recurses to this depth, each time from one of two call sites that
// the lowest bit of `path` selects, and then calls `workload_step` with what is left of `path`. The
// kernel finds the call sites with frame pointers.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".globl workload_path",
    ".type workload_path,@function",
    "workload_path:",
    "push rbp",
    "mov rbp, rsp",
    "test rsi, rsi",
    "je 3f",
    "dec rsi",
    "shr rdi",
    "jc 2f",
    "call workload_path",
    "pop rbp",
    "ret",
    "2: call workload_path",
    "pop rbp",
    "ret",
    "3: call {step}",
    "pop rbp",
    "ret",
    ".size workload_path, . - workload_path",
    step = sym workload_step,
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".globl workload_path",
    ".type workload_path,%function",
    "workload_path:",
    "stp x29, x30, [sp, #-16]!",
    "mov x29, sp",
    "cbz x1, 3f",
    "sub x1, x1, #1",
    "and x2, x0, #1",
    "lsr x0, x0, #1",
    "cbnz x2, 2f",
    "bl workload_path",
    "ldp x29, x30, [sp], #16",
    "ret",
    "2: bl workload_path",
    "ldp x29, x30, [sp], #16",
    "ret",
    "3: bl {step}",
    "ldp x29, x30, [sp], #16",
    "ret",
    ".size workload_path, . - workload_path",
    step = sym workload_step,
);

unsafe extern "C" {
    fn workload_path(path: u64, depth: u64) -> u64;
}

/// Calls `workload_step` by the path with this number, 20 calls deep.
pub fn by_path(path: u64) -> u64 {
    // SAFETY: an ordinary function that returns for all arguments; the recursion is shallow.
    unsafe { workload_path(path, 20) }
}

// `workload_dive(depth, stack)` recurses to this depth and returns normally. With a stack pointer,
// it restores that one and returns there: as after longjmp, none of its calls returns.
// `workload_surface(depth)` calls it with its own stack pointer.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".globl workload_dive",
    ".type workload_dive,@function",
    "workload_dive:",
    "sub rsp, 8",
    "cmp rdi, 1",
    "jbe 1f",
    "dec rdi",
    "call workload_dive",
    "2: add rsp, 8",
    "ret",
    "1: test rsi, rsi",
    "jz 2b",
    "mov rsp, rsi",
    "ret",
    ".size workload_dive,.-workload_dive",
    ".globl workload_relay",
    ".type workload_relay,@function",
    "workload_relay:",
    "jmp workload_step",
    ".size workload_relay,.-workload_relay",
    "workload_surface:",
    "mov rsi, rsp",
    "sub rsp, 8",
    "call workload_dive",
    "add rsp, 8",
    "ret",
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    fn workload_dive(depth: u64, stack: u64);
    fn workload_surface(depth: u64);
    fn workload_relay(a: u64) -> u64;
}

/// Calls a function that ends in a jump to `workload_step`.
pub fn relay(a: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it has the same signature as the function that it jumps to.
    unsafe {
        workload_relay(a)
    }
    #[cfg(not(target_arch = "x86_64"))]
    workload_step(a)
}

/// Runs a thread that exits without having returned from a recursive function, and joins it.
pub fn stranded_thread(depth: u64) -> io::Result<()> {
    extern "C" fn body(depth: *mut c_void) -> *mut c_void {
        dive(depth as u64, true);
        std::ptr::null_mut()
    }
    let mut thread = 0;
    // SAFETY: the thread gets a number, not memory; it is joined before this returns.
    let result = unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), body, depth as *mut c_void) };
    if result != 0 {
        return Err(io::Error::from_raw_os_error(result));
    }
    // SAFETY: the thread was just created and is joined once.
    unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
    Ok(())
}

/// Calls a function that recurses to this depth. It returns, or is left by a jump from its deepest
/// call. Does nothing on processors other than x86-64.
pub fn dive(depth: u64, jumps: bool) {
    #[cfg(target_arch = "x86_64")]
    if jumps {
        // SAFETY: no callee-saved register is changed, and the stack pointer is restored to its
        // value at the call.
        unsafe { workload_surface(depth) };
    } else {
        // SAFETY: without a stack pointer it is an ordinary function that returns.
        unsafe { workload_dive(depth, 0) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (depth, jumps);
}
