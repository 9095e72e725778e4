//! System calls, made directly so that libc neither caches, batches nor replaces them.
//!
//! In: arguments. Out: the kernel's answer.
//! Guarantee: the only file of this crate with `unsafe`; one call here is one system call there.
#![allow(unsafe_code, non_upper_case_globals)]

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::parcel::Parcel;

/// Asks the kernel for the parent's process number.
pub fn getppid() -> i64 {
    // SAFETY: the call takes no argument and touches no memory.
    unsafe { libc::syscall(libc::SYS_getppid) }
}

/// Asks for this process's number through libc, whose function of that name does nothing else.
pub fn libc_getpid() -> i32 {
    // SAFETY: the call takes no argument and touches no memory.
    unsafe { libc::getpid() }
}

/// Lets the calling thread run on one CPU only.
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

/// Reads up to the buffer's length.
pub fn read(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length are those of a buffer that outlives the call and that nobody else uses.
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
    // SAFETY: the descriptor was just made and is known to nobody else.
    unsafe { libc::syscall(libc::SYS_close, fd) };
    Ok(())
}

/// Opens a file for reading; the descriptor's number, or why there is none.
pub fn open(path: &CStr) -> io::Result<i64> {
    // SAFETY: the path is a string that ends with a zero byte and outlives the call.
    numbered(unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY) })
}

/// Closes a descriptor by its number.
pub fn close(fd: i64) -> io::Result<i64> {
    // SAFETY: the call touches no memory; the caller has opened what it closes.
    numbered(unsafe { libc::syscall(libc::SYS_close, fd) })
}

/// Gives what one descriptor refers to another number, which loses what it had.
pub fn duplicate_to(fd: i64, number: i64) -> io::Result<i64> {
    // SAFETY: the call touches no memory; the caller has opened both.
    numbered(unsafe { libc::syscall(libc::SYS_dup3, fd, number, 0) })
}

/// Reads so many bytes to nowhere: the kernel refuses them.
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

/// Processor time of the calling thread: what others do on the machine is not in it.
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How a child ended.
pub struct Ended {
    /// Its exit code, or 128 and the signal that ended it.
    pub code: i32,
    /// Peak resident memory. The kernel counts what this process held at the `exec` as well: about 2 MB.
    pub peak_rss_kb: i64,
}

/// Waits for a child.
pub fn wait(pid: u32) -> io::Result<Ended> {
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both places outlive the call.
    if unsafe { libc::wait4(pid as i32, &raw mut status, 0, &raw mut usage) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) };
    Ok(Ended { code, peak_rss_kb: usage.ru_maxrss })
}

/// Sends SIGINT, as Control-C does.
pub fn interrupt(pid: u32) {
    // SAFETY: the call touches no memory; the process is a child that was not waited for, so the number is still its own.
    unsafe { libc::kill(pid as i32, libc::SIGINT) };
}

/// A function to probe, whose argument points to a struct.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_parcel(parcel: &Parcel) -> u64 {
    std::hint::black_box(parcel).number
}

/// libc's lock: nothing lies between a call here and the function of libc.
pub struct PthreadMutex(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: the lock is made for several threads, and it stays where it is.
unsafe impl Sync for PthreadMutex {}

impl PthreadMutex {
    /// A free lock.
    pub fn new() -> PthreadMutex {
        PthreadMutex(Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)))
    }

    /// Where it is.
    pub fn address(&self) -> usize {
        self.0.get() as usize
    }

    /// Waits until it is free and takes it.
    pub fn lock(&self) {
        // SAFETY: the lock was initialised and is not moved.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    /// Frees it; the calling thread has it.
    pub fn unlock(&self) {
        // SAFETY: the lock was initialised and is not moved.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

/// The last error, unless a call's result says that there was none.
fn checked(result: i64) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends this process a signal.
pub fn signal_itself(signal: i32) -> io::Result<()> {
    // SAFETY: the calls touch no memory.
    checked(unsafe { libc::syscall(libc::SYS_kill, libc::getpid(), signal) })
}

/// Sets the user to the present one.
pub fn setuid_again() -> io::Result<()> {
    // SAFETY: the calls touch no memory; the other threads, of which there are none, would keep their user.
    checked(unsafe { libc::syscall(libc::SYS_setuid, libc::getuid()) })
}

/// Asks for the file system of a path.
pub fn statfs(path: &CStr) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `statfs`.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: path and place outlive the call.
    checked(unsafe { libc::syscall(libc::SYS_statfs, path.as_ptr(), &raw mut found) })
}

/// Brings everything to the disks.
pub fn sync() {
    // SAFETY: the call touches no memory.
    unsafe { libc::sync() };
}

/// Changes how many connections a listener lets wait.
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
    // SAFETY: the socket was made above and is known to nobody else.
    unsafe { libc::close(socket) };
    result
}

/// The numbers of the next byte that a TCP connection sends, and of the next one that it receives.
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
        // SAFETY: both places outlive the call, and the first one's size is stated by the second.
        let result =
            unsafe { libc::getsockopt(socket, libc::SOL_TCP, libc::TCP_QUEUE_SEQ, place, &raw mut size_bytes) };
        checked(i64::from(result)).map(|()| value)
    };
    // Only a connection that is being repaired tells.
    set(libc::TCP_REPAIR, 1)?;
    let positions = (position(SENT)?, position(RECEIVED)?);
    set(libc::TCP_REPAIR, 0)?;
    Ok(positions)
}

/// Begins to swap to a device.
pub fn swap_on(device: &CStr) -> io::Result<()> {
    // SAFETY: the path outlives the call.
    checked(i64::from(unsafe { libc::swapon(device.as_ptr(), 0) }))
}

/// No longer swaps to a device.
pub fn swap_off(device: &CStr) -> io::Result<()> {
    // SAFETY: the path outlives the call.
    checked(i64::from(unsafe { libc::swapoff(device.as_ptr()) }))
}

/// Writes to so much new memory, twice: where there is less, what was written first has to go and to come back.
pub fn fill(size_bytes: usize) -> io::Result<()> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel chooses a free place.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), size_bytes, access, kind, -1, 0) };
    if place == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    for at in (0..size_bytes).step_by(4096).chain((0..size_bytes).step_by(4096)) {
        // SAFETY: the address is within the memory made above.
        unsafe { place.cast::<u8>().add(at).write_volatile(1) };
    }
    Ok(())
}

/// Reads through OpenSSL from a connection that was never made: the functions run, and say so.
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
    // SAFETY: these are OpenSSL's declarations of the functions; each is given what the one before made, or nothing when that
    // failed, which it is made for. TLS_method ignores its argument.
    let result = unsafe {
        let make = |function: *mut libc::c_void| std::mem::transmute::<*mut libc::c_void, Make>(function);
        let session = make(connection)(make(context)(make(method)(std::ptr::null())));
        let mut byte = 0;
        std::mem::transmute::<*mut libc::c_void, Read>(read)(session, &raw mut byte, 1)
    };
    println!("result {result}");
    Ok(())
}

/// A function to probe: its argument counts up from 0, its result is the next odd number, so that results sum to a square.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_step(a: u64) -> u64 {
    std::hint::black_box(a).wrapping_mul(2).wrapping_add(1)
}

/// Something that has the number `key` begins; to probe.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_begin(key: u64) -> u64 {
    std::hint::black_box(key).wrapping_mul(3)
}

/// It passes a mark, 1 or 2; to probe.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_mark(key: u64, mark: u64) -> u64 {
    std::hint::black_box(key).wrapping_mul(5).wrapping_add(std::hint::black_box(mark))
}

/// It ends; to probe.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_finish(key: u64) -> u64 {
    std::hint::black_box(key).wrapping_mul(7)
}

/// Calls itself until it is `depth` deep; to probe.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn workload_nest(depth: u64) -> u64 {
    if depth <= 1 { std::hint::black_box(1) } else { std::hint::black_box(workload_nest(depth - 1)).wrapping_add(1) }
}

/// A static probe, written as `<sys/sdt.h>` does: an instruction that does nothing, and a note of it in the file. The code
/// generator drops `$` in front of a number, so that constants have it as `\044`.
#[cfg(target_arch = "x86_64")]
macro_rules! static_probe {
    ($name:literal, $semaphore:literal, $arguments:literal, $($operand:tt)*) => {
        // SAFETY: the code is one instruction without effect; what follows it is data for other sections.
        unsafe {
            std::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt,\"?\",\"note\"",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b, _.stapsdt.base",
                concat!(".8byte ", $semaphore),
                concat!(".asciz \"workload\", \"", $name, "\", \"", $arguments, "\""),
                "994: .balign 4",
                ".popsection",
                $($operand)*,
                options(nostack, preserves_flags)
            );
        }
    };
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .stapsdt.base,\"aGR\",\"progbits\",.stapsdt.base,comdat",
    ".weak _.stapsdt.base",
    ".hidden _.stapsdt.base",
    "_.stapsdt.base: .space 1",
    ".size _.stapsdt.base,1",
    ".popsection",
);

/// A semaphore in a page of its own. The kernel looks for it by its place in the file, in the first writable mapping of that;
/// lld maps a page at the border of two segments twice, and the kernel then takes the wrong one.
#[repr(align(4096))]
struct Semaphore(AtomicU16);

/// Raised by whoever listens to the static probe `guarded`.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".probes")]
#[used]
static workload_guarded_semaphore: Semaphore = Semaphore(AtomicU16::new(0));

/// What an argument of the static probe `forms` is read from by its name.
#[unsafe(no_mangle)]
#[used]
static workload_numbers: [i16; 4] = [1, -2, 3, 4];

/// Passes the static probe `step` with `a` and its negative; three sites with different operands take turns.
#[inline(never)]
pub fn static_step(a: u64) {
    let negative = (a as i32).wrapping_neg();
    let memory = std::hint::black_box([a, u64::from(negative.cast_unsigned())]);
    #[cfg(target_arch = "x86_64")]
    match a % 3 {
        0 => static_probe!("step", "0", "8@%rax -4@%ecx", in("rax") a, in("ecx") negative),
        1 => static_probe!("step", "0", "8@(%rdi) -4@8(%rdi)", in("rdi") memory.as_ptr()),
        _ => static_probe!("step", "0", "8@-8(%rdi,%rsi,8) -4@8(%rdi)", in("rdi") memory.as_ptr(), in("rsi") 1),
    }
    std::hint::black_box(memory);
}

/// Passes the static probe `guarded` with `a` if somebody listens; yields whether somebody does.
#[inline(never)]
pub fn static_guarded(a: u64) -> bool {
    let listens = workload_guarded_semaphore.0.load(Ordering::Relaxed) != 0;
    if listens {
        #[cfg(target_arch = "x86_64")]
        static_probe!("guarded", "workload_guarded_semaphore", "8@%rax", in("rax") a);
        std::hint::black_box(a);
    }
    listens
}

/// Passes each site of the static probe `forms` once: its first argument is the site's number, its second a value in a form
/// of its own.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
pub fn static_forms() {
    const VALUE: u64 = 0xf7f6_f5f4_f3f2_f1f0;
    let memory = std::hint::black_box([10u32, 20, 30, 40]);
    static_probe!("forms", "0", "-4@\\0441 8@%rdx", in("rdx") VALUE);
    static_probe!("forms", "0", "-4@\\0442 -8@%r12", in("r12") VALUE);
    static_probe!("forms", "0", "-4@\\0443 4@%r10d", in("r10") VALUE);
    static_probe!("forms", "0", "-4@\\0444 -4@%eax", in("rax") VALUE);
    static_probe!("forms", "0", "-4@\\0445 2@%r8w", in("r8") VALUE);
    static_probe!("forms", "0", "-4@\\0446 -2@%cx", in("rcx") VALUE);
    static_probe!("forms", "0", "-4@\\0447 1@%sil", in("rsi") VALUE);
    static_probe!("forms", "0", "-4@\\0448 -1@%al", in("rax") VALUE);
    static_probe!("forms", "0", "-4@\\0449 1@%ah", in("rax") VALUE);
    static_probe!("forms", "0", "-4@\\04410 8@\\0445", in("rax") 0);
    static_probe!("forms", "0", "-4@\\04411 -4@\\044-5", in("rax") 0);
    static_probe!("forms", "0", "-4@\\04412 4@\\044-5", in("rax") 0);
    static_probe!("forms", "0", "-4@\\04413 -2@workload_numbers+2(%rip)", in("rax") 0);
    static_probe!("forms", "0", "-4@\\04414 4@4(%r9)", in("r9") memory.as_ptr());
    static_probe!("forms", "0", "-4@\\04415 4@-4(%r9,%r11,4)", in("r9") memory.as_ptr(), in("r11") 4);
    static_probe!("ratio", "0", "8f@%xmm0 -4@\\0441 8@%st(0)", in("xmm0") 0.5);
    // On the stack, which is in memory: a page of constants need not be yet, and a probe does not wait for it.
    let text = std::hint::black_box(*b"word\0");
    static_probe!("text", "0", "8@%rax -4@\\0444", in("rax") text.as_ptr());
    std::hint::black_box((memory, text));
}

/// On other processors there are none.
#[cfg(not(target_arch = "x86_64"))]
pub fn static_forms() {}
