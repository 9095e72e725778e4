//! What the kernel has counted about the calling thread.
//!
//! In: nothing. Out: its counters.

/// How often the calling thread has left its CPU: to wait, and because it was preempted.
pub fn switches() -> (i64, i64) {
    // SAFETY: all-zero bytes are a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` outlives the call.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (usage.ru_nvcsw, usage.ru_nivcsw)
}
