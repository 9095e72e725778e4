//! What a process that only reads keeps of its rights and descriptors.
//!
//! In: its name. Out: a process that may read files and look at other processes.
//! Guarantee: afterwards, no capability is left but those of `KEPT`, none can be gained by
//! executing a file, no file can grow, and no descriptor is open but the standard ones. Root has
//! become `NO_USER` where the kernel lets it, which owns nothing that it could write.
//!
//! Landlock, which would forbid writing altogether, also forbids to look at processes outside.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{check_errno, own};

/// `CAP_DAC_READ_SEARCH`, `CAP_SYS_PTRACE` and `CAP_CHECKPOINT_RESTORE` of
/// `include/uapi/linux/capability.h`: reading files of other users, following `/proc/PID/root`, and
/// opening what a process has mapped although no path leads to it (`/proc/PID/map_files`, since
/// 5.9).
const KEPT: [u32; 3] = [2, 19, 40];

/// The user and group that stand for none of this machine (`DEFAULT_OVERFLOWUID`,
/// `include/linux/highuid.h`).
const NO_USER: u32 = 65534;

/// `_LINUX_CAPABILITY_VERSION_3`: two words for each set.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// `struct __user_cap_header_struct`; 0 is the calling thread.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

/// `struct __user_cap_data_struct`: 32 capabilities of each set.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Capabilities {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The first two standard descriptors of this process; `None` if they have been taken before.
pub(crate) fn standard_pair() -> Option<(OwnedFd, OwnedFd)> {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    (!IS_TAKEN.swap(true, Ordering::SeqCst)).then(|| (own(0), own(1)))
}

/// Gives up everything that reading does not need, and takes a name. To be called by a process that
/// has just begun: it has no other thread, and has opened nothing.
pub(crate) fn give_up_rights(name: &CStr) -> io::Result<()> {
    close_others()?;
    // SAFETY: the name ends with a NUL; the kernel copies its first 15 bytes.
    check_errno(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) })?;
    // SAFETY: takes numbers only.
    check_errno(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    for resource in [libc::RLIMIT_FSIZE, libc::RLIMIT_CORE] {
        // SAFETY: the call only reads the limit.
        check_errno(unsafe { libc::setrlimit(resource, &raw const none) })?;
    }
    leave_root();
    keep_capabilities()
}

/// Since 5.9. Older kernels have only what is not closed at an exec: nothing of ours.
fn close_others() -> io::Result<()> {
    // SAFETY: takes numbers only; this process has opened nothing that it would use.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
    match check_errno(closed as i32) {
        Err(error) if error.raw_os_error() != Some(libc::ENOSYS) => Err(error),
        _ => Ok(()),
    }
}

/// Stops to be root without giving up its capabilities. In a user namespace there may be no other
/// user to be.
fn leave_root() {
    // SAFETY: take numbers only, and an empty list.
    unsafe {
        if libc::geteuid() == 0 && libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 {
            libc::setgroups(0, std::ptr::null());
            libc::setresgid(NO_USER, NO_USER, NO_USER);
            libc::setresuid(NO_USER, NO_USER, NO_USER);
        }
    }
}

fn keep_capabilities() -> io::Result<()> {
    let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
    let mut sets = [Capabilities::default(); 2];
    // SAFETY: the version says that there are two words of each set.
    let got = unsafe { libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) };
    check_errno(got as i32)?;
    for (word, set) in sets.iter_mut().enumerate() {
        let bits = KEPT.iter().filter(|number| **number as usize / 32 == word).map(|number| 1 << (number % 32));
        let kept = set.permitted & bits.sum::<u32>();
        *set = Capabilities { effective: kept, permitted: kept, inheritable: 0 };
    }
    // SAFETY: as above; the call only reads the sets.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) };
    check_errno(set as i32).map(drop)
}
