//! Clocks and the local time zone.
//!
//! In: points in time. Out: nanoseconds, UTC offsets.
//! Guarantee: no failure is returned; a clock that cannot be read reads 0, an unknown time zone is
//! UTC.

use std::ffi::CStr;

use profiler_model::strftime::Zone;

/// Wall-clock nanoseconds since 1970.
pub fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Nanoseconds since boot, including suspended time: the clock that `nsecs` reads in a program.
pub fn boottime_ns() -> u64 {
    read(libc::CLOCK_BOOTTIME)
}

/// Nanoseconds since boot without suspended time: the clock of `bpf_ktime_get_ns`.
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Makes this thread's waits end on time instead of up to 50 microseconds late.
pub fn wake_precisely() {
    // SAFETY: takes numbers only. If the kernel refuses, waits end later.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, which `time` is.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The local time zone at a point in time.
pub fn zone(unix_ns: u64) -> Zone {
    let seconds = (unix_ns / 1_000_000_000) as libc::time_t;
    // SAFETY: `tm` is plain numbers and one pointer, for which zero is null.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both arguments live through the call. `localtime_r` reads the environment, which this
    // program never changes.
    if unsafe { libc::localtime_r(&raw const seconds, &raw mut parts) }.is_null() || parts.tm_zone.is_null() {
        return Zone::default();
    }
    // SAFETY: the `tm_zone` of glibc and musl is a NUL-terminated string that lives until the time
    // zone is reloaded, which happens only in another call after the environment has changed; it is
    // copied at once.
    let name = unsafe { CStr::from_ptr(parts.tm_zone) }.to_string_lossy().into_owned();
    Zone { utc_offset_seconds: parts.tm_gmtoff as i32, name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_run_and_boot_lies_in_the_past() {
        let (boot, real) = (boottime_ns(), realtime_ns());
        assert!(boottime_ns() >= boot && boot > 0);
        assert!(real > boot);
    }

    #[test]
    fn offsets_are_less_than_a_day_and_a_half() {
        for unix_ns in [0, realtime_ns(), u64::MAX] {
            assert!(zone(unix_ns).utc_offset_seconds.abs() < 36 * 3600);
        }
    }
}
