//! System calls that few programs make: with a filter of seccomp, by a signal, for several messages
//! at once, or to a file system over others.
//!
//! In: arguments. Out: the kernel's result.
//! Guarantee: what changes the process, such as a filter or a handler, stays in the process.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

fn checked(result: i64) -> Result<i64> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(result) }
}

extern "C" fn ignore(_: i32) {}

/// Gives SIGALRM a handler that does nothing; calls that it interrupts end with EINTR.
pub fn handle_alarms() -> Result<()> {
    // SAFETY: all-zero bytes are an action without flags and with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ignore as *const () as usize;
    // SAFETY: the action outlives the call; its handler touches nothing.
    checked(i64::from(unsafe { libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()) }))?;
    Ok(())
}

/// Sends SIGALRM to the process again and again, for ever. A call that begins just after a signal
/// is interrupted by the next one.
pub fn alarm_every(time: Duration) -> Result<()> {
    let period = libc::timeval { tv_sec: 0, tv_usec: time.as_micros() as i64 };
    let timer = libc::itimerval { it_interval: period, it_value: period };
    // SAFETY: the timer outlives the call.
    checked(i64::from(unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) }))?;
    Ok(())
}

/// Waits for a signal.
pub fn pause() {
    // SAFETY: the call touches no memory.
    unsafe { libc::syscall(libc::SYS_pause) };
}

/// Opens a file for reading, which waits for a writer if it is a FIFO.
pub fn open_to_read(path: &str) -> Result<()> {
    let path = CString::new(path).map_err(Error::other)?;
    // SAFETY: the path outlives the call.
    let fd = checked(unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY) })?;
    // SAFETY: the descriptor is new and has no other owner.
    drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
    Ok(())
}

/// Makes a FIFO.
pub fn make_fifo(path: &str) -> Result<()> {
    let path = CString::new(path).map_err(Error::other)?;
    // SAFETY: the path outlives the call.
    checked(i64::from(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }))?;
    Ok(())
}

/// Sends the calling thread a signal.
pub fn signal_thread(signal: i32) -> Result<()> {
    // SAFETY: the calls touch no memory.
    checked(unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal) })?;
    Ok(())
}

/// Has seccomp refuse `getppid` to this thread from now on, with EPERM.
pub fn refuse_getppid() -> Result<()> {
    let step = |code: u32, jt, k| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    // The first word of `seccomp_data` is the number of the call.
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        libc::sock_filter { jf: 1, ..step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, libc::SYS_getppid as u32) },
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the call touches no memory. Without new privileges, anyone may have a filter.
    checked(i64::from(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }))?;
    // SAFETY: the program and its steps outlive the call.
    let set = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    checked(set)?;
    Ok(())
}

/// A TCP or MPTCP socket that listens at a port of the loopback device, or that is connected to it.
pub fn stream_socket(is_mptcp: bool) -> Result<OwnedFd> {
    let protocol = if is_mptcp { libc::IPPROTO_MPTCP } else { libc::IPPROTO_TCP };
    // SAFETY: the call touches no memory.
    let fd = checked(i64::from(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, protocol) }))?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn loopback(port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    }
}

/// Gives a socket a port of the loopback device; 0: any.
pub fn bind(socket: &OwnedFd, port: u16) -> Result<()> {
    let (to, size) = (loopback(port), size_of::<libc::sockaddr_in>() as u32);
    // SAFETY: the address outlives the call and its size is stated.
    checked(i64::from(unsafe { libc::bind(socket.as_raw_fd(), (&raw const to).cast(), size) }))?;
    Ok(())
}

/// Connects a socket to a port of the loopback device.
pub fn connect(socket: &OwnedFd, port: u16) -> Result<()> {
    let (to, size) = (loopback(port), size_of::<libc::sockaddr_in>() as u32);
    // SAFETY: the address outlives the call and its size is stated.
    checked(i64::from(unsafe { libc::connect(socket.as_raw_fd(), (&raw const to).cast(), size) }))?;
    Ok(())
}

/// A name of a UNIX socket that is in no file system, and its size.
fn abstract_name(name: &str) -> (libc::sockaddr_un, u32) {
    let mut path = [0; 108];
    // The first byte is 0.
    for (place, byte) in path.iter_mut().skip(1).zip(name.bytes()) {
        *place = byte as i8;
    }
    let size = size_of::<u16>() + 1 + name.len();
    (libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: path }, size as u32)
}

/// A UNIX stream socket with a name of its own, connected to the one with the other name.
pub fn connect_with_name(own: &str, to: &str) -> Result<OwnedFd> {
    // SAFETY: the call touches no memory.
    let fd = checked(i64::from(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) }))?;
    // SAFETY: the descriptor is new and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let ((own, own_size), (to, to_size)) = (abstract_name(own), abstract_name(to));
    // SAFETY: the address outlives the call and its size is stated.
    checked(i64::from(unsafe { libc::bind(socket.as_raw_fd(), (&raw const own).cast(), own_size) }))?;
    // SAFETY: as above.
    checked(i64::from(unsafe { libc::connect(socket.as_raw_fd(), (&raw const to).cast(), to_size) }))?;
    Ok(socket)
}

/// Sends `count` messages of `size_bytes` by one call, or receives up to that many.
pub fn messages(socket: &impl AsRawFd, count: usize, size_bytes: usize, is_sent: bool) -> Result<usize> {
    let mut bytes = vec![b'x'; count * size_bytes];
    let mut parts: Vec<libc::iovec> = bytes
        .chunks_mut(size_bytes)
        .map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: size_bytes })
        .collect();
    let message = |part: &mut libc::iovec| {
        // SAFETY: all-zero bytes are a message without an address, parts and control data.
        let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        (header.msg_hdr.msg_iov, header.msg_hdr.msg_iovlen) = (part, 1);
        header
    };
    let mut headers: Vec<libc::mmsghdr> = parts.iter_mut().map(message).collect();
    let (fd, first) = (socket.as_raw_fd(), headers.as_mut_ptr());
    // SAFETY: headers, parts and bytes outlive the call, and their numbers are stated.
    let done = unsafe {
        if is_sent {
            libc::sendmmsg(fd, first, count as u32, 0)
        } else {
            libc::recvmmsg(fd, first, count as u32, libc::MSG_DONTWAIT, std::ptr::null_mut())
        }
    };
    Ok(checked(i64::from(done))? as usize)
}

/// Gives this process mounts of its own: what it mounts is gone when it ends.
pub fn own_mounts() -> Result<()> {
    // SAFETY: the call touches no memory.
    checked(i64::from(unsafe { libc::unshare(libc::CLONE_NEWNS) }))?;
    mount("none", "/", "", libc::MS_REC | libc::MS_PRIVATE, "")
}

/// Mounts a file system.
pub fn mount(source: &str, target: &str, kind: &str, flags: u64, options: &str) -> Result<()> {
    let text = |text: &str| CString::new(text).map_err(Error::other);
    let (source, target, kind, options) = (text(source)?, text(target)?, text(kind)?, text(options)?);
    // SAFETY: the strings outlive the call.
    let mounted =
        unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast()) };
    checked(i64::from(mounted))?;
    Ok(())
}

/// A block device over a file; the kernel removes it when it is closed.
pub struct LoopDevice {
    device: File,
    pub number: u64,
}

impl LoopDevice {
    /// `include/uapi/linux/loop.h`
    pub fn new(backing: &File) -> Result<LoopDevice> {
        const LOOP_CONFIGURE: u64 = 0x4c0a;
        const LOOP_CTL_GET_FREE: u64 = 0x4c82;
        const LO_FLAGS_AUTOCLEAR: u32 = 4;
        /// `fd`, `block_size`, `loop_info64` of 232 bytes, of which `lo_flags` is at 52, and 64
        /// bytes that are reserved.
        #[repr(C)]
        struct Config {
            fd: u32,
            block_size_bytes: u32,
            info: [u32; 58],
            reserved: [u64; 8],
        }
        let control = File::open("/dev/loop-control")?;
        // SAFETY: the call takes no argument.
        let free = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        let number = checked(i64::from(free))?;
        let mut options = OpenOptions::new();
        let device = options.read(true).write(true).custom_flags(libc::O_DIRECT).open(format!("/dev/loop{number}"))?;
        let mut info = [0; 58];
        info[13] = LO_FLAGS_AUTOCLEAR;
        let config = Config { fd: backing.as_raw_fd() as u32, block_size_bytes: 0, info, reserved: [0; 8] };
        // SAFETY: the structure has the layout that the call requires, and outlives it.
        checked(i64::from(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) }))?;
        Ok(LoopDevice { device, number: number as u64 })
    }

    /// Writes a page at each of these offsets, all of them at once, and waits for them.
    pub fn write_pages(&self, offsets: &[i64]) -> Result<()> {
        const IOCB_CMD_PWRITE: u16 = 1;
        /// `include/uapi/linux/aio_abi.h`, little-endian
        #[repr(C)]
        struct Request {
            data: u64,
            key_and_flags: u64,
            opcode: u16,
            priority: i16,
            fd: u32,
            buffer: u64,
            size_bytes: u64,
            offset_bytes: i64,
            reserved: [u64; 2],
        }
        #[repr(C, align(4096))]
        struct Page([u8; 4096]);
        let page = Box::new(Page([b'x'; 4096]));
        let mut context: u64 = 0;
        // SAFETY: the context outlives the call.
        checked(unsafe { libc::syscall(libc::SYS_io_setup, offsets.len(), &raw mut context) })?;
        let request = |offset_bytes: &i64| Request {
            data: 0,
            key_and_flags: 0,
            opcode: IOCB_CMD_PWRITE,
            priority: 0,
            fd: self.device.as_raw_fd() as u32,
            buffer: page.0.as_ptr() as u64,
            size_bytes: 4096,
            offset_bytes: *offset_bytes,
            reserved: [0; 2],
        };
        for request in offsets.iter().map(request) {
            let first = &raw const request;
            // SAFETY: the kernel copies the request; the page lives until all writes are done.
            checked(unsafe { libc::syscall(libc::SYS_io_submit, context, 1, &raw const first) })?;
        }
        let mut done = vec![[0_u64; 4]; offsets.len()];
        // SAFETY: the buffer has space for that many events of 32 bytes.
        let got = unsafe {
            let none = std::ptr::null_mut::<libc::timespec>();
            libc::syscall(libc::SYS_io_getevents, context, done.len(), done.len(), done.as_mut_ptr(), none)
        };
        // SAFETY: the context is of this call; nothing of it is in flight any more.
        unsafe { libc::syscall(libc::SYS_io_destroy, context) };
        checked(got)?;
        Ok(())
    }
}
