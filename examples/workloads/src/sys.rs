//! System calls, made directly so that libc neither caches, batches nor replaces them.
//!
//! In: arguments. Out: the kernel's result.
//! Guarantee: only this file and the modules below it use `unsafe` in this crate; one call here is
//! one system call.
#![allow(unsafe_code, non_upper_case_globals)]

pub mod chains;
mod functions;
mod locks;
pub mod made;
mod paging;
pub mod rare;
mod static_probes;
mod usage;

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

pub use functions::{
    by_path, dive, relay, stranded_thread, workload_begin, workload_finish, workload_mark, workload_nest,
    workload_parcel, workload_share_10, workload_share_20, workload_share_70, workload_step,
};
pub use locks::{FutexLock, PthreadCondition, PthreadMutex, PthreadRwlock, Semaphore};
pub use paging::AbsentPage;
pub use static_probes::{static_forms, static_guarded, static_step};
pub use usage::{advise, await_blocked, drop_capabilities, run_delay_ns, switches, thread_id};

/// Calls `getppid`.
pub fn getppid() -> i64 {
    // SAFETY: the call takes no argument and touches no memory.
    unsafe { libc::syscall(libc::SYS_getppid) }
}

/// Calls libc's `getpid`, which does nothing but the system call.
pub fn libc_getpid() -> i32 {
    // SAFETY: the call takes no argument and touches no memory.
    unsafe { libc::getpid() }
}

/// Pins the calling thread to one CPU.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: all-zero bytes are an empty set.
    let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number was checked against the set's size.
    unsafe { libc::CPU_SET(cpu, &mut cpus) };
    // SAFETY: the set outlives the call and its size is stated.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&cpus), &raw const cpus) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// From now on the calling thread does not wait for a CPU that an ordinary thread has. To be called
/// at the end of a thread: the kernel's part of its exit, in which it could wait for milliseconds,
/// goes on after it is joined. Without the right to do so, it can still wait.
pub fn end_at_once() {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: the structure outlives the call.
    let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) };
}

/// Waits until a descriptor can be read, or for a time.
pub fn poll(fd: i32, at_most: Duration) -> io::Result<bool> {
    let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, which outlives the call.
    let ready = unsafe { libc::poll(&raw mut polled, 1, at_most.as_millis() as i32) };
    if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(ready == 1) }
}

/// Reads up to the buffer's length.
pub fn read(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length are those of a buffer that outlives the call and is borrowed
    // exclusively.
    let count = unsafe { libc::syscall(libc::SYS_read, file.as_raw_fd(), buffer.as_mut_ptr(), buffer.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Opens a file for reading and closes it again.
pub fn open_and_close(path: &CStr) -> io::Result<()> {
    // SAFETY: the path is a string that ends with a zero byte and outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and is used nowhere else.
    unsafe { libc::syscall(libc::SYS_close, fd) };
    Ok(())
}

/// Opens a file for reading; returns the descriptor's number or the error.
pub fn open(path: &CStr) -> io::Result<i64> {
    // SAFETY: the path is a string that ends with a zero byte and outlives the call.
    numbered(unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY) })
}

/// Closes a descriptor by its number.
pub fn close(fd: i64) -> io::Result<i64> {
    // SAFETY: the call touches no memory; the descriptor belongs to the caller, or the number is
    // unused.
    numbered(unsafe { libc::syscall(libc::SYS_close, fd) })
}

/// Makes `number` refer to what `fd` refers to, and closes what it referred to before.
pub fn duplicate_to(fd: i64, number: i64) -> io::Result<i64> {
    // SAFETY: the call touches no memory; the caller has opened both.
    numbered(unsafe { libc::syscall(libc::SYS_dup3, fd, number, 0) })
}

/// Reads `bytes` bytes to a null pointer, which the kernel refuses.
pub fn read_nothing(fd: i64, bytes: u64) {
    // SAFETY: nothing can be written at address 0, so no memory is touched.
    unsafe { libc::syscall(libc::SYS_read, fd, 0, bytes) };
}

fn numbered(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Sleeps in one `nanosleep`.
pub fn sleep_ns(ns: i64) {
    let time = libc::timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
    // SAFETY: the time outlives the call; no remainder is asked for.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, std::ptr::null_mut::<libc::timespec>()) };
}

/// CPU time of the calling thread, unaffected by other load on the machine.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of this process, all threads together.
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Time since the machine started, the same in all processes.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How a child ended.
pub struct Ended {
    /// Its exit code, or 128 and the signal that ended it.
    pub code: i32,
    /// Peak resident memory. The kernel includes what this process held at the `exec`: about
    /// 2 MB.
    pub peak_rss_kb: i64,
}

/// Waits for a child.
pub fn wait(pid: u32) -> io::Result<Ended> {
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `status` and `usage` outlive the call.
    if unsafe { libc::wait4(pid as i32, &raw mut status, 0, &raw mut usage) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) };
    Ok(Ended { code, peak_rss_kb: usage.ru_maxrss })
}

/// Sends SIGINT, as Control-C does.
pub fn interrupt(pid: u32) {
    // SAFETY: the call touches no memory; the process is a child that was not reaped, so the pid is
    // still its own.
    unsafe { libc::kill(pid as i32, libc::SIGINT) };
}

/// The last OS error if the result is negative.
fn checked(result: i64) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends this process a signal.
pub fn signal_itself(signal: i32) -> io::Result<()> {
    // SAFETY: the calls touch no memory.
    checked(unsafe { libc::syscall(libc::SYS_kill, libc::getpid(), signal) })
}

/// SIGINT ends programs that are started from now on: jobs in the background of a shell ignore it.
pub fn accept_interrupts() {
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
}

/// Ends the calling thread, and nothing else.
pub fn end_thread() -> ! {
    // SAFETY: the call touches no memory.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("the thread has ended")
}

/// Sets the user id to the current one.
pub fn setuid_again() -> io::Result<()> {
    // SAFETY: the calls touch no memory. The call would not affect other threads, but there are
    // none.
    checked(unsafe { libc::syscall(libc::SYS_setuid, libc::getuid()) })
}

/// Calls `statfs` on a path.
pub fn statfs(path: &CStr) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `statfs`.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` and `found` outlive the call.
    checked(unsafe { libc::syscall(libc::SYS_statfs, path.as_ptr(), &raw mut found) })
}

/// Flushes all dirty data to the disks.
pub fn sync() {
    // SAFETY: the call touches no memory.
    unsafe { libc::sync() };
}

/// Changes the backlog of a listening socket.
pub fn listen(listener: i32, waiting: i32) -> io::Result<()> {
    // SAFETY: the call touches no memory.
    checked(i64::from(unsafe { libc::listen(listener, waiting) }))
}

/// Sends a packet, headers included, to 127.0.0.1.
pub fn send_raw(packet: &[u8]) -> io::Result<()> {
    // SAFETY: the call touches no memory.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW) };
    checked(i64::from(socket))?;
    // SAFETY: all-zero bytes are a valid address.
    let mut to: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    to.sin_family = libc::AF_INET as u16;
    to.sin_addr.s_addr = u32::from_be_bytes([127, 0, 0, 1]).to_be();
    // SAFETY: packet and address outlive the call, and their sizes are stated.
    let sent = unsafe {
        let size_bytes = size_of_val(&to) as u32;
        libc::sendto(socket, packet.as_ptr().cast(), packet.len(), 0, (&raw const to).cast(), size_bytes)
    };
    let result = checked(sent as i64);
    // SAFETY: the socket was created above and is used nowhere else.
    unsafe { libc::close(socket) };
    result
}

/// The sequence numbers of the next byte that a TCP connection sends, and of the next one that it
/// receives.
pub fn tcp_positions(socket: i32) -> io::Result<(u32, u32)> {
    const RECEIVED: i32 = 1;
    const SENT: i32 = 2;
    let set = |option: i32, value: i32| {
        // SAFETY: the value outlives the call, and its size is stated.
        let result = unsafe { libc::setsockopt(socket, libc::SOL_TCP, option, (&raw const value).cast(), 4) };
        checked(i64::from(result))
    };
    let position = |queue: i32| {
        set(libc::TCP_REPAIR_QUEUE, queue)?;
        let (mut value, mut size_bytes) = (0u32, 4u32);
        let place = (&raw mut value).cast();
        // SAFETY: `value` and `size_bytes` outlive the call, and `size_bytes` is the size of
        // `value`.
        let result =
            unsafe { libc::getsockopt(socket, libc::SOL_TCP, libc::TCP_QUEUE_SEQ, place, &raw mut size_bytes) };
        checked(i64::from(result)).map(|()| value)
    };
    // The kernel reports these numbers only in repair mode.
    set(libc::TCP_REPAIR, 1)?;
    let positions = (position(SENT)?, position(RECEIVED)?);
    set(libc::TCP_REPAIR, 0)?;
    Ok(positions)
}

/// Enables swapping to a device.
pub fn swap_on(device: &CStr) -> io::Result<()> {
    // SAFETY: the path outlives the call.
    checked(i64::from(unsafe { libc::swapon(device.as_ptr(), 0) }))
}

/// Disables swapping to a device.
pub fn swap_off(device: &CStr) -> io::Result<()> {
    // SAFETY: the path outlives the call.
    checked(i64::from(unsafe { libc::swapoff(device.as_ptr()) }))
}

/// Writes to this much new memory, twice: if the limit is lower, the first pages are swapped out
/// and in again.
pub fn fill(size_bytes: usize) -> io::Result<()> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel chooses a free address range.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), size_bytes, access, kind, -1, 0) };
    if place == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    for at in (0..size_bytes).step_by(4096).chain((0..size_bytes).step_by(4096)) {
        // SAFETY: the address is within the mapping created above.
        unsafe { place.cast::<u8>().add(at).write_volatile(1) };
    }
    Ok(())
}

/// Calls OpenSSL's read on a session without a connection: the functions run, and return an error.
pub fn read_tls() -> io::Result<()> {
    type Make = unsafe extern "C" fn(*const libc::c_void) -> *const libc::c_void;
    type Read = unsafe extern "C" fn(*const libc::c_void, *mut u8, i32) -> i32;
    let missing = || io::Error::other("there is no libssl.so.3 here");
    // SAFETY: the names are strings that outlive the calls; the library is not unloaded.
    let library = unsafe { libc::dlopen(c"libssl.so.3".as_ptr(), libc::RTLD_NOW) };
    let symbol = |name: &CStr| {
        // SAFETY: the library was opened; the name outlives the call.
        let found = if library.is_null() { library } else { unsafe { libc::dlsym(library, name.as_ptr()) } };
        if found.is_null() { Err(missing()) } else { Ok(found) }
    };
    let (method, context) = (symbol(c"TLS_method")?, symbol(c"SSL_CTX_new")?);
    let (connection, read) = (symbol(c"SSL_new")?, symbol(c"SSL_read")?);
    // SAFETY: these are OpenSSL's declarations of the functions. Each gets the result of the
    // previous one, or NULL if that failed, which OpenSSL accepts. TLS_method ignores its argument.
    let result = unsafe {
        let make = |function: *mut libc::c_void| std::mem::transmute::<*mut libc::c_void, Make>(function);
        let session = make(connection)(make(context)(make(method)(std::ptr::null())));
        let mut byte = 0;
        std::mem::transmute::<*mut libc::c_void, Read>(read)(session, &raw mut byte, 1)
    };
    println!("result {result}");
    Ok(())
}
