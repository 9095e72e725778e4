//! The system calls of these tests, and their only unsafe code.
//!
//! In: nothing. Out: a thread that does not change its CPU. Guarantee: a failure is a panic.

/// Keeps the calling thread on the CPU where it is.
pub fn stay_on_this_cpu() {
    // SAFETY: takes nothing and touches no memory.
    let cpu = unsafe { libc::sched_getcpu() };
    let cpu = usize::try_from(cpu).unwrap_or_else(|_| panic!("{}", std::io::Error::last_os_error()));
    assert!(cpu < libc::CPU_SETSIZE as usize, "CPU {cpu} is not in a set");
    // SAFETY: all-zero bytes are an empty set.
    let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number was checked against the set's size.
    unsafe { libc::CPU_SET(cpu, &mut cpus) };
    // SAFETY: the set outlives the call, and its size is stated.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&cpus), &raw const cpus) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn the_thread_may_run_on_one_cpu() {
    stay_on_this_cpu();
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("a status");
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t")).expect("the line");
    assert!(allowed.parse::<usize>().is_ok(), "{allowed}");
}
